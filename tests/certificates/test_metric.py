"""The metric counts what ``radii`` certifies."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipdp.certificates import CertifiedAccuracy, certified_accuracy, radii
from lipdp.errors import InvalidValue


def value(metric, *arguments):
    metric.update_state(*arguments)
    return float(metric.result())


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from(["float32", "float64"]))
def test_agrees_with_radii(seed, classes, dtype):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(40, classes)).astype(dtype)
    labels = rng.integers(0, max(2, classes), 40)
    expected = certified_accuracy(radii(logits, labels, lipschitz=1.5, error=0.01), 0.2)
    ids = value(CertifiedAccuracy(0.2, 1.5, error=0.01), labels, logits)
    assert ids == pytest.approx(expected, abs=1e-6)
    assert value(CertifiedAccuracy(0.2, 1.5, error=0.01), labels[:, None], logits) == ids
    if classes > 1:
        one_hot = np.eye(classes, dtype="float32")[labels]
        assert value(CertifiedAccuracy(0.2, 1.5, error=0.01), one_hot, logits) == ids


def test_boundary_is_not_counted():
    # Margin 1, one logit: certified strictly below radius 1.
    assert value(CertifiedAccuracy(1.0, 1.0), [1], np.array([[1.0]])) == 0.0
    assert value(CertifiedAccuracy(0.999, 1.0), [1], np.array([[1.0]])) == 1.0
    assert value(CertifiedAccuracy(0.0, 1.0), [1, 0], np.array([[0.0], [0.0]])) == 0.0
    assert value(CertifiedAccuracy(0.1, 1.0), [0.5], np.array([[-3.0]])) == 0.0


def test_rounding_the_threshold_never_adds_a_sample():
    for radius in np.linspace(0.1, 0.2, 20):
        exact = 2**0.5 * radius
        near = np.float64(np.float32(exact))
        # Between the threshold rounded to float32 and the exact one, if it was rounded down.
        logits = np.array([[(near + exact) / 2, 0.0]])
        proved = certified_accuracy(radii(logits, [0], lipschitz=1.0), radius)
        assert value(CertifiedAccuracy(radius, 1.0), [0], logits) <= proved


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_logits_and_foreign_labels_are_wrong(bad):
    logits = np.array([[5.0, bad, 0.0], [-5.0, -6.0, -7.0], [1.0, 0.0, 0.0]], dtype="float32")
    assert value(CertifiedAccuracy(0.0, 0.0), [0, 7, 0], logits) == pytest.approx(1 / 3)
    assert value(CertifiedAccuracy(0.0, 0.0), [1, 0, 0], np.array([[bad], [bad], [-1.0]])) == (
        pytest.approx(1 / 3)
    )


def test_weights_batches_and_reset():
    metric = CertifiedAccuracy(0.0, 1.0)
    logits = np.array([[1.0, 0.0], [1.0, 0.0]], dtype="float32")
    metric.update_state([0, 1], logits, [3.0, 1.0])
    assert float(metric.result()) == 0.75
    metric.update_state([0, 1], logits, [[0.0], [4.0]])
    assert float(metric.result()) == 0.375
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_in_compile_and_through_serialisation():
    metric = CertifiedAccuracy(0.3, 2.0, error=0.1, name="robust")
    copy = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert copy.get_config() == metric.get_config()
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(loss="mse", metrics=[copy])
    x, y = np.random.default_rng(0).normal(size=(50, 3)), np.tile([0, 1], 25)
    found = model.evaluate(x, np.eye(2)[y], verbose=0, return_dict=True)["robust"]
    logits = model.predict(x, verbose=0)
    expected = certified_accuracy(radii(logits, y, lipschitz=2.0, error=0.1), 0.3)
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["radius", "lipschitz", "error"])
def test_bad_numbers_are_refused(name):
    arguments = {"radius": 0.1, "lipschitz": 1.0, "error": 0.0, name: float("nan")}
    with pytest.raises(InvalidValue, match=name):
        CertifiedAccuracy(**arguments)
