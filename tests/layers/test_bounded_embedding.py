"""BoundedEmbedding: what ids select, what they train, and what is promised about it."""

import keras
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lipdp
from lipdp.bounds import gradient_bounds, lipschitz_constant
from lipdp.bounds.probe import GradientProbe
from lipdp.errors import InvalidValue, UnboundedGradient
from lipdp.layers import MaxMin, SpectralDense, SphereNormalization
from lipdp.layers.embedding import BoundedEmbedding
from lipdp.losses import TemperedCrossentropy


def build(layer, *shape):
    layer.build((None, *shape))
    return keras.ops.convert_to_numpy(layer.table)


def probe_of(layer):
    return GradientProbe(layer, lambda ids, cotangent: keras.ops.sum(layer(ids) * cotangent))


def table_gradient(layer, ids, cotangent):
    return probe_of(layer).probe(ids, cotangent)[1][0]


ROWS = 5
WANTED = [
    ([0, 4, 4, 1], "int32"),
    ([-1, 5, -(2**31), 2**31 - 1], "int32"),
    ([2**32 + 1, -(2**40), 3, 2**62], "int64"),
    ([0, 2**32 + 1, 2**63 + 1, 4], "uint64"),
    ([0, 2**31 + 1, 2**32 - 1, 4], "uint32"),
    ([0, 255, 5, 4], "uint8"),
    ([1, 0, 1, 1], "bool"),
    ([0.0, -0.0, 4.0, 5.0], "float32"),
    ([np.nan, np.inf, -np.inf, 3e38], "float32"),
    ([0.5, -0.5, 4.5, 1e-30], "float32"),
    ([2.0 + 2.0**-40, 2.0, np.nan, 1e300], "float64"),
    ([3.0, 2.5, np.nan, 60000.0], "float16"),
]


@pytest.mark.parametrize(("ids", "dtype"), WANTED)
@pytest.mark.parametrize("own", ["float32", "float64"])
def test_ids_select_their_row_and_everything_else_zero(ids, dtype, own):
    layer = BoundedEmbedding(ROWS, 3, dtype=own)
    table = build(layer, 4)
    given_ids = np.asarray(ids, dtype)
    exact = [float(i) for i in given_ids]
    wanted = [table[int(i)] if i in range(ROWS) else np.zeros(3) for i in exact]
    found = keras.ops.convert_to_numpy(layer(keras.ops.convert_to_tensor(given_ids[None])))
    assert found.dtype == own
    np.testing.assert_array_equal(found[0], wanted)


@pytest.fixture(scope="module")
def four_rows():
    layer = BoundedEmbedding(4, 2, dtype="float64")
    build(layer, 5)
    return layer, probe_of(layer)


@given(
    ids=st.lists(st.sampled_from([0, 1, 2, 3, -1, 4, 10**6]), min_size=5, max_size=5),
    seed=st.integers(0, 10**6),
)
@example(ids=[1, 1, 1, 1, 1], seed=0)  # a sparse gradient would keep one of the five
@example(ids=[-1, 4, -1, 4, -1], seed=0)
def test_gradient_is_the_sum_over_equal_ids(ids, seed, four_rows):
    layer, probe = four_rows
    g = np.random.default_rng(seed).normal(size=(5, 2))
    wanted = np.zeros((4, 2))
    for i, row in zip(ids, g, strict=True):
        if 0 <= i < 4:
            wanted[i] += row
    found = probe.probe(np.asarray([ids]), g[None])[1][0]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
    bound = layer.parameter_bounds(np.inf, float(np.linalg.norm(g)))[0]
    assert np.linalg.norm(found) <= bound * (1.0 + layer.rounding(2.0**-53))


@pytest.mark.parametrize(("shape", "root"), [((), 1.0), ((4,), 2.0), ((3, 3), 3.0)])
def test_bounds_are_attained_by_one_id_at_all_positions(shape, root):
    layer = BoundedEmbedding(ROWS, 2, radius=0.5, dtype="float64")
    build(layer, *shape)
    layer.table.assign(layer.constraint(np.full((ROWS, 2), 30.0)))
    ids, g = np.full((1, *shape), 3), np.full((1, *shape, 2), 0.25)
    output = np.linalg.norm(keras.ops.convert_to_numpy(layer(ids)))
    assert layer.forward_bound(np.inf) == root * 0.5
    assert 0.999999 * layer.forward_bound(0.0) < output <= layer.forward_bound(0.0)
    bound = layer.parameter_bounds(np.inf, float(np.linalg.norm(g)))[0]
    norm = np.linalg.norm(table_gradient(layer, ids, g))
    assert 0.999999 * bound < norm <= bound * (1.0 + layer.rounding(2.0**-53))


def test_a_cotangent_at_an_unknown_id_trains_nothing_however_bad():
    layer = BoundedEmbedding(ROWS, 2)
    build(layer, 3)
    g = np.array([[[np.nan, 1.0], [np.inf, 1.0], [1.0, 2.0]]], "float32")
    found = table_gradient(layer, np.array([[-1, 9, 2]]), g)
    np.testing.assert_array_equal(found, [[0, 0], [0, 0], [1, 2], [0, 0], [0, 0]])


