"""What was spent: counts of steps that only ever grow."""

from __future__ import annotations

import functools
import math
import os
import secrets
from collections.abc import Iterable
from typing import Any

from lipdp.errors import InvalidData, InvalidValue, LipdpError
from lipdp.privacy.access import TRAINING, Access
from lipdp.privacy.accountants import Accounted, account, check_draws
from lipdp.privacy.entries import ROWS, Entry, KeptEntry, Terms, as_text, kept, parse
from lipdp.privacy.phase import (
    MOST_STEPS,
    POISSON,
    Draw,
    Phase,
    check_adjacency,
    check_delta,
    check_noise_multiplier,
    is_number,
    merge_phases,
)

#: Fields of a statement that they belong to.
_PLACES = ("other_accesses", "not_covered")


class Remarks:
    """Words for a field of the statement; they are only ever added.

    Args:
        kept: Pairs of a field's name and words.

    Raises:
        InvalidValue: If there is no such field.
    """

    def __init__(self, kept: Iterable[tuple[str, str]] = ()) -> None:
        self._kept: dict[tuple[str, str], None] = {}
        for place, words in kept:
            self.add(place, words)

    def add(self, place: str, words: str) -> None:
        """Keeps words for ``"other_accesses"`` or ``"not_covered"``, once."""
        if place not in _PLACES or not isinstance(words, str):
            raise InvalidValue(f"A remark is words for one of {_PLACES}", received=(place, words))
        self._kept[place, words] = None

    def of(self, place: str) -> tuple[str, ...]:
        """The words for a field."""
        return tuple(words for kept, words in self._kept if kept == place)

    def merge(self, other: Remarks) -> None:
        """Takes over those of another ledger."""
        self._kept |= other._kept

    def to_plain(self) -> list[list[str]]:
        """As JSON has them, and the argument of another one."""
        return [list(pair) for pair in self._kept]


@functools.cache
def _process() -> str:
    """A name for this process that no other one has, its forks included."""
    return secrets.token_hex(8)


os.register_at_fork(after_in_child=_process.cache_clear)


