"""The rules of the house, as programs: layers of imports, style, types, sizes."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "lipdp").rglob("*.py"))


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
        ["importlinter.cli", "lint"],
    ],
    ids=lambda command: command[0],
)
def test_tool(command):
    runner = (
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
        if command[0] == "importlinter.cli"
        else [sys.executable, "-m", *command]
    )
    done = subprocess.run(runner, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_are_not_absurdly_long(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 700
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = [n for n in node.body if not isinstance(getattr(n, "value", None), ast.Constant)]
            length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert length <= 50, f"{node.name} has {length} lines"


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if p.name == "__init__.py"], ids=lambda p: p.parent.name
)
def test_every_package_says_what_it_is(path):
    assert len(ast.get_docstring(ast.parse(path.read_text())) or "") > 15


def test_help_imports_no_framework():
    script = (
        "import sys, click.testing; from lipdp.cli import COMMANDS as cli;"
        "r = click.testing.CliRunner().invoke(cli, ['--help']); assert r.exit_code == 0;"
        "print([m for m in ('keras', 'tensorflow', 'pandas', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_configurations_load():
    from lipdp.config import load_config

    paths = sorted((ROOT / "configs").glob("*.toml"))
    assert paths
    for path in paths:
        assert load_config(path).privacy.epsilon


def test_every_guarantee_is_named_in_a_docstring_that_people_can_find():
    """Privacy-relevant entry points state what they guarantee."""
    wanted = {
        *("gradient_bounds", "PrivateOptimizer", "make_plan", "share_noise", "LedgerCallback"),
        *("LedgerFile", "StepGate", "PrivateBatches", "PoissonSampler", "ShuffledSampler"),
        *("RoundedGaussian", "PrivacyLedger", "certify"),
    }
    stating = set()
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if getattr(node, "name", None) in wanted:
                assert re.search("Guarantees", ast.get_docstring(node)), node.name
                stating.add(node.name)
    assert stating == wanted


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_docstrings_stand_alone(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = (ast.get_docstring(node) or "").partition(" ")[0]
            assert first not in {"Of", "Those"}, getattr(node, "name", "the module")
