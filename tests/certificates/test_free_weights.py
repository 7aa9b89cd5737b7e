"""Radii at the present weights, whatever sets they have: never above the exact distance."""

import importlib
import math
import warnings

import keras
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lipdp
import lipdp.layers as ll
from lipdp.bounds import inference_bounds, lipschitz_constant, numerical_error
from lipdp.certificates import UncertifiedWarning, certified_accuracy, certify
from lipdp.losses import MulticlassHinge, TemperedBinaryCrossentropy
from tests.certificates.test_chunks import ByRows

K = keras.layers


def plain(kernel, bias=None, dtype="float32"):
    kernel = np.asarray(kernel)
    head = K.Dense(kernel.shape[1], use_bias=bias is not None, dtype=dtype)
    model = keras.Sequential([keras.Input(kernel.shape[:1], dtype=dtype), head])
    model.set_weights([kernel] if bias is None else [kernel, bias])
    return model


def one_row():
    return np.array([[1.0, 0.0]], "float32")


def silent(model, x, y=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertifiedWarning)
        return certify(model, x, y, **options)


@pytest.mark.parametrize("size", [1e-10, 0.5, 1e15])
def test_a_plain_dense_layer_has_the_exact_distance(size):
    found = certify(plain(size * np.eye(2)), one_row())
    assert found.radii[0] <= 0.5**0.5 and round(found.radii[0], 5) == 0.70711
    assert found.proved.all() and found.reason == ""


@pytest.mark.parametrize(
    "layer", [lambda: ll.SpectralDense(2), lambda: ll.SpectralDense(2, trainable=False)]
)
@pytest.mark.parametrize("front", [[], [lambda: ll.BoundedInput((2,), 1.5)]])
def test_a_kernel_of_norm_exactly_one_has_it_too(layer, front):
    model = keras.Sequential([keras.Input((2,)), *(make() for make in front), layer()])
    model.layers[-1].kernel.assign(np.eye(2))
    radius = certify(model, one_row()).radii[0]
    assert radius <= 0.5**0.5 and radius == pytest.approx(0.7071, abs=2e-5)


def exact_distances(kernel, bias, x):
    """To the nearest hyperplane between the predicted class and another one, in float64."""
    w, b = np.asarray(kernel, "float64"), np.asarray(bias, "float64")
    z = x.astype("float64") @ w + b
    best = z.argmax(axis=1)
    rows = np.arange(len(x))
    found = np.full(len(x), np.inf)
    for k in range(w.shape[1]):
        gap, normal = z[rows, best] - z[:, k], (w[:, best] - w[:, [k]]).T
        length = np.linalg.norm(normal, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.where(length > 0, gap / length, np.where(gap > 0, np.inf, 0.0))
        found = np.where(best == k, found, np.minimum(found, distance))
    return found


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 2**32 - 1), st.sampled_from([-20, -6, 0, 4, 12]), st.booleans())
@example(1, -20, True)
@example(2, 12, False)
def test_linear_models_are_never_above_the_exact_distance(seed, exponent, with_bias):
    rng = np.random.default_rng(seed)
    inner, classes = int(rng.integers(1, 6)), int(rng.integers(2, 5))
    kernel = (rng.normal(size=(inner, classes)) * 10.0**exponent).astype("float32")
    bias = (rng.normal(size=classes) * 10.0**exponent * with_bias).astype("float32")
    x = (rng.normal(size=(40, inner)) * 10.0 ** rng.uniform(-3, 3, size=(40, 1))).astype("float32")
    exact = exact_distances(kernel, bias, x)
    found = silent(plain(kernel, bias), x)
    assert (found.radii <= exact).all()
    if exponent >= -6:
        clear = exact > 1e-3 * np.maximum(np.linalg.norm(x, axis=1), 1.0)
        assert found.proved[clear].all()
        assert (found.radii[clear] >= 0.9 * exact[clear]).all()


def image_model(*layers):
    return keras.Sequential([keras.Input((4, 4, 2)), *layers, K.Flatten(), K.Dense(3)])


def nested():
    inner = keras.Sequential([keras.Input((6,)), K.Dense(5, "gelu"), K.Dense(5)])
    inner.trainable = False
    return keras.Sequential([keras.Input((6,)), inner, ll.GroupSort(5), K.Dense(3)])


def gate():
    inputs = keras.Input((6,))
    both = K.Multiply()([K.Dense(5)(inputs), K.Dense(5, "sigmoid")(inputs)])
    return keras.Model(inputs, K.Dense(3)(K.Concatenate()([both, inputs])))


