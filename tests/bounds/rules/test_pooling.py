"""Exact Jacobians of Keras' poolings against their rules."""

import math
from pathlib import Path

import keras
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.bounds.rules import pooling
from lipdp.bounds.rules.base import Shapes
from lipdp.bounds.rules.pooling import RULES
from lipdp.errors import UnsupportedLayer
from lipdp.numerics import unit_roundoff

HOST = 1.0 + 2.0**-40


def rule_of(layer, sample):
    output = layer.compute_output_shape((1, *sample))[1:]
    return RULES[type(layer)](layer, Shapes((tuple(sample),), tuple(output)))


def points(shape, seed):
    rng = np.random.default_rng(seed)
    yield np.zeros(shape)
    yield np.where(rng.integers(0, 2, shape) > 0, -0.0, 0.0)
    yield -np.ones(shape)
    yield rng.integers(-1, 1, shape).astype("float64")
    yield rng.normal(size=shape)
    spike = np.zeros(shape)
    spike[tuple(n // 2 for n in shape)] = 1.0
    yield spike


@st.composite
def calls(draw):
    """(arguments, sizes) of a pooling along one to three axes."""
    padding, rank = draw(st.sampled_from(["valid", "same"])), draw(st.integers(1, 3))
    axes = [[draw(st.integers(1, n)) for n in (6 - rank, 3, 3)] for _ in range(rank)]
    if padding == "valid":
        axes = [[max(n, k), k, s] for n, k, s in axes]
    sizes, pool, strides = zip(*axes, strict=True)
    return {"pool_size": pool, "strides": strides, "padding": padding}, sizes


def make(kind, call):
    arguments, sizes = call
    # TensorFlow pools no volumes in float64 on CPUs.
    dtype = "float32" if len(sizes) == 3 else "float64"
    return getattr(keras.layers, f"{kind}Pooling{len(sizes)}D")(**arguments, dtype=dtype)


SAME_2 = ({"pool_size": (2, 2), "strides": (2, 2), "padding": "same"}, (3, 3))
TIED = ({"pool_size": (2, 2, 2), "strides": (2, 2, 2), "padding": "valid"}, (2, 2, 2))
SAME_3 = ({"pool_size": (3, 3), "strides": (1, 1), "padding": "same"}, (4, 4))


@given(call=calls(), seed=st.integers(0, 9))
@example(call=SAME_2, seed=0)
@example(call=SAME_3, seed=0)
@example(call=TIED, seed=0)
def test_max_pooling_selects_entries_of_each_window(call, seed, jacobian):
    layer = make("Max", call)
    sample = (*call[1], 2)
    rule = rule_of(layer, sample)
    for x in points(sample, seed):
        single = x.astype("float32")
        matrix = jacobian(layer, single)
        assert set(np.unique(matrix)) <= {0.0, 1.0}
        assert len(call[1]) == 3 or np.all(matrix.sum(axis=1) == 1.0)
        assert np.linalg.norm(matrix, 2) <= rule.backward_bound(1.0, 1.0) * HOST
        y = layer(single[None]).numpy().astype("float64")
        assert (
            np.linalg.norm(y)
            <= rule.lipschitz(1.0) * np.linalg.norm(single.astype("float64")) * HOST
        )
        assert rule.forward_bound(1.0) == rule.lipschitz(1.0)


def test_ties_of_volumes_all_receive_the_cotangent_on_tensorflow(jacobian):
    layer = make("Max", TIED)
    matrix = jacobian(layer, np.zeros((2, 2, 2, 1)))
    rule = rule_of(layer, (2, 2, 2, 1))
    assert rule.lipschitz(1.0) == rule.forward_bound(1.0) == 1.0
    assert np.linalg.norm(matrix, 2) == pytest.approx(rule.backward_bound(1.0, 1.0), rel=1e-12)
    assert rule.backward_bound(1.0, 1.0) == pytest.approx(math.sqrt(8.0))


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends_break_ties(monkeypatch, backend):
    monkeypatch.setattr(pooling.keras.backend, "backend", lambda: backend)
    assert rule_of(make("Max", TIED), (2, 2, 2, 1)).backward_bound(1.0, 1.0) == 1.0


def test_bound_of_overlapping_maxima_is_attained(jacobian):
    layer = make("Max", SAME_3)
    x = np.zeros((4, 4, 1))
    x[1, 2] = 1.0
    assert rule_of(layer, (4, 4, 1)).lipschitz(1.0) == 3.0
    assert np.linalg.norm(jacobian(layer, x), 2) == pytest.approx(3.0)
    assert np.linalg.norm(layer(x[None])) == pytest.approx(3.0)


@given(call=calls(), seed=st.integers(0, 9))
@example(call=SAME_2, seed=0)
@example(call=SAME_3, seed=0)
def test_average_pooling_has_the_product_of_the_axis_norms(call, seed, jacobian):
    layer = make("Average", call)
    sample = (*call[1], 2)
    rule = rule_of(layer, sample)
    x = np.random.default_rng(seed).normal(size=sample)
    exact = np.linalg.norm(jacobian(layer, x), 2)
    bound = rule.backward_bound(1.0, 1.0)
    slack = rule.rounding(unit_roundoff(layer.compute_dtype))
    assert exact <= bound * HOST * (1.0 + slack)
    assert bound <= exact * (1.0 + 1e-10 + slack)


def test_average_over_the_real_elements_of_a_cut_window():
    """Dividing by k everywhere would give 0.5."""
    rule = rule_of(make("Average", SAME_2), (3, 3, 1))
    assert rule.forward_bound(1.0) == 1.0
    x = np.zeros((3, 3, 1))
    x[2, 2] = 1.0
    assert np.linalg.norm(make("Average", SAME_2)(x[None])) == 1.0


def test_repeated_border_has_a_norm_of_its_own(monkeypatch):
    """One position of four is read by three of four taps of the last two windows."""
    monkeypatch.setattr(pooling.keras.backend, "backend", lambda: "torch")
    layer = keras.layers.AveragePooling1D(4, strides=1, padding="same")
    matrix = np.array([[2, 1, 1, 0], [1, 1, 1, 1], [0, 1, 1, 2], [0, 0, 1, 3]]) / 4.0
    expected = np.linalg.norm(matrix, 2)
    assert rule_of(layer, (4, 1)).lipschitz(1.0) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_global_poolings(rank, jacobian):
    sample = (*(4, 3, 2)[:rank], 2)
    mean = getattr(keras.layers, f"GlobalAveragePooling{rank}D")(dtype="float64")
    most = getattr(keras.layers, f"GlobalMaxPooling{rank}D")(dtype="float64")
    for x in points(sample, rank):
        exact = np.linalg.norm(jacobian(mean, x), 2)
        assert exact == pytest.approx(rule_of(mean, sample).lipschitz(1.0), rel=1e-12)
        slack = 1.0 + rule_of(most, sample).rounding(unit_roundoff("float64"))
        assert np.linalg.norm(jacobian(most, x), 2) <= slack
    assert np.linalg.norm(jacobian(most, x), 2) == 1.0


def test_derivative_of_a_global_maximum_is_unbounded_where_inputs_are(jacobian):
    rule = rule_of(keras.layers.GlobalMaxPooling1D(), (3, 2))
    assert rule.backward_bound(math.inf, 1.0) == math.inf
    nan = np.full((3, 1), np.nan)
    assert np.isnan(jacobian(keras.layers.GlobalMaxPooling1D(), nan)).any()


@pytest.mark.parametrize("layer_type", RULES, ids=lambda t: t.__name__)
def test_channels_first_is_refused(layer_type):
    pool = () if layer_type.__name__.startswith("Global") else (2,)
    layer = layer_type(*pool, data_format="channels_first")
    sample = (4,) * int(layer_type.__name__[-2]) + (4,)
    with pytest.raises(UnsupportedLayer, match="channels_last"):
        rule_of(layer, sample)


SCRIPT = Path(__file__).with_name("pooling_backend_checks.py")


@pytest.mark.backend
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_backend(run_on_backend, backend):
    run_on_backend(backend, SCRIPT, "check_keras_poolings", "check_own_poolings")
