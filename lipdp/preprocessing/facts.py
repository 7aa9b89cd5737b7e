"""Public facts that are written the same way for every kind of data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from lipdp.config import Document
from lipdp.errors import InvalidValue
from lipdp.preprocessing.values import as_text


@contextmanager
def about(place: str) -> Iterator[None]:
    """Puts a place before the message of an ``InvalidValue`` that is raised inside.

    Args:
        place: Such as the path of a file; "" leaves messages as they are.
    """
    try:
        yield
    except InvalidValue as error:
        if place:
            # The error stays the same object: its kind, its fix and its traceback are kept.
            error.what, error.message = f"{place}: {error.what}", f"{place}: {error.message}"
            error.args = (error.message,)
        raise


# Pydantic gives each frozen model a hash of its fields.
class PublicFacts(Document):  # noqa: PLW1641
    """Facts that remember the file they were read from, to name it in errors.

    The file is no fact: equal facts of two files are equal.
    """

    _origin: str = PrivateAttr("")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def read_from(self, path: str | Path) -> Self:
        """Remembers the file; returns the same facts."""
        self._origin = str(path)
        return self

    def naming(self, data: str = "") -> AbstractContextManager[None]:
        """Errors inside begin with the file of these facts, if there is one.

        Args:
            data: The file of the rows that they are about, which is then named too.
        """
        if data and self._origin:
            return about(f"{data} (schema {self._origin})")
        return about(f"Schema {self._origin}" if self._origin else data)


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


def _check_classes(classes: tuple[str, ...]) -> tuple[str, ...]:
    """Refuses a blank list of classes, and one of fewer than two different values."""
    if not classes:
        raise ValueError(
            'the classes are blank; write classes = ["no", "yes"], every label value in the '
            "order of the class ids, from public knowledge"
        )
    if len(set(classes)) < max(2, len(classes)):
        raise ValueError(f"the classes must be two or more values, not {list(classes)}")
    return classes


#: Checked as a key of its own, so that it is told together with other blank keys.
Classes = Annotated[tuple[Label, ...], AfterValidator(_check_classes)]
