"""Private training on every backend that is installed, each check in its own process."""

import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("backend_checks.py")
CHECKS = re.findall(r"^def (check_\w+)", SCRIPT.read_text(), flags=re.MULTILINE)


@pytest.mark.backend
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_backend(run_on_backend, backend, check):
    run_on_backend(backend, SCRIPT, check)
