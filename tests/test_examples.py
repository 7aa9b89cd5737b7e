"""Each example runs, prints what its first lines promise, and leaves nothing outside its folder."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples"
#: Words of what each one prints.
PRINTS = {
    "quick_start": "certified accuracy at L2 radius",
    "own_layer": "spectral_dense",
    "own_loss": "accuracy",
    "residual": "Lipschitz constant",
    "frozen_backbone": "stage 2",
    "certificates": "flips inside the radius: 0 of 500",
    "pareto": "report: pareto/pareto.html",
    "own_csv": "certified_radius",
    "jax_backend": "on jax: epsilon",
    "multi_process": "two processes: epsilon",
}
QUICK = ("own_layer",)
BACKEND = ("jax_backend", "multi_process")


def run(name, cwd):
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py")],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert PRINTS[name] in done.stdout


@pytest.mark.parametrize("name", QUICK)
def test_example(name, tmp_path):
    run(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*PRINTS} - {*QUICK, *BACKEND}))
def test_longer_example(name, tmp_path):
    run(name, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {name}


@pytest.mark.backend
@pytest.mark.parametrize("name", BACKEND)
def test_example_of_a_backend(name, tmp_path):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    run(name, tmp_path)


def test_every_example_is_run_and_says_what_it_shows():
    paths = sorted(FOLDER.glob("*.py"))
    assert {path.stem for path in paths} == {*PRINTS}
    for path in paths:
        words = ast.get_docstring(ast.parse(path.read_text())) or ""
        assert words.startswith("Shows ") and "Prints " in words, path
