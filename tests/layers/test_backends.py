"""The layers under fit on every backend that is installed."""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("backend_checks.py")
CHECKS = [
    "check_cotangent_clip",
    "check_adaptive_cotangent_clip",
    "check_sorting_at_ties",
    "check_non_finite_and_extreme_rows",
    "check_weights_stay_in_their_sets",
    "check_float64_layers",
]


@pytest.mark.backend
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_backend(run_on_backend, backend):
    run_on_backend(backend, SCRIPT, *CHECKS)
