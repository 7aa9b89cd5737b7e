"""Every number of a private training, decided before its first step."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from lipdp.bounds import GradientBounds, gradient_bounds, in_constraint_set
from lipdp.errors import BudgetExhausted, InvalidState, InvalidValue, UnsafeSetting
from lipdp.privacy import (
    STREAM,
    Capacity,
    Phase,
    PrivacyBudget,
    PrivacyLedger,
    Sampler,
    Terms,
    calibrate,
    factor_at,
    find_sampler,
    max_steps,
    truncation_price,
)
from lipdp.training.batches import Slots
from lipdp.training.devices import Devices
from lipdp.training.noise_plan import BatchShape, Mechanism, NoiseShares, exact_sums, share_noise


def check_history(ledger: PrivacyLedger, unit: str) -> None:
    """Refuses to go on where no epsilon of everything is known.

    Args:
        ledger: Of all accesses so far.
        unit: Whose records the next ones speak of.

    Raises:
        BudgetExhausted: If there were accesses that nobody recorded.
        UnsafeSetting: If the earlier ones speak of other units.
    """
    if ledger.unknown_history:
        raise BudgetExhausted(
            "What these weights have already learned from the data is unknown (they were loaded "
            "without a ledger, or trained without privacy)",
            fix="Start from new weights, or, if all earlier training used public data only, call "
            "model.declare_public_history()",
        )
    if ledger.units - {unit}:
        raise UnsafeSetting(
            "Earlier accesses to the data speak of other units, and no epsilon of both is known",
            received={"earlier": sorted(ledger.units), "now": unit},
            fix="Give groups= to all trainings and statistics of this model, or to none",
        )


def left_of(delta: float, overflow: float) -> float:
    """What overflow leaves of delta, less the rounding of these sums in float64."""
    return (delta - overflow) * (1.0 - 1e-9)


def affordable(
    budget: PrivacyBudget,
    ledger: PrivacyLedger,
    ahead: Sequence[Phase],
    overflow: float,
    delta: float,
) -> int:
    """Accesses of the phases ahead that the budget allows.

    Args:
        budget: What may be spent; without epsilon every access is affordable.
        ledger: What was spent.
        ahead: The phases asked for, in order.
        overflow: Price in delta of one access.
        delta: delta of the statement, overflow included.

    Returns:
        0 if not one is affordable.
    """
    wanted = sum(phase.steps for phase in ahead)
    if budget.epsilon is None:
        return wanted
    left = left_of(delta - ledger.overflow_delta, wanted * overflow)
    if left <= 0.0:
        return 0
    return max_steps(
        ledger.phases,
        ahead,
        budget.epsilon,
        left,
        accountant=budget.accountant,
        adjacency=budget.adjacency,
    )


#: Sizes of batches differ by as many rows a device.
#: TensorFlow's graph and PyTorch take batches padded to such multiples in one trace.
_STEP = 8
#: Truncated draws that cost more times the untruncated ones are warned of.
_FAIR_PRICE = 1.1


@dataclass(frozen=True)
class Request:
    """What ``fit`` was asked for.

    Attributes:
        num_units: Units of the training set (rows, or groups of rows), N.
        batch_size: Expected units of a batch, b.
        epochs: Number of the epoch to stop before, of about N / b steps each.
        rows_per_unit: Most rows m of a unit.
        unit: ``"row"`` or ``"user"``.
        micro_batch_size: Most rows that are processed at a time; None for a whole batch.
        devices: How they share the rows of a batch.
        static_shapes: Whether each shape of a batch costs a compilation.
        stream: Whether rows come one after the other, and cannot be drawn.
        initial_epoch: Number of the first epoch; the noise schedule counts from 0.
    """

    num_units: int
    batch_size: int
    epochs: int
    rows_per_unit: int = 1
    unit: str = "row"
    micro_batch_size: int | None = None
    devices: Devices = field(default_factory=Devices)
    static_shapes: bool = True
    stream: bool = False
    initial_epoch: int = 0

    @property
    def planned(self) -> range:
        """Numbers of the epochs."""
        return range(self.initial_epoch, self.epochs)


@dataclass(frozen=True)
class TrainingPlan:
    """What ``fit`` is going to do; a frozen record that everything else reads.

    Attributes:
        request: What was asked for.
        sampler: Draws the batches.
        steps: Steps asked for.
        affordable_steps: Steps that the budget allows, at most ``steps``.
        capacity: Units that a padded batch holds, and the price in delta of their overflow.
        slots: The shape of a padded batch.
        noise_multiplier: z of one step, of all variables together, before the noise schedule.
        phases: What each epoch costs, the first one first.
        shares: Sensitivity and noise of each variable.
        budget: What was asked for.
        delta: delta of the statement, overflow included.
        dtype: Dtype of the trainable variables.
        bounds: The proof of the sensitivities.
    """

    request: Request
    sampler: Sampler
    steps: int
    affordable_steps: int
    capacity: Capacity
    slots: Slots
    noise_multiplier: float
    phases: tuple[Phase, ...]
    shares: NoiseShares
    budget: PrivacyBudget
    delta: float
    dtype: str
    bounds: GradientBounds

    @property
    def num_examples(self) -> int:
        """Units of the training set, N (public)."""
        return self.request.num_units

    @property
    def expected_batch_size(self) -> int:
        """Expected units of a batch, b."""
        return self.request.batch_size

    @property
    def sampling_rate(self) -> float:
        """Probability that one unit takes part in an access."""
        return self.sampler.sampling_rate

    @property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch."""
        return self.sampler.steps_per_epoch

    @property
    def stddevs(self) -> tuple[float, ...]:
        """Standard deviation of the noise on each variable's summed gradient."""
        return self.shares.stddevs

    @property
    def sensitivities(self) -> tuple[float, ...]:
        """Bound of each variable's change of the summed gradient by one unit."""
        return self.shares.sensitivities

    @property
    def mechanism(self) -> Mechanism:
        """What a step does to the summed gradient; it divides by the expected rows of a batch."""
        return Mechanism(
            stddevs=self.shares.stddevs,
            divisor=self.request.batch_size * self.request.rows_per_unit,
            micro_batches=self.slots.micro_batches,
            replicas=self.request.devices.replicas,
            from_host=self.draws_outside,
            grids=self.shares.grids,
            clips=self.shares.clips,
        )

    @property
    def terms(self) -> Terms:
        """What each access promises beside its numbers, and how its rows are chosen."""
        request, budget = self.request, self.budget
        return Terms(
            unit=request.unit,
            seeded=budget.seed is not None,
            secure=budget.secure_noise,
            sampler=STREAM if request.stream else budget.sampling,
            num_units=int(request.num_units),
            batch_size=int(request.batch_size),
            rows_per_unit=int(request.rows_per_unit),
            capacity=int(self.capacity.rows),
            mechanism=self._mechanism_in_words(),
        )

    def _mechanism_in_words(self) -> str:
        clips = len({clip for chosen in self.shares.clips for clip in chosen})
        counts = (
            f"; {clips} clipping thresholds follow noisy counts of rows above them, and a count is"
            " one more coordinate of the sum, inside its noise multiplier"
        )
        return (
            "Gaussian noise on the sum of the per-row gradients, whose norms are bounded by"
            " construction of the network; one sum a step; noise is shared out among the variables"
            f" by the allocation {self.budget.allocation!r}" + (counts if clips else "")
        )

    @property
    def draws_outside(self) -> bool:
        """Whether noise is drawn outside the compiled step: where it must be, or is cheaper."""
        devices = self.request.devices
        return bool(self.shares.grids) or devices.replicas > 1 or devices.in_host_memory

    @property
    def covers_summation(self) -> bool:
        """Whether the rounding of the sum over the batch is inside the sensitivities."""
        return exact_sums(self.bounds)

    def place_of(self, epoch: int) -> int:
        """An epoch, counted from the first one.

        Raises:
            InvalidState: If it was not planned.
        """
        if epoch not in self.request.planned:
            raise InvalidState(
                "The training is at another epoch than the plan was made for",
                received=f"epoch {epoch}; planned are {self.request.initial_epoch} to"
                f" {self.request.epochs - 1}",
                fix="Leave out initial_epoch where a backup is restored, which knows its epoch",
            )
        return epoch - self.request.initial_epoch

    def record_in(
        self, ledger: PrivacyLedger, place: int, accesses: int = 1, terms: Terms | None = None
    ) -> None:
        """Writes accesses of one epoch into a ledger.

        Args:
            ledger: What is spent.
            place: The epoch, counted from the first one.
            accesses: How many of them.
            terms: What they promise, if that is not what the plan says.
        """
        phase = self.phases[place]
        ledger.record(
            phase.sampling_rate,
            phase.noise_multiplier,
            accesses,
            overflow_probability=self.capacity.overflow_probability_per_step,
            draw=phase.draw,
            terms=self.terms if terms is None else terms,
        )

    def factor_in(self, epoch: int) -> float:
        """What the noise is multiplied by in an epoch."""
        return factor_at(self.budget.noise_schedule, epoch)


