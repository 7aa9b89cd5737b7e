"""The figure of docs/speed.md: time of private steps over plain ones, by batch size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Cells = Mapping[str, Mapping[str, Any]]
#: Contenders that are no private steps.
NOT_PRIVATE = ("plain", "lipschitz")


def lines(cells: Cells) -> Iterator[tuple[str, list[int], list[float]]]:
    """Batch sizes and ratios of each private step; skipped ones have no point."""
    names = dict.fromkeys(name for cell in cells.values() for name in cell if name != "skipped")
    for name in names:
        if name.startswith(NOT_PRIVATE):
            continue
        points = [
            (int(batch), cell[name]["wall_ratio"])
            for batch, cell in cells.items()
            if "wall_ratio" in cell.get(name, {})
        ]
        if points:
            batches, ratios = zip(*points, strict=True)
            yield name, list(batches), list(ratios)


def draw(found: Mapping[str, Mapping[str, Cells]], path: Path) -> None:
    """Draws a panel for each network.

    Args:
        found: Cells by framework by network.
        path: A PNG file.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    # A framework has one colour in all panels.
    colours = {
        name: f"C{number}"
        for number, name in enumerate(dict.fromkeys(name for one in found.values() for name in one))
    }
    for axes, (net, frameworks) in zip(
        figure.subplots(1, len(found), sharey=True, squeeze=False)[0], found.items(), strict=True
    ):
        axes.set(xscale="log", yscale="log", title=net, xlabel="batch")
        axes.axhline(1.0, color="black", linewidth=0.8)
        for framework, cells in frameworks.items():
            own = framework.startswith("lipdp")
            for (name, batches, ratios), marker in zip(lines(cells), "osv^Dx*", strict=False):
                label = f"{framework}: {name.removeprefix('private ')}"
                style = {"linestyle": "-" if own else "--", "color": colours[framework]}
                axes.plot(batches, ratios, marker=marker, markersize=4, label=label, **style)
        axes.set_ylabel("time of a private step / plain step")
        axes.grid(which="both", alpha=0.2)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, bbox_inches="tight")
