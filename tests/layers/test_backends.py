"""The layers under fit on every backend that is installed, each check in its own process."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lipdp

ROOT = Path(lipdp.__file__).parent.parent
SCRIPT = Path(__file__).with_name("backend_checks.py")
CHECKS = [
    "check_cotangent_clip",
    "check_sorting_at_ties",
    "check_non_finite_and_extreme_rows",
    "check_weights_stay_in_their_sets",
    "check_float64_layers",
]


@pytest.mark.backend
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_backend(backend, check):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), check],
        env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
