"""What every result says about itself: the command, the machine, the versions."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
#: Packages whose versions decide what a step costs.
PACKAGES = ("lipdp", "tensorflow", "jax", "torch", "keras", "numpy", "dp-accounting")

#: What stands in a cell that was not begun.
NO_TIME = {"skipped": "no time left"}
#: What makes two machines the same one; a kernel's version does not.
_MACHINE = ("processor", "cores", "memory_gib")

_ASK = """
import importlib.metadata, json, platform, sys
found = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def machine() -> dict[str, Any]:
    """Processor, cores, memory and system of the running machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def _processor() -> str:
    """Model name, with the numbers that tell models of one name apart (Linux)."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    facts = {}
    for line in text.split("\n\n", maxsplit=1)[0].splitlines():
        name, _, value = line.partition(":")
        facts[name.strip()] = value.strip()
    name = facts.get("model name", platform.processor())
    if "model" not in facts:
        return name
    return f"{name} (family {facts.get('cpu family', '?')}, model {facts['model']})"


def versions(
    packages: Iterable[str] = PACKAGES, python: str = sys.executable
) -> dict[str, str | None]:
    """Versions of those packages that an interpreter has, and its own."""
    answer = subprocess.run(
        [python, "-c", _ASK, *packages], capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout)


def today() -> str:
    """The day that a cell is measured on."""
    return datetime.date.today().isoformat()


def measured_before(
    path: Path, packages: Mapping[str, str | None]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Cells of a file from such a machine and these versions, and the day of each."""
    if not path.is_file():
        return {}, {}
    found = json.loads(path.read_text(encoding="utf-8"))
    here = machine()
    alike = all(found["machine"].get(fact) == here.get(fact) for fact in _MACHINE)
    if not alike or found["versions"] != dict(packages):
        return {}, {}
    cells = {name: cell for name, cell in found["cells"].items() if cell != NO_TIME}
    return cells, {name: found.get("measured", {}).get(name, "") for name in cells}


def markdown(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table; numbers with three digits, ``None`` as a dash."""
    lines = [list(heads)]
    lines.append(["---"] * len(lines[0]))
    lines += [[_shown(value) for value in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def write(  # noqa: D417
    name: str,
    cells: Mapping[str, Any],
    table: str,
    *,
    command: str,
    packages: Mapping[str, str | None],
    folder: Path = RESULTS,
    **more: Any,
) -> Path:
    """Writes ``NAME.json`` and ``NAME.md``; call it after every cell, so that none is lost.

    Args:
        name: Name of the files.
        cells: What was measured.
        table: The same to read.
        command: What was run.
        packages: Versions.
        folder: Where; made if it is not there.

    Returns:
        The JSON file.
    """
    record = {
        "command": command,
        "machine": machine(),
        "versions": dict(packages),
        **more,
        "cells": cells,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(table, encoding="utf-8")
    return path
