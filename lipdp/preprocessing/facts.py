"""Public facts that are written the same way for every kind of data."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from lipdp.preprocessing.cells import as_text


def _label(value: object) -> str:
    if not isinstance(value, str | int | float):
        raise ValueError("write text, a number or a boolean")
    return as_text(value)


def given(value: object) -> object:
    """Refuses the empty list that a blank schema holds."""
    if value == []:
        raise ValueError("it is blank; write a number, a public fact")
    return value


Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
FilledNumber = Annotated[Number, BeforeValidator(given)]
Label = Annotated[str, BeforeValidator(_label)]


def check_classes(classes: tuple[str, ...]) -> None:
    """Refuses a blank list of classes, and one of fewer than two different values."""
    if not classes:
        raise ValueError(
            'the classes are blank; write classes = ["no", "yes"], every label value in the '
            "order of the class ids, from public knowledge"
        )
    if len(set(classes)) < max(2, len(classes)):
        raise ValueError(f"the classes must be two or more values, not {list(classes)}")
