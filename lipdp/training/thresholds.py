"""Thresholds of adaptive clips among the trainable variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras import ops

from lipdp.layers import AdaptiveCotangentClip
from lipdp.training.mechanism import Mechanism


@dataclass(frozen=True)
class Thresholds:
    """The adaptive clips of a model whose thresholds are trained.

    Attributes:
        clips: The layers.
    """

    clips: tuple[AdaptiveCotangentClip, ...]

    def places(self, variables: Sequence[Any]) -> list[tuple[AdaptiveCotangentClip, int]]:
        """Each clip with the place of its threshold among the variables."""
        return [
            (clip, index)
            for clip in self.clips
            for index, variable in enumerate(variables)
            if variable is clip.threshold
        ]

    def others(self, variables: Sequence[Any]) -> list[Any]:
        """The variables that are no thresholds."""
        taken = {index for _, index in self.places(variables)}
        return [v for index, v in enumerate(variables) if index not in taken]

    def scales(self, mechanism: Mechanism) -> list[Any]:
        """What the noise of each variable is multiplied by at the present thresholds.

        The largest ``C / minimum`` of the clips that the variable's bound depends on (see
        ``AdaptiveCotangentClip``, whose slack covers the rounding of this quotient), or 1.
        """
        ratios = [clip.radius() / clip.minimum for clip in self.clips] if mechanism.clips else []
        return [_largest([ratios[i] for i in chosen]) for chosen in mechanism.clips] or [
            1.0 for _ in mechanism.stddevs
        ]


def _largest(ratios: list[Any]) -> Any:
    if not ratios:
        return 1.0
    largest = ratios[0]
    for ratio in ratios[1:]:
        largest = ops.where(ratio > largest, ratio, largest)
    return largest
