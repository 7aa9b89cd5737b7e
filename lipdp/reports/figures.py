"""Figures of a report, drawn by matplotlib and returned as inline SVG."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lipdp.reports.certified import certified_by_radius
from lipdp.reports.drawing import BLUE, GREY, LOOKS, ORANGE, finite, new_figure, style, to_svg
from lipdp.results import RunResult

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

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
