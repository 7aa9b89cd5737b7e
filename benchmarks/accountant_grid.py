"""Epsilon at 1,000 random settings: time, memory, monotony, and lower bounds of the truth.

Each setting is answered in one process whose peak memory is reset before; then it is compared with
a neighbour (one parameter 10 % larger, in turn), with the closed form of the full batch, and where
the losses fit with an independent composition (``benchmarks.independent``).

Run: python -m benchmarks.accountant_grid
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path

import click
import numpy as np

from benchmarks.independent import composed, gaussian
from lipdp.privacy import Phase, account, epsilon

RESULTS = Path(__file__).parent / "results"
SEED = 20_240_601
PACKAGES = ("dp-accounting", "numpy", "scipy", "lipdp")
PARAMETERS = ("rate", "noise", "steps", "delta")
COLUMNS = [
    *PARAMETERS,
    "epsilon",
    "independent",
    "neighbour",
    "changed",
    "seconds",
    "MiB",
    "method",
]
#: Noise above which fewer Renyi orders are tried, and by what an epsilon may rise there.
FEWER_ORDERS, ALLOWED_RISE = (4.0, 30.0), 1.01
#: The independent composition is the true value up to this.
ACCURACY = 2e-4
MOST_SECONDS = 10.0
MOST_BYTES = 2**30


@dataclass(frozen=True)
class Setting:
    """Sampling rate, noise multiplier, number of steps, delta."""

    rate: float
    noise: float
    steps: int
    delta: float

    def epsilon(self) -> float:
        """By the package."""
        return epsilon(self.rate, self.noise, self.steps, self.delta)


@dataclass(frozen=True)
class Answer:
    """What was found at a setting.

    Attributes:
        setting: The setting.
        epsilon: By the package.
        method: Which computation gave it.
        seconds: How long it took.
        peak: Most bytes that the process held meanwhile.
        changed: The parameter that the neighbour has larger.
        neighbour: Epsilon there.
        full_batch: Epsilon with all rows in every step, by the package.
        closed_form: The same, by an independent closed form.
        independent: Epsilon by an independent composition; None where its grid does not serve.
    """

    setting: Setting
    epsilon: float
    method: str
    seconds: float
    peak: int
    changed: str
    neighbour: float
    full_batch: float
    closed_form: float
    independent: float | None

    def row(self) -> list[object]:
        """The columns, with seven digits."""
        numbers = (*asdict(self.setting).values(), self.epsilon, self.independent, self.neighbour)
        short = [float(f"{n:.7g}") if isinstance(n, float) else n for n in numbers]
        return [*short, self.changed, round(self.seconds, 3), self.peak // 2**20, self.method]

    @property
    def faults(self) -> list[str]:
        """What is wrong, in words."""
        checks = {
            "is negative, infinite or no number": 0.0 <= self.epsilon < math.inf,
            f"took more than {MOST_SECONDS:g} s": self.seconds <= MOST_SECONDS,
            "took more than 1 GiB": self.peak <= MOST_BYTES,
            f"is not monotone in {self.changed}": self._monotone(),
            "is below the closed form at rate 1": self.full_batch >= self.closed_form * (1 - 1e-9),
            "is above the full batch": self.epsilon <= self.full_batch * (1 + 1e-9),
            "is below the independent composition": self.independent is None
            or self.epsilon >= self.independent - ACCURACY,
        }
        return [what for what, right in checks.items() if not right]

    def _monotone(self) -> bool:
        if self.changed in ("rate", "steps"):
            return self.neighbour >= self.epsilon
        crossed = self.changed == "noise" and any(
            self.setting.noise <= limit < _larger(self.setting, "noise").noise
            for limit in FEWER_ORDERS
        )
        return self.neighbour <= self.epsilon * (ALLOWED_RISE if crossed else 1.0)


def settings(count: int, seed: int = SEED) -> Iterator[Setting]:
    """Log-uniform in every parameter."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        yield Setting(
            rate=float(10 ** generator.uniform(-5, 0)),
            noise=float(10 ** generator.uniform(math.log10(0.3), 2)),
            steps=int(10 ** generator.uniform(0, 6)),
            delta=float(10 ** generator.uniform(-12, -2)),
        )


def answer(setting: Setting, changed: str, *, compare: bool = True) -> Answer:
    """Everything about a setting.

    Args:
        setting: Where.
        changed: The parameter that the neighbour has larger.
        compare: Whether to compose independently where that is possible.
    """
    _forget_peak()
    start = time.process_time()
    value = setting.epsilon()
    seconds, peak = time.process_time() - start, _peak()
    full = replace(setting, rate=1.0)
    return Answer(
        setting=setting,
        epsilon=value,
        method=_method(setting),
        seconds=seconds,
        peak=peak,
        changed=changed,
        neighbour=_larger(setting, changed).epsilon(),
        full_batch=full.epsilon(),
        closed_form=gaussian(math.sqrt(setting.steps) / setting.noise, setting.delta),
        independent=_independent(setting, value) if compare else None,
    )


def _method(setting: Setting) -> str:
    """From the cache of the call before."""
    return account([Phase(setting.rate, setting.noise, setting.steps)], setting.delta).method


def _larger(setting: Setting, parameter: str) -> Setting:
    value = getattr(setting, parameter) * 1.1
    if parameter == "steps":
        return replace(setting, steps=math.ceil(value))
    return replace(setting, **{parameter: min(value, 1.0) if parameter == "rate" else value})


