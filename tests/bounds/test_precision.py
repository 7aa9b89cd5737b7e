import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from lipdp.bounds import precision
from lipdp.bounds.precision import usable, working_unit
from lipdp.errors import UnsafeSetting
from lipdp.layers import Scattering2D


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


@pytest.mark.parametrize(
    ("layer", "convolves"), [(Scattering2D(), True), (keras.layers.Flatten(), False)]
)
def test_a_layer_is_probed_by_what_it_runs(layer, convolves, monkeypatch):
    """Convolutions may run in a coarser format than products, or the other way round."""
    seen = []
    monkeypatch.setattr(precision, "_probed_unit", lambda dtype, run: seen.append(run) or 0.0)
    working_unit(layer)
    assert seen == [precision._convolution if convolves else precision._product]


@pytest.mark.parametrize("bits", [7, 10], ids=["bfloat16", "TF32"])
@pytest.mark.parametrize("name", ["_product", "_convolution"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_operands_in_a_coarser_format_are_noticed(name, bits, dtype, monkeypatch):
    operation = getattr(precision, name)

    def coarse(tensor):
        mantissa, exponent = np.frexp(np.asarray(tensor, "float64"))
        rounded = np.ldexp(np.round(np.ldexp(mantissa, bits + 1)), exponent - bits - 1)
        return operation(keras.ops.convert_to_tensor(rounded, dtype=tensor.dtype))

    monkeypatch.setattr(precision, name, coarse)
    layer = dense(dtype) if name == "_product" else Scattering2D(dtype=dtype)
    with pytest.raises(UnsafeSetting, match="coarser"):
        working_unit(layer)


def test_convolutions_are_probed_whatever_the_format_of_images():
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    try:
        precision._probed_unit.cache_clear()
        assert working_unit(Scattering2D()) == 2.0**-24
    finally:
        keras.config.set_image_data_format(before)


_COARSE = """
import keras
import numpy as np
from lipdp.bounds.precision import working_unit
from lipdp.errors import UnsafeSetting
from lipdp.layers import Scattering2D

layer = keras.layers.Conv2D(4, 3)
layer.build((None, 8, 8, 3))
for one in (layer, Scattering2D()):
    try:
        working_unit(one)
    except UnsafeSetting as error:
        print("refused:", error)

rng = np.random.default_rng(0)
x, kernel = rng.standard_normal((32, 14, 14, 32)), rng.standard_normal((3, 3, 32, 64))
exact = np.asarray(keras.ops.conv(x, kernel))
found = np.asarray(keras.ops.conv(x.astype("float32"), kernel.astype("float32")))
print("error:", np.abs(found - exact).max() / np.abs(exact).max())
"""


def test_convolutions_in_bfloat16_are_noticed():
    # The setting allows bfloat16; which products then use it depends on the processor.
    environment = {**os.environ, "ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}
    done = subprocess.run(
        [sys.executable, "-c", _COARSE], env=environment, capture_output=True, text=True
    )
    error = float(done.stdout.rpartition("error:")[2])
    # Of float32 it is some 1e-6, of bfloat16 some 1e-3.
    assert done.stdout.count("refused:") == (2 if error > 1e-4 else 0), done.stdout
    assert done.stdout.count("coarser") == done.stdout.count("refused:")


def test_norms_whose_squares_may_overflow_are_unbounded():
    assert usable(1e18, 2.0**-24) == 1e18
    assert usable(1e19, 2.0**-24) == float("inf")
    assert usable(1e100, 2.0**-53) == 1e100
    assert usable(1e160, 2.0**-53) == float("inf")
