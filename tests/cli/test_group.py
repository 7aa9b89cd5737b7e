"""The command line as a whole: light, complete, and without tracebacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lipdp._version import __version__
from lipdp.cli._group import LazyGroup
from lipdp.errors import InvalidValue

ROOT = Path(__file__).parents[2]
HEAVY = "keras tensorflow numpy pandas matplotlib pydantic rich jinja2 dp_accounting"

NAMES = [
    "account",
    "account curve",
    "account epsilon",
    "account noise",
    "bounds",
    "list",
    "predict",
    "schema",
    "train",
]


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom lipdp.cli import COMMANDS\n"
        "COMMANDS(['--help'], standalone_mode=False)\n"
        f"print('LOADED', [m for m in '{HEAVY}'.split() if m in sys.modules])"
    )
    done = python("-c", code)
    assert "Commands:" in done.stdout, done.stderr
    assert "LOADED []" in done.stdout


def test_help_is_fast():
    """In processor time, which other work on the machine does not prolong."""

    def used():
        spent = os.times()
        return spent.children_user + spent.children_system

    durations = []
    for _ in range(3):
        start = used()
        assert python("-m", "lipdp", "--help").returncode == 0
        durations.append(used() - start)
    assert min(durations) < 0.5


@pytest.mark.parametrize("module", ["lipdp", "lipdp.cli"])
def test_version_of_both_modules(module):
    done = python("-m", module, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert __version__ in done.stdout


def test_help_lists_each_command_with_a_line(run):
    text = run("--help").stdout
    for name in ("account", "bounds", "list", "predict", "schema", "train"):
        line = next(line for line in text.splitlines() if line.startswith(f"  {name} "))
        assert len(line.split()) > 3


@pytest.mark.parametrize("name", NAMES)
def test_each_command_has_help(run, name):
    result = run(*name.split(), "--help")
    assert result.exit_code == 0
    assert f"lipdp {name}" in result.stdout


@pytest.mark.parametrize("name", ["trian", "_group", "__main__", "account.noise", "../cli"])
def test_an_unknown_command_is_a_usage_error(refused, name):
    assert f"No such command '{name}'" in refused(name)


@pytest.fixture
def group(tmp_path, monkeypatch):
    """A group of one command that raises what it is told to."""
    package = tmp_path / "toolbox"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_helper.py").write_text("raise RuntimeError('imported')")
    (package / "other.py").write_text('"""Never imported."""\nraise RuntimeError("imported")')
    (package / "fail.py").write_text(
        '"""Fails on purpose."""\nimport click\nERROR = []\n'
        "@click.command()\ndef command():\n    raise ERROR[0]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield LazyGroup("toolbox", name="toolbox")
    for name in [m for m in sys.modules if m.startswith("toolbox")]:
        del sys.modules[name]


def fail(group: LazyGroup, error: BaseException) -> tuple[int, str, BaseException | None]:
    import importlib

    importlib.import_module("toolbox.fail").ERROR[:] = [error]
    result = CliRunner().invoke(group, ["fail"])
    return result.exit_code, result.stderr, result.exception


def test_help_reads_files_without_importing_them(group):
    text = CliRunner().invoke(group, ["--help"]).stdout
    assert "fail   Fails on purpose." in text
    assert "other  Never imported." in text
    assert "_helper" not in text


def test_an_error_on_purpose_is_a_message_with_code_2(group):
    error = InvalidValue("The rate is wrong", received=7, fix="Give one below 1")
    code, text, _ = fail(group, error)
    assert (code, text) == (2, "Error: The rate is wrong. Received: 7. Give one below 1.\n")


def test_an_operating_system_error_is_a_message_with_code_2(group):
    code, text, _ = fail(group, PermissionError(13, "Permission denied", "runs"))
    assert code == 2
    assert text.startswith("Error: ")
    assert "Permission denied: 'runs'" in text


def test_control_c_is_a_short_message_with_code_130(group):
    code, text, _ = fail(group, KeyboardInterrupt())
    assert (code, text) == (130, "Interrupted.\n")


def test_a_defect_is_not_hidden(group):
    _, _, error = fail(group, ZeroDivisionError("a defect"))
    assert isinstance(error, ZeroDivisionError)


def test_exit_of_click_passes_through(group):
    code, _, _ = fail(group, click.exceptions.Exit(7))
    assert code == 7
