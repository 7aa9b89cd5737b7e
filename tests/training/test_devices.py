"""Private training on two devices; in processes that make the devices."""

import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("device_checks.py")
CHECKS = re.findall(r"^def (check_\w+)", SCRIPT.read_text(), flags=re.MULTILINE)
_SHARES = 2


@pytest.mark.backend
@pytest.mark.parametrize("share", range(_SHARES))
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_two_devices(run_on_backend, backend, share):
    run_on_backend(backend, SCRIPT, *CHECKS[share::_SHARES])
