"""Private statistics of the training rows as the first layers of a model."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, final

import keras
import numpy as np

from lipdp.certificates.chunks import is_read_by_rows
from lipdp.errors import InvalidState, InvalidValue, UnsafeSetting
from lipdp.layers import ActivationClip, BoundedInput
from lipdp.privacy import PrivacyBudget, calibrate_noise_multiplier
from lipdp.privacy._row_sums import unit_rows
from lipdp.privacy.phase import is_number
from lipdp.privacy.statistics import private_mean_and_scale, private_mean_and_whitening
from lipdp.training.model import PrivateTraining
from lipdp.training.state import STATISTICS_LAYER


@dataclass(frozen=True, eq=False)
class PrivatePreprocessing(abc.ABC):
    """An affine map of a row that was released privately, as the first layers of a model.

    The layers clip a row to the ball in which the statistics were taken, map it, divide by a public
    radius and clip to the unit ball: what follows sees rows of norm at most 1, whatever the
    statistics are. They are part of the saved model; certified radii are in units of the row in
    front of them.

    Release, use and record belong together::

        whitening = PrivateWhitening.release(x, radius=5.0, budget=budget)
        model = lipdp.Sequential([*whitening.layers(), SpectralDense(10)])
        model.compile(..., privacy=budget)
        whitening.record_in(model)  # before fit, which then keeps within what is left
        model.fit(x, y)

    Attributes:
        mean: Noisy mean of each feature, shape (d,); 0 at constants.
        matrix: What ``x - mean`` is multiplied by: factors of shape (d,), or a matrix (d, d).
        radius: Public radius of the ball that rows are clipped to.
        typical_norm: Root mean square of the norm of a mapped row, from the noisy numbers.
        noise_multiplier: Standard deviation over sensitivity of the whole release.
        budget: The budget that it is part of.
    """

    purpose: ClassVar[str]

    mean: np.ndarray = field(repr=False)
    matrix: np.ndarray = field(repr=False)
    radius: float
    typical_norm: float
    noise_multiplier: float
    budget: PrivacyBudget

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
            InvalidData: If x is no matrix of numbers, or groups are not one value a row.
        """
        fixed = dict(constants or {})
        rows = _without(x, fixed) if fixed else x
        num_units = unit_rows(rows, groups).num_units
        z = statistics_multiplier(budget, num_units, share, noise_multiplier)
        mean, matrix, norm = cls._statistics(
            rows,
            radius=radius,
            noise_multiplier=z,
            groups=groups,
            secure_noise=budget.secure_noise,
            seed=budget.seed,
        )
        for index, value in sorted(fixed.items()):
            mean = np.insert(mean, index, 0.0)
            matrix = cls._insert(matrix, index, 1.0 / value)
        norm = math.hypot(norm, math.sqrt(len(fixed)))
        return cls(mean, matrix, float(radius), norm, z, budget)

    @staticmethod
    @abc.abstractmethod
    def _statistics(x: Any, **options: Any) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean, factors or matrix, and typical norm."""

    @staticmethod
    @abc.abstractmethod
    def _insert(matrix: np.ndarray, index: int, factor: float) -> np.ndarray:
        """The matrix with one feature more, which is multiplied by a factor."""

    @abc.abstractmethod
    def _affine(self, divisor: float, dtype: str) -> keras.layers.Layer:
        """A frozen layer of ``(x - mean) matrix / divisor``."""

    def layers(
        self, *, clip_radius: float | None = None, dtype: str | None = None
    ) -> list[keras.layers.Layer]:
        """New layers, to be the first ones of a model.

        Args:
            clip_radius: Public radius that mapped rows are divided by and clipped to. By default
                the typical norm: a larger one clips fewer rows and makes all of them smaller.
            dtype: Type of computation; by default Keras'.

        Raises:
            InvalidValue: If the radius is not positive.
        """
        divisor = self.typical_norm if clip_radius is None else clip_radius
        kind = keras.config.floatx() if dtype is None else dtype
        return [
            BoundedInput(self.mean.shape, radius=self.radius, dtype=kind, name=STATISTICS_LAYER),
            self._affine(ActivationClip(divisor).radius, kind),
            ActivationClip(1.0, dtype=kind),
        ]

    def record_in(self, model: PrivateTraining) -> None:
        """Enters the release into the ledger of a model that uses it; once a model, before fit.

        Args:
            model: A model compiled with a budget.

        Raises:
            InvalidState: If its ledger counts under another adjacency.
            UnsafeSetting: If the release had a seed and the model's budget has none: nothing would
                say that it is not private.
        """
        if model.ledger.adjacency != self.budget.adjacency:
            raise InvalidState(
                f"The release was counted under {self.budget.adjacency!r}",
                received=model.ledger.adjacency,
                fix="Compile the model with privacy=, the budget of the release, first",
            )
        compiled = model._private.budget
        if self.budget.seed is not None and (compiled is None or compiled.seed is None):
            raise UnsafeSetting(
                "The noise of the statistics came from a seed, so they are not private",
                received=self.budget.seed,
                fix="Release them with a budget without a seed",
            )
        model.ledger.record(1.0, self.noise_multiplier, purpose=self.purpose)


@final
@dataclass(frozen=True, eq=False)
class PrivateStandardization(PrivatePreprocessing):
    """Each feature minus its noisy mean, over its noisy standard deviation."""

    purpose = "private mean and scale of the features"

    @staticmethod
    def _statistics(x: Any, **options: Any) -> tuple[np.ndarray, np.ndarray, float]:
        found = private_mean_and_scale(x, **options)
        return found.mean, 1.0 / found.scale, found.typical_norm

    @staticmethod
    def _insert(matrix: np.ndarray, index: int, factor: float) -> np.ndarray:
        return np.insert(matrix, index, factor)

    def _affine(self, divisor: float, dtype: str) -> keras.layers.Layer:
        # TensorFlow keeps these in float32 whatever the dtype: the same numbers everywhere.
        factors = (self.matrix / divisor).astype("float32")
        offset = (-self.mean * factors).astype("float32")
        return keras.layers.Rescaling(factors.tolist(), offset.tolist(), dtype=dtype)


@final
@dataclass(frozen=True, eq=False)
class PrivateWhitening(PrivatePreprocessing):
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

    def _affine(self, divisor: float, dtype: str) -> keras.layers.Layer:
        kernel = self.matrix / divisor
        layer = keras.layers.Dense(len(kernel), trainable=False, dtype=dtype)
        layer.build((None, len(kernel)))
        layer.set_weights([kernel, -self.mean @ kernel])
        return layer


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


def statistics_multiplier(
    budget: PrivacyBudget,
    num_units: int,
    share: float = 0.1,
    noise_multiplier: float | None = None,
) -> float:
    """The noise of a release that alone costs at most a share of the budget's epsilon.

    Args:
        budget: Of the whole training.
        num_units: Rows of the training set, or users of them.
        share: Part of epsilon, between 0 and 1.
        noise_multiplier: The noise itself, if it was chosen.

    Raises:
        InvalidValue: If the share is outside (0, 1), or nothing sets the noise.
    """
    if noise_multiplier is not None:
        return float(noise_multiplier)
    if budget.epsilon is None:
        raise InvalidValue(
            "A budget without epsilon sets no noise of the statistics",
            received=budget.noise_multiplier,
            fix="Give epsilon, or a noise_multiplier for the statistics too",
        )
    if not is_number(share) or not 0.0 < share < 1.0:
        raise InvalidValue("The share of the statistics must lie between 0 and 1", received=share)
    return calibrate_noise_multiplier(
        share * budget.epsilon,
        budget.resolve_delta(num_units),
        1.0,
        1,
        accountant=budget.accountant,
        adjacency=budget.adjacency,
    )
