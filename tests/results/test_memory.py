"""Memory is measured of this process alone."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from lipdp.results.run import peak_memory_bytes

ROOT = Path(__file__).parent.parent.parent


def test_an_array_shows_in_the_peak_and_stays_there():
    assert peak_memory_bytes() > 2**20
    large = np.ones(2**25)
    size = large.nbytes
    assert peak_memory_bytes() >= size
    del large
    assert peak_memory_bytes() >= size


def test_a_child_does_not_count_what_its_parent_used():
    large = np.ones(2**26)
    script = "from lipdp.results.run import peak_memory_bytes as p; print(p())"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert 0 < int(done.stdout) < large.nbytes
