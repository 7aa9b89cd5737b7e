"""Accesses to the rows, as the statement tells them: one block for each kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lipdp.privacy.entries import Terms
from lipdp.privacy.phase import Draw, Phase
from lipdp.privacy.sampling import SAMPLERS

#: Purpose of the accesses that train a model; others are named in words.
TRAINING = "training"
#: What draws the batches of rows that come one after the other.
STREAM = "stream"

_NOT_RECORDED = "not recorded"
_STREAM_TITLE = "passes over a stream, without amplification"
_STREAM_SENTENCE = (
    "each epoch is one pass over a stream: it must bring each row at most once a pass, must not mix"
    " rows (as mixup, or a window over several of them, does), and what it makes of one row must"
    " not depend on another"
)
_TOGETHER = (
    "the rows of a user come together into a batch, at most {most} of them: of a user with more a"
    " uniformly random part takes part, chosen when the training begins"
)
_SECRET = (
    "which {unit}s are drawn comes from randomness of the operating system and must stay secret:"
    " epsilon relies on it"
)
_SEEDED = "draws and noise come from a seed: whoever knows it can recompute them"
_GRID = (
    "the noise is an exact Gaussian, rounded to a grid that the sums are rounded to as well, from"
    " the cryptographic generator of the operating system"
)
_KEPT = "of a batch above capacity a uniformly random part is kept"
_UNKNOWN = {
    "poisson": "a draw of each {unit} independently of all others, with this probability",
    "fixed-size": "a draw of a uniformly random set of this part of the {unit}s",
    "truncated-poisson": "a draw of each {unit} independently of all others, with this probability,"
    " of which at most {most} are kept, a uniformly random part",
}


@dataclass(frozen=True)
class Access:
    """Equal accesses to the rows, in whatever session they were made.

    Attributes:
        purpose: ``TRAINING``, or what else the rows were used for, in words.
        phase: Their numbers, and how many they are.
        price: In delta, of an overflow in one of them.
        terms: What they promise beside their numbers.
    """

    purpose: str
    phase: Phase
    price: float
    terms: Terms

    @property
    def kind(self) -> tuple[str, float, Draw, float, Terms]:
        """What accesses of one kind have in common: all but their noise."""
        return self.purpose, self.phase.sampling_rate, self.phase.draw, self.price, self.terms


@dataclass(frozen=True)
class AccessKind:
    """Accesses that differ in their noise alone, in words that are true of each of them.

    Attributes:
        accesses: At least one, of one kind.
    """

    accesses: tuple[Access, ...]

    @property
    def _one(self) -> Access:
        """Any of them, for what they have in common."""
        return self.accesses[0]

    @property
    def count(self) -> int:
        """How many accesses there are."""
        return sum(access.phase.steps for access in self.accesses)

    @property
    def heading(self) -> str:
        """What the rows were used for."""
        return f"Accesses for {' '.join(self._one.purpose.split())}"

    @property
    def _word(self) -> str:
        """What an access is: a step, an epoch, or just an access."""
        name = self._one.terms.sampler
        if self._one.purpose != TRAINING or name not in (*SAMPLERS, STREAM):
            return "access"
        return "epoch" if name in ("shuffled", STREAM) else "step"

    @property
    def facts(self) -> dict[str, str]:
        """Numbers by name."""
        terms, phase = self._one.terms, self._one.phase
        found = {
            f"{terms.unit}s": f"{terms.num_units}" if terms.num_units else _NOT_RECORDED,
            "expected batch": f"{terms.batch_size} {terms.unit}s" if terms.batch_size else "",
            "sampling": f"{self._title}, rate {phase.sampling_rate:.6g}",
            "capacity": self._capacity,
            "noise multiplier": self._noise,
            "randomness": "a seed (not private)" if terms.seeded else "of the operating system",
            f"{self._plural}": f"{self.count}",
        }
        return {name: value for name, value in found.items() if value}

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was done to the rows, and what must hold."""
        return tuple(self._sentences())

    @property
    def _plural(self) -> str:
        return {"access": "accesses"}.get(self._word, f"{self._word}s")

    @property
    def _title(self) -> str:
        name = self._one.terms.sampler
        if name == STREAM:
            return _STREAM_TITLE
        if name in SAMPLERS:
            return SAMPLERS[name].title
        return f"{name or _NOT_RECORDED}, accounted as {self._one.phase.draw.name}"

    @property
    def _capacity(self) -> str:
        if not self._one.terms.capacity:
            return ""
        rows = f"{self._one.terms.capacity} {self._one.terms.unit}s"
        if not self._one.price:
            return rows
        return f"{rows}, overflow at most {self._one.price:.2g} a {self._word}"

    @property
    def _noise(self) -> str:
        parts = [(f"{a.phase.noise_multiplier:.6g}", a.phase.steps) for a in self.accesses]
        if len(parts) == 1:
            return parts[0][0]
        return ", ".join(f"{z} ({_counted(n, self._word, self._plural)})" for z, n in parts)

    def _sentences(self) -> Iterator[str]:
        terms, phase = self._one.terms, self._one.phase
        if terms.mechanism:
            yield f"mechanism: {terms.mechanism}"
        yield self._drawn()
        if terms.unit == "user" and terms.rows_per_unit:
            yield _TOGETHER.format(most=terms.rows_per_unit)
        if self._one.price > 0.0:
            yield _KEPT
        if terms.seeded:
            yield _SEEDED
        elif phase.sampling_rate < 1.0:
            yield _SECRET.format(unit=terms.unit)
        if terms.secure and any(a.phase.noise_multiplier > 0.0 for a in self.accesses):
            yield _GRID

    def _drawn(self) -> str:
        terms, draw = self._one.terms, self._one.phase.draw
        if terms.sampler == STREAM:
            return _STREAM_SENTENCE
        if terms.sampler in SAMPLERS:
            said = SAMPLERS[terms.sampler].assumption
            return said.format(unit=terms.unit, access=self._word)
        whole = "each {unit} in an access at most once"
        accounted = whole if self._one.phase.sampling_rate == 1.0 else _UNKNOWN[draw.name]
        accounted = accounted.format(unit=terms.unit, most=draw.most_rows)
        return (
            f"how the {terms.unit}s were chosen was not recorded; epsilon holds if it was"
            f" {accounted}"
        )


def kinds_of(accesses: Iterable[Access]) -> tuple[AccessKind, ...]:
    """Each distinct kind of access once, in the order of their first."""
    found: dict[tuple[str, float, Draw, float, Terms], list[Access]] = {}
    for access in accesses:
        found.setdefault(access.kind, []).append(access)
    return tuple(AccessKind(tuple(some)) for some in found.values())


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"
