"""Figures over several runs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lipdp.reports.figures import GREY, LOOKS, finite, monitored_radius, new_figure, style, to_svg
from lipdp.reports.page import held_out, method_name, number_up
from lipdp.reports.sections import Cell, Section
from lipdp.reports.selection import best_by_epsilon, pareto_front, spread_out

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: More lines than looks cannot be told apart.
MOST_LINES = len(LOOKS)
_CURVES = (
    ("val_accuracy", "accuracy"),
    ("val_certified_accuracy", "certified accuracy"),
    ("epsilon", "epsilon spent"),
)
_REFERENCE_DASHES = ("--", ":", "-.")


def front_figure(section: Section, name: str) -> str:
    """Accuracy over epsilon: every cell, and the front of each method as steps.

    Returns:
        An ``<svg>`` element; empty if no run is private.
    """
    if not section.cells:
        return ""
    with style():
        figure = new_figure(4.3, 7.0)
        axis = figure.subplots()
        right = _epsilon_axis(axis, sorted({cell.epsilon for cell in section.cells}))
        methods = section.methods
        for i, (method, look) in enumerate(zip(methods, LOOKS, strict=False)):
            beside = 1.02 ** (2 * i - len(methods) + 1)
            _draw_steps(axis, section.of(method), look, beside, right)
            _draw_points(axis, section.of(method), look, beside, method_name(method))
        _draw_references(axis, section.references)
        axis.set_xlabel("epsilon (smaller protects more)")
        axis.set_ylabel(f"{held_out(section.everything[0].results[0])} accuracy")
        _share_axis(axis)
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
        return to_svg(figure, name, f"Test accuracy over epsilon on {section.data}")


def robustness_figure(section: Section, unit: str, name: str) -> str:
    """Certified accuracy over the radius, a line for the best cell at each epsilon.

    Methods stand side by side; the best reference is in each of them.

    Returns:
        An ``<svg>`` element; empty if nothing was certified in this unit.
    """
    cells = [cell for cell in best_by_epsilon(section.cells) if cell.radii(unit)]
    references = [cell for cell in section.references if cell.radii(unit)]
    reference = max(references, key=lambda cell: cell.accuracy.mean, default=None)
    methods = sorted({cell.method for cell in cells}) or sorted({c.method for c in references})
    if not methods:
        return ""
    levels = shown_levels(section)
    with style():
        figure = new_figure(4.0, 7.0)
        axes = figure.subplots(1, len(methods), squeeze=False, sharey=True)[0]
        for method, axis in zip(methods, axes, strict=True):
            same = [c for c in cells if c.method == method and c.epsilon in levels]
            _draw_robustness(axis, same, unit, levels)
            if reference is not None:
                x, y = _over_radii(reference, unit)
                axis.plot(x, y, color=GREY, linestyle=":", marker=".", label="no privacy")
            axis.set_title(method_name(method) if len(methods) > 1 else "", fontsize=10)
        _label_robustness(figure, axes, unit)
        return to_svg(figure, name, f"Certified accuracy over the radius on {section.data}")


def _draw_robustness(axis: Axes, cells: Sequence[Cell], unit: str, levels: Sequence[float]) -> None:
    for cell in cells:
        color, marker, dash = LOOKS[levels.index(cell.epsilon)]
        x, y = _over_radii(cell, unit)
        label = _level_name(cell)
        axis.plot(x, y, color=color, marker=marker, linestyle=dash, markersize=5, label=label)


def _over_radii(cell: Cell, unit: str) -> tuple[list[float], list[float]]:
    """Radii and mean certified accuracy; at radius 0 the accuracy."""
    known = {r: e.mean for r in cell.radii(unit) if (e := cell.certified(unit, r)) is not None}
    points = sorted({0.0: cell.accuracy.mean, **known}.items())
    return [x for x, _ in points], [y for _, y in points]


def _label_robustness(figure: Figure, axes: Sequence[Axes], unit: str) -> None:
    axes[0].set_ylim(0, 1.02)
    axes[0].set_ylabel("certified accuracy")
    _percent(axes[0])
    for axis in axes:
        axis.set_xlim(left=0)
        axis.locator_params(axis="x", nbins=3 if len(axes) > 1 else 6)
        axis.xaxis.set_major_formatter("{x:g}")
    figure.supxlabel(textwrap.fill(f"radius ({unit})", 80), fontsize=10)
    by_label: dict[Any, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        by_label.update(zip(labels, handles, strict=True))
    figure.legend(list(by_label.values()), list(by_label), loc="outside upper left", ncols=5)


def _level_name(cell: Cell) -> str:
    return f"ε = {number_up(cell.epsilon)}"


def shown_levels(section: Section) -> list[float]:
    """The epsilons that have lines of their own: all, or some from the least to the largest."""
    return spread_out(sorted({cell.epsilon for cell in section.cells}), MOST_LINES)


def learning_figures(section: Section, name: str) -> list[str]:
    """Held-out accuracy, certified accuracy and epsilon over the epochs, of each method.

    Returns:
        ``<svg>`` elements, without those that would show nothing.
    """
    levels = shown_levels(section)
    best = [cell for cell in best_by_epsilon(section.cells) if cell.epsilon in levels]
    found: list[str] = []
    for method in section.methods:
        for column, label in _CURVES:
            cells = [c for c in best if c.method == method and _curves(c, column)]
            if cells:
                at = _at_radius(cells) if column == "val_certified_accuracy" else ""
                of = f"{method_name(method)}: " if len(section.methods) > 1 else ""
                title = f"{of}{label}{at}"
                figure = _learning_panel(cells, column, title, levels)
                words = f"{title} over epochs on {section.data}"
                found.append(to_svg(figure, f"{name}{len(found)}", words))
    return found


def _at_radius(cells: Sequence[Cell]) -> str:
    """Where the cells were certified after each epoch, if it was one radius and is known."""
    radii = {monitored_radius(one) for cell in cells for one in cell.results}
    known = radii.pop() if len(radii) == 1 else None
    return "" if known is None else f" at {known:g}"


def _learning_panel(
    cells: Sequence[Cell], column: str, title: str, levels: Sequence[float]
) -> Figure:
    with style():
        figure = new_figure(3.2, 3.7)
        axis = figure.subplots()
        for cell in cells:
            look = LOOKS[levels.index(cell.epsilon)]
            _draw_curve(axis, cell, column, look, _level_name(cell))
        axis.set_title(title, fontsize=10, loc="left", pad=38 if len(cells) > 3 else 24)
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, columnspacing=1.2)
        axis.set_xlabel("epoch")
        axis.locator_params(axis="x", integer=True)
        if column != "epsilon":
            _share_axis(axis)
        return figure


def _epsilon_axis(axis: Axes, levels: Sequence[float]) -> float:
    """A logarithmic axis with plain numbers, if none is 0; returns its right end."""
    low, high = min(levels), max(levels)
    right = 1.3 * high or 1.0
    if low <= 0:
        axis.set_xlim(-0.05 * right, right)
        return right
    axis.set_xscale("log")
    if all(b > 1.2 * a for a, b in pairwise(levels)) and len(levels) <= 8:
        axis.set_xticks(levels, [number_up(level, 3) for level in levels])
    else:
        _plain_ticks(axis)
    axis.minorticks_off()
    axis.set_xlim(low / 1.3, right)
    return right


def _plain_ticks(axis: Axes) -> None:
    from matplotlib.ticker import LogLocator

    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.xaxis.set_major_formatter("{x:g}")


def _draw_steps(
    axis: Axes, cells: Sequence[Cell], look: tuple[str, str, Any], beside: float, right: float
) -> None:
    best = pareto_front(cells)
    x = [*(cell.epsilon * beside for cell in best), right]
    y = [cell.accuracy.mean for cell in best]
    axis.step(x, [*y, y[-1]], where="post", color=look[0], linestyle=look[2], linewidth=1.6)


def _draw_points(
    axis: Axes, cells: Sequence[Cell], look: tuple[str, str, Any], beside: float, label: str
) -> None:
    """Cells of the front large with their interval and single runs, the others small."""
    color, marker, dash = look
    best = pareto_front(cells)
    for cell in cells:
        chosen, x = cell in best, cell.epsilon * beside
        results = [one.test.accuracy for one in cell.results]
        if chosen and len(results) > 1:
            axis.plot([x] * len(results), results, "_", color=color, markersize=9, alpha=0.7)
        axis.errorbar(
            [x],
            [cell.accuracy.mean],
            yerr=_bar(cell) if chosen else None,
            color=color,
            marker=marker,
            markersize=7 if chosen else 4,
            markerfacecolor="#fff" if cell.not_private else color,
            alpha=1.0 if chosen else 0.6,
            capsize=4,
        )
    axis.plot([], [], color=color, marker=marker, linestyle=dash, markersize=7, label=label)


def _bar(cell: Cell) -> list[list[float]] | None:
    """Lengths of the interval below and above the mean, cut where no share can lie."""
    interval, mean = cell.accuracy.share_interval, cell.accuracy.mean
    if interval is None:
        return None
    return [[max(mean - interval[0], 0.0)], [max(interval[1] - mean, 0.0)]]


def _draw_references(axis: Axes, references: Sequence[Cell]) -> None:
    for cell, dash in zip(best_by_epsilon(references), _REFERENCE_DASHES, strict=False):
        label = method_name(cell.method, without_noise=True)
        axis.axhline(cell.accuracy.mean, color=GREY, linestyle=dash, label=label)


def _curves(cell: Cell, column: str) -> list[list[tuple[float, float]]]:
    """One list of (epoch, value) a run, without the runs that have none."""
    found = (_points(run.history, column) for run in cell.runs)
    return [points for points in found if points]


def _points(history: pd.DataFrame, column: str) -> list[tuple[float, float]]:
    if column not in history or "epoch" not in history:
        return []
    return finite(zip(history["epoch"].tolist(), history[column].tolist(), strict=True))


def _draw_curve(
    axis: Axes, cell: Cell, column: str, look: tuple[str, str, Any], label: str
) -> None:
    curves = _curves(cell, column)
    color, _, dash = look
    by_epoch: dict[float, list[float]] = {}
    for points in curves:
        if len(curves) > 1:
            axis.plot(*zip(*points, strict=True), color=color, linewidth=0.6, alpha=0.45)
        for epoch, value in points:
            by_epoch.setdefault(epoch, []).append(value)
    means = [(epoch, sum(v) / len(v)) for epoch, v in sorted(by_epoch.items())]
    x, y = zip(*means, strict=True) if means else ((), ())
    axis.plot(x, y, color=color, linestyle=dash, linewidth=1.8, label=label)


def _share_axis(axis: Axes) -> None:
    """An axis in percent that ends where shares end."""
    low, high = axis.get_ylim()
    axis.set_ylim(max(low, 0.0), min(high, 1.02))
    _percent(axis)


def _percent(axis: Axes) -> None:
    axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g} %")
