"""All benchmarks of speed, memory and scale, within an hour.

Parts run one after another, each in a process of its own, by a plan of time: a part begins nothing
new after its time, and what it leaves over goes to those after it. Environments of other packages
are made before the clock starts.

Run: python -m benchmarks
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.clock import Clock
from benchmarks.environments import DEFAULT, REQUIREMENTS, interpreter
from benchmarks.race import ROOT
from benchmarks.record import RESULTS

#: Minutes of the whole, and those kept for what a part does after its time.
WHOLE, SPARE = 60.0, 5.0


@dataclass(frozen=True)
class Part:
    """One program of the suite.

    Attributes:
        name: As ``--only`` takes it.
        module: In this package.
        minutes: Its share.
        arguments: Of the program.
        environments: Whether it takes the folder of environments.
        data: Whether it takes the folder of data sets.
    """

    name: str
    module: str
    minutes: float
    arguments: tuple[str, ...] = ()
    environments: bool = False
    data: bool = False


@dataclass(frozen=True)
class Told:
    """What the user said that parts must know.

    Attributes:
        results: Folder of what is written.
        environments: Folder of environments.
        data: Folder of data sets, if there is one.
        quick: Whether the least will do.
    """

    results: Path
    environments: Path
    data: Path | None = None
    quick: bool = False


PARTS = (
    Part("accounting", "accounting", 2),
    Part("sampler", "sampler", 2),
    Part("certificates", "certificates", 2),
    Part("scale", "scale", 3),
    Part("profile-mlp", "step_profile", 1),
    Part("profile-mlp-sorted", "step_profile", 1, ("--net", "mlp-sorted")),
    Part("profile-cnn", "step_profile", 2, ("--net", "cnn")),
    Part("end-to-end", "end_to_end", 4, data=True),
    Part("mlp-tensorflow", "step_time", 6, ("--net", "mlp")),
    Part("cnn-tensorflow", "step_time", 6, ("--net", "cnn")),
    Part("mlp-jax", "step_time", 5, ("--net", "mlp", "--backend", "jax"), environments=True),
    Part("cnn-jax", "step_time", 7, ("--net", "cnn", "--backend", "jax"), environments=True),
    Part("parts-tensorflow", "step_parts", 2),
    Part("parts-jax", "step_parts", 2, ("--backend", "jax"), environments=True),
    Part("mlp-peers", "peer_time", 8, ("--net", "mlp"), environments=True),
    Part("cnn-peers", "peer_time", 8, ("--net", "cnn"), environments=True),
)


def chosen(names: Sequence[str]) -> list[Part]:
    """The parts of these names in the suite's order; all if there are none."""
    return [part for part in PARTS if not names or part.name in names]


def ends(parts: Sequence[Part], minutes: float) -> list[float]:
    """Seconds from the start at which each part begins nothing new, by their shares."""
    whole, sums = sum(part.minutes for part in parts), [0.0]
    for part in parts:
        sums.append(sums[-1] + part.minutes)
    return [60.0 * minutes * passed / whole for passed in sums[1:]]


def plan(parts: Sequence[Part], minutes: float) -> str:
    """The plan in words."""
    lines = [
        f"{end / 60.0:5.1f} min: end of {p.name}"
        for p, end in zip(parts, ends(parts, minutes), strict=True)
    ]
    return "\n".join(
        [f"At most {minutes:g} minutes, and what runs then is ended soon after.", *lines]
    )


def command(part: Part, seconds: float, told: Told) -> list[str]:
    """How a part is started."""
    return [
        *(sys.executable, "-m", f"benchmarks.{part.module}", *part.arguments),
        *("--seconds", f"{seconds:.0f}", "--results", str(told.results)),
        *(["--environments", str(told.environments)] if part.environments else []),
        *(["--data-dir", str(told.data)] if part.data and told.data else []),
        *(["--quick"] if told.quick else []),
    ]


def run_part(told: Sequence[str], seconds: float) -> str:
    """Runs a part, and ends it and its workers if it takes longer.

    Returns:
        What went wrong; empty if nothing did.
    """
    process = subprocess.Popen(told, cwd=ROOT, start_new_session=True)
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return "took too long"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return f"ended with exit code {code}" if code else ""


def run_parts(parts: Sequence[Part], minutes: float, told: Told) -> list[str]:
    """Runs all, whatever becomes of each.

    Returns:
        The names of parts that failed.
    """
    clock, failed = Clock(60.0 * minutes), []
    for part, end in zip(parts, ends(parts, minutes), strict=True):
        seconds = max(1.0, end - clock.passed)
        at = clock.passed / 60.0
        click.secho(f"[{at:.1f} of {minutes:g} min] {part.name}: {seconds:.0f} s", bold=True)
        most = max(1.0, min(seconds, clock.left) + 60.0 * SPARE)
        wrong = run_part(command(part, seconds, told), most)
        if wrong:
            click.echo(f"{part.name} {wrong}", err=True)
            failed.append(part.name)
    return failed


def make_environments(parts: Sequence[Part], environments: Path) -> None:
    """Makes what parts need, before any time is counted; a part that lacks one fails later."""
    modules = {part.module for part in parts if part.environments}
    for name in REQUIREMENTS:
        if modules & ({"step_time", "step_parts"} if name == "jax" else {"peer_time"}):
            try:
                interpreter(name, environments)
            except RuntimeError as error:
                click.echo(str(error), err=True)


_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--only", multiple=True, type=click.Choice([part.name for part in PARTS]))
@click.option("--quick", is_flag=True, help="The least that runs all of the code, in minutes.")
@click.option("--minutes", default=WHOLE - SPARE, show_default=True, help="For all parts.")
@click.option("--environments", type=_FOLDER, default=DEFAULT, show_default=True)
@click.option("--data-dir", type=_FOLDER, help="Folder with mnist.npz; downloaded by default.")
@click.option("--results", type=_FOLDER, help="Folder of what is written.")
def main(
    only: tuple[str, ...],
    quick: bool,
    minutes: float,
    environments: Path,
    data_dir: Path | None,
    results: Path | None,
) -> None:
    """Runs all parts, or those that are named, and writes their results and docs/speed.md.

    Quick results are no measurements: they go to build/benchmarks by default.
    """
    parts = chosen(only)
    results = results or (ROOT / "build" / "benchmarks" if quick else RESULTS)
    make_environments(parts, environments)
    click.echo(plan(parts, minutes))
    folder = None if data_dir is None else data_dir.resolve()
    told = Told(results.resolve(), environments.resolve(), folder, quick)
    failed = run_parts(parts, minutes, told)
    if results.resolve() == RESULTS:
        run_part([sys.executable, "-m", "benchmarks.speed_page"], 120.0)
    if failed:
        raise click.ClickException(f"Without result: {', '.join(failed)}")


if __name__ == "__main__":
    main()
