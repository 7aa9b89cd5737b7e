"""Sections of a configuration: frozen, no unknown keys, one kind of error."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from lipdp.errors import InvalidConfig

#: So many problems are told at once.
_SHOWN = 3


class Section(BaseModel):
    """A section that refuses keys it does not know, and says which it does."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            for key in given:
                if key not in cls.model_fields:
                    raise _unknown(str(key), given[key], list(cls.model_fields))
        return given


class Document(Section):
    """A section that stands alone: whatever is wrong in it is one ``InvalidConfig``.

    Raises:
        InvalidConfig: If a key is unknown or missing, or a value is outside its domain.
    """

    def __init__(self, /, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise _explain(error, given) from None


def _unknown(key: str, value: object, allowed: list[str]) -> PydanticCustomError:
    close = difflib.get_close_matches(key, allowed, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    message = f"there is no such key; {hint}allowed: {', '.join(allowed)}"
    # The message must not be read as a template: keys may contain braces.
    return PydanticCustomError("unknown_key", "{text}", {"text": message, "key": key, "at": value})


def _explain(error: ValidationError, given: Mapping[str, Any]) -> InvalidConfig:
    problems = [_problem(details, given) for details in error.errors(include_url=False)]
    if len(problems) == 1:
        path, message, value = problems[0]
        return InvalidConfig(f"{path}: {message}", received=value, fix=f"Change {path}")
    what = "; ".join(f"{path}: {message}" for path, message, _ in problems[:_SHOWN])
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return InvalidConfig(
        what + more,
        received={path: value for path, _, value in problems[:_SHOWN]},
        fix="Change these keys",
    )


def _problem(details: ErrorDetails, given: Mapping[str, Any]) -> tuple[str, str, object]:
    keys = _path(details, given)
    context = details.get("ctx", {})
    if details["type"] == "unknown_key":
        return ".".join([*keys, context["key"]]), details["msg"], context["at"]
    name = ".".join(keys) or "the file"
    if details["type"] == "missing":
        return name, "this key is required", None
    message = str(context["error"]) if details["type"] == "value_error" else details["msg"]
    return name, message, details["input"]


def _path(details: ErrorDetails, given: Any) -> list[str]:
    """The keys as written: pydantic's own marks, such as the member of a union, are left out."""
    keys = []
    for part in details["loc"]:
        inside = isinstance(given, Mapping) and part in given
        if inside or (isinstance(part, int) and isinstance(given, (list, tuple))):
            given = given[part]
            keys.append(str(part))
    if details["type"] == "missing":
        keys.append(str(details["loc"][-1]))
    return keys
