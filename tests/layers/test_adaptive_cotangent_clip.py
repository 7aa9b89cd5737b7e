import json
import math
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from keras import ops

from lipdp.conversion import export
from lipdp.errors import InvalidValue
from lipdp.layers import BoundedInput
from lipdp.layers.clipping import AdaptiveCotangentClip, at_threshold
from lipdp.numerics import unit_roundoff

ROWS = [[3, 4], [30, -40], [np.nan, 1], [np.inf, 0], [3e38, 3e38], [0, 0], [1e-30, 0], [0, 6]]
MODES = [{}, {"jit_compile": False}, {"jit_compile": True}]


def built(initial=5.0, shape=(2,), **options):
    layer = AdaptiveCotangentClip(initial, **options)
    layer.build((None, *shape))
    return layer


def sent_back(layer, u, **options):
    """Cotangents sent back for u, and the gradient of the threshold."""
    u = tf.constant(u, layer.compute_dtype)

    @tf.function(**options)
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        return y, *tape.gradient(y, [x, layer.threshold.value], output_gradients=u)

    ones = tf.ones_like(u)
    y, back, count = run(ones) if options else run.python_function(ones)
    np.testing.assert_array_equal(y, ones)
    assert count.dtype == layer.compute_dtype
    return back.numpy(), float(count)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", MODES, ids=str)
def test_clips_each_sample_and_counts_the_long_and_the_broken_ones(options, dtype):
    layer = built(5.5, dtype=dtype)
    back, count = sent_back(layer, np.array(ROWS), **options)
    assert count == 5.0
    np.testing.assert_allclose(back[[0, 1]], [[3, 4], [3.3, -4.4]], rtol=1e-6)
    np.testing.assert_allclose(back[7], [0, 5.5], rtol=1e-6)
    assert not np.any(back[[2, 3, 5]])
    slack = 1.0 + layer.rounding(unit_roundoff(dtype))
    norms = np.linalg.norm(back.astype("float64"), axis=1)
    assert np.all(norms <= 5.5 * slack)
    assert norms[4] > 5.499


anything = hnp.arrays(np.float32, (6, 3), elements=st.floats(width=32, allow_nan=True))


@given(u=anything, radius=st.sampled_from([1e-30, 1e-3, 1.0, 1e10]))
@example(u=np.zeros((6, 3), np.float32), radius=1e-30)
@example(u=np.full((6, 3), 3e38, np.float32), radius=1e10)
@example(u=np.full((6, 3), np.nan, np.float32), radius=1.0)
def test_any_cotangents(u, radius):
    layer = built(radius, (3,), minimum=1e-30)
    back, count = sent_back(layer, u)
    lengths = np.linalg.norm(u.astype("float64"), axis=1)
    finite = np.isfinite(lengths)
    # Within a few roundings of the radius either answer is right.
    surely, maybe = (~finite | (lengths > radius * (1 + s)) for s in (1e-5, -1e-5))
    assert surely.sum() <= count <= maybe.sum()
    assert count == int(count)
    slack = 1.0 + layer.rounding(unit_roundoff("float32"))
    assert np.all(np.linalg.norm(back.astype("float64"), axis=1) <= radius * slack)
    np.testing.assert_array_equal(back[~maybe], u[~maybe])
    assert not np.any(back[~finite])
    long = surely & finite
    expected = u[long] / lengths[long, None]
    np.testing.assert_allclose(back[long] / radius, expected, rtol=1e-5, atol=1e-5)


def test_a_sample_changes_nothing_but_itself_and_the_count_by_at_most_one():
    layer, u = built(), np.array(ROWS, "float32")
    before, count = sent_back(layer, u)
    for row in range(len(u)):
        others = np.arange(len(u)) != row
        for other in (*ROWS, [0, 1e30], [-np.inf, np.nan]):
            changed = u.copy()
            changed[row] = other
            after, moved = sent_back(layer, changed)
            assert abs(moved - count) in (0.0, 1.0)
            np.testing.assert_array_equal(after[others], before[others])


