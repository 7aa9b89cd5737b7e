"""What a conversion changed, in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """One layer that a converted model has in another form.

    Attributes:
        layer: Its name in the given model.
        was: What it was.
        now: What stands in its place, in order; empty if nothing does.
        why: The reason, and what it means.
    """

    layer: str
    was: str
    now: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.layer}: {self.was} -> {' + '.join(self.now) or 'nothing'} ({self.why})"
