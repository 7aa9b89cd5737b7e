"""Private training on JAX and PyTorch; the quick tests show the same on TensorFlow."""

import re
from pathlib import Path

import pytest

SCRIPTS = [
    Path(__file__).with_name(f"{name}.py") for name in ("backend_checks", "noise_backend_checks")
]
_SHARES = 2  # of a script, a process each: starting a backend takes as long as a check


def checks_in(script):
    return re.findall(r"^def (check_\w+)", script.read_text(), flags=re.MULTILINE)


@pytest.mark.backend
@pytest.mark.parametrize("share", range(_SHARES))
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_backend(run_on_backend, backend, script, share):
    run_on_backend(backend, script, *checks_in(script)[share::_SHARES])