def make_plan(
    model: keras.Model, loss: Any, budget: PrivacyBudget, ledger: PrivacyLedger, request: Request
) -> TrainingPlan:
    """Decides noise, capacity and number of steps.

    Args:
        model: A built model whose weights lie in their constraint sets.
        loss: A loss of ``lipdp.losses``.
        budget: What may be spent.
        ledger: What this model has already cost on the same data.
        request: Data, batch size and epochs.

    Guarantees:
        * ``sum (sensitivity / stddev)^2 <= 1 / noise_multiplier^2`` over the variables.
        * ``affordable_steps`` more steps keep the ledger's epsilon at delta within the budget.

    Raises:
        InvalidValue: If the batch is larger than the data.
        BudgetExhausted: If the ledger's history is unknown. Where not one step is affordable the
            training refuses its first step: what it continues from may be complete.
    """
    _check_request(request)
    check_history(ledger, request.unit)
    bounds = gradient_bounds(model, loss)
    dtype = _dtype(model)
    delta = budget.resolve_delta(request.num_units)
    sampler = find_sampler(budget.sampling)(request.num_units, request.batch_size, budget.seed)
    steps = sampler.steps_per_epoch * len(request.planned)
    capacity = sampler.capacity(steps, delta)
    price = capacity.overflow_probability_per_step
    left = left_of(delta, steps * price)
    z = _noise_multiplier(budget, ledger, sampler, request.planned, left)
    phases = _phases(budget, sampler, request.planned, z)
    _warn_of_truncation(budget, sampler, phases, left)
    slots = _slots(capacity.rows, request)
    rows = capacity.rows * request.rows_per_unit
    shape = BatchShape(rows, request.rows_per_unit, request.batch_size * request.rows_per_unit)
    least = min((factor_at(budget.noise_schedule, e) for e in request.planned), default=1.0)
    allowed = affordable(budget, ledger, phases, price, delta)
    return TrainingPlan(
        request=request,
        sampler=sampler,
        steps=steps,
        affordable_steps=min(steps, allowed * sampler.steps_per_access),
        capacity=capacity,
        slots=slots,
        noise_multiplier=z,
        phases=phases,
        shares=share_noise(model, loss, bounds, budget, z, shape, least),
        budget=budget,
        delta=delta,
        dtype=dtype,
        bounds=bounds,
    )


