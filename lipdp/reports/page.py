"""From values to a page: the templates and how they write numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipdp.reports.methods import method_name
from lipdp.results.lines import digits_up

if TYPE_CHECKING:
    import jinja2


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
