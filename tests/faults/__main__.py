"""Tries the deliberate faults of the catalogue: the tests that are named there must notice each.

For each fault the working tree is copied, the one file with the snippet is changed, and the tests
run on the copy. CAUGHT: a test failed. MISSED: all passed. BROKEN: the snippet is not there exactly
once, or the tests did not run. Beforehand the tests run on an unchanged copy, where they must pass.
With names, the table keeps the rows of the other faults.

Run: python -m tests.faults [NAME ...]
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.record import RESULTS, markdown, measured_before, today, versions, write
from tests.faults.catalogue import FAULTS, Fault, places_of

ROOT = Path(__file__).parents[2]
#: What the library and its tests are made of.
PARTS = (
    *("lipdp", "tests", "benchmarks", "configs", "docs", "examples"),
    *("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"),
)
CAUGHT, MISSED, BROKEN = "CAUGHT", "MISSED", "BROKEN"
#: Seconds for the tests of one fault, which may make a search endless, and for all tests.
MOST, MOST_UNCHANGED = 900, 7200
_VERDICTS = {0: MISSED, 1: CAUGHT}
# Finding the package imports nothing of it. Exit codes of pytest end at 5.
_RUN = """
import importlib.util, pathlib, sys
found = importlib.util.find_spec("lipdp")
if found is None or pathlib.Path(found.origin).parents[1] != pathlib.Path.cwd().resolve():
    print("another lipdp is imported:", found)
    sys.exit(9)
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""
_OPTIONS = (
    *("-o", "addopts=", "--import-mode=importlib", "-p", "no:cacheprovider"),
    *("-n", "0", "-x", "-q", "-rfE"),
)


def copied(folder: Path) -> Path:
    """A copy of the working tree, without what tools leave behind."""
    for name in PARTS:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return folder


def insert(fault: Fault, library: Path) -> None:
    """Puts a fault into the one place where it belongs.

    Raises:
        LookupError: If there are several, or none.
    """
    places = places_of(fault.was, library)
    if len(places) != 1:
        raise LookupError(f"the snippet occurs {len(places)} times")
    text = places[0].read_text(encoding="utf-8")
    places[0].write_text(text.replace(fault.was, fault.becomes), encoding="utf-8")


def run_tests(tests: Sequence[str], folder: Path, most: float) -> tuple[int, str]:
    """Runs tests in a copy.

    Returns:
        The exit code of pytest, and what was printed.
    """
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", _RUN, *_OPTIONS, *tests]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=most
        )
    except subprocess.TimeoutExpired:
        return -1, f"took more than {most:g} s"
    return done.returncode, done.stdout + done.stderr


def first_failure(printed: str) -> str:
    """The node id of the first test that failed; without one, the last line."""
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", printed, re.MULTILINE)
    return found[1] if found else (printed.strip().splitlines() or [""])[-1]


def tried(fault: Fault) -> dict[str, Any]:
    """What became of a fault, by which test, and the seconds of its tests."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = copied(Path(name).resolve())
        try:
            insert(fault, folder / "lipdp")
        except LookupError as error:
            verdict, by = BROKEN, str(error)
        else:
            code, printed = run_tests(fault.tests, folder, MOST)
            verdict = _VERDICTS.get(code, BROKEN)
            by = "" if verdict == MISSED else first_failure(printed)
    seconds = round(time.monotonic() - start, 1)
    return {"area": fault.area, "verdict": verdict, "by": by, "seconds": seconds}


def unchanged(faults: Sequence[Fault]) -> str:
    """The first test of some faults that fails without any; empty if all pass."""
    tests = dict.fromkeys(test for fault in faults for test in fault.tests)
    with tempfile.TemporaryDirectory() as name:
        folder = copied(Path(name).resolve())
        code, printed = run_tests(list(tests), folder, MOST_UNCHANGED)
    return "" if code == 0 else first_failure(printed) or f"exit code {code}"


def chosen(names: Sequence[str]) -> list[Fault]:
    """The faults of these names; all if there are none.

    Raises:
        BadParameter: If there is no fault of a name.
    """
    unknown = set(names) - {fault.name for fault in FAULTS}
    if unknown:
        raise click.BadParameter(f"There are no faults called {sorted(unknown)}")
    return [fault for fault in FAULTS if not names or fault.name in names]


def table(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown."""
    heads = ("area", "verdict", "by", "seconds")
    return markdown(
        ["fault", *heads], [[name, *(cell[h] for h in heads)] for name, cell in cells.items()]
    )


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=RESULTS,
    help="Folder of what is written.",
)
def main(names: tuple[str, ...], results: Path) -> None:
    """Tries all faults, or those of the names; exit code 1 if one is not caught."""
    faults, packages, left = chosen(names), versions(), []
    wrong = unchanged(faults)
    if wrong:
        raise click.ClickException(f"Without any fault a test fails: {wrong}")
    cells, days = measured_before(results / "faults.json", packages) if names else ({}, {})
    for fault in faults:
        cell = cells[fault.name] = tried(fault)
        days[fault.name] = today()
        click.echo(f"{cell['verdict']} {fault.name} ({cell['seconds']} s) {cell['by']}")
        left += [fault.name] if cell["verdict"] != CAUGHT else []
        cells = {one.name: cells[one.name] for one in FAULTS if one.name in cells}
        write(
            "faults",
            cells,
            table(cells),
            command="python -m tests.faults",
            packages=packages,
            folder=results,
            measured={name: days[name] for name in cells},
        )
    if left:
        raise click.ClickException(f"Not caught: {', '.join(left)}")


if __name__ == "__main__":
    main()
