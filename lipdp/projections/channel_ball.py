"""A ball for each input channel of a depthwise kernel."""

from __future__ import annotations

from typing import Any, final

import keras

from lipdp.projections._checks import integer
from lipdp.projections._euclidean import SliceBall


@final
@keras.saving.register_keras_serializable(package="lipdp")
class ChannelBall(SliceBall):
    """Keeps the kernel of each channel, with all its multipliers, at a norm of at most the radius.

    A depthwise kernel of shape (*k, C, M) keeps ``max_c ||K_c||_F <= radius``, where K_c, of shape
    (prod k, M), holds the entries of channel c. This bounds ``max_c ||K_c||_2``, the spectral norm
    of the block-diagonal matrix of all K_c: that of a depthwise convolution is at most
    ``sqrt(kappa)`` times as much, with kappa the greatest number of (window, tap) pairs that
    read one input position. It bounds the matrix of shape (prod k C, M), which stacks the K_c, only
    up to ``sqrt(C)``, which ``spectral_bound`` says. ``norm_bound`` and ``bound_of`` are those of
    ``max_c ||K_c||_F``.

    Args:
        radius: Greatest norm of a channel's kernel, from 1e-30 to 1e30.
        axis: Axis of the channels.

    Guarantees:
        * The kernel of each channel is inside its ball as computed; one that already was stays, up
          to the rounding margin, whatever the others do.
        * A weight with a non-finite entry becomes all NaN.
    """

    def __init__(self, radius: float = 1.0, axis: int = -2) -> None:
        super().__init__(radius)
        self.axis = self._axis = integer("axis", axis)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "axis": self.axis}