FREE = {
    "dense": lambda: keras.Sequential([keras.Input((6,)), K.Dense(8, "relu"), K.Dense(3)]),
    "fused curve": lambda: keras.Sequential([keras.Input((6,)), K.Dense(8, "tanh"), K.Dense(3)]),
    "prelu and leaky": lambda: keras.Sequential(
        [keras.Input((6,)), K.Dense(8), K.PReLU(), K.Dense(8), K.LeakyReLU(), K.Dense(3)]
    ),
    "convolution": lambda: image_model(K.Conv2D(3, 3, activation="relu"), K.MaxPooling2D(2)),
    "strided": lambda: image_model(K.Conv2D(3, 3, strides=2, padding="same"), K.ReLU()),
    "transposed": lambda: image_model(K.Conv2DTranspose(2, 2, strides=2), K.ReLU()),
    "depthwise": lambda: image_model(K.DepthwiseConv2D(3, depth_multiplier=2), K.ReLU()),
    "separable": lambda: image_model(K.SeparableConv2D(4, 3, activation="sigmoid")),
    "normalised": lambda: keras.Sequential(
        [
            keras.Input((6,)),
            K.Dense(8),
            ll.SphereNormalization(1.0, 0.5),
            K.Dense(8),
            K.ReLU(),
            ll.CenterNorm(),
            ll.BoundedScale(2.0),
            ll.BoundedBias(1.0),
            K.Dense(3),
        ]
    ),
    "bounded input": lambda: keras.Sequential(
        [ll.BoundedInput((6,), 2.0), K.Dense(8), ll.MaxMin(), K.Dropout(0.5), K.Dense(3)]
    ),
    "nested and frozen": nested,
    "gate": gate,
}


@pytest.mark.parametrize("name", FREE)
def test_no_attack_succeeds_inside_a_radius(name):
    """Towards rows of another class, along random directions, and by gradients of differences."""
    keras.utils.set_random_seed(3)
    model = FREE[name]()
    rng = np.random.default_rng(4)
    x = rng.normal(size=(60, *model.input_shape[1:])).astype("float32")
    found = certify(model, x)
    assert found.proved.all() and (found.radii > 1e-4).mean() > 0.5
    flat, sizes = x.reshape(60, -1), 0.999 * found.radii
    others = towards_others(flat, found.predictions)
    steps = [*rng.normal(size=(6, *flat.shape)), *others, *uphill(model, x, found.predictions)]
    lengths = [np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-30) for step in steps]
    moved = [flat + step / one * sizes[:, None] for step, one in zip(steps, lengths, strict=True)]
    moved = np.stack(moved).astype("float32")
    inside = np.linalg.norm(moved - flat.astype("float64"), axis=2) < found.radii
    logits = model.predict_on_batch(moved.reshape(-1, *x.shape[1:])).reshape(*inside.shape, -1)
    assert (logits.argmax(axis=2) == found.predictions)[inside].all() and inside.mean() > 0.8


def towards_others(flat, classes):
    for k in np.unique(classes):
        gaps = np.linalg.norm(flat[:, None] - flat[None], axis=-1) + 1e9 * (classes != k)
        yield flat[gaps.argmin(axis=1)] - flat


def uphill(model, x, classes):
    """The direction in which each other logit gains most, by differences in each coordinate."""
    flat = x.reshape(len(x), -1)
    moved = flat[None] + 1e-2 * np.eye(flat.shape[1], dtype="float32")[:, None]
    points = np.concatenate([flat[None], moved]).reshape(-1, *x.shape[1:])
    z = model.predict_on_batch(points).reshape(len(moved) + 1, len(x), -1)
    slopes = np.moveaxis(z[1:] - z[0], 0, 1)
    own = slopes[np.arange(len(x)), :, classes]
    return [slopes[:, :, k] - own for k in range(z.shape[2])]


@pytest.mark.parametrize("name", FREE)
def test_errors_cover_float32_at_present_weights(name):
    keras.utils.set_random_seed(5)
    low = FREE[name]()
    kind = keras.Sequential if isinstance(low, keras.Sequential) else keras.Model
    high = kind.from_config(in_float64(low.get_config()))
    high.set_weights(low.get_weights())
    rng = np.random.default_rng(6)
    x = rng.normal(size=(200, *low.input_shape[1:])).astype("float32")
    x /= np.linalg.norm(x.reshape(200, -1), axis=1).reshape(-1, *[1] * (x.ndim - 1))
    x = (30.0 * x).astype("float32")
    computed, exact = (np.asarray(m.predict_on_batch(x), "float64") for m in (low, high))
    gap = np.linalg.norm(computed - exact, axis=1).max()
    bound = numerical_error(low, 30.01) + numerical_error(high, 30.01)
    assert 0 < gap <= bound < 0.1


