"""The privacy statement, written for a terminal, taken apart for a page."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FACT = re.compile(r"  (\S[^:]*):\s+(.*)")
_POINT = "  - "
_GO_ON = "    "


@dataclass(frozen=True)
class Block:
    """Lines that belong together; any part may be empty.

    Attributes:
        text: A paragraph, or the heading of what follows.
        facts: Pairs of name and value.
        points: Points of a list.
    """

    text: str
    facts: tuple[tuple[str, str], ...]
    points: tuple[str, ...]


def statement_blocks(statement: str) -> list[Block]:
    """Splits a statement at its blank lines; every word stays, in its order.

    In a block, text comes first; ``  name: value`` is a fact, ``  - point`` a point, and a line
    that is indented further goes on with the point before it.
    """
    return [_block(part.splitlines()) for part in re.split(r"\n\s*\n", statement) if part.strip()]


def _block(lines: list[str]) -> Block:
    text: list[str] = []
    facts: list[tuple[str, str]] = []
    points: list[str] = []
    for line in lines:
        fact = _FACT.fullmatch(line)
        if line.startswith(_POINT):
            points.append(line.removeprefix(_POINT))
        elif points and line.startswith(_GO_ON):
            points[-1] += f" {line.strip()}"
        elif fact and not points:
            facts.append((fact[1], fact[2]))
        elif facts or points:
            # Not the format that is known: nothing may be lost or change its place.
            return Block(" ".join(line.strip() for line in lines), (), ())
        else:
            text.append(line.strip())
    return Block(" ".join(text), tuple(facts), tuple(points))
