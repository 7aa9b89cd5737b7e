"""How close an adversarial search comes to the bound of every part.

Run: python -m benchmarks.tightness
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from lipdp.testing import Tightness
from lipdp.testing.parts import KERAS_LAYERS, LAYERS, LOSSES, PROJECTIONS, LayerPart

TARGET = Path(__file__).parent.parent / "docs" / "tightness.md"

HEAD = """# How tight the bounds are

Written by `python -m benchmarks.tightness`. Each row is one part, and the greatest ratio of a
measured value to its proved bound (rounding slack included) that the harnesses of `lipdp.testing`
found in float32, at the inputs, cotangents, labels and weights that they try. No ratio can be above
1: the harness would raise `BoundViolation`. A ratio below 1 means that the bound is loose, or that
the search did not find the worst case; 0 stands for nothing to measure (ids have no gradient).
Ratios are rounded down.
"""

Row = tuple[str, str, str, float]


def rounded_down(ratio: float) -> str:
    """Four digits, never more than the ratio."""
    return f"{math.floor(ratio * 1e4) / 1e4:.4f}"


def described(ratios: Mapping[str, float]) -> str:
    """All quantities with their ratios."""
    return ", ".join(f"{name} {rounded_down(ratio)}" for name, ratio in ratios.items())


def row(name: str, where: str, found: Tightness) -> Row:
    """One row of a table."""
    click.echo(f"{name} at {where}: {found.best:.6f}")
    return name, where, described(found.ratios), found.best


def layer_rows(parts: tuple[LayerPart, ...]) -> Iterator[Row]:
    """Layers at their shapes."""
    for part in parts:
        yield row(part.name, f"{part.shape}, radius {part.radius:g}", part.check())


def loss_rows() -> Iterator[Row]:
    """Losses at the bounds of the logits, the greatest ratio over kinds of labels."""
    for part in LOSSES:
        for bound in part.logit_bounds:
            found = part.check(bound)
            kinds = {"inside": 0.0, "extreme logits": 0.0}
            for name, ratio in found.ratios.items():
                kind = "extreme logits" if name.endswith("extreme logits") else "inside"
                kinds[kind] = max(kinds[kind], ratio)
            where = f"{part.outputs} logits within {bound:g}"
            yield row(part.name, where, Tightness(found.part, kinds))


def projection_rows() -> Iterator[Row]:
    """Projections at the first of their shapes."""
    for part in PROJECTIONS:
        yield row(part.name, str(part.shapes[0]), part.check(part.shapes[0]))


def table(title: str, where: str, rows: Iterator[Row]) -> str:
    """A section of the page."""
    lines = [f"\n## {title}\n", f"| part | {where} | ratios | best |", "|---|---|---|---|"]
    lines += [f"| {n} | {w} | {r} | {rounded_down(best)} |" for n, w, r, best in rows]
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--output", type=click.Path(path_type=Path), default=TARGET, show_default=True)
def main(output: Path) -> None:
    """Runs every harness and writes docs/tightness.md."""
    sections = [
        table("Layers", "sample", layer_rows(LAYERS)),
        table("Plain Keras layers", "sample", layer_rows(KERAS_LAYERS)),
        table("Losses", "logits", loss_rows()),
        table("Projections", "weight", projection_rows()),
    ]
    output.write_text(HEAD + "".join(sections))


if __name__ == "__main__":
    main()
