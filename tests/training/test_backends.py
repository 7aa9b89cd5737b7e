"""Private training on every backend that is installed, each check in its own process."""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("backend_checks.py")
CHECKS = [
    "check_noise_is_fresh",
    "check_training_learns_and_counts",
    "check_bounds_hold_after_training",
]


@pytest.mark.backend
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_backend(run_on_backend, backend, check):
    run_on_backend(backend, SCRIPT, check)
