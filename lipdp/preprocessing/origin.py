"""Errors that say which file they are about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lipdp.errors import InvalidValue


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