def in_float64(config):
    if isinstance(config, dict):
        return {k: "float64" if k == "dtype" else in_float64(v) for k, v in config.items()}
    if isinstance(config, list | tuple):
        return type(config)(in_float64(v) for v in config)
    return config


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu6", "softmax", "hard_sigmoid"])
def test_the_error_of_products_counts_in_front_of_a_ceiling(activation):
    """Products of size 1e6 that cancel are off by 0.06; outputs of at most 1 say nothing of it."""
    models = []
    for dtype in ("float32", "float64"):
        layer = K.Dense(2, activation=activation, use_bias=False, dtype=dtype)
        model = keras.Sequential([ll.BoundedInput((2,), 3e6, dtype=dtype), layer])
        model.set_weights([np.array([[0.7, -0.3], [-0.7, 0.3]], "float32")])
        models.append(model)
    low, high = models
    rng = np.random.default_rng(7)
    x = np.repeat(rng.uniform(5e5, 1e6, size=(500, 1)), 2, axis=1) + rng.normal(size=(500, 2))
    x = x.astype("float32")
    gap = np.asarray(low.predict_on_batch(x), "float64") - high.predict_on_batch(x)
    gap = np.linalg.norm(gap, axis=1).max()
    assert 1e-3 < gap <= numerical_error(low) + numerical_error(high)


@pytest.mark.parametrize("x", [0.1, 0.4, 0.9])
def test_a_radius_ends_where_its_constant_does(x):
    """``1 - t^2`` is flat around 0 and falls ever faster: it changes its sign at 1."""
    inputs = keras.Input((1,))
    dense = keras.layers.Dense(1)
    model = keras.Model(inputs, dense(keras.layers.Multiply()([inputs, inputs])))
    dense.set_weights([np.asarray([[-1.0]]), np.ones(1)])
    (radius,) = certify(model, np.asarray([[x]], "float32")).radii
    assert 0.0 < radius <= 1.0 - x


def test_constants_of_products_are_those_of_present_norms():
    """The set of free kernels has no norm, and a product needs one of its other factor."""
    inputs = ll.BoundedInput((3,), 2.0)
    x = keras.Input((3,))
    ball = inputs(x)
    one, other = K.Dense(3, use_bias=False), K.Dense(3, use_bias=False)
    model = keras.Model(x, K.Multiply()([one(ball), other(ball)]))
    one.kernel.assign(2.0 * np.eye(3)), other.kernel.assign(3.0 * np.eye(3))
    # d(a b) <= |b| 2 + |a| 3 with |a| <= 4 and |b| <= 6.
    assert 24.0 <= lipschitz_constant(model) <= 24.0 * (1 + 1e-4)


def frozen():
    extractor = keras.Sequential([keras.Input((3,)), K.Dense(3)])
    return [keras.Input((3,)), ll.FrozenFeatures(extractor)]


SAYS = {
    "embedding": (
        lambda: [keras.Input((3,), dtype="int32"), ll.BoundedEmbedding(5, 4), K.Flatten()],
        "BoundedEmbedding.* has no finite Lipschitz constant",
    ),
    "frozen features": (frozen, "FrozenFeatures.* has no finite Lipschitz constant"),
    "large weights": (lambda: [keras.Input((3,)), K.Dense(3, name="big")], "overflow at.*'big'"),
    "weights that are none": (
        lambda: [keras.Input((3,)), K.Dense(3, name="none")],
        "'none'.* is not finite",
    ),
}


@pytest.mark.parametrize("name", SAYS)
def test_what_cannot_be_proved_is_said(name):
    layers, reason = SAYS[name]
    model = keras.Sequential([*layers(), K.Dense(3)])
    value = {"large weights": 1e20, "weights that are none": np.nan}.get(name)
    if value is not None:
        model.layers[0].kernel.assign(np.full((3, 3), value))
    x = np.ones((4, 3), "int32" if name == "embedding" else "float32")
    with pytest.warns(UncertifiedWarning, match=f"4 of 4 rows: .*{reason}"):
        found = certify(model, x)
    assert not found.proved.any() and not found.radii.any()
    assert found.reason.startswith("Nothing is certified of 4 of 4 rows")


def test_single_rows_without_a_proof_are_counted():
    x = np.array([[1.0, 0.0], [np.nan, 0.0], [2.0, 1.0], [1e30, 0.0], [np.inf, 0.0]], "float32")
    with pytest.warns(UncertifiedWarning, match="3 of 5 rows"):
        found = certify(plain(np.eye(2)), x)
    assert found.proved.tolist() == [True, False, True, False, False]
    assert found.radii[[0, 2]] == pytest.approx(0.5**0.5, abs=1e-5)
    assert not found.radii[~found.proved].any()


def test_a_margin_within_the_rounding_error_is_a_proved_zero():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = certify(plain(np.eye(2)), np.array([[1.0, 1.0]], "float32"))
    assert found.radii.tolist() == [0.0] and found.proved.all() and not found.reason