def _check_request(request: Request) -> None:
    if not 1 <= request.batch_size <= request.num_units:
        raise InvalidValue(
            f"The expected batch size must lie between 1 and the {request.num_units} training rows",
            received=request.batch_size,
            fix="Lower the batch size",
        )
    if request.epochs < 1:
        raise InvalidValue("The number of epochs must be at least 1", received=request.epochs)
    first = request.initial_epoch
    if not isinstance(first, int | np.integer) or isinstance(first, bool) or first < 0:
        raise InvalidValue("initial_epoch must be a whole number from 0", received=first)
    if first >= request.epochs:
        raise InvalidValue(
            f"No epoch is left: initial_epoch is {first}, and the training ends before epoch"
            f" {request.epochs}",
            received=first,
            fix="Raise epochs, which counts the earlier ones too, or lower initial_epoch",
        )
    micro = request.micro_batch_size
    if micro is not None and (type(micro) is not int or micro < 1):
        raise InvalidValue("micro_batch_size must be a whole number of at least 1", received=micro)


def _dtype(model: keras.Model) -> str:
    dtypes = {keras.backend.standardize_dtype(v.dtype) for v in model.trainable_variables}
    if not dtypes:
        raise InvalidState("The model has no trainable variables, so there is nothing to train")
    if len(dtypes) > 1:
        raise UnsafeSetting(
            "The trainable variables have several dtypes",
            received=sorted(dtypes),
            fix="Use one dtype for all layers",
        )
    for layer in model.layers:
        if not in_constraint_set(layer):
            raise InvalidState(f"A weight of layer {layer.name!r} is not in its constraint set")
    return dtypes.pop()


