"""Settings for every test: quiet TensorFlow, no network, fixed Hypothesis profile."""

from __future__ import annotations

import gc
import importlib.util
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
from hypothesis import settings

from benchmarks.workers.untuned import without_tuning_threads

settings.register_profile("lipdp", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("lipdp")

ROOT = Path(__file__).parent.parent
# A tenth of the time of tests that trace graphs went to looking for garbage among millions of
# objects of TensorFlow.
gc.set_threshold(50_000, 20, 50)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Keras draws initial weights from Python's generator: the same in every run of a test."""
    random.seed(item.nodeid)


@pytest.fixture(autouse=True)
def no_tuning_threads() -> None:
    """A test would wait for a minute now and then."""
    without_tuning_threads()


@pytest.fixture(scope="session")
def run_on_backend(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """``run_on_backend(backend, script, *checks)``: functions of a script, in a process."""
    environment = {
        # On tensors of a few entries PyTorch's threads triple the work; other tests run beside.
        "OMP_NUM_THREADS": "1",
        # Most of what JAX compiles here it compiled before, in this process or an earlier one.
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("jax")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "PYTHONPATH": str(ROOT),
    }

    def run(backend: str, script: Path, *checks: str) -> None:
        if importlib.util.find_spec(backend) is None:
            pytest.skip(f"{backend} is not installed")
        done = subprocess.run(
            [sys.executable, str(script), *checks],
            env={**os.environ, **environment, "KERAS_BACKEND": backend},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        if done.returncode != 0:
            pytest.fail(done.stderr[-3000:])

    return run
