"""What was spent: counts of steps that only ever grow."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from lipdp.errors import InvalidData, InvalidValue, LipdpError
from lipdp.privacy.accountants import Accounted, account, check_adjacency
from lipdp.privacy.phase import Phase, check_delta, is_number, merge_phases

_FORMAT = "lipdp privacy ledger"
_VERSION = 1
_KEYS = {"format", "version", "adjacency", "unknown_history", "entries", "sha256"}


class PrivacyLedger:
    """Append-only record of the private steps taken on one data set.

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
        self._counts: dict[tuple[float, float, float], int] = {}

    def record(
        self,
        sampling_rate: float,
        noise_multiplier: float,
        steps: int = 1,
        *,
        overflow_probability: float = 0.0,
    ) -> None:
        """Adds steps. Another access by the Gaussian mechanism is a step of sampling rate 1.

        Args:
            sampling_rate: Probability that one row entered a batch.
            noise_multiplier: Standard deviation over sensitivity.
            steps: How many equal steps.
            overflow_probability: Price in delta of one step; see ``Capacity``.

        Raises:
            InvalidValue: If an argument is outside its domain.
        """
        phase = Phase(sampling_rate, noise_multiplier, steps)
        if not is_number(overflow_probability) or not 0.0 <= overflow_probability <= 1.0:
            raise InvalidValue(
                "The overflow probability must lie in [0, 1]", received=overflow_probability
            )
        key = (phase.sampling_rate, phase.noise_multiplier, float(overflow_probability))
        if phase.steps:
            self._counts[key] = self._counts.get(key, 0) + phase.steps

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
        for key, steps in other._counts.items():
            self._counts[key] = max(steps, self._counts.get(key, 0))

    @property
    def adjacency(self) -> str:
        """Relation between neighbouring data sets."""
        return self._adjacency

    @property
    def unknown_history(self) -> bool:
        """Whether there was access that nobody recorded."""
        return self._unknown_history

    @property
    def steps(self) -> int:
        """Number of steps recorded."""
        return sum(self._counts.values())

    @property
    def phases(self) -> tuple[Phase, ...]:
        """What was recorded, equal steps added up."""
        return merge_phases(Phase(q, z, steps) for (q, z, _), steps in self._counts.items())

    @property
    def overflow_delta(self) -> float:
        """Price in delta of the overflow of all steps so far."""
        total = math.fsum(steps * price for (_, _, price), steps in self._counts.items())
        return total * (1.0 + 2.0**-50)

    def epsilon(self, delta: float, *, accountant: str = "pld") -> float:
        """Epsilon of everything recorded; infinite if delta is used up or history is unknown.

        Args:
            delta: The delta of the whole guarantee, overflow included.
            accountant: ``"pld"`` or ``"rdp"``.
        """
        return self.account(delta, accountant=accountant).epsilon

    def account(self, delta: float, *, accountant: str = "pld") -> Accounted:
        """Like ``epsilon``, with the name of the computation that gave it."""
        check_delta(delta)
        if self._unknown_history:
            return Accounted(math.inf, "unknown history")
        left = delta - self.overflow_delta
        if left <= 0.0:
            return Accounted(math.inf, "delta used up by overflow")
        return account(self.phases, left, accountant=accountant, adjacency=self._adjacency)

    def to_json(self) -> str:
        """Text that ``from_json`` reads, with a checksum."""
        content = self._content()
        return json.dumps({**content, "sha256": _checksum(content)})

    def _content(self) -> dict[str, Any]:
        entries = [[*key, steps] for key, steps in sorted(self._counts.items())]
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "adjacency": self._adjacency,
            "unknown_history": self._unknown_history,
            "entries": entries,
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
            for sampling_rate, noise_multiplier, price, steps in content["entries"]:
                _check_types(sampling_rate, noise_multiplier, price, steps)
                ledger.record(sampling_rate, noise_multiplier, steps, overflow_probability=price)
        except (LipdpError, TypeError, ValueError) as error:
            raise InvalidData("The ledger holds an impossible entry", fix=str(error)) from error
        if content["unknown_history"]:
            ledger.mark_unknown()
        return ledger


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


def _check_types(sampling_rate: Any, noise_multiplier: Any, price: Any, steps: Any) -> None:
    numbers = all(type(value) in (int, float) for value in (sampling_rate, noise_multiplier, price))
    if not numbers or type(steps) is not int or steps < 1:
        raise InvalidData("A ledger entry needs three numbers and a count of steps")


def _refusal(what: str, received: object) -> InvalidData:
    return InvalidData(
        f"The privacy ledger {what}",
        received=received,
        fix="Restore the file from the run that wrote it; privacy spent cannot be reconstructed",
    )


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
