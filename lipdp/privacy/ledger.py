"""What was spent: counts of steps that only ever grow."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import astuple, fields
from typing import Any, NamedTuple

from lipdp.errors import InvalidData, InvalidValue, LipdpError
from lipdp.privacy.accountants import Accounted, account, check_draws
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

_FORMAT = "lipdp privacy ledger"
_VERSION = 2
_KEYS = {"format", "version", "adjacency", "unknown_history", "calibrated", "entries", "sha256"}

#: Purpose of the accesses that train a model; others are named in words.
TRAINING = "training"


class _Entry(NamedTuple):
    """Equal accesses, as the ledger tells them apart."""

    purpose: str
    sampling_rate: float
    noise_multiplier: float
    draw: Draw
    price: float

    def phase(self, steps: int) -> Phase:
        return Phase(self.sampling_rate, self.noise_multiplier, steps, self.draw)


class PrivacyLedger:
    """Append-only record of the private accesses to one data set.

    Guarantees:

    * Nothing is ever removed; reading changes nothing.
    * ``epsilon`` composes everything recorded, at delta minus the price of overflowing batches.
    * A text that was cut or edited is refused.

    Args:
        adjacency: Relation between neighbouring data sets that the steps are accounted under.
    """

    def __init__(self, adjacency: str = "add-remove") -> None:
        self._adjacency = check_adjacency(adjacency)
        self._unknown_history = False
        self._calibrated: float | None = None
        self._counts: dict[_Entry, int] = {}

    def record(
        self,
        sampling_rate: float,
        noise_multiplier: float,
        steps: int = 1,
        *,
        overflow_probability: float = 0.0,
        draw: Draw = POISSON,
        purpose: str = TRAINING,
    ) -> None:
        """Adds accesses. One to all rows, such as a private mean, has sampling rate 1.

        Args:
            sampling_rate: Probability that one row entered a batch.
            noise_multiplier: Standard deviation over sensitivity.
            steps: How many equal accesses.
            overflow_probability: Price in delta of one access; see ``Capacity``.
            draw: How the rows were chosen.
            purpose: ``"training"``, or what else the rows were used for, in words.

        Raises:
            InvalidValue: If an argument is outside its domain, or the draw is not accounted under
                the ledger's adjacency.
        """
        phase = Phase(sampling_rate, noise_multiplier, steps, draw)
        check_draws([phase], self._adjacency)
        if not isinstance(purpose, str) or not purpose.strip():
            raise InvalidValue("The purpose of an access must be said in words", received=purpose)
        if not is_number(overflow_probability) or not 0.0 <= overflow_probability <= 1.0:
            raise InvalidValue(
                "The overflow probability must lie in [0, 1]", received=overflow_probability
            )
        entry = _Entry(
            purpose, phase.sampling_rate, phase.noise_multiplier, draw, float(overflow_probability)
        )
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
        """Takes over another record of the same history; the larger count of each kind wins.

        For loading a checkpoint: an older one never rolls back what was spent.

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
        if self._calibrated is None:
            self._calibrated = other._calibrated
        for entry, steps in other._counts.items():
            self._counts[entry] = max(steps, self._counts.get(entry, 0))

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
    def other_accesses(self) -> tuple[str, ...]:
        """What else the rows were used for, with its noise."""
        return tuple(
            f"{entry.purpose}: {n} {'access' if n == 1 else 'accesses'} at noise multiplier"
            f" {entry.noise_multiplier:.6g}, inside epsilon"
            for entry, n in self._counts.items()
            if entry.purpose != TRAINING
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
        content = self._content()
        return json.dumps({**content, "sha256": _checksum(content)})

    def _content(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "adjacency": self._adjacency,
            "unknown_history": self._unknown_history,
            "calibrated": self._calibrated,
            "entries": [_to_plain(entry, steps) for entry, steps in self._counts.items()],
        }

    @classmethod
    def from_json(cls, text: str) -> PrivacyLedger:
        """Reads what ``to_json`` wrote.

        Raises:
            InvalidData: If the text was cut, edited, or written by something else.
        """
        content = _parse(text)
        try:
            ledger = cls(content["adjacency"])
            for plain in content["entries"]:
                ledger._add(plain)
            if content["calibrated"] is not None:
                ledger.calibrate(content["calibrated"])
        except (LipdpError, TypeError, ValueError, KeyError) as error:
            raise InvalidData("The ledger holds an impossible entry", fix=str(error)) from error
        if content["unknown_history"]:
            ledger.mark_unknown()
        return ledger

    def _add(self, plain: dict[str, Any]) -> None:
        _check_types(plain)
        self.record(
            plain["sampling_rate"],
            plain["noise_multiplier"],
            plain["steps"],
            overflow_probability=plain["overflow_probability"],
            draw=Draw(*plain["draw"]),
            purpose=plain["purpose"],
        )


def _to_plain(entry: _Entry, steps: int) -> dict[str, Any]:
    return {
        "purpose": entry.purpose,
        "draw": list(astuple(entry.draw)),
        "sampling_rate": entry.sampling_rate,
        "noise_multiplier": entry.noise_multiplier,
        "overflow_probability": entry.price,
        "steps": steps,
    }


def _parse(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal("is not whole", str(error)) from error
    if not isinstance(content, dict) or set(content) != _KEYS:
        raise _refusal("lacks or adds fields", content)
    checksum = content.pop("sha256")
    if (content["format"], content["version"]) != (_FORMAT, _VERSION):
        raise _refusal("has another format", (content["format"], content["version"]))
    if checksum != _checksum(content):
        raise _refusal("does not match its checksum", checksum)
    if not isinstance(content["unknown_history"], bool):
        raise _refusal("has a wrong unknown_history", content["unknown_history"])
    if not isinstance(content["entries"], list) or not isinstance(content["adjacency"], str):
        raise _refusal("has wrong types", content)
    return content


def _check_types(plain: dict[str, Any]) -> None:
    numbers = ("sampling_rate", "noise_multiplier", "overflow_probability")
    steps, draw = plain["steps"], plain["draw"]
    right = (
        all(type(plain[name]) in (int, float) for name in numbers)
        and (type(steps) is int and 1 <= steps <= MOST_STEPS)
        and (isinstance(draw, list) and len(draw) == len(fields(Draw)))
        and isinstance(plain["purpose"], str)
    )
    if not right or len(plain) != len(numbers) + 3:
        raise InvalidData("A ledger entry lacks a field or has a wrong type", received=plain)


def _refusal(what: str, received: object) -> InvalidData:
    return InvalidData(
        f"The privacy ledger {what}",
        received=received,
        fix="Restore the file from the run that wrote it; privacy spent cannot be reconstructed",
    )


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
