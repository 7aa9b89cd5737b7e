"""How much noise each variable gets: bounds, allocation, counts, grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from lipdp.bounds import GradientBounds, adaptive_clips, gradient_bounds
from lipdp.errors import InvalidValue, UnsafeSetting
from lipdp.layers.clipping import AdaptiveCotangentClip, at_threshold
from lipdp.numerics import gamma, unit_roundoff
from lipdp.privacy import PrivacyBudget, allocate, grid_of, largest_sum, rounded_sensitivity


@dataclass(frozen=True)
class Grid:
    """A grid that sum and noise of one variable lie on; see ``lipdp.privacy.secure_noise``.

    Attributes:
        width: Distance of grid points, a power of two.
        limit: Bound that each entry of the sum is clamped to.
    """

    width: float
    limit: float


@dataclass(frozen=True)
class Mechanism:
    """The Gaussian mechanism on the trainable variables, in order.

    Attributes:
        stddevs: Standard deviation of the noise on each variable's summed gradient, with the
            adaptive thresholds at their minimum.
        divisor: The expected number of rows in a batch, a public constant.
        micro_batches: Parts that a batch is processed in.
        replicas: Devices that each compute a part of the sum.
        from_host: Whether the noise is drawn outside the compiled step.
        grids: One for each variable with noise if noise is drawn on grids, else empty.
        clips: For each variable the adaptive clips (by number) whose thresholds scale its noise.
    """

    stddevs: tuple[float, ...]
    divisor: int
    micro_batches: int = 1
    replicas: int = 1
    from_host: bool = False
    grids: tuple[Grid | None, ...] = ()
    clips: tuple[tuple[int, ...], ...] = ()

    @property
    def loss_divisor(self) -> float:
        """What the logged loss of a microbatch is divided by, so that their mean is right."""
        return self.divisor / self.micro_batches


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


@dataclass(frozen=True)
class NoiseShares:
    """Sensitivity and noise of each trainable variable, in order.

    Attributes:
        sensitivities: Bound of the change of the computed sum by one unit, with the adaptive
            thresholds at their minimum.
        stddevs: Standard deviation of the noise, in proportion.
        grids: For each variable its grid, or None without noise; empty if noise is not on grids.
        clips: For each variable the numbers of the adaptive clips that its bound depends on.
    """

    sensitivities: tuple[float, ...]
    stddevs: tuple[float, ...]
    grids: tuple[Grid | None, ...]
    clips: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class BatchShape:
    """What the sensitivities depend on beside the model.

    Attributes:
        rows: Most rows of a batch.
        rows_per_unit: Most rows of one unit.
        expected_rows: Expected rows of a batch, the divisor.
    """

    rows: int
    rows_per_unit: int
    expected_rows: int


def share_noise(
    model: keras.Model,
    loss: Any,
    bounds: GradientBounds,
    budget: PrivacyBudget,
    noise_multiplier: float,
    shape: BatchShape,
    least_factor: float,
) -> NoiseShares:
    """Shares one mechanism's noise among the variables.

    Guarantees:
        * ``sum (sensitivity / stddev)^2 <= 1 / noise_multiplier^2`` over all variables, the counts
          of adaptive clips included.

    Args:
        model: A built model.
        loss: Its loss.
        bounds: Its gradient bounds.
        budget: Allocation, and whether noise is on grids.
        noise_multiplier: z of the whole step.
        shape: Rows of a batch and of a unit.
        least_factor: Least factor of the noise over the whole training.

    Raises:
        InvalidValue: If the counts of adaptive clips need more noise than there is.
        UnsafeSetting: If secure noise meets adaptive clips, or the dtype has no room for it.
    """
    thresholds = Thresholds(adaptive_clips(model))
    variables = model.trainable_variables
    counts = {index: clip for clip, index in thresholds.places(variables)}
    sensitivities = _sensitivities(bounds, shape)
    if not counts:
        shares = _plain(model, sensitivities, noise_multiplier, budget.allocation)
        return _on_grids(model, shares, noise_multiplier, budget, shape, least_factor)
    if budget.secure_noise:
        raise UnsafeSetting(
            "Noise on a grid needs fixed thresholds",
            received=[clip.name for clip in counts.values()],
            fix="Use CotangentClip(max_norm) with secure_noise, or secure_noise=False",
        )
    count_noise = {i: c.count_noise * shape.expected_rows for i, c in counts.items()}
    left = _multiplier_left(noise_multiplier, sensitivities, count_noise)
    others = [0.0 if i in counts else d for i, d in enumerate(sensitivities)]
    plain = _plain(model, tuple(others), left, budget.allocation)
    silent = noise_multiplier == 0.0
    stddevs = tuple(
        (0.0 if silent else count_noise[i]) if i in counts else s
        for i, s in enumerate(plain.stddevs)
    )
    clips = _dependencies(model, loss, bounds, thresholds.clips)
    clips = tuple(() if i in counts else one for i, one in enumerate(clips))
    return NoiseShares(sensitivities, stddevs, (), clips)


def _multiplier_left(
    noise_multiplier: float, sensitivities: Sequence[float], count_noise: dict[int, float]
) -> float:
    """The gradient's z: ``1/z^2 = 1/z_gradient^2 + sum (count's sensitivity / its noise)^2``."""
    if noise_multiplier == 0.0:
        return 0.0
    spent = math.fsum((sensitivities[i] / s) ** 2 for i, s in count_noise.items())
    left = 1.0 / noise_multiplier**2 * (1.0 - 1e-12) - spent
    if left <= 0.0:
        raise InvalidValue(
            "The counts of the adaptive clips would cost more than the whole step",
            received=sorted(count_noise.values()),
            fix="Raise count_noise or the batch size, or use fewer adaptive clips",
        )
    return 1.0 / math.sqrt(left)


def _dependencies(
    model: keras.Model,
    loss: Any,
    bounds: GradientBounds,
    clips: Sequence[AdaptiveCotangentClip],
) -> tuple[tuple[int, ...], ...]:
    """For each variable the clips whose threshold its bound depends on; see ``at_threshold``."""
    maxima = [clip.maximum for clip in clips]
    with at_threshold(clips, maxima):
        highest = gradient_bounds(model, loss).parameters
    if not all(math.isfinite(bound) for bound in highest):
        raise InvalidValue(
            "At the maximum thresholds of the adaptive clips a bound is infinite",
            received=maxima,
            fix="Lower their maximum, or train in float64",
        )
    found: list[list[int]] = [[] for _ in bounds.parameters]
    for number, clip in enumerate(clips):
        with at_threshold([clip], clip.maximum):
            changed = gradient_bounds(model, loss).parameters
        for one, before, after in zip(found, bounds.parameters, changed, strict=True):
            if after != before:
                one.append(number)
    return tuple(tuple(one) for one in found)


def exact_sums(bounds: GradientBounds) -> bool:
    """Whether sums over the batch run in float64, in every layer."""
    return bounds.unit == unit_roundoff("float64")


def _sensitivities(bounds: GradientBounds, shape: BatchShape) -> tuple[float, ...]:
    """Bounds of the change of the computed sum.

    A unit of m rows changes the sum by at most m times one row's bound. In float64 the rounding of
    the sum is covered. A kernel's gradient is one sum over rows and positions, of at most n = rows
    times entries terms, whose absolute values add up to at most ``rows D`` in norm: each of the two
    neighbouring sums is exact up to ``gamma_n rows D`` (Higham, section 4.2), in whatever parts it
    is computed. In float32 that term is not included and the statement says so.
    """
    slack = 0.0
    if exact_sums(bounds):
        slack = 2.0 * shape.rows * gamma(shape.rows * bounds.entries, bounds.unit)
    return tuple(d * (shape.rows_per_unit + slack) for d in bounds.parameters)


def _plain(
    model: keras.Model, sensitivities: tuple[float, ...], z: float, strategy: str
) -> NoiseShares:
    sizes = [math.prod(v.shape) for v in model.trainable_variables]
    stddevs = allocate(sensitivities, sizes, z, strategy)
    # The step multiplies standard deviation, schedule and thresholds in the model's dtype: four
    # roundings. The noise must not become too small.
    up = 1.0 + 5.0 * unit_roundoff(_dtype(model))
    return NoiseShares(sensitivities, tuple(s * up for s in stddevs), (), ())


def _on_grids(
    model: keras.Model,
    shares: NoiseShares,
    z: float,
    budget: PrivacyBudget,
    shape: BatchShape,
    least_factor: float,
) -> NoiseShares:
    """The same with sums rounded to grids, which raises the sensitivities by a thousandth."""
    if not budget.secure_noise or z == 0.0:
        return shares
    sizes = [math.prod(v.shape) for v in model.trainable_variables]
    rows = list(zip(shares.stddevs, shares.sensitivities, sizes, strict=True))
    widths = [grid_of(s * least_factor, d, n) if s > 0.0 else 0.0 for s, d, n in rows]
    raised = tuple(
        rounded_sensitivity(d, w, n) if w > 0.0 else 0.0
        for w, (_, d, n) in zip(widths, rows, strict=True)
    )
    _check_factors(budget.noise_schedule)
    wider = _plain(model, raised, z, budget.allocation)
    kind = "float64" if _dtype(model) == "float64" else "int32"
    grids = tuple(
        Grid(w, largest_sum(s * _MOST_FACTOR, w, kind)) if w > 0.0 else None
        for s, w in zip(wider.stddevs, widths, strict=True)
    )
    _check_room(grids, raised, shape)
    return NoiseShares(raised, wider.stddevs, grids, ())


#: Greatest factor of a noise schedule with secure noise: the grids leave room for it.
_MOST_FACTOR = 16.0


def _check_factors(schedule: Sequence[tuple[int, float]]) -> None:
    """Noise that a whole number of the dtype cannot hold would not be that of the plan."""
    if any(factor > _MOST_FACTOR for _, factor in schedule):
        raise UnsafeSetting(
            f"With secure_noise a noise schedule has factors of at most {_MOST_FACTOR:g}",
            received=schedule,
            fix="Raise noise_multiplier, and divide all factors by as much",
        )


def _check_room(
    grids: Sequence[Grid | None], sensitivities: Sequence[float], shape: BatchShape
) -> None:
    """A sum that is clamped would train wrongly, though privately."""
    for grid, sensitivity in zip(grids, sensitivities, strict=True):
        if grid is not None and grid.limit < sensitivity * shape.rows / shape.rows_per_unit:
            raise UnsafeSetting(
                "secure_noise=True rounds sums to a grid, and the model's dtype has no room for"
                " those of a whole batch on a grid this fine",
                received={"limit": grid.limit, "largest sum": sensitivity * shape.rows},
                fix="Make the layers with dtype='float64', use a smaller batch_size, or compile"
                " with PrivacyBudget(..., secure_noise=False)",
            )


def _dtype(model: keras.Model) -> str:
    return keras.backend.standardize_dtype(model.trainable_variables[0].dtype)
