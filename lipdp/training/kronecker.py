"""Private whitening of maps as the first layers of a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self, final

import keras
import numpy as np

from lipdp.privacy import PrivacyBudget, private_kronecker_whitening
from lipdp.training.preprocessing import PrivatePreprocessing, release_options, unit_of, units_in


@final
@dataclass(frozen=True, eq=False)
class PrivateKroneckerWhitening(PrivatePreprocessing):
    """Maps minus their noisy mean, whitened over their positions and over their channels.

    Two small matrices need far less noise than one for all features: of 16 positions and 81
    channels ``16^2 + 81^2`` entries instead of ``1296^2``.

    Attributes:
        spatial: What a map of P positions is multiplied by from the left, shape (P, P).
        channel: What it is multiplied by from the right, shape (C, C).
    """

    purpose = "private mean of the maps and covariances of positions and channels"

    spatial: np.ndarray = field(repr=False)
    channel: np.ndarray = field(repr=False)

    @classmethod
    def release(
        cls,
        x: Any,
        *,
        positions: int,
        radius: float,
        budget: PrivacyBudget,
        share: float = 0.1,
        noise_multiplier: float | None = None,
        groups: Any = None,
    ) -> Self:
        """Takes the statistics of the training rows.

        Guarantees:
            * One Gaussian mechanism; alone it costs at most ``share * epsilon`` at the budget's
              delta (``test_the_release_costs_its_share``).

        Args:
            x: Training rows, shape (N, P C), the channels of the first position first, as a map
                that is flattened; one with a non-finite entry counts as zero.
            positions: Number P of positions.
            radius: As in ``PrivateWhitening.release``.
            budget: As there.
            share: As there.
            noise_multiplier: As there.
            groups: As there.

        Raises:
            InvalidValue: If a number is outside its domain, positions do not divide the features,
                or nothing sets the noise.
            InvalidData: If x is no matrix of numbers, or groups are not one id a row of one kind.
        """
        options = release_options(x, budget, share, noise_multiplier, groups)
        found = private_kronecker_whitening(x, positions=positions, radius=radius, **options)
        return cls(
            found.mean.reshape(-1),
            float(radius),
            found.typical_norm,
            found.noise_multiplier,
            budget,
            found.spatial,
            found.channel,
            unit=unit_of(groups),
            num_units=units_in(x, groups),
        )

    def _affine(self, divisor: float, dtype: str) -> list[keras.layers.Layer]:
        positions, channels = len(self.spatial), len(self.channel)
        layers = keras.layers
        # As in PrivateStandardization, the same numbers on every backend.
        offset = (-self.mean).astype("float32").tolist()
        return [
            layers.Rescaling(1.0, offset, dtype=dtype),
            layers.Reshape((positions, channels), dtype=dtype),
            _frozen(self.channel / divisor, (None, positions, channels), dtype),
            layers.Permute((2, 1), dtype=dtype),
            _frozen(self.spatial, (None, channels, positions), dtype),
            layers.Permute((2, 1), dtype=dtype),
            layers.Reshape((positions * channels,), dtype=dtype),
        ]


def _frozen(kernel: np.ndarray, shape: tuple[int | None, ...], dtype: str) -> keras.layers.Layer:
    """Multiplies the last axis by a symmetric matrix."""
    layer = keras.layers.Dense(len(kernel), use_bias=False, trainable=False, dtype=dtype)
    layer.build(shape)
    layer.set_weights([kernel])
    return layer