def test_rows_stay_in_their_balls_and_untouched_rows_as_they_are():
    layer = BoundedEmbedding(6, 3, radius=0.25)
    model = keras.Sequential([keras.Input((2,), dtype="int32"), layer])
    start = keras.ops.convert_to_numpy(layer.table)
    model.compile(keras.optimizers.SGD(100.0), "mse")
    ids = np.random.default_rng(0).integers(0, 4, (32, 2))
    model.fit(ids, np.ones((32, 2, 3)), batch_size=8, verbose=0)
    table = keras.ops.convert_to_numpy(layer.table)
    norms = np.linalg.norm(table.astype("float64"), axis=1)
    assert norms.max() <= 0.25 and norms[:4].min() > 0.24
    np.testing.assert_array_equal(table[4:], start[4:])
    assert np.linalg.norm(start, axis=1).max() <= 0.25


def test_present_norms_count():
    layer = BoundedEmbedding(2, 1)
    build(layer, 1)
    layer.table.assign([[0.25], [-0.5]])
    assert layer.forward_bound(1.0) == 1.0
    layer.trainable = False
    assert 0.5 <= layer.forward_bound(1.0) < 0.5001
    assert layer.parameter_bounds(1.0, 1.0) == []
    layer.trainable = True
    layer.table.assign([[0.25], [-7.0]])
    assert layer.forward_bound(1.0) >= 7.0
    layer.table.assign([[0.25], [np.nan]])
    assert layer.forward_bound(1.0) == np.inf


def test_free_rows_have_no_bound_until_they_are_frozen():
    layer = BoundedEmbedding(3, 2, radius=None)
    table = build(layer, 4)
    assert layer.forward_bound(1.0) == np.inf
    layer.trainable = False
    greatest = 2.0 * np.linalg.norm(table.astype("float64"), axis=1).max()
    assert greatest <= layer.forward_bound(1.0) <= greatest * 1.0001


def text_model(radius, dtype="int32", tokens=(6,)):
    """Ids to two logits; free rows are normalised."""
    keras.utils.set_random_seed(0)
    between = [SphereNormalization(1.0, 0.5)] if radius is None else []
    fold = [keras.layers.Flatten()] if tokens else []
    return lipdp.Sequential(
        [
            keras.Input(tokens, dtype=dtype),
            BoundedEmbedding(20, 4, radius=radius),
            *between,
            *fold,
            SpectralDense(8),
            MaxMin(),
            SpectralDense(2),
        ]
    )


def test_the_engine_takes_it_first():
    loss = TemperedCrossentropy(4.0)
    bounds = gradient_bounds(text_model(0.5), loss)
    exact = np.sqrt(6) * bounds.loss_lipschitz * np.array([1.0, 0.5, 0.5])
    np.testing.assert_allclose(bounds.parameters, exact, rtol=1e-4)
    assert np.all(np.asarray(bounds.parameters) >= exact)
    assert lipschitz_constant(text_model(0.5)) == np.inf
    bare = keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            BoundedEmbedding(20, 4, radius=None),
            keras.layers.Flatten(),
            SpectralDense(2),
        ]
    )
    with pytest.raises(UnboundedGradient, match="kernel"):
        gradient_bounds(bare, loss)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("radius", "dtype", "tokens"),
    [(None, "int32", (6,)), (1.0, "float32", (6,)), (1.0, "int32", ())],
)
def test_trains_privately(radius, dtype, tokens, tmp_path):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 18, (60, *tokens)).astype(dtype)
    y = (np.reshape(ids, (60, -1))[:, 0] < 10).astype("int64")
    model = text_model(radius, dtype, tokens)
    start = [keras.ops.convert_to_numpy(v) for v in model.trainable_variables]
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-3, accountant="rdp")
    model.compile(keras.optimizers.SGD(0.5), TemperedCrossentropy(4.0), privacy=budget)
    model.fit(ids, y, batch_size=30, epochs=1, verbose=0)
    assert model.ledger.steps == 2
    moved = [
        np.abs(keras.ops.convert_to_numpy(v) - s)
        for v, s in zip(model.trainable_variables, start, strict=True)
    ]
    # Rows that no record names get noise too.
    assert all(m.max() > 0 for m in moved) and np.all(moved[0].max(axis=1) > 0)
    model.save(tmp_path / "model.keras")
    again = lipdp.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(ids, verbose=0), model.predict(ids, verbose=0))
    assert again.layers[0].get_config()["radius"] == radius


@pytest.mark.parametrize(
    ("arguments", "match"),
    [((0, 3), "num_embeddings"), ((3, 2.5), "units"), ((3, 3, 0.0), "radius")],
)
def test_bad_arguments_are_refused(arguments, match):
    with pytest.raises(InvalidValue, match=match):
        BoundedEmbedding(*arguments)


def test_an_unknown_number_of_ids_is_refused():
    with pytest.raises(InvalidValue, match="number of ids"):
        BoundedEmbedding(3, 2)(keras.Input((None,), dtype="int32"))
