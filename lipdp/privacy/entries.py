"""The accesses of a ledger, and the text that it is kept as."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, astuple, dataclass, fields
from typing import Any, NamedTuple

from lipdp.errors import InvalidData, InvalidValue
from lipdp.privacy.phase import MOST_STEPS, Draw, Phase

_FORMAT = "lipdp privacy ledger"
#: The version that is written, and one that is read too, which lacks how rows were chosen.
_VERSION, _EARLIER = 5, 4
_KEYS = {
    *("format", "version", "adjacency", "unknown_history", "calibrated"),
    *("remarks", "entries", "sha256"),
}


@dataclass(frozen=True)
class Terms:
    """What an access promises beside its numbers, and how its rows were chosen.

    All of it is public. What was not recorded is empty or 0.

    Attributes:
        unit: Whose records epsilon speaks of, ``"row"`` or ``"user"``.
        seeded: Whether draws and noise came from a seed, so that the access was not private; else
            they came from the operating system.
        secure: Whether the noise came from a cryptographic generator, on a grid.
        sampler: What drew the rows: a name of ``SAMPLERS``, or ``"stream"``.
        num_units: Number N of units.
        batch_size: Expected number b of units in a batch.
        rows_per_unit: Most rows m of a unit that take part; 0 if all of them do.
        capacity: Units that a padded batch holds.
        mechanism: What was released, in words.

    Raises:
        InvalidValue: If one of them has another type, or a number is negative.
    """

    unit: str = "row"
    seeded: bool = False
    secure: bool = False
    sampler: str = ""
    num_units: int = 0
    batch_size: int = 0
    rows_per_unit: int = 0
    capacity: int = 0
    mechanism: str = ""

    def __post_init__(self) -> None:
        counts = (self.num_units, self.batch_size, self.rows_per_unit, self.capacity)
        right = (
            all(type(text) is str for text in (self.unit, self.sampler, self.mechanism))
            and all(type(flag) is bool for flag in (self.seeded, self.secure))
            and all(type(count) is int and 0 <= count <= MOST_STEPS for count in counts)
        )
        if not right:
            raise InvalidValue("The terms of an access have a wrong type or number", received=self)


#: Of an access to rows that is as private as it says.
ROWS = Terms()


class Entry(NamedTuple):
    """Equal accesses of one session, as the ledger tells them apart."""

    purpose: str
    sampling_rate: float
    noise_multiplier: float
    draw: Draw
    price: float
    terms: Terms
    session: str

    def phase(self, steps: int) -> Phase:
        """So many of them, as the accountant takes them."""
        return Phase(self.sampling_rate, self.noise_multiplier, steps, self.draw)


def to_plain(entry: Entry, steps: int) -> dict[str, Any]:
    """An entry and its count, as JSON has them."""
    return {
        "purpose": entry.purpose,
        "draw": list(astuple(entry.draw)),
        "sampling_rate": entry.sampling_rate,
        "noise_multiplier": entry.noise_multiplier,
        "overflow_probability": entry.price,
        "steps": steps,
        "terms": asdict(entry.terms),
        "session": entry.session,
    }


def as_text(**content: Any) -> str:
    """JSON of adjacency, unknown_history, calibrated, remarks and entries, with a checksum."""
    whole = {"format": _FORMAT, "version": _VERSION, **content}
    return json.dumps({**whole, "sha256": _checksum(whole)})


def parse(text: str) -> dict[str, Any]:
    """What ``as_text`` was given, from its text; entries are not looked at.

    Raises:
        InvalidData: If the text was cut, edited, or written by something else.
    """
    try:
        content = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal("is not whole", str(error)) from error
    if not isinstance(content, dict) or set(content) != _KEYS:
        raise _refusal("lacks or adds fields", content)
    checksum = content.pop("sha256")
    if content["format"] != _FORMAT or content["version"] not in (_VERSION, _EARLIER):
        raise _refusal("has another format", (content["format"], content["version"]))
    if checksum != _checksum(content):
        raise _refusal("does not match its checksum", checksum)
    if not isinstance(content["unknown_history"], bool):
        raise _refusal("has a wrong unknown_history", content["unknown_history"])
    if not isinstance(content["entries"], list) or not isinstance(content["adjacency"], str):
        raise _refusal("has wrong types", content)
    return content


def check_types(plain: dict[str, Any], version: int) -> None:
    """Refuses an entry of other fields or types than ``to_plain`` of that version makes.

    Raises:
        InvalidData: If it is one.
    """
    numbers = ("sampling_rate", "noise_multiplier", "overflow_probability")
    steps, draw, terms = plain["steps"], plain["draw"], plain["terms"]
    right = (
        all(type(plain[name]) in (int, float) for name in numbers)
        and (type(steps) is int and 1 <= steps <= MOST_STEPS)
        and (isinstance(draw, list) and len(draw) == len(fields(Draw)))
        and isinstance(plain["purpose"], str)
        and isinstance(plain["session"], str)
        and (isinstance(terms, dict) and list(terms) == _terms_of(version))
    )
    if not right or len(plain) != len(numbers) + 5:
        raise InvalidData("A ledger entry lacks a field or has a wrong type", received=plain)


def _terms_of(version: int) -> list[str]:
    """Names of the terms, in their order."""
    names = [one.name for one in fields(Terms)]
    return names if version == _VERSION else names[:3]


def _refusal(what: str, received: object) -> InvalidData:
    return InvalidData(
        f"The privacy ledger {what}",
        received=received,
        fix="Restore the file from the run that wrote it; privacy spent cannot be reconstructed",
    )


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
