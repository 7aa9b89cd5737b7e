import os
import subprocess
import sys

import keras
import pytest

from lipdp.bounds.precision import usable, working_unit
from lipdp.errors import UnsafeSetting


def dense(dtype):
    layer = keras.layers.Dense(2, dtype=dtype)
    layer.build((None, 2))
    return layer


@pytest.mark.parametrize(
    "make", [keras.layers.Dense, lambda *a, **k: keras.layers.Conv1D(*a, 3, **k)]
)
def test_tensorflow_multiplies_in_the_dtype_it_is_given(make):
    for dtype, unit in (("float64", 2.0**-53), ("float32", 2.0**-24)):
        layer = make(2, dtype=dtype)
        layer.build((None, 5, 2))
        assert working_unit(layer) == unit


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "mixed_float16", "mixed_bfloat16"])
def test_half_and_mixed_precision_are_refused(dtype):
    with pytest.raises(UnsafeSetting, match="float16"):
        working_unit(dense(dtype))


def test_an_operation_without_a_dtype_is_refused():
    with pytest.raises(UnsafeSetting, match="unknown"):
        working_unit(object())


_COARSE = """
import keras
from lipdp.bounds.precision import working_unit
from lipdp.errors import UnsafeSetting

layer = keras.layers.Conv2D(4, 3)
layer.build((None, 8, 8, 3))
try:
    working_unit(layer)
except UnsafeSetting as error:
    print("refused:", error)
"""


def test_convolutions_in_bfloat16_are_noticed():
    if "bf16" not in _cpu_flags():
        pytest.skip("this processor has no bfloat16 products")
    environment = {**os.environ, "ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}
    done = subprocess.run(
        [sys.executable, "-c", _COARSE], env=environment, capture_output=True, text=True
    )
    assert "refused:" in done.stdout and "coarser" in done.stdout, done.stderr


def _cpu_flags():
    try:
        with open("/proc/cpuinfo") as file:
            return file.read()
    except OSError:
        return ""


def test_norms_whose_squares_may_overflow_are_unbounded():
    assert usable(1e18, 2.0**-24) == 1e18
    assert usable(1e19, 2.0**-24) == float("inf")
    assert usable(1e100, 2.0**-53) == 1e100
    assert usable(1e160, 2.0**-53) == float("inf")
