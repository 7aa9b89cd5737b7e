"""Virtual environments of other packages and backends, made when they are first asked for.

Run: python -m benchmarks.environments
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import click

from benchmarks.race import ROOT

DEFAULT = Path.home() / ".cache" / "lipdp-benchmarks"
#: What pip is given. tensorflow-privacy 0.9 needs Keras 2, which tf-keras is.
REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "jax": ("-e", f"{ROOT}[jax]"),
    "opacus": ("opacus==1.6.0", "torch==2.13.0"),
    "jax-privacy": ("jax-privacy==2.0.0", "jax>=0.7.1"),
    "tensorflow-privacy": (
        "tensorflow-privacy==0.9.0",
        "tensorflow>=2.20",
        "tf-keras>=2.20",
        "numpy<2",
    ),
}
#: tensorflow-privacy 0.9 has no wheel for newer ones.
_PYTHON = {"tensorflow-privacy": "python3.11"}
_MADE = "made.json"
_NAMED_LINES = ("Collecting", "Downloading", "Installing", "Successfully")


def interpreter(name: str, environments: Path = DEFAULT) -> str:
    """Python of an environment, which is made if it is not there.

    Args:
        name: A key of ``REQUIREMENTS``, or "tensorflow" for the running interpreter.
        environments: Folder of all environments.

    Raises:
        RuntimeError: If it could not be made.
    """
    if name == "tensorflow":
        return sys.executable
    folder = environments.expanduser().resolve() / name
    if not _is_made(name, folder):
        _make(name, folder)
    return str(_python(folder))


def make_all(environments: Path = DEFAULT) -> None:
    """Makes whatever is missing; one that cannot be made is named and left out."""
    for name in REQUIREMENTS:
        try:
            interpreter(name, environments)
        except RuntimeError as error:
            click.echo(str(error), err=True)


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _is_made(name: str, folder: Path) -> bool:
    """Whether installing ended, with the requirements of today."""
    made = folder / _MADE
    if not (made.is_file() and _python(folder).exists()):
        return False
    return json.loads(made.read_text(encoding="utf-8")) == list(REQUIREMENTS[name])


def _make(name: str, folder: Path) -> None:
    click.echo(f"{name}: making {folder}", err=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    wanted = _PYTHON.get(name)
    python = (shutil.which(wanted) if wanted else None) or sys.executable
    _run(name, [python, "-m", "venv", str(folder)])
    pip = [str(_python(folder)), "-m", "pip", "install", "--progress-bar", "off"]
    _run(name, [*pip, *REQUIREMENTS[name]])
    (folder / _MADE).write_text(json.dumps(REQUIREMENTS[name]), encoding="utf-8")


def _run(name: str, command: list[str]) -> None:
    """Runs a command and says, on one line that is written over, what it does."""
    last = ""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    ) as process:
        for line in process.stdout or ():
            last = line.strip() or last
            if last.startswith(_NAMED_LINES):
                click.echo(f"\r\033[K{name}: {last[:90]}", nl=False, err=True)
    click.echo("", err=True)
    if process.returncode:
        raise RuntimeError(f"{name}: no environment, {command[2]} ended with: {last[:200]}")


@click.command()
@click.option(
    "--environments",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT,
    show_default=True,
)
def main(environments: Path) -> None:
    """Makes whatever environment is missing."""
    make_all(environments)


if __name__ == "__main__":
    main()
