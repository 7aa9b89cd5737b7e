"""The guarantee in words, with every assumption named."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata

from lipdp.privacy.access import Access, kinds_of
from lipdp.results.lines import decimals_up

#: What no epsilon of a training run covers.
NOT_COVERED = (
    "rows outside the training set, such as held-out rows used for validation or model choice",
    "the search for hyper-parameters: runs on the same rows compose, the best one alone is not"
    " what was spent",
    "rounding inside the accountant's Fourier transforms: it is allowed for by its size, not by a"
    " theorem about that library",
    "training losses and metrics, which are exact: the progress bar (ProgbarLogger) and the History"
    " of fit hold them, and CSVLogger and TensorBoard, if used, put them into files and logs",
    "errors that depend on private rows: that a label is out of range, say, tells something about"
    " the rows to whoever sees the error",
)

_FLOATING_POINT = (
    "attacks on floating-point arithmetic: the noise comes from a non-cryptographic generator in"
    " finite precision (secure_noise=True avoids that)"
)
_OPERATING_SYSTEM = (
    "the time that drawing noise takes, and an operating system whose generator is weak or observed"
)

_RELATIONS = {
    "add-remove": "one {unit} is added or removed",
    "zero-out": "one {unit} is replaced by an empty one",
    "replace-one": "one {unit} is replaced by any other",
}


def accountant_library() -> str:
    """Name and version of the library that does the accounting."""
    return f"dp-accounting {metadata.version('dp-accounting')}"


#: Why what a seed made is not private.
SEEDED = "a seed was given: whoever knows it can recompute the noise"


@dataclass(frozen=True)
class PrivacyStatement:
    """What was guaranteed, under which assumptions: for each kind of access to the rows one block.

    Attributes:
        adjacency: ``"add-remove"``, ``"zero-out"`` or ``"replace-one"``.
        epsilon: At ``delta``, for everything in the ledger.
        delta: Of the whole guarantee, overflow included.
        accountant: The computation that gave epsilon.
        accountant_library: Its library and version.
        overflow_delta: The part of delta that overflow has taken.
        accesses: All of them, from the ledger.
        other_accesses: What else touched the training rows, each in words.
        not_covered: What the guarantee does not cover, each in words.
        reproducible: Whether a seed was given, so that the noise can be recomputed.
    """

    adjacency: str
    epsilon: float
    delta: float
    accountant: str
    accountant_library: str
    overflow_delta: float
    accesses: tuple[Access, ...] = ()
    other_accesses: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = NOT_COVERED
    reproducible: bool = False

    @property
    def reasons_not_private(self) -> tuple[str, ...]:
        """Why the run is not private; empty if it is."""
        no_noise = any(access.phase.noise_multiplier == 0.0 for access in self.accesses)
        seeded = self.reproducible or any(access.terms.seeded for access in self.accesses)
        found = {
            "no noise was added (the noise multiplier is 0)": no_noise,
            SEEDED: seeded,
            f"its accesses speak of different units ({', '.join(self._units)}), and no epsilon of"
            " both is known": len(self._units) > 1,
            "epsilon is infinite: the history of the data is not known, the noise was 0, or"
            " delta is used up": math.isinf(self.epsilon) and not no_noise,
        }
        return tuple(reason for reason, holds in found.items() if holds)

    @property
    def private(self) -> bool:
        """Whether the guarantee holds."""
        return not self.reasons_not_private

    def __str__(self) -> str:
        parts = [self._headline(), "", *_lines(self._facts())]
        for kind in kinds_of(self.accesses):
            parts += ["", kind.heading, *_lines(kind.facts), *map(_item, kind.sentences)]
        parts += ["", "Assumptions", *map(_item, self._assumptions())]
        parts += ["", "Other accesses to the training rows"]
        parts += [_item(line) for line in self.other_accesses or ("none recorded",)]
        parts += ["", "Not covered by epsilon"]
        parts += [_item(line) for line in (*self.not_covered, *self._of_the_noise())]
        return "\n".join(parts)

    @property
    def _units(self) -> list[str]:
        """Whose records the accesses speak of."""
        return sorted({access.terms.unit for access in self.accesses}) or ["row"]

    @property
    def _unit(self) -> str:
        """What is protected, in words."""
        if self._units != ["user"]:
            return "one row of the training set"
        # Of an access without such a number all rows take part.
        most = {access.terms.rows_per_unit for access in self.accesses}
        part = f", of which at most {max(most)} take part" if min(most) else ""
        return f"all rows of one user{part}"

    def _headline(self) -> str:
        if not self.private:
            return "\n".join(
                ["NOT PRIVATE", *(_item(reason) for reason in self.reasons_not_private)]
            )
        relation = _RELATIONS.get(self.adjacency, self.adjacency).format(unit=self._units[0])
        return textwrap.fill(
            f"The trained model is ({decimals_up(self.epsilon)}, {self.delta:g})-differentially"
            f" private: the unit is {self._unit}, and neighbouring data sets differ in that"
            f" {relation}.",
            width=92,
        )

    def _facts(self) -> dict[str, str]:
        return {
            "epsilon": decimals_up(self.epsilon),
            "delta": f"{self.delta:g} (of which overflowing batches took"
            f" {self.overflow_delta:.2g})",
            "unit": self._unit if len(self._units) == 1 else " and ".join(self._units),
            "adjacency": self.adjacency,
            "accountant": f"{self.accountant} ({self.accountant_library})",
        }

    def _assumptions(self) -> tuple[str, ...]:
        units = " and ".join(f"{unit}s" for unit in self._units)
        return (
            f"the number of {units} and the sampling rate are public, in each access",
            "the accesses above are all that used these rows, but for those named below",
            "they compose adaptively, also over interrupted and repeated runs on these rows",
        )

    def _of_the_noise(self) -> Iterator[str]:
        secure = [access.terms.secure for access in self.accesses]
        if not all(secure) or not secure:
            yield _FLOATING_POINT
        if any(secure):
            yield _OPERATING_SYSTEM


def _lines(facts: Mapping[str, str]) -> list[str]:
    return [f"  {name + ':':<18}{value}" for name, value in facts.items()]


def _item(text: str) -> str:
    return textwrap.fill(text, width=92, initial_indent="  - ", subsequent_indent="    ")
