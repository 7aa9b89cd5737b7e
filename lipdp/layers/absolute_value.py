"""The absolute value of each entry."""

from __future__ import annotations

from typing import Any, final

import keras
from keras import ops

from lipdp.layers.base import NonExpansiveLayer


@final
@keras.saving.register_keras_serializable(package="lipdp")
class AbsoluteValue(NonExpansiveLayer):
    """``|x|``, entry by entry.

    Selecting ``-x`` or ``x`` has derivative -1 or 1 everywhere, at 0 and at NaN too, so norms are
    preserved backward as well; that of the absolute value itself is 0, 1 or NaN there, depending on
    the backend.
    """

    def call(self, inputs: Any) -> Any:
        """The absolute values, same shape."""
        return ops.where(inputs < 0, -inputs, inputs)
