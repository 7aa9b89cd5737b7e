"""Private training on JAX and PyTorch; the quick tests show the same on TensorFlow."""

import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("backend_checks.py")
CHECKS = re.findall(r"^def (check_\w+)", SCRIPT.read_text(), flags=re.MULTILINE)
_SHARES = 3  # a process each: starting a backend takes as long as a check


@pytest.mark.backend
@pytest.mark.parametrize("share", range(_SHARES))
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_backend(run_on_backend, backend, share):
    run_on_backend(backend, SCRIPT, *CHECKS[share::_SHARES])
