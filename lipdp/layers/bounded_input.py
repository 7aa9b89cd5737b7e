"""The input of a network, forced into a ball."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, final

import keras

from lipdp.layers._clip import BallLayer
from lipdp.layers._shapes import sample_shape
from lipdp.setting import Setting


@final
@keras.saving.register_keras_serializable(package="lipdp")
class BoundedInput(BallLayer):
    """Projection of each record on the Euclidean ball, as the first layer of a ``Sequential``.

    Args:
        shape: Shape of one record, without the batch axis.
        radius: Radius of the ball, in the units of the record.

    Guarantees:
        * Every record, a non-finite or huge one included, leaves with norm at most the radius.
        * A record with a non-finite entry becomes the zero record, with zero derivative.
        * No norm runs over the batch axis.
    """

    shape = Setting[tuple[int, ...]]()

    def __init__(self, shape: Sequence[int], radius: float, **kwargs: Any) -> None:
        self.shape = sample_shape((None, *shape))
        with warnings.catch_warnings():
            # Keras advises an Input object; here the layer is that object.
            warnings.filterwarnings("ignore", message="Do not pass an `input_shape`")
            super().__init__(radius, input_shape=self.shape, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "shape": self.shape}
