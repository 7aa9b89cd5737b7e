"""The accesses of a ledger, and the text that it is kept as."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)

from lipdp.errors import InvalidData, InvalidValue
from lipdp.privacy.phase import MOST_STEPS, Draw, Phase

_FORMAT = "lipdp privacy ledger"
_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True)


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


#: Terms that each version recorded. The last one is written, all are read; what one lacks is said
#: to be not recorded.
_TERMS: Mapping[int, tuple[str, ...]] = MappingProxyType(
    {4: ("unit", "seeded", "secure"), 5: tuple(one.name for one in fields(Terms))}
)
_VERSION = max(_TERMS)


def _recorded(terms: Any, info: ValidationInfo) -> Any:
    """Terms of the text's own version; none may be left to its default."""
    names = _TERMS[info.context or _VERSION]
    if not isinstance(terms, dict) or tuple(terms) != names:
        raise ValueError(f"this version records {', '.join(names)}")
    return Terms(**terms)


class KeptEntry(BaseModel):
    """Equal accesses as JSON has them."""

    model_config = _STRICT

    purpose: str
    draw: Annotated[list[Any], Field(min_length=3, max_length=3)]
    sampling_rate: float
    noise_multiplier: float
    overflow_probability: float
    steps: Annotated[int, Field(ge=1, le=MOST_STEPS)]
    terms: Annotated[Terms, BeforeValidator(_recorded)]
    session: str


class KeptLedger(BaseModel):
    """A ledger as JSON has it."""

    model_config = _STRICT

    format: str = _FORMAT
    version: int = _VERSION
    adjacency: str
    unknown_history: bool
    calibrated: float | None
    remarks: list[Annotated[list[str], Field(min_length=2, max_length=2)]]
    entries: list[KeptEntry]


def kept(entry: Entry, steps: int) -> KeptEntry:
    """An entry and its count."""
    return KeptEntry.model_construct(
        purpose=entry.purpose,
        draw=[entry.draw.name, entry.draw.num_examples, entry.draw.most_rows],
        sampling_rate=entry.sampling_rate,
        noise_multiplier=entry.noise_multiplier,
        overflow_probability=entry.price,
        steps=steps,
        terms=entry.terms,
        session=entry.session,
    )


def as_text(**content: Any) -> str:
    """JSON of the fields of a ``KeptLedger``, with a checksum."""
    whole = KeptLedger.model_construct(**content).model_dump()
    return json.dumps({**whole, "sha256": _checksum(whole)})


def parse(text: str) -> KeptLedger:
    """What ``as_text`` was given, from its text.

    Raises:
        InvalidData: If the text was cut, edited, or written by something else.
    """
    try:
        content = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal("is not whole", str(error)) from error
    if not isinstance(content, dict) or set(content) != {*KeptLedger.model_fields, "sha256"}:
        raise _refusal("lacks or adds fields", content)
    checksum, version = content.pop("sha256"), content["version"]
    if content["format"] != _FORMAT or version not in tuple(_TERMS):
        raise _refusal("has another format", (content["format"], version))
    if checksum != _checksum(content):
        raise _refusal("does not match its checksum", checksum)
    try:
        return KeptLedger.model_validate(content, context=version)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        place = ".".join(map(str, wrong["loc"]))
        raise _refusal(f"is wrong at {place}: {wrong['msg']}", wrong["input"]) from error


def _refusal(what: str, received: object) -> InvalidData:
    return InvalidData(
        f"The privacy ledger {what}",
        received=received,
        fix="Restore the file from the run that wrote it; privacy spent cannot be reconstructed",
    )


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