def _independent(setting: Setting, value: float) -> float | None:
    """Where one step's losses fit on the grid and rounding them adds little to their variance."""
    grid, count = (2e-5, 2**20) if value < 1.0 else (1e-4, 2**19)
    q, z = setting.rate, setting.noise
    largest = float(np.logaddexp(math.log1p(-q), math.log(q) + (9.7 + 0.5 / z) / z))
    fits = max(largest, 1.5 * value) < 0.45 * grid * count
    fine = setting.steps * grid**2 < 1e-4 * value**2
    if not (0.02 < value < 15.0 and fits and fine and setting.delta >= 1e-10):
        return None
    return composed([(q, z, setting.steps)], setting.delta, grid=grid, count=count)


def _forget_peak() -> None:
    """Sets the peak of this process to what it holds now (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def versions() -> dict[str, str]:
    """Of everything that takes part."""
    found = {name: metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **found}


def summary(answers: Sequence[Answer]) -> dict[str, object]:
    """The numbers of the table."""
    seconds = [one.seconds for one in answers]
    gaps = [one.epsilon - one.independent for one in answers if one.independent is not None]
    worst = [one.epsilon / one.independent for one in answers if (one.independent or 0.0) > 0.05]
    methods = [one.method for one in answers]
    return {
        "settings": len(answers),
        "faults": sum(bool(one.faults) for one in answers),
        "median seconds": float(np.median(seconds)),
        "most seconds": max(seconds),
        "most MiB": max(one.peak for one in answers) / 2**20,
        "neighbours compared": {
            name: sum(a.changed == name for a in answers) for name in PARAMETERS
        },
        "full batches compared": len(answers),
        "composed independently": len(gaps),
        "least epsilon minus independent": min(gaps, default=None),
        "largest epsilon over independent": max(worst, default=None),
        "methods": {name: methods.count(name) for name in sorted(set(methods))},
    }


def worst_cases(answers: Sequence[Answer]) -> dict[str, Answer]:
    """The settings at the ends."""
    known = [one for one in answers if one.independent is not None]
    found = {
        "slowest": max(answers, key=lambda one: one.seconds),
        "most memory": max(answers, key=lambda one: one.peak),
        "largest epsilon": max(answers, key=lambda one: one.epsilon),
    }
    if known:
        found["lowest over the independent value"] = min(
            known, key=lambda one: one.epsilon - (one.independent or 0.0)
        )
        found["loosest"] = max(known, key=lambda one: one.epsilon / max(one.independent or 0, 0.05))
    return found


def table(answers: Sequence[Answer], command: str) -> str:
    """Markdown: the numbers, the worst cases, and what is wrong."""
    lines = [f"Written by `{command}`; seed {SEED}.", ""]
    lines += [f"{name} {version}" + "  " for name, version in versions().items()]
    lines += ["", "| what | value |", "|---|---|"]
    lines += [f"| {what} | {_cell(value)} |" for what, value in summary(answers).items()]
    head = "| worst case | rate | noise | steps | delta | epsilon | independent | seconds | MiB |"
    lines += ["", head, "|---|---|---|---|---|---|---|---|---|"]
    lines += [_row(what, one) for what, one in worst_cases(answers).items()]
    lines += [_row(", ".join(one.faults), one) for one in answers if one.faults]
    return "\n".join(lines) + "\n"


def _row(what: str, one: Answer) -> str:
    values = (*asdict(one.setting).values(), one.epsilon, one.independent, one.seconds)
    cells = [*map(_cell, values), f"{one.peak / 2**20:.0f}"]
    return f"| {what} | " + " | ".join(cells) + " |"


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {count}" for name, count in value.items())
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


@click.command()
@click.option("--count", default=1000, show_default=True)
@click.option("--minutes", default=60.0, show_default=True, help="Stop after this time.")
def main(count: int, minutes: float) -> None:
    """Runs all and writes benchmarks/results/accountant_grid.json and .md."""
    command = f"python -m benchmarks.accountant_grid --count {count}"
    epsilon(0.1, 1.0, 1, 1e-5)  # imports the library before the clock runs
    answers: list[Answer] = []
    start = time.monotonic()
    for number, setting in enumerate(settings(count)):
        if time.monotonic() - start > 60.0 * minutes:
            break
        answers.append(answer(setting, PARAMETERS[number % len(PARAMETERS)]))
        for fault in answers[-1].faults:
            click.echo(f"{setting}: {fault}")
    record = {
        "command": command,
        "machine": f"{platform.machine()}, {platform.system()}, {os.cpu_count()} cores",
        "versions": versions(),
        "seed": SEED,
        "seconds": time.monotonic() - start,
        "summary": summary(answers),
        "worst cases": {what: asdict(one) for what, one in worst_cases(answers).items()},
        "columns": COLUMNS,
    }
    rows = ",\n  ".join(json.dumps(one.row()) for one in answers)
    text = json.dumps(record, indent=1).removesuffix("\n}") + f',\n "rows": [\n  {rows}\n ]\n}}\n'
    (RESULTS / "accountant_grid.json").write_text(text)
    (RESULTS / "accountant_grid.md").write_text(table(answers, command))
    click.echo(table(answers, command))


if __name__ == "__main__":
    main()
