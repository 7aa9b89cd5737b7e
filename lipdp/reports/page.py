"""From values to a page: the templates and how they write numbers."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipdp.results import RunResult
from lipdp.results.lines import digits_up

if TYPE_CHECKING:
    import jinja2


def meaning(epsilon: float, delta: float, false_alarms: float = 0.01) -> dict[str, float]:
    """The factor e^epsilon, and the most true alarms that any membership test can raise.

    Source: the trade-off of (epsilon, delta)-privacy, Kairouz, Oh, Viswanath 2015, theorem 2.1:
    power <= min(delta + e^epsilon a, 1 - e^-epsilon (1 - delta - a)) at false alarm rate a.
    """
    factor = math.exp(epsilon) if epsilon < 700 else math.inf
    power = min(delta + factor * false_alarms, 1 - (1 - delta - false_alarms) / factor, 1.0)
    return {"factor": factor, "power": power}


_NAMES = {"clipless": "clipless", "dp-sgd": "DP-SGD", "none": "without privacy"}
_TITLES = {
    "clipless": "Private training with proved gradient bounds",
    "dp-sgd": "Private training with clipped gradients (DP-SGD)",
    "none": "Training without privacy",
}
_STEPS = {
    "clipless": "Each step takes a batch of rows, sums their gradients, adds Gaussian noise that is"
    " set by a proved bound of what one row, or one user, adds to the sum, and divides by the"
    " expected batch size. The statement says how batches are drawn.",
    "dp-sgd": "Each step takes a batch of rows, clips the gradient of each to a fixed norm, sums"
    " them, adds Gaussian noise that is set by this norm, and divides by the expected batch size."
    " The statement says how batches are drawn.",
    "none": "Each step takes a batch of rows, sums their gradients and divides by the expected"
    " batch size; no noise is added.",
}


def method_name(method: str, without_noise: bool = False) -> str:
    """The method in a word or two."""
    name = _NAMES.get(method, method)
    return f"{name}, no noise" if without_noise and method != "none" else name


def method_title(method: str) -> str:
    """What kind of training it was."""
    return _TITLES.get(method, f"Training by {method}")


def method_steps(method: str) -> str:
    """What a step does, in a sentence."""
    return _STEPS.get(method, "")


def held_out(result: RunResult) -> str:
    """Which rows measured it: "test", or "validation" where the test rows stayed unread."""
    return "validation" if _data(result).get("validation_fraction") is not None else "test"


def protects_users(result: RunResult) -> bool:
    """Whether the unit of privacy is a user with all their rows, rather than a row."""
    return bool(_data(result).get("group"))


def _data(result: RunResult) -> dict[str, Any]:
    found = result.config.get("data")
    return found if isinstance(found, dict) else {}


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


def plain(value: Any) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def percent(value: float | None) -> str:
    """A share in percent with one decimal."""
    return "n/a" if value is None else f"{100 * value:.1f}\u00a0%"


def percent_up(value: float) -> str:
    """A bound from above: rounded up, so that it stays one."""
    return f"{min(math.ceil(1000 * value) / 10, 100):.1f}\u00a0%"


def number(value: Any) -> str:
    """Four significant digits; whole numbers in full."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "n/a" if value is None else plain(value)
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    if not math.isfinite(value):
        return "∞" if value > 0 else str(value)
    return f"{value:.4g}"


def ratio(value: float | None) -> str:
    """Four decimals, so that the numbers of a column have equally many."""
    return "n/a" if value is None else f"{value:.4f}"


def number_up(value: float, digits: int = 4) -> str:
    """Significant digits of a bound from above, rounded up so that it stays one."""
    return digits_up(value, digits) if math.isfinite(value) else number(float(value))


def duration(seconds: float) -> str:
    """Seconds, or minutes or hours where that reads better."""
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"


def memory(size: float | None) -> str:
    """Bytes in decimal units."""
    if size is None:
        return "n/a"
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def environment() -> jinja2.Environment:
    """The templates, escaping every value, with the filters that write numbers."""
    import jinja2

    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for written in (
        percent,
        percent_up,
        number,
        number_up,
        ratio,
        duration,
        memory,
        method_name,
    ):
        found.filters[written.__name__] = written
    return found
