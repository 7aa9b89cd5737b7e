"""Affine maps from private statistics of the training rows, as the first layers of a model."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, final

import keras
import numpy as np

from lipdp.certificates.certify import is_read_by_rows
from lipdp.errors import InvalidState, InvalidValue, UnsafeSetting
from lipdp.layers import ActivationClip, BoundedInput
from lipdp.privacy import PrivacyBudget, Terms, calibrate_noise_multiplier
from lipdp.privacy.phase import is_number
from lipdp.statistics import private_kronecker_whitening
from lipdp.statistics.mechanism import private_mean_and_scale, private_mean_and_whitening, unit_rows
from lipdp.training.model import PrivateTraining
from lipdp.training.state import STATISTICS_LAYER

_OF_ROWS = "Gaussian noise on sums over all rows, each clipped to a ball of a public radius"
_OF_USERS = f"{_OF_ROWS}; the rows of a user count as one, their mean, however many they are"


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
        radius: Public radius of the ball that rows are clipped to.
        typical_norm: Root mean square of the norm of a mapped row, from the noisy numbers.
        noise_multiplier: Standard deviation over sensitivity of the whole release.
        budget: The budget that it is part of.
        unit: Whose records the noise is for, ``"row"`` or ``"user"``.
        num_units: How many of them there are, public; 0 if that is not said.
    """

    purpose: ClassVar[str]

    mean: np.ndarray = field(repr=False)
    radius: float
    typical_norm: float
    noise_multiplier: float
    budget: PrivacyBudget
    unit: str = field(default="row", kw_only=True)
    num_units: int = field(default=0, kw_only=True)

    @abc.abstractmethod
    def _affine(self, divisor: float, dtype: str) -> list[keras.layers.Layer]:
        """Frozen layers of the affine map over a divisor, from a flat row to a flat one."""

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
            *self._affine(ActivationClip(divisor).radius, kind),
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
        terms = Terms(
            unit=self.unit,
            seeded=self.budget.seed is not None,
            secure=self.budget.secure_noise,
            sampler="full-batch",
            num_units=self.num_units,
            batch_size=self.num_units,
            mechanism=_OF_USERS if self.unit == "user" else _OF_ROWS,
        )
        model.ledger.record(1.0, self.noise_multiplier, purpose=self.purpose, terms=terms)


def units_in(x: Any, groups: Any) -> int:
    """How many rows, or users of them, a release speaks of."""
    return int(unit_rows(x, groups).num_units)


def unit_of(groups: Any) -> str:
    """Whose records a release speaks of, given what it was told of users."""
    return "row" if groups is None else "user"


def release_options(
    x: Any, budget: PrivacyBudget, share: float, noise_multiplier: float | None, groups: Any
) -> dict[str, Any]:
    """How a release that is part of a budget adds its noise.

    Args:
        x: The rows that it is about.
        budget: Of the whole training.
        share: As in ``statistics_multiplier``.
        noise_multiplier: As there.
        groups: The user of each row, or None.

    Raises:
        InvalidValue: As ``statistics_multiplier``.
        InvalidData: If x is no matrix of numbers, or groups are not one id a row of one kind.
    """
    num_units = unit_rows(x, groups).num_units
    return {
        "noise_multiplier": statistics_multiplier(budget, num_units, share, noise_multiplier),
        "groups": groups,
        "secure_noise": budget.secure_noise,
        "seed": budget.seed,
    }


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
