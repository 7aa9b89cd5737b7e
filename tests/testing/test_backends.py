"""Probe, harnesses and losses on JAX and PyTorch; on TensorFlow the other tests run them."""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("backend_checks.py")
CHECKS = [
    "check_probe",
    "check_per_sample_norms",
    "check_layers",
    "check_merging_layers",
    "check_ids",
    "check_models",
    "check_losses",
    "check_hinge_at_ties",
    "check_training_with_a_clipped_loss",
]


@pytest.mark.backend
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_backend(run_on_backend, backend):
    run_on_backend(backend, SCRIPT, *CHECKS)


@pytest.mark.backend
@pytest.mark.parametrize("share", range(4))
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_every_layer(run_on_backend, backend, share):
    # On TensorFlow the slow tests run them.
    run_on_backend(backend, SCRIPT, f"check_own_layers_{share}")