def test_empty_slots_do_not_count():
    u = np.zeros((300, 2, 3), "float32")
    assert sent_back(built(1e-6, (2, 3)), u)[1] == 0.0
    u[7:107, 1, 2] = 1.0
    assert sent_back(built(1e-6, (2, 3)), u)[1] == 100.0


def test_large_counts_are_exact():
    u = np.ones((2**20 + 1, 1), "float32")
    for options in MODES:
        assert sent_back(built(0.5, (1,)), u, **options)[1] == 2**20 + 1


def test_every_use_counts():
    clip = built()
    u = tf.constant([[3.0, 4.5], [0.0, 1.0]])
    with tf.GradientTape() as tape:
        y = clip(u) + clip(2.0 * u)
    assert float(tape.gradient(y, clip.threshold.value, output_gradients=u)) == 2.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_weight_is_moved_into_the_range(dtype):
    layer = built(2.0, minimum=0.3, maximum=3.7, dtype=dtype)
    low, high = (np.dtype(dtype).type(v) for v in (0.3, 3.7))
    for weight, radius in [
        *((w, low) for w in (np.nan, -np.inf, -1.0, 0.0, 0.299)),
        *((w, high) for w in (3.71, 1e30, np.inf)),
        (1.25, 1.25),
    ]:
        layer.threshold.assign(weight)
        assert float(layer.radius()) == float(radius)
        back, count = sent_back(layer, [[0.0, 100.0], [0.0, 0.0]])
        assert (float(back[0, 1]), count) == (pytest.approx(float(radius), rel=1e-6), 1.0)


@given(
    present=st.floats(0.5, 8.0),
    count=st.floats(-50.0, 200.0),
    divisor=st.sampled_from([10, 64, 1000.0]),
    quantile=st.floats(0.01, 0.99),
    rate=st.floats(0.01, 2.0),
)
@example(present=1.0, count=10.0, divisor=100.0, quantile=0.9, rate=0.2)
def test_update_is_the_geometric_one(present, count, divisor, quantile, rate):
    layer = built(
        2.0, minimum=0.4, maximum=9.0, target_quantile=quantile, rate=rate, dtype="float64"
    )
    layer.threshold.assign(present)
    below = 1.0 - count / divisor
    expected = np.clip(present * np.exp(-rate * (below - quantile)), 0.4, 9.0)
    found = layer.updated(ops.convert_to_tensor(count, "float64"), divisor)
    assert float(found) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_update_stays_finite_and_in_range(dtype):
    layer = built(2.0, minimum=0.5, maximum=8.0, dtype=dtype)
    for count, expected in [(np.nan, 2), (np.inf, 8), (-np.inf, 0.5), (3e38, 8), (-3e38, 0.5)]:
        found = layer.updated(ops.convert_to_tensor(count, dtype), 64)
        assert (float(found), found.dtype) == (expected, dtype)
    layer.threshold.assign(np.nan)
    assert float(layer.updated(np.nan, 64)) == 0.5


@pytest.mark.parametrize("quantile", [0.5, 0.9])
def test_threshold_finds_the_quantile(quantile):
    # Lognormal norms: the quantiles 0.5 and 0.9 are 1 and 3.6, those of a swapped sign 1 and 0.28.
    rng = np.random.default_rng(0)
    layer = built(0.3, (3,), target_quantile=quantile)
    visited = []
    for _ in range(150):
        u = rng.normal(size=(150, 3))
        u *= rng.lognormal(size=(150, 1)) / np.linalg.norm(u, axis=1, keepdims=True)
        u[100:] = 0.0
        layer.threshold.assign(layer.updated(sent_back(layer, u)[1], 100))
        visited.append(float(layer.threshold.value))
    true = math.exp({0.5: 0.0, 0.9: 1.2815515655}[quantile])
    # 80 steps of 100 samples: the error of the mean is about 2 %.
    assert np.exp(np.mean(np.log(visited[70:]))) == pytest.approx(true, rel=0.1)


