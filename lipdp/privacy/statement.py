"""The guarantee in words, with every assumption named."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from importlib import metadata

from lipdp.privacy.capacity import Capacity
from lipdp.results.lines import decimals_up

#: What no epsilon of a training run covers.
NOT_COVERED = (
    "rows outside the training set, such as held-out rows used for validation or model choice",
    "the search for hyper-parameters: runs on the same rows compose, the best one alone is not"
    " what was spent",
    "rounding inside the accountant's Fourier transforms: it is allowed for by its size, not by a"
    " theorem about that library",
    "training losses and metrics seen by the person who trains: they are exact",
)

_FLOATING_POINT = (
    "attacks on floating-point arithmetic: the noise comes from a non-cryptographic generator in"
    " finite precision (secure_noise=True avoids that)"
)
_OPERATING_SYSTEM = (
    "the time that drawing noise takes, and an operating system whose generator is weak or observed"
)
_SECURE = (
    "the noise is an exact Gaussian, rounded to a grid that the sums are rounded to as well, from"
    " the cryptographic generator of the operating system"
)

_RELATIONS = {
    "add-remove": "one {unit} is added or removed",
    "zero-out": "one {unit} is replaced by an empty one",
    "replace-one": "one {unit} is replaced by any other",
}


def accountant_library() -> str:
    """Name and version of the library that does the accounting."""
    return f"dp-accounting {metadata.version('dp-accounting')}"


@dataclass(frozen=True)
class PrivacyStatement:
    """What a training run guarantees, under which assumptions.

    Attributes:
        adjacency: ``"add-remove"``, ``"zero-out"`` or ``"replace-one"``.
        num_examples: Number N of training rows, public.
        expected_batch_size: Expected number of rows in a batch, public.
        sampling_rate: Probability q that one row enters a batch.
        noise_multiplier: Standard deviation of the noise over the sensitivity.
        steps: Private steps taken.
        epsilon: At ``delta``, for everything in the ledger.
        delta: Of the whole guarantee, overflow included.
        accountant: The computation that gave epsilon.
        accountant_library: Its library and version.
        capacity: Rows that fit into a padded batch, with the price of overflow.
        overflow_delta: The part of delta that overflow has taken.
        allocation: How noise was shared out among the variables.
        other_accesses: What else touched the training rows, each in words.
        not_covered: What the guarantee does not cover, each in words.
        reproducible: Whether a seed was given, so that the noise can be recomputed.
        unit: What is protected.
        unit_word: The same in one word.
        sampling: How batches were drawn.
        mechanism: What was released.
        assumption: What the accounting assumes about the draws.
        secure_noise: Whether the noise is drawn exactly on a grid.
        steps_per_access: Steps that are accounted as one.
        noise_schedule: Pairs of epoch and factor of the noise multiplier.
        adaptive_clips: Number of clips whose threshold follows a noisy count.
    """

    adjacency: str
    num_examples: int
    expected_batch_size: int
    sampling_rate: float
    noise_multiplier: float
    steps: int
    epsilon: float
    delta: float
    accountant: str
    accountant_library: str
    capacity: Capacity
    overflow_delta: float
    allocation: str
    other_accesses: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = NOT_COVERED
    reproducible: bool = False
    unit: str = "one row of the training set"
    unit_word: str = "row"
    sampling: str = "Poisson"
    mechanism: str = (
        "Gaussian noise on the sum of the per-row gradients, whose norms are bounded by"
        " construction of the network; one sum a step"
    )
    assumption: str = (
        "each step draws each row independently of all others, from randomness of the operating"
        " system that stays secret"
    )
    secure_noise: bool = False
    steps_per_access: int = 1
    noise_schedule: tuple[tuple[int, float], ...] = ()
    adaptive_clips: int = 0

    @property
    def reasons_not_private(self) -> tuple[str, ...]:
        """Why the run is not private; empty if it is."""
        no_noise = self.noise_multiplier == 0.0 and self.steps > 0
        found = {
            "no noise was added (the noise multiplier is 0)": no_noise,
            "a seed was given: whoever knows it can recompute the noise": self.reproducible,
            "epsilon is infinite: the history of the data is not known, the noise was 0, or"
            " delta is used up": math.isinf(self.epsilon) and not no_noise,
        }
        return tuple(reason for reason, holds in found.items() if holds)

    @property
    def private(self) -> bool:
        """Whether the guarantee holds."""
        return not self.reasons_not_private

    def __str__(self) -> str:
        parts = [self._headline(), "", *self._facts(), "", "Assumptions"]
        parts += [_item(line) for line in self._assumptions()]
        parts += ["", "Other accesses to the training rows"]
        parts += [_item(line) for line in self.other_accesses or ("none recorded",)]
        parts += ["", "Not covered by epsilon"]
        noise = _OPERATING_SYSTEM if self.secure_noise else _FLOATING_POINT
        parts += [_item(line) for line in (*self.not_covered, noise)]
        return "\n".join(parts)

    def _headline(self) -> str:
        if not self.private:
            return "\n".join(
                ["NOT PRIVATE", *(_item(reason) for reason in self.reasons_not_private)]
            )
        relation = _RELATIONS.get(self.adjacency, self.adjacency).format(unit=self.unit_word)
        return textwrap.fill(
            f"The trained model is ({decimals_up(self.epsilon)}, {self.delta:g})-differentially"
            f" private: the unit is {self.unit}, and neighbouring data sets differ in that"
            f" {relation}.",
            width=92,
        )

    def _facts(self) -> list[str]:
        facts = {
            "epsilon": decimals_up(self.epsilon),
            "delta": f"{self.delta:g} (of which overflowing batches took"
            f" {self.overflow_delta:.2g})",
            "unit": self.unit,
            "adjacency": self.adjacency,
            f"{self.unit_word}s": f"{self.num_examples}",
            "expected batch": f"{self.expected_batch_size} {self.unit_word}s",
            "sampling": f"{self.sampling}, rate {self.sampling_rate:.6g}",
            "capacity": f"{self.capacity.rows} {self.unit_word}s, overflow at most"
            f" {self.capacity.overflow_probability_per_step:.2g} a step",
            "noise multiplier": f"{self.noise_multiplier:.6g}",
            "noise allocation": self.allocation,
            **self._schedule(),
            "steps" if self.steps_per_access == 1 else "epochs": f"{self.steps}",
            "accountant": f"{self.accountant} ({self.accountant_library})",
        }
        return [f"  {name + ':':<18}{value}" for name, value in facts.items()]

    def _schedule(self) -> dict[str, str]:
        parts = ", ".join(
            f"x {factor:g} from epoch {epoch}" for epoch, factor in self.noise_schedule
        )
        return {"noise schedule": parts} if parts else {}

    def _assumptions(self) -> tuple[str, ...]:
        overflows = self.capacity.overflow_probability_per_step > 0.0
        found = {
            f"mechanism: {self.mechanism}": True,
            f"the number of {self.unit_word}s and the sampling rate are public": True,
            self.assumption: True,
            "of a batch above capacity a uniformly random part is kept": overflows,
            f"{self.adaptive_clips} clipping thresholds follow noisy counts of rows above them; a"
            " count is one more coordinate of each step's mechanism, inside its noise multiplier": (
                self.adaptive_clips > 0
            ),
            _SECURE: self.secure_noise,
            "steps compose adaptively, also over interrupted and repeated runs on these rows": True,
        }
        return tuple(line for line, holds in found.items() if holds)


def _item(text: str) -> str:
    return textwrap.fill(text, width=92, initial_indent="  - ", subsequent_indent="    ")
