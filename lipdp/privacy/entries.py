"""The accesses of a ledger, and the text that it is kept as."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    ValidationError,
    ValidationInfo,
)
from pydantic.dataclasses import dataclass

from lipdp.errors import InvalidData
from lipdp.privacy.phase import MOST_STEPS, Draw, Phase

_FORMAT = "lipdp privacy ledger"
_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True)
_Count = Annotated[int, Field(strict=True, ge=0, le=MOST_STEPS)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
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
        ValidationError: If one of them has another type, or a number is negative.
    """

    unit: StrictStr = "row"
    seeded: StrictBool = False
    secure: StrictBool = False
    sampler: StrictStr = ""
    num_units: _Count = 0
    batch_size: _Count = 0
    rows_per_unit: _Count = 0
    capacity: _Count = 0
    mechanism: StrictStr = ""


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
    """Refuses terms of another version than the text's; none may be left to its default."""
    names = _TERMS[info.context or _VERSION]
    if isinstance(terms, dict) and tuple(terms) != names:
        raise ValueError(f"this version records {', '.join(names)}")
    return terms


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