def test_bounds():
    layer = built(2.0, minimum=0.25)
    assert (layer.forward_bound(7.0), layer.lipschitz(7.0)) == (7.0, 1.0)
    # Not min(g, reference), so that bounds grow in proportion to the reference.
    assert [layer.backward_bound(7.0, g) for g in (0.0, 0.1, math.inf)] == [0.25] * 3
    assert layer.parameter_bounds(math.inf, math.inf) == [1.0]
    assert not layer.linear_backward


def test_a_frozen_layer_is_a_clip_at_its_threshold():
    layer = built(2.0, minimum=0.25)
    layer.threshold.assign(1.5)
    layer.trainable = False
    with at_threshold([layer], 7.0):
        assert [layer.backward_bound(7.0, g) for g in (0.5, math.inf)] == [0.5, 1.5]
    assert layer.parameter_bounds(7.0, 1.0) == []
    back, _ = sent_back(layer, [[0.0, 9.0]])
    assert back[0, 1] == pytest.approx(1.5, rel=1e-6)


def test_references_are_put_back():
    one, two = built(1.0), built(2.0)
    with pytest.raises(KeyError), at_threshold([one, two], [3.0, 4.0]):
        assert (one.backward_bound(0.0, 1.0), two.backward_bound(0.0, 1.0)) == (3.0, 4.0)
        with at_threshold([two], 5.0):
            assert (one.reference, two.reference) == (3.0, 5.0)
        raise KeyError
    assert (one.reference, two.reference) == (1e-3, 2e-3)
    for bad in (0.0, -1.0, math.nan, math.inf, [1.0, math.inf]):
        with pytest.raises(InvalidValue), at_threshold([one, two], bad):
            pass
    assert (one.reference, two.reference) == (1e-3, 2e-3)


OPTIONS = {
    "initial": 0.5,
    "target_quantile": 0.7,
    "rate": 0.1,
    "minimum": 0.01,
    "maximum": 30.0,
    "count_noise": 0.02,
}
LOADER = """
import json, sys
import keras
from keras import ops
import lipdp.layers.clipping

clip = keras.saving.load_model(sys.argv[1]).layers[-1]
print(json.dumps([clip.get_config(), float(ops.convert_to_numpy(clip.threshold)), clip.reference]))
"""


def test_comes_back_in_a_new_process(tmp_path):
    clip = AdaptiveCotangentClip(**OPTIONS)
    model = keras.Sequential([BoundedInput((3,), 1.0), clip])
    clip.threshold.assign(0.75)
    model.save(tmp_path / "m.keras")
    done = subprocess.run(
        [sys.executable, "-c", LOADER, str(tmp_path / "m.keras")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    config, threshold, reference = json.loads(done.stdout.splitlines()[-1])
    assert {k: config[k] for k in OPTIONS} == OPTIONS
    assert (threshold, reference) == (0.75, 0.01)


def test_export_drops_it():
    model = keras.Sequential([BoundedInput((3,), 1.0), AdaptiveCotangentClip(1.0)])
    exported = export(model)
    assert not exported.weights
    x = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(exported.predict(x, verbose=0), model.predict(x, verbose=0))


@pytest.mark.parametrize(
    "options",
    [
        *({"initial": v} for v in (0.0, -1.0, math.nan, math.inf, "1", None, True)),
        *({"target_quantile": v} for v in (0.0, 1.0, -0.1, 1.5, math.nan, "0.5")),
        *({"rate": v} for v in (0.0, -0.2, math.inf)),
        *({"count_noise": v} for v in (0.0, -0.2, math.nan)),
        *({"minimum": v} for v in (0.0, 1.5, math.nan)),
        *({"maximum": v} for v in (0.5, math.inf)),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(options):
    with pytest.raises(InvalidValue):
        AdaptiveCotangentClip(**{"initial": 1.0, **options})
