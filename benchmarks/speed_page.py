"""Writes docs/speed.md and its figure from what lies in benchmarks/results.

Run: python -m benchmarks.speed_page
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from benchmarks import accounting, cells, certificates, end_to_end, sampler, scale, step_profile
from benchmarks.race import ROOT
from benchmarks.record import RESULTS, markdown
from benchmarks.speed_figure import draw

PAGE = ROOT / "docs" / "speed.md"
FIGURE = ROOT / "docs" / "pictures" / "speed.png"
Record = Mapping[str, Any]

HEAD = """# What privacy costs

Written by `python -m benchmarks` (or `python -m benchmarks.speed_page`, from the same results in
`benchmarks/results/`). Programs that are compared run in turns, so that what slows the machine
slows all of them; every ratio is the median over the turns of the ratio within a turn. Five turns
were asked for; where time was short there were fewer, and the table says how many: a ratio of one
turn may well be off by a tenth. Milliseconds are medians too, and hold for this machine alone.
What a later run had no time for stays as an earlier one measured it on such a machine, with the
same versions; `measured` in the JSON has the day of each cell.
"""

STEPS = """## Steps

Wall time of a step over that of a plain step of the same framework: ReLU, biases, SGD with momentum
0.9, no privacy. A private step includes drawing its batch, noise, projection and everything else
that `fit` does; where a layer's output would take over 32 MiB (8 MiB on JAX), that is to process
the batch in parts, as `fit` does by itself in host memory. A step without privacy takes its batch
as a whole, as Keras does: that a private one may be faster is due to this. `lipschitz` is the same
constrained network without noise. Other packages are compared with a plain step of their own
framework, which may take two or three times as long as another's: its milliseconds stand beside. A
cell whose step took over 20 s or whose process held over 8 GB says so instead, and a dash stands
where that befell the plain step: there is nothing to compare with. Memory, in the tables below, is
by how much the peak of a process grew since it stood ready for its first step, over that of the
plain process; in MB where the plain process grew by less than 10 MB. A private process holds the
accountant, too: for the MLP on JAX 40 MB of modules and plan when training begins, and 20 more once
an epsilon was computed (at 256 rows; it depends on no batch).
"""

#: Less than this a process may grow by chance: no ratio to it says anything.
_LEAST_MB = 10.0
FIGURE_LINE = "![Time of a private step over a plain one](pictures/speed.png)\n"

NETS = {
    "mlp": "MLP 784-256-256-10",
    "cnn": "CNN of 32 and 64 filters, dense 10, on 28 x 28",
}

#: Title, words and table of each of the other parts.
PARTS = {
    "end_to_end": (
        "From start to end",
        "`lipdp train`, a process from its start to its end, with its private noise and with "
        "`--method none`: the same Lipschitz network and rows, no privacy. MB is the peak of "
        "resident memory.",
        end_to_end.table,
    ),
    "step_parts_tensorflow": (
        "What the parts of a step cost: MLP on TensorFlow",
        "The private step with ReLU, and the same without some of its parts, over the plain step. "
        "What a part costs is by how much the ratio falls without it. New batches: the same one is "
        "read in every step instead. What is left without all of these is the network of "
        "`SpectralDense` with its loss. The cost of noise and projection does not grow with the "
        "batch: a normal for each of 268,800 weights, drawn in double precision and rounded, and "
        "one Björck step by Gram matrices, which has 0.22 of the multiplications of the plain step "
        "at 1,024 rows. So the ratio falls with the batch towards what is left without them.",
        cells.table,
    ),
    "step_parts_jax": (
        "What the parts of a step cost: MLP on JAX",
        "The same on JAX.",
        cells.table,
    ),
    "step_profile_mlp": (
        "Where the time of a step goes: MLP",
        "Milliseconds of all threads together, by TensorFlow's profiler, for the MLP with ReLU at "
        "1,024 rows. PyFunc draws and gathers the batches of a private training, beside its steps. "
        "Not in it: what is no operation of TensorFlow, such as the thread that draws noise.",
        step_profile.table,
    ),
    "step_profile_mlp-sorted": (
        "Where the time of a step goes: sorting",
        "The same for private MLPs at 8,192 rows. What MaxMin and GroupSort take longer than ReLU "
        "is in operations that compare and move numbers, forward and back: ReverseV2, which "
        "exchanges pairs, Greater, LogicalAnd and LogicalOr, which find those out of order, and "
        "SelectV2.",
        step_profile.table,
    ),
    "step_profile_cnn": (
        "Where the time of a step goes: CNN",
        "The same for the CNN. The plain network's convolutions are one operation with bias and "
        "activation, FusedConv2D. MaxMin is ReverseV2, Greater, LogicalAnd, LogicalOr and "
        "SelectV2; a pooling by the norm is Square, AvgPool and what follows it.",
        step_profile.table,
    ),
    "accounting": (
        "Accounting and calibration",
        "Every question is asked anew. Calibration is for epsilon 3, the curve has ten points. It "
        "asks cheap bounds first, then for 1, 2, 3 and 4 exact epsilons in these four settings; "
        "half of the time of one is dp-accounting's loop over its grid.",
        accounting.table,
    ),
    "certificates": (
        "Certificates",
        "Certified radii of rows against plain predictions of the same rows by the same model.",
        certificates.table,
    ),
    "sampler": (
        "Drawing rows",
        "Rows of 32 float32 columns in a file that is mapped into memory; 10,000,000 of them are "
        "1.3 GB. A private batch is drawn by Poisson sampling, read, and padded. A draw is of an "
        "exact binomial number, then of a uniform set of so many rows: it looks at no other rows.",
        sampler.table,
    ),
    "scale": (
        "Scale",
        "Growth is the exponent e of cost ~ value^e: 1 is linear. Steps are of MLPs of 2 hidden "
        "layers of 256 with 10 classes, of which one number is changed; those of plain networks "
        "stand beside, since the weights of a dense layer grow with the square of its width. A "
        "projection takes the cube of the width, at every batch alike: some 4/3 of a plain step's "
        "multiplications where the width is twice the batch. Beyond some 500 units it is in double "
        "precision, since float32 would take over one per cent off the norm.",
        scale.table,
    ),
}


def read(folder: Path, name: str) -> Record | None:
    """A result, or None if there is none."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def step_records(folder: Path, net: str) -> dict[str, Record]:
    """Results of steps by framework, this package's first."""
    prefix = f"step_time_{net}_"
    names = [path.stem.removeprefix(prefix) for path in sorted(folder.glob(f"{prefix}*.json"))]
    own = ("tensorflow", "jax", "torch")
    order = sorted(names, key=lambda name: (name not in own, name == "jax", name))
    return {name: record for name in order if (record := read(folder, prefix + name))}


