"""How every figure of a report looks, and how it becomes inline SVG."""

from __future__ import annotations

import io
import math
import re
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#1f5fa8", "#b4500a", "#5c6670"
#: Colours that colour-blind people tell apart, each with a marker and a dash of its own.
LOOKS: tuple[tuple[str, str, Any], ...] = (
    (BLUE, "o", "-"),
    (ORANGE, "s", "--"),
    ("#0b7a5c", "^", "-."),
    ("#8a3a8f", "D", (0, (1, 1))),
    ("#3d4349", "v", (0, (5, 1, 1, 1, 1, 1))),
    ("#8f6a00", "P", (0, (7, 2))),
)
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lipdp",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.edgecolor": "#9aa3ab",
    "grid.color": "#e4e7ea",
    "legend.frameon": False,
    # Names are text, whatever they look like.
    "text.parse_math": False,
}


def finite(points: Any) -> list[tuple[float, float]]:
    """The pairs of finite numbers among pairs of anything."""
    kept = ((x, y) for x, y in points if x is not None and y is not None)
    pairs = ((float(x), float(y)) for x, y in kept)
    return [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]


def style() -> Any:
    """A context in which matplotlib draws in the style of the reports."""
    import matplotlib

    return matplotlib.rc_context(_STYLE)


def new_figure(height: float, width: float = 5.6) -> Figure:
    """An empty figure; sizes in inches, of which a page shows about 107 pixels."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def to_svg(figure: Figure, name: str, description: str) -> str:
    """The figure as an element for HTML: no prolog, no links, its ids apart from other figures'."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    head, body = text.split(">", 1)
    view = re.search(r'viewBox="[^"]*"', head)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(url\(|href=")#', rf"\g<1>#{name}-", body)
    frame = view.group(0) if view else ""
    return f'<svg {frame} role="img" aria-label="{escape(description)}">{body}'
