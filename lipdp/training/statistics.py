"""Private statistics of the features of the training rows as the first layers of a model."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, final

import keras
import numpy as np

from lipdp.certificates.chunks import is_read_by_rows
from lipdp.errors import InvalidValue
from lipdp.privacy import PrivacyBudget
from lipdp.privacy.phase import is_number
from lipdp.privacy.statistics import private_mean_and_scale, private_mean_and_whitening
from lipdp.training.preprocessing import PrivatePreprocessing, release_options, unit_of, units_in


@dataclass(frozen=True, eq=False)
class FeatureStatistics(PrivatePreprocessing):
    """A map ``(x - mean) matrix`` that knows nothing of how features lie.

    Attributes:
        matrix: What ``x - mean`` is multiplied by: factors of shape (d,), or a matrix (d, d).
    """

    matrix: np.ndarray = field(repr=False)

    @classmethod
    def release(
        cls,
        x: Any,
        *,
        radius: float,
        budget: PrivacyBudget,
        share: float = 0.1,
        noise_multiplier: float | None = None,
        groups: Any = None,
        constants: Mapping[int, float] | None = None,
    ) -> Self:
        """Takes the statistics of the training rows.

        Guarantees:
            * One Gaussian mechanism; alone it costs at most ``share * epsilon`` at the budget's
              delta (``test_the_release_costs_its_share``).
            * Constants stay what they are and cost nothing (``test_constants_become_one``).

        Args:
            x: Training rows, shape (N, d); one with a non-finite entry counts as zero.
            radius: Public radius of the ball that rows are clipped to, constants included.
            budget: Of the whole training; gives epsilon, delta, accountant, adjacency, seed and
                whether noise is secure.
            share: Part of epsilon that the release alone may cost, between 0 and 1.
            noise_multiplier: Its noise instead; needed if the budget has no epsilon.
            groups: The user of each row, shape (N,), if the unit of privacy is a user: then the
                mean of a user's rows counts as one row, however many there are.
            constants: Features that publicly always have one value, as index to value; each is
                mapped to 1, as an intercept for what follows.

        Raises:
            InvalidValue: If a number is outside its domain, or nothing sets the noise.
            InvalidData: If x is no matrix of numbers, or groups are not one id a row of one kind.
        """
        fixed = dict(constants or {})
        rows = _without(x, fixed) if fixed else x
        options = release_options(rows, budget, share, noise_multiplier, groups)
        mean, matrix, norm = cls._statistics(rows, radius=radius, **options)
        for index, value in sorted(fixed.items()):
            mean = np.insert(mean, index, 0.0)
            matrix = cls._insert(matrix, index, 1.0 / value)
        norm = math.hypot(norm, math.sqrt(len(fixed)))
        z, of = options["noise_multiplier"], unit_of(groups)
        count = units_in(rows, groups)
        return cls(mean, float(radius), norm, z, budget, matrix, unit=of, num_units=count)

    @staticmethod
    @abc.abstractmethod
    def _statistics(x: Any, **options: Any) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean, factors or matrix, and typical norm."""

    @staticmethod
    @abc.abstractmethod
    def _insert(matrix: np.ndarray, index: int, factor: float) -> np.ndarray:
        """The matrix with one feature more, which is multiplied by a factor."""


@final
@dataclass(frozen=True, eq=False)
class PrivateStandardization(FeatureStatistics):
    """Each feature minus its noisy mean, over its noisy standard deviation."""

    purpose = "private mean and scale of the features"

    @staticmethod
    def _statistics(x: Any, **options: Any) -> tuple[np.ndarray, np.ndarray, float]:
        found = private_mean_and_scale(x, **options)
        return found.mean, 1.0 / found.scale, found.typical_norm

    @staticmethod
    def _insert(matrix: np.ndarray, index: int, factor: float) -> np.ndarray:
        return np.insert(matrix, index, factor)

    def _affine(self, divisor: float, dtype: str) -> list[keras.layers.Layer]:
        # TensorFlow keeps these in float32 whatever the dtype: the same numbers everywhere.
        factors = (self.matrix / divisor).astype("float32")
        offset = (-self.mean * factors).astype("float32")
        return [keras.layers.Rescaling(factors.tolist(), offset.tolist(), dtype=dtype)]


@final
@dataclass(frozen=True, eq=False)
class PrivateWhitening(FeatureStatistics):
    """Rows minus their noisy mean, times the inverse root of their noisy covariance."""

    purpose = "private mean and covariance of the features"

    @staticmethod
    def _statistics(x: Any, **options: Any) -> tuple[np.ndarray, np.ndarray, float]:
        found = private_mean_and_whitening(x, **options)
        return found.mean, found.matrix, found.typical_norm

    @staticmethod
    def _insert(matrix: np.ndarray, index: int, factor: float) -> np.ndarray:
        wider = np.insert(np.insert(matrix, index, 0.0, axis=0), index, 0.0, axis=1)
        wider[index, index] = factor
        return wider

    def _affine(self, divisor: float, dtype: str) -> list[keras.layers.Layer]:
        kernel = self.matrix / divisor
        layer = keras.layers.Dense(len(kernel), trainable=False, dtype=dtype)
        layer.build((None, len(kernel)))
        layer.set_weights([kernel, -self.mean @ kernel])
        return [layer]


def _without(x: Any, constants: Mapping[int, float]) -> np.ndarray:
    """The features that are no constants."""
    rows = x[:] if is_read_by_rows(x) else np.asarray(x)
    size = rows.shape[1] if rows.ndim == 2 else 0
    for index, value in constants.items():
        usable = is_number(value) and 1e-30 <= abs(value) <= 1e30
        if type(index) is not int or not 0 <= index < size or not usable:
            raise InvalidValue(
                "A constant needs the index of a feature and a value that is not 0",
                received=(index, value),
                fix=f"Use indices below {size}, as in constants={{{size - 1}: 1.0}}",
            )
    return np.delete(rows, list(constants), axis=1)
