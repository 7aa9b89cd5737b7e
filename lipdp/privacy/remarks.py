"""What statements must say beside the numbers of a ledger."""

from __future__ import annotations

from collections.abc import Iterable

from lipdp.errors import InvalidValue

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
