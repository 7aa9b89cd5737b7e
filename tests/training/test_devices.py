"""Private training on two devices; each check in its own process, which makes the devices."""

import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("device_checks.py")
CHECKS = re.findall(r"^def (check_\w+)", SCRIPT.read_text(), flags=re.MULTILINE)


@pytest.mark.backend
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_two_devices(run_on_backend, backend, check):
    run_on_backend(backend, SCRIPT, check)
