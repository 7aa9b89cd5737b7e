"""What a user asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from lipdp.errors import InvalidValue
from lipdp.privacy.accountants import check_adjacency, find_accountant
from lipdp.privacy.allocation import check_schedule, find_allocation
from lipdp.privacy.phase import check_delta, check_epsilon, check_noise_multiplier, is_number
from lipdp.privacy.sampling import check_sampling


@dataclass(frozen=True)
class PrivacyBudget:
    """How private a training must be.

    With both epsilon and noise_multiplier, the multiplier sets the noise and epsilon only stops
    the training. A noise multiplier of 0, and a seed, make a run that is labelled not private.

    Attributes:
        epsilon: Largest epsilon, positive.
        delta: In (0, 1); by default see ``resolve_delta``.
        noise_multiplier: Standard deviation of the noise over the sensitivity of a step.
        accountant: ``"pld"`` or ``"rdp"``.
        allocation: ``"optimal"``, ``"global"`` or ``"per-layer"``.
        adjacency: ``"add-remove"``, ``"zero-out"`` or ``"replace-one"``.
        sampling: How batches are drawn: ``"poisson"``, ``"truncated-poisson"``, ``"shuffled"``,
            ``"fixed-size"`` or ``"full-batch"``.
        noise_schedule: Pairs ``(epoch, factor)``: from that epoch on (the first is 0) the noise
            multiplier is the factor times the base one; public constants.
        secure_noise: Whether the noise comes from a cryptographic generator, on a grid that leaves
            no trace of floating-point arithmetic.
        seed: Makes sampling and noise reproducible, for experiments on public data.

    Raises:
        InvalidValue: If a number is outside its domain, epsilon and noise_multiplier are both
            missing, or the sampling is not accounted under the adjacency.
        UnknownName: If accountant, allocation, adjacency or sampling is unknown.
    """

    epsilon: float | None = None
    delta: float | None = None
    noise_multiplier: float | None = field(default=None, kw_only=True)
    accountant: str = field(default="pld", kw_only=True)
    allocation: str = field(default="optimal", kw_only=True)
    adjacency: str = field(default="add-remove", kw_only=True)
    sampling: str = field(default="poisson", kw_only=True)
    noise_schedule: tuple[tuple[int, float], ...] = field(default=(), kw_only=True)
    secure_noise: bool = field(default=False, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.epsilon is None and self.noise_multiplier is None:
            raise InvalidValue("A budget needs a limit", fix="Give epsilon or noise_multiplier")
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        if self.delta is not None:
            check_delta(self.delta)
        if self.noise_multiplier is not None:
            check_noise_multiplier(self.noise_multiplier)
        find_accountant(self.accountant)
        find_allocation(self.allocation)
        check_adjacency(self.adjacency)
        check_sampling(self.sampling, self.adjacency)
        schedule = tuple((epoch, factor) for epoch, factor in self.noise_schedule)
        object.__setattr__(self, "noise_schedule", check_schedule(schedule))
        _check_seed(self.seed)
        if self.secure_noise and self.seed is not None:
            raise InvalidValue(
                "Secure noise cannot be reproduced: it comes from the operating system",
                received=self.seed,
                fix="Leave out the seed or secure_noise",
            )

    def resolve_delta(self, num_examples: int) -> float:
        """The delta for a data set of N rows.

        By default the largest power of ten below 1/N, at most 1e-5.

        Args:
            num_examples: Number N of rows.

        Raises:
            InvalidValue: If delta is at or above 1/N.
        """
        if not is_number(num_examples) or num_examples < 1:
            raise InvalidValue("The number of rows must be at least 1", received=num_examples)
        if self.delta is None:
            return _default_delta(num_examples)
        if self.delta * num_examples >= 1.0:
            raise InvalidValue(
                f"delta must stay below one over the number of rows, {num_examples}: publishing"
                " a random row whole would satisfy it otherwise",
                received=self.delta,
                fix=f"Use at most {_default_delta(num_examples):g}, or leave delta out",
            )
        return float(self.delta)

    def to_config(self) -> dict[str, Any]:
        """Plain values that ``from_config`` reads."""
        return asdict(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> PrivacyBudget:
        """The budget that ``to_config`` described.

        Raises:
            InvalidValue: If there are unknown keys.
        """
        unknown = set(config) - {one.name for one in fields(cls)}
        if unknown:
            raise InvalidValue("A budget has no such fields", received=sorted(unknown))
        return cls(**config)


def _default_delta(num_examples: int) -> float:
    exponent = 5
    while num_examples >= 10**exponent:
        exponent += 1
    return float(f"1e-{exponent}")


def _check_seed(seed: int | None) -> None:
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool) or seed < 0):
        raise InvalidValue("The seed must be a whole number of at least 0", received=seed)
