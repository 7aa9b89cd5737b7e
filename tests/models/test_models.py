"""The architectures build, keep their promises and refuse what they cannot do."""

import subprocess
import sys

import keras
import numpy as np
import pytest

from lipdp.bounds import gradient_bounds, lipschitz_constant
from lipdp.errors import InvalidValue, UnknownName
from lipdp.layers import BoundedBias, SphereNormalization
from lipdp.losses import TemperedCrossentropy
from lipdp.models import MODELS

OPTIONS = [
    ("linear", {}),
    ("linear", {"min_norm": 0.1, "head_radius": 2.0, "input_radius": 5.0}),
    ("mlp", {}),
    ("mlp", {"widths": ()}),
    ("mlp", {"widths": [4, 3], "activation": "full_sort", "head": "spectral"}),
    ("mlp", {"widths": (4, 6), "activation": "group_sort", "bias_radius": 0.3}),
    ("mlp", {"widths": (4,), "activation": "householder_activation", "dtype": "float64"}),
    ("mlp", {"widths": (4,), "min_norm": 0.5, "head_radius": 3.0}),
]


def computes_float64():
    return keras.ops.convert_to_numpy(keras.ops.ones((), "float64")).dtype == "float64"


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_builds_with_finite_bounds_and_outputs(name, options):
    if options.get("dtype") == "float64" and not computes_float64():
        pytest.skip("this backend has no float64 at present")
    model = keras.Sequential(MODELS[name](5, 3, **options))
    x = np.random.default_rng(0).normal(size=(7, 5))
    x[0], x[1], x[2, 0] = 0.0, 1e30, np.nan
    logits = model.predict(x, verbose=0)
    assert logits.shape == (7, 3) and np.isfinite(logits).all()
    assert model.outputs[0].dtype == options.get("dtype", "float32")
    bounds = gradient_bounds(model, TemperedCrossentropy(4.0))
    assert len(bounds.parameters) == len(model.trainable_variables)
    assert all(0 < bound < np.inf for bound in bounds.parameters)
    slope = options.get("head_radius", 1.0) / options.get("min_norm", 1.0)
    assert 0 <= lipschitz_constant(model) <= slope * 1.001


def test_options_reach_their_layers():
    layers = MODELS["mlp"](5, 1, widths=(4, 6), bias_radius=0.3, min_norm=0.5)
    assert [layer.get_config()["radius"] for layer in layers if isinstance(layer, BoundedBias)] == [
        pytest.approx(0.3)
    ] * 2
    assert isinstance(layers[1], SphereNormalization) and layers[1].min_norm == 0.5
    assert layers[0].radius == 1.0
    assert [type(layer).__name__ for layer in MODELS["linear"](5, 1)] == [
        "BoundedInput",
        "FrobeniusDense",
    ]


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("mlp", {"widths": (4, 5)}, r"widths\[1\] must be even"),
        ("mlp", {"widths": (5,), "activation": "group_sort"}, r"widths\[0\] must be even"),
        ("mlp", {"widths": (0,)}, r"widths\[0\]"),
        ("mlp", {"widths": (2.5,)}, r"widths\[0\]"),
        ("mlp", {"widths": 128}, "widths"),
        ("mlp", {"widths": "64"}, "widths"),
        ("mlp", {"activation": "swish"}, "activation.*max_min"),
        ("mlp", {"activation": "spectral_dense"}, "activation"),
        ("mlp", {"head": "plain"}, "head.*frobenius"),
        ("mlp", {"head": "spectral", "head_radius": 2.0}, "radius"),
        ("mlp", {"bias_radius": -1.0}, "radius"),
        ("mlp", {"num_outputs": 0}, "num_outputs"),
        ("linear", {"num_outputs": 0}, "num_outputs"),
        ("linear", {"num_features": 0}, "num_features"),
        ("linear", {"num_features": True}, "num_features"),
        ("linear", {"input_radius": 0.0}, "radius"),
        ("linear", {"head_radius": float("nan")}, "radius"),
        ("linear", {"min_norm": 0.0}, "min_norm"),
    ],
)
def test_bad_options_are_refused_by_name(name, options, match):
    arguments = {"num_features": 5, "num_outputs": 2, **options}
    with pytest.raises(InvalidValue, match=match):
        MODELS[name](arguments.pop("num_features"), arguments.pop("num_outputs"), **arguments)


def test_names():
    assert MODELS.names() == ["convnet", "linear", "mixer", "mlp", "resnet"]
    with pytest.raises(UnknownName, match="linear, mixer, mlp"):
        MODELS["transformer"]


def test_listing_the_names_imports_no_keras():
    code = (
        "import sys; from lipdp.models import MODELS; MODELS.names(); print('keras' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
