"""An array on disk is trained on, validated and certified without being read as a whole."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FEATURES = 4000
SCHEMA = f"""
kind = "vectors"
classes = ["no", "yes"]
features = {FEATURES}
low = -1
high = 1
zero = 0
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_array(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    for name, rows in (("small", 1000), ("big", 40_000)):
        shape, path = (rows, FEATURES), tmp_path / f"{name}.npy"
        mapped = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
        mapped[::1000, :2] = 0.5  # The rest is a hole in the file.
        del mapped
        np.save(tmp_path / f"{name}-y.npy", np.arange(rows) % 2)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("memory_of_a_run.py"), tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    size = (tmp_path / "big.npy").stat().st_size
    assert size > 640e6
    grew = json.loads(done.stdout.splitlines()[-1])["grew"]
    # Encoded, it would be as large again.
    assert grew < 0.5 * size, f"{grew / 1e6:.0f} MB"
    print(f"{grew / 1e6:.0f} MB")