class PrivacyLedger:
    """Append-only record of the private accesses to one data set.

    A copy, whether by ``copy``, by ``pickle`` or in a process that was forked, is a fork: both
    hold what was recorded before, in its session, and each records in a session of its own.

    Guarantees:

    * Nothing is ever removed; reading changes nothing.
    * What two copies share counts once when they are merged, and what each recorded since then adds
      up (``test_forks.py``).
    * ``epsilon`` composes everything recorded, at delta minus the price of overflowing batches.
    * A text that was cut or edited is refused.

    Args:
        adjacency: Relation between neighbouring data sets that the steps are accounted under.

    Attributes:
        remarks: What statements must say beside the numbers.
    """

    def __init__(self, adjacency: str = "add-remove") -> None:
        self._adjacency = check_adjacency(adjacency)
        self._unknown_history = False
        self._calibrated: float | None = None
        self._counts: dict[Entry, int] = {}
        self.remarks = Remarks()
        self.begin_session()

    def begin_session(self, name: str | None = None) -> None:
        """From now on accesses are others than those of every ledger before.

        Two records of one session are of the same accesses; those of two sessions add up.

        Args:
            name: What processes that train together agreed upon; by default 64 random bits.
        """
        self._session = secrets.token_hex(8) if name is None else name
        self._process = _process()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What ``copy`` and ``pickle`` make a copy with."""
        self.__dict__.update(state)
        self._counts = dict(self._counts)
        shared, self.remarks = self.remarks, Remarks()
        self.remarks.merge(shared)
        self.begin_session()

    def record(
        self,
        sampling_rate: float,
        noise_multiplier: float,
        steps: int = 1,
        *,
        overflow_probability: float = 0.0,
        draw: Draw = POISSON,
        purpose: str = TRAINING,
        terms: Terms = ROWS,
    ) -> None:
        """Adds accesses. One to all rows, such as a private mean, has sampling rate 1.

        Args:
            sampling_rate: Probability that one row entered a batch.
            noise_multiplier: Standard deviation over sensitivity.
            steps: How many equal accesses.
            overflow_probability: Price in delta of one access; see ``Capacity``.
            draw: How the rows were chosen.
            purpose: ``"training"``, or what else the rows were used for, in words.
            terms: What the accesses promise beside their numbers.

        Raises:
            InvalidValue: If an argument is outside its domain, or the draw is not accounted under
                the ledger's adjacency.
        """
        price = overflow_probability
        self._record(
            sampling_rate, noise_multiplier, steps, price, draw, purpose, terms, self.session
        )

    def _record(
        self,
        sampling_rate: float,
        noise_multiplier: float,
        steps: int,
        overflow_probability: float,
        draw: Draw,
        purpose: str,
        terms: Terms,
        session: str,
    ) -> None:
        phase = Phase(sampling_rate, noise_multiplier, steps, draw)
        check_draws([phase], self._adjacency)
        if not isinstance(purpose, str) or not purpose.strip():
            raise InvalidValue("The purpose of an access must be said in words", received=purpose)
        if not is_number(overflow_probability) or not 0.0 <= overflow_probability <= 1.0:
            raise InvalidValue(
                "The overflow probability must lie in [0, 1]", received=overflow_probability
            )
        numbers = (phase.sampling_rate, phase.noise_multiplier, draw, float(overflow_probability))
        entry = Entry(purpose, *numbers, terms, session)
        total = self._counts.get(entry, 0) + phase.steps
        if total > MOST_STEPS:
            raise InvalidValue("The ledger counts at most 2^53 equal accesses", received=total)
        if phase.steps:
            self._counts[entry] = total

    def calibrate(self, noise_multiplier: float) -> None:
        """Remembers the multiplier that the first training was calibrated to."""
        check_noise_multiplier(noise_multiplier)
        self._calibrated = float(noise_multiplier)

    def mark_unknown(self) -> None:
        """States that the data was used before in ways that nobody recorded; for good."""
        self._unknown_history = True

    def merge(self, other: PrivacyLedger) -> None:
        """Takes over another record. In each session the larger count wins; sessions add up.

        An older checkpoint never rolls back what was spent, and weights of two trainings cost both.

        Raises:
            InvalidData: If the other ledger counts under another adjacency.
        """
        if other.adjacency != self._adjacency:
            raise InvalidData(
                "The ledgers count under different adjacencies",
                received=(self._adjacency, other.adjacency),
                fix="Continue with the adjacency that the first training used",
            )
        self._unknown_history |= other._unknown_history
        self.remarks.merge(other.remarks)
        if self._calibrated is None:
            self._calibrated = other._calibrated
        for entry, steps in other._counts.items():
            self._counts[entry] = max(steps, self._counts.get(entry, 0))

    def holds(self, other: PrivacyLedger) -> bool:
        """Whether everything that another record knows is in this one."""
        return (
            self._adjacency == other._adjacency
            and (self._unknown_history or not other._unknown_history)
            and all(self._counts.get(entry, 0) >= steps for entry, steps in other._counts.items())
        )

    @property
    def adjacency(self) -> str:
        """Relation between neighbouring data sets."""
        return self._adjacency

    @property
    def unknown_history(self) -> bool:
        """Whether there was access that nobody recorded."""
        return self._unknown_history

    @property
    def calibrated(self) -> float | None:
        """Noise multiplier that the first training was calibrated to; None before."""
        return self._calibrated

    @property
    def steps(self) -> int:
        """Number of accesses recorded for training."""
        return sum(n for entry, n in self._counts.items() if entry.purpose == TRAINING)

    @property
    def session(self) -> str:
        """Name of the accesses that are recorded now; a process that was forked has its own."""
        if self._process != _process():
            self.begin_session()
        return self._session

    @property
    def seeded(self) -> bool:
        """Whether an access was not private, for its randomness came from a seed."""
        return any(entry.terms.seeded for entry in self._counts)

    @property
    def secure(self) -> bool:
        """Whether all noise came from a cryptographic generator, on a grid."""
        return all(entry.terms.secure for entry in self._counts)

    @property
    def units(self) -> frozenset[str]:
        """Whose records the accesses speak of."""
        return frozenset(entry.terms.unit for entry in self._counts)

    @property
    def accesses(self) -> tuple[Access, ...]:
        """What was recorded, with all that is known of it; equal accesses added up."""
        totals: dict[tuple[Any, ...], int] = {}
        for entry, steps in self._counts.items():
            key = entry[:-1]
            totals[key] = totals.get(key, 0) + steps
        return tuple(
            Access(purpose, Phase(rate, noise, min(steps, MOST_STEPS), draw), price, terms)
            for (purpose, rate, noise, draw, price, terms), steps in totals.items()
        )

    @property
    def training_phases(self) -> tuple[Phase, ...]:
        """What was recorded for training, equal accesses added up."""
        return merge_phases(
            entry.phase(steps) for entry, steps in self._counts.items() if entry.purpose == TRAINING
        )

    @property
    def other_accesses(self) -> tuple[str, ...]:
        """What else the rows were used for, with its noise."""
        totals: dict[tuple[str, float], int] = {}
        for entry, n in self._counts.items():
            if entry.purpose != TRAINING:
                key = (entry.purpose, entry.noise_multiplier)
                totals[key] = totals.get(key, 0) + n
        return tuple(
            f"{purpose}: {n} {'access' if n == 1 else 'accesses'} at noise multiplier"
            f" {noise_multiplier:.6g}, inside epsilon"
            for (purpose, noise_multiplier), n in totals.items()
        )

    @property
    def phases(self) -> tuple[Phase, ...]:
        """What was recorded, equal accesses added up."""
        return merge_phases(entry.phase(steps) for entry, steps in self._counts.items())

    @property
    def overflow_delta(self) -> float:
        """Price in delta of the overflow of all accesses so far."""
        total = math.fsum(steps * entry.price for entry, steps in self._counts.items())
        return total * (1.0 + 2.0**-50)

    def epsilon(self, delta: float, *, accountant: str = "pld", coarse: bool = False) -> float:
        """Epsilon of everything recorded; infinite if delta is used up or history is unknown.

        Args:
            delta: The delta of the whole guarantee, overflow included.
            accountant: ``"pld"`` or ``"rdp"``.
            coarse: Faster and a little larger, still an upper bound.
        """
        return self.account(delta, accountant=accountant, coarse=coarse).epsilon

    def account(self, delta: float, *, accountant: str = "pld", coarse: bool = False) -> Accounted:
        """Like ``epsilon``, with the name of the computation that gave it."""
        check_delta(delta)
        if self._unknown_history:
            return Accounted(math.inf, "unknown history")
        left = delta - self.overflow_delta
        if left <= 0.0:
            return Accounted(math.inf, "delta used up by overflow")
        return account(
            self.phases, left, accountant=accountant, adjacency=self._adjacency, coarse=coarse
        )

    def to_json(self) -> str:
        """Text that ``from_json`` reads, with a checksum."""
        return as_text(
            adjacency=self._adjacency,
            unknown_history=self._unknown_history,
            calibrated=self._calibrated,
            remarks=self.remarks.to_plain(),
            entries=[kept(entry, steps) for entry, steps in self._counts.items()],
        )

    @classmethod
    def from_json(cls, text: str) -> PrivacyLedger:
        """Reads what ``to_json`` wrote.

        Raises:
            InvalidData: If the text was cut, edited, or written by something else.
        """
        content = parse(text)
        place = "adjacency"
        try:
            ledger = cls(content.adjacency)
            for number, entry in enumerate(content.entries):
                place = f"entries.{number}"
                ledger._add(entry)
            place = "remarks"
            ledger.remarks = Remarks((place, words) for place, words in content.remarks)
            place = "calibrated"
            if content.calibrated is not None:
                ledger.calibrate(content.calibrated)
        except LipdpError as error:
            raise InvalidData(
                f"The ledger holds something impossible at {place}", fix=str(error)
            ) from error
        if content.unknown_history:
            ledger.mark_unknown()
        return ledger

    def _add(self, entry: KeptEntry) -> None:
        self._record(
            entry.sampling_rate,
            entry.noise_multiplier,
            entry.steps,
            entry.overflow_probability,
            Draw(*entry.draw),
            entry.purpose,
            entry.terms,
            entry.session,
        )