def title(framework: str) -> str:
    """What the tables call it."""
    own = framework in ("tensorflow", "jax", "torch")
    return f"lipdp on {framework}" if own else framework


def memory_table(found: Mapping[str, cells.Cell]) -> str:
    """Growth of the peaks over that of the plain process, or in MB where that grew by little."""
    names = [name for name in cells.names(found) if name != "plain"]
    rows = [[batch, *(_memory(one, name) for name in names)] for batch, one in found.items()]
    return markdown(["batch", *names], rows)


def peak_table(found: Mapping[str, cells.Cell]) -> str:
    """The most memory of a private process over that of the same network without privacy."""
    styles = [n.removeprefix("private ") for n in cells.names(found) if n.startswith("private ")]
    rows = [[batch, *(_peak(one, style) for style in styles)] for batch, one in found.items()]
    return markdown(["batch", *styles], rows) if styles else ""


def _peak(cell: cells.Cell, style: str) -> str:
    whole = style.split(",", maxsplit=1)[0]
    private, other = (
        cell.get(name, {}).get("peak_mb") for name in (f"private {style}", f"lipschitz {whole}")
    )
    return "-" if private is None or other is None else f"{private / other:.2f}"


def _memory(cell: cells.Cell, name: str) -> str:
    grown, plain = (cell.get(one, {}).get("growth_mb") for one in (name, "plain"))
    if grown is None or plain is None:
        return cells.ratio(cell, name, "growth_mb" if grown is None else "memory_ratio")
    return f"{grown / plain:.2f}" if plain >= _LEAST_MB else f"{grown:.0f} MB"


def step_sections(folder: Path) -> Iterator[str]:
    """Both networks, framework by framework."""
    for net, described in NETS.items():
        records = step_records(folder, net)
        if records:
            yield f"### {described}\n"
        for framework, record in records.items():
            yield f"{title(framework)}, times ({said_origin(record)}):\n"
            yield cells.table(record["cells"])
            yield "Memory:\n"
            yield memory_table(record["cells"])
            if peaks := peak_table(record["cells"]):
                yield "Most memory of a process, private over lipschitz:\n"
                yield peaks


def other_sections(folder: Path) -> Iterator[str]:
    """What is not about steps."""
    for name, (heading, words, table) in PARTS.items():
        record = read(folder, name)
        if record:
            yield f"## {heading}\n"
            yield f"{words} ({said_origin(record)})\n"
            yield table(record["cells"])


def said_origin(record: Record) -> str:
    """The processor, and all versions that are known."""
    known = [f"{name} {number}" for name, number in record["versions"].items() if number]
    return ", ".join([record["machine"]["processor"], *known])


def machines(folder: Path) -> str:
    """The machines that results name; one line if it was one."""
    names = (f"step_time_{net}_{f}" for net in NETS for f in step_records(folder, net))
    records = [record for name in (*names, *PARTS) if (record := read(folder, name))]
    found = {
        f"Machine: {one['processor']}, {one['cores']} cores, {one['memory_gib']} GiB of memory, "
        f"{one['system']}."
        for one in (record["machine"] for record in records)
    }
    return "\n".join(sorted(found)) + "\n"


def page(folder: Path) -> str:
    """The whole page."""
    steps = list(step_sections(folder))
    parts = [HEAD, machines(folder)]
    if steps:
        parts += [STEPS, FIGURE_LINE, *steps]
    return "\n".join([*parts, *other_sections(folder)])


@click.command()
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=PAGE, show_default=True)
@click.option("--figure", type=click.Path(path_type=Path), default=FIGURE, show_default=True)
def main(results: Path, output: Path, figure: Path) -> None:
    """Writes the page, and the figure if steps were measured."""
    output.write_text(page(results), encoding="utf-8")
    found = {
        described: {title(name): one["cells"] for name, one in step_records(results, net).items()}
        for net, described in NETS.items()
    }
    if any(found.values()):
        draw(found, figure)


if __name__ == "__main__":
    main()