def _phases(
    budget: PrivacyBudget, sampler: Sampler, epochs: range, noise_multiplier: float
) -> tuple[Phase, ...]:
    """What each epoch costs."""
    accesses = sampler.steps_per_epoch // sampler.steps_per_access
    factors = (factor_at(budget.noise_schedule, epoch) for epoch in epochs)
    return tuple(sampler.phase(noise_multiplier * factor, accesses) for factor in factors)


def _noise_multiplier(
    budget: PrivacyBudget, ledger: PrivacyLedger, sampler: Sampler, epochs: range, delta: float
) -> float:
    """The given one; else that of the training so far; else calibrated for all the epochs."""
    if budget.noise_multiplier is not None:
        return budget.noise_multiplier
    # A plan of which no step was recorded binds nobody.
    if ledger.calibrated is not None and ledger.steps:
        return ledger.calibrated
    if budget.epsilon is None:
        raise InvalidValue("A budget needs epsilon or noise_multiplier", received=budget)
    found = calibrate(
        lambda noise_multiplier: _phases(budget, sampler, epochs, noise_multiplier),
        budget.epsilon,
        delta,
        spent=ledger.phases,
        accountant=budget.accountant,
        adjacency=budget.adjacency,
    )
    ledger.calibrate(found)
    return found


def _warn_of_truncation(
    budget: PrivacyBudget, sampler: Sampler, phases: tuple[Phase, ...], delta: float
) -> None:
    """How much truncated draws cost depends on the noise, which is known only here."""
    if sampler.kind.name != "truncated-poisson":
        return
    how = {"accountant": budget.accountant, "adjacency": budget.adjacency}
    price = truncation_price(phases, delta, **how)
    if price > _FAIR_PRICE:
        warnings.warn(
            f"With so little noise, that no batch has more than {sampler.kind.most_rows} units"
            f" costs {price:.2g} times the epsilon of padded batches at the same noise multiplier."
            ' Use sampling="poisson" or more noise.',
            stacklevel=3,
        )


def _slots(units: int, request: Request) -> Slots:
    """Equal microbatches of at most ``micro_batch_size`` rows, each even among devices."""
    rows = units * request.rows_per_unit
    most = request.micro_batch_size
    micro_batches = 1 if most is None else -(-rows // most)
    devices = request.devices.parts
    equal = -(-rows // (micro_batches * devices)) * devices
    return Slots(units, micro_batches, equal, _smaller_sizes(equal, micro_batches, request))


def _smaller_sizes(most: int, micro_batches: int, request: Request) -> tuple[int, ...]:
    """Sizes of a microbatch below the largest, multiples of the devices.

    Where shapes are compiled there are two: one and two and a half standard deviations of the draw
    above its mean, so that five batches in six are padded by 4 % at 1,024 rows.
    """
    step = _STEP * request.devices.parts
    if not request.static_shapes:
        return tuple(range(step, most, step))
    mean, deviation = request.batch_size, math.sqrt(request.batch_size)
    wanted = (request.rows_per_unit * (mean + t * deviation) / micro_batches for t in (1.0, 2.5))
    sizes = {math.ceil(rows / step) * step for rows in wanted}
    return tuple(sorted(size for size in sizes if size < most))
