"""Figures of a report, drawn by matplotlib and returned as inline SVG."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from lipdp.results import Certified, RunResult

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
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


def certified_by_radius(result: RunResult) -> list[Certified]:
    """What was certified, each radius once, by radius; a configuration may repeat one."""
    found = {(c.unit, c.radius): c for c in result.certified}
    return sorted(found.values(), key=lambda c: c.radius)


def monitored_radius(result: RunResult) -> float | None:
    """The radius of the certified accuracy in the history: the first that was asked for."""
    section = result.config.get("certificates")
    radii = section.get("radii") if isinstance(section, dict) else None
    return float(radii[0]) if isinstance(radii, list) and radii else None


#: More variables than this make an unreadable figure; the table lists them all.
MAX_VARIABLES = 40


def training_figure(history: pd.DataFrame, name: str, radius: float | None = None) -> str:
    """Accuracy on held-out rows and epsilon over epochs, one panel each.

    Args:
        history: One row an epoch.
        name: Of the figure in its page.
        radius: At which accuracy was certified after each epoch, where that is known.

    Returns:
        An ``<svg>`` element; empty if the history has nothing finite to show.
    """
    panels = [p for p in _training_panels(history, radius) if p[1]]
    if not panels:
        return ""
    with style():
        figure = new_figure(1.0 + 1.45 * len(panels))
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axis, (label, lines) in zip(axes, panels, strict=True):
            _draw_lines(axis, lines)
            axis.set_ylabel(label)
        axes[-1].set_xlabel("epoch")
        axes[-1].xaxis.get_major_locator().set_params(integer=True)
        return to_svg(figure, name, "Held-out accuracy and epsilon over the epochs")


def certificate_figure(result: RunResult, name: str) -> str:
    """Accuracy and AUROC that stay true within each radius; radius 0 is the plain test metric.

    Returns:
        An ``<svg>`` element; empty if nothing was certified.
    """
    if not result.certified:
        return ""
    points = certified_by_radius(result)
    accuracy = [(0.0, result.test.accuracy), *((c.radius, c.accuracy) for c in points)]
    auroc = [(0.0, result.test.auroc), *((c.radius, c.auroc) for c in points)]
    lines = [("certified accuracy", finite(accuracy)), ("certified AUROC", finite(auroc))]
    with style():
        figure = new_figure(3.9)
        axis = figure.subplots()
        _draw_lines(axis, [line for line in lines if line[1]])
        axis.axhline(
            result.test.majority_accuracy, color=GREY, linestyle=":", label="majority class"
        )
        axis.set_ylim(0, 1.02)
        axis.set_xlim(left=0)
        label = textwrap.fill(f"radius ({points[0].unit})", 60)
        axis.set_xlabel(label)
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
        return to_svg(figure, name, "Certified accuracy and AUROC over the radius")


def noise_figure(variables: Sequence[dict[str, Any]], name: str) -> str:
    """Gradient bound and noise of each variable on one logarithmic axis.

    Returns:
        An ``<svg>`` element; empty if no variable has a positive finite bound or noise.
    """
    shown = [v for v in variables if _positive(v.get("bound")) or _positive(v.get("noise_stddev"))]
    shown = shown[:MAX_VARIABLES]
    if not shown:
        return ""
    with style():
        figure = new_figure(1.3 + 0.3 * len(shown))
        axis = figure.subplots()
        _draw_dots(axis, shown, "bound", BLUE, "o")
        _draw_dots(axis, shown, "noise_stddev", ORANGE, "D")
        labels = [_clip(f"{v.get('layer', '')}/{v.get('variable', '')}") for v in shown]
        axis.set_yticks(range(len(shown)), labels)
        axis.set_ylim(len(shown) - 0.4, -0.6)
        _log_axis(axis, shown)
        axis.set_xlabel("gradient units, summed over the batch")
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        return to_svg(figure, name, "Gradient bound and noise of each variable")


def _training_panels(
    history: pd.DataFrame, radius: float | None
) -> list[tuple[str, list[tuple[str, list[tuple[float, float]]]]]]:
    accuracy = [
        ("held-out accuracy", _column(history, "val_accuracy")),
        (
            "certified" if radius is None else f"certified at {radius:g}",
            _column(history, "val_certified_accuracy"),
        ),
    ]
    epsilon = [("epsilon spent", _column(history, "epsilon"))]
    return [
        ("accuracy", [line for line in accuracy if line[1]]),
        ("epsilon spent", [line for line in epsilon if line[1]]),
    ]


def _column(history: pd.DataFrame, column: str) -> list[tuple[float, float]]:
    if column not in history or "epoch" not in history:
        return []
    return finite(zip(history["epoch"].tolist(), history[column].tolist(), strict=True))


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 < value < math.inf


def _clip(text: str, limit: int = 34) -> str:
    return text if len(text) <= limit else "…" + text[-(limit - 1) :]


def _draw_lines(axis: Axes, lines: list[tuple[str, list[tuple[float, float]]]]) -> None:
    for (label, points), (color, marker, dash) in zip(lines, LOOKS, strict=False):
        x, y = zip(*points, strict=True)
        size = 4 if len(points) <= 60 else 0
        axis.plot(x, y, color=color, marker=marker, linestyle=dash, markersize=size, label=label)
    if len(lines) > 1:
        axis.legend(loc="best")


def _draw_dots(axis: Axes, rows: list[dict[str, Any]], key: str, color: str, marker: str) -> None:
    points = [(row[key], i) for i, row in enumerate(rows) if _positive(row.get(key))]
    if points:
        x, y = zip(*points, strict=True)
        label = "gradient bound" if key == "bound" else "noise (standard deviation)"
        axis.plot(x, y, color=color, marker=marker, linestyle="", markersize=6, label=label)


def _log_axis(axis: Axes, rows: list[dict[str, Any]]) -> None:
    """A logarithmic axis with plain numbers, also between the powers of ten of a short one."""
    from matplotlib.ticker import LogLocator

    values = [r[k] for r in rows for k in ("bound", "noise_stddev") if _positive(r.get(k))]
    few = max(values) < 100 * min(values)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.xaxis.set_major_formatter("{x:g}")
    narrow = max(values) < 2 * min(values)
    axis.xaxis.set_minor_formatter("{x:g}" if narrow else "")
