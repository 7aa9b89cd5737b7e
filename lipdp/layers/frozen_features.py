"""A trained Keras model as a fixed function of each sample."""

from __future__ import annotations

import math
from typing import Any, Self, final

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue, UnsupportedLayer
from lipdp.layers._shapes import entries
from lipdp.layers.base import LipschitzLayer
from lipdp.setting import refuse_change

_ROWS = 4


@final
@keras.saving.register_keras_serializable(package="lipdp")
class FrozenFeatures(LipschitzLayer):
    """The flattened output of a frozen model in inference mode; its output has no bound.

    Put an ``ActivationClip`` behind it. Nothing of it is trained and no gradient passes, so neither
    privacy nor the bounds of what follows need a bound of the model. Certified radii behind it are
    distances of features. The rows that the model was trained on are not protected: it must not
    have seen the private ones.

    A model that is no fixed function of each sample is refused. Samples that mix and outputs that
    change are searched for, by comparing samples among different others, not excluded by a proof.

    Args:
        extractor: A built model with one input and one output, of samples of known shape.

    Raises:
        UnsupportedLayer: If the samples of a batch mix, or an output is not the same twice.
        InvalidValue: If it is no such model.
    """

    linear_backward = True

    def __init__(self, extractor: keras.Model, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        _check_model(extractor)
        self.extractor = extractor
        extractor.trainable = False
        _check_fixed(extractor)

    # No ``Setting``: PyTorch keeps layers that are attributes elsewhere than other attributes.
    def __setattr__(self, name: str, value: Any) -> None:
        if name == "extractor" and hasattr(self, name):
            refuse_change(self, name, value)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name == "extractor":
            refuse_change(self, name, "deletion")
        super().__delattr__(name)

    def build(self, input_shape: Any) -> None:
        """Checks the shape of a sample.

        Raises:
            InvalidValue: If the model takes another one.
        """
        if tuple(input_shape[1:]) != tuple(self.extractor.input_shape[1:]):
            raise InvalidValue(
                f"The extractor takes samples of shape {tuple(self.extractor.input_shape[1:])}",
                received=tuple(input_shape[1:]),
                fix="Reshape the samples, or use another extractor",
            )

    def call(self, inputs: Any) -> Any:
        """(n, ...) to (n, d), without a gradient."""
        x = ops.cast(ops.stop_gradient(inputs), self.extractor.inputs[0].dtype)
        y = self.extractor(x, training=False)
        return ops.stop_gradient(
            ops.reshape(ops.cast(y, self.compute_dtype), (-1, entries(self.extractor.output_shape)))
        )

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """One vector a sample."""
        return (input_shape[0], entries(self.extractor.output_shape))

    def forward_bound(self, x: float) -> float:
        """None."""
        return math.inf

    def backward_bound(self, x: float, g: float) -> float:
        """0: no gradient passes."""
        return 0.0

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No trained weights."""
        return []

    def lipschitz(self, x: float) -> float:
        """None."""
        return math.inf

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        extractor = keras.saving.serialize_keras_object(self.extractor)
        return {**super().get_config(), "extractor": extractor}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The layer, with an extractor whose weights are not loaded yet."""
        own = dict(config)
        return cls(keras.saving.deserialize_keras_object(own.pop("extractor")), **own)


def _check_model(extractor: Any) -> None:
    single = (
        isinstance(extractor, keras.Model)
        and extractor.built
        and len(extractor.inputs) == len(extractor.outputs) == 1
    )
    shapes = [*extractor.input_shape[1:], *extractor.output_shape[1:]] if single else [None]
    if None in shapes:
        raise InvalidValue(
            "An extractor must be a built Keras model of one input and one output of known shape",
            received=getattr(extractor, "name", extractor),
            fix="Use a Sequential or Functional model that begins with keras.Input(shape)",
        )


def _check_fixed(extractor: keras.Model) -> None:
    """Compares a few samples among themselves, among others, and once more, to the last bit."""
    rng = np.random.default_rng(0)
    shape = (_ROWS, *extractor.input_shape[1:])
    some, others, zeros = rng.uniform(size=shape), 9.0 * rng.normal(size=shape), np.zeros(shape)
    alone = _first_half(extractor, np.concatenate([some, some]))
    if not np.array_equal(alone, _first_half(extractor, np.concatenate([some, some])), True):
        raise UnsupportedLayer(
            "The extractor does not give the same features twice",
            received=extractor.name,
            fix="Take out what is random in inference mode",
        )
    for neighbours in (others, zeros):
        among = _first_half(extractor, np.concatenate([some, neighbours]))
        if not np.array_equal(alone, among, equal_nan=True):
            raise UnsupportedLayer(
                "The extractor mixes the samples of a batch, so one record would change the "
                "features of others",
                received=extractor.name,
                fix="Use a model whose inference mode treats each sample by itself",
            )


def _first_half(extractor: keras.Model, rows: np.ndarray) -> np.ndarray:
    x = ops.convert_to_tensor(rows, dtype=extractor.inputs[0].dtype)
    return ops.convert_to_numpy(extractor(x, training=False))[: len(rows) // 2]