def test_a_layer_that_speaks_of_its_set_alone_must_be_in_it():
    class Own(ll.LipschitzLayer):
        linear_backward = True

        def build(self, shape):
            from lipdp.projections import MaxBall

            self.scale = self.add_weight(shape=(), initializer="ones", constraint=MaxBall(1.0))

        def call(self, inputs):
            return inputs * self.scale

        def forward_bound(self, x):
            return x

        def backward_bound(self, x, g):
            return g

        def parameter_bounds(self, x, g):
            return [x * g]

    model = keras.Sequential([ll.BoundedInput((2,), 2.0), Own(name="own")])
    assert math.isfinite(numerical_error(model))
    model.layers[-1].scale.assign(2.0)
    assert numerical_error(model) == math.inf
    assert "outside the set" in inference_bounds(model).reason


def test_many_norms_take_few_balls(monkeypatch):
    module = importlib.import_module("lipdp.certificates.certify")
    seen = []
    monkeypatch.setattr(
        module, "inference_bounds", lambda *a: seen.append(a) or inference_bounds(*a)
    )
    rng = np.random.default_rng(8)
    x = (rng.normal(size=(500, 2)) * 10.0 ** rng.uniform(-6, 6, size=(500, 1))).astype("float32")
    found = certify(plain(np.eye(2)), x)
    assert len(seen) <= 13 and found.proved.all()
    exact = exact_distances(np.eye(2), np.zeros(2), x)
    assert (found.radii <= exact).all()
    assert np.median(found.radii / exact) > 0.999


def test_rows_read_when_asked_and_several_inputs_are_certified_alike():
    x = np.random.default_rng(9).normal(size=(30, 2)).astype("float32")
    model = plain(np.eye(2))
    np.testing.assert_allclose(certify(model, ByRows(x)).radii, certify(model, x).radii, rtol=1e-6)
    inputs = [keras.Input((1,)), keras.Input((1,))]
    head = K.Dense(2, use_bias=False)
    two = keras.Model(inputs, head(K.Concatenate()(inputs)))
    head.kernel.assign(np.eye(2))
    apart = certify(two, [x[:, :1], x[:, 1:]], batch_size=7).radii
    np.testing.assert_allclose(apart, certify(model, x).radii, rtol=1e-4, atol=1e-6)


LOSSES = [
    (1, TemperedBinaryCrossentropy(), True),
    (3, MulticlassHinge(), True),
    (3, MulticlassHinge(), False),
]


@pytest.mark.parametrize(("outputs", "loss", "head"), LOSSES)
def test_validation_says_what_certify_says(outputs, loss, head):
    """With several logits and a dense head, certify also has the radius through the head."""
    keras.utils.set_random_seed(10)
    last = [] if head else [ll.BoundedBias(0.5)]
    layers = [ll.BoundedInput((4,), 3.0), K.Dense(outputs), *last]
    model = lipdp.Sequential(layers)
    model.compile("sgd", loss, privacy=lipdp.PrivacyBudget(8.0, 1e-5), certified_radius=0.2)
    rng = np.random.default_rng(11)
    x = rng.normal(size=(200, 4)).astype("float32")
    y = rng.integers(0, max(2, outputs), 200)
    for scale in (1.0, 1e4):
        model.layers[1].kernel.assign(scale * rng.normal(size=(4, outputs)))
        found = model.evaluate(x, y, verbose=0, return_dict=True)["certified_accuracy"]
        radii = certify(model, x, y).radii
        proved = certified_accuracy(radii, 0.2)
        if head and outputs > 1:
            assert 0.0 < found <= proved + 1e-6
        else:
            assert 0.0 < found == pytest.approx(proved, abs=1e-6)


def test_validation_without_a_proof_leaves_the_number_out_and_says_why():
    layers = [ll.BoundedInput((4,), 3.0), ll.SpectralDense(2), K.Dense(1, name="big")]
    model = lipdp.Sequential(layers)
    model.compile(
        "sgd", TemperedBinaryCrossentropy(), privacy=lipdp.PrivacyBudget(8.0, 1e-5), metrics=["auc"]
    )
    x, y = np.ones((8, 4), "float32"), np.arange(8) % 2
    assert "certified_accuracy" in model.evaluate(x, y, verbose=0, return_dict=True)
    model.layers[-1].kernel.assign([[1e30], [1e30]])
    with pytest.warns(UncertifiedWarning, match="overflow at the layer 'big'"):
        named = model.evaluate(x, y, verbose=0, return_dict=True)
    assert "certified_accuracy" not in named and "loss" in named
    with pytest.warns(UncertifiedWarning):
        listed = model.evaluate(x, y, verbose=0)
    assert sum(map(math.isnan, listed)) == 1
