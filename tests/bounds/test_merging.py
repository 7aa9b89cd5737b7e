"""Fork-joins: known constants, the true Jacobians below them, and refusals."""

import math

import keras
import numpy as np
import pytest
from keras import ops

from lipdp.bounds import cotangent, gradient_bounds, inference, lipschitz_constant, numerical_error
from lipdp.bounds.probe import GradientProbe, Point
from lipdp.errors import LipdpError, UnsupportedLayer
from lipdp.layers import ActivationClip, BoundedInput, CotangentClip, MaxMin, SpectralDense
from lipdp.losses import KantorovichRubinstein, MulticlassHinge

K = keras.layers
SIZE = 4


def use(dtype):
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)


@pytest.fixture(autouse=True)
def double():
    use("float64")
    yield
    use("float32")


def scaled(factor, size=SIZE, *, seed=0):
    """A frozen dense layer of norm ``factor`` in every direction."""
    layer = SpectralDense(size)
    layer.build((None, size))
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]
    layer.kernel.assign(factor * turn)
    layer.trainable = False
    return layer


def joined(branches, *, radius=1.0):
    """``branches`` makes a tensor of one in the ball."""
    inputs = keras.Input((SIZE,))
    ball = BoundedInput((SIZE,), radius=radius)(inputs)
    return keras.Model(inputs, K.Flatten()(branches(ball)))


def jacobian_norm(model, points):
    """Greatest exact spectral norm over points inside the ball, of all inputs together."""
    size = int(model.outputs[0].shape[-1])
    places = [Point((1, *t.shape[1:])) for t in model.inputs]

    def output(signal):
        values = [p.value for p in places]
        return ops.sum(model(values[0] if len(values) == 1 else values) * signal)

    probe, norms = GradientProbe(places, output), []
    for point in points:
        for place, value in zip(places, point, strict=True):
            place.assign(np.reshape(value, place.value.shape))
        rows = [probe.probe(unit[None])[1] for unit in np.eye(size)]
        matrix = np.stack([np.concatenate([np.ravel(g) for g in row]) for row in rows])
        norms.append(np.linalg.norm(matrix, 2))
    return max(norms)


def inside(count=3, radius=0.5, sizes=(SIZE,)):
    rng = np.random.default_rng(1)
    for _ in range(count):
        points = [rng.normal(size=size) for size in sizes]
        yield [p * (radius / np.linalg.norm(p)) for p in points]


def pick(start):
    """A frozen dense layer of norm 1 that keeps two of the entries."""
    layer = SpectralDense(2)
    layer.build((None, SIZE))
    layer.kernel.assign(np.eye(SIZE)[:, start : start + 2])
    layer.trainable = False
    return layer


def twice(x):
    """Two concatenations in a row: ``[x, 2x]`` reduced by a norm of 1, again with itself."""
    first = K.Concatenate()([x, scaled(2.0)(x)])
    return K.Concatenate()([first, scaled(0.5, 2 * SIZE)(first)])


def crossing(x):
    """Parts of one concatenation that go to two consumers of another one."""
    a, b = scaled(3.0)(x), scaled(1.0, seed=1)(x)
    both = K.Concatenate()([a, b])
    return K.Concatenate()([both, x])


# Constants that are attained, since all branches are multiples of rotations.
ATTAINED = {
    "sum of x and x": (lambda x: K.Add()([x, x]), 2.0),
    "average of x and x": (lambda x: K.Average()([x, x]), 1.0),
    "x twice in a concatenation": (lambda x: K.Concatenate()([x, x]), math.sqrt(2)),
    "concatenated": (lambda x: K.Concatenate()([x, scaled(3.0)(x)]), math.sqrt(10)),
    "three branches": (
        lambda x: K.Concatenate()([x, scaled(2.0)(x), scaled(3.0, seed=1)(x)]),
        math.sqrt(14),
    ),
    "nested": (twice, math.sqrt(5 * 1.25)),
}

# True, but loose where branches do not point the same way.
TRUE = {
    "residual": (lambda x: K.Add()([x, scaled(3.0)(x)]), 4.0),
    "averaged residual": (lambda x: K.Average()([x, scaled(3.0)(x)]), 2.0),
    "difference": (lambda x: K.Subtract()([x, scaled(3.0)(x)]), 4.0),
    "residual of a concatenation": (
        lambda x: K.Add()([twice(x), K.Concatenate()([x, x, x, x])]),
        2.0 + math.sqrt(5 * 1.25),
    ),
    "gate": (lambda x: K.Multiply()([x, scaled(3.0)(x)]), 6.0),
    "gate that is broadcast": (
        lambda x: K.Multiply()([K.Reshape((2, 2))(x), K.Reshape((2, 1))(pick(0)(x))]),
        2.0,
    ),
    "gate of three": (lambda x: K.Multiply()([x, x, ActivationClip(0.5)(x)]), 2.0),
    # Parts of parts are not followed: sqrt(11) would do.
    "concatenated concatenation": (crossing, math.sqrt(10) + 1.0),
    "activations between": (
        lambda x: K.Concatenate()([MaxMin()(scaled(2.0)(x)), K.ReLU()(x)]),
        math.sqrt(5),
    ),
}


@pytest.mark.parametrize("name", ATTAINED)
def test_attained_constants(name):
    branches, constant = ATTAINED[name]
    model = joined(branches)
    assert constant <= lipschitz_constant(model) <= constant * (1 + 1e-9)
    assert jacobian_norm(model, inside()) == pytest.approx(constant, rel=1e-9)


@pytest.mark.parametrize("name", TRUE)
def test_true_constants(name):
    branches, constant = TRUE[name]
    model = joined(branches)
    assert constant <= lipschitz_constant(model) <= constant * (1 + 1e-9)
    assert jacobian_norm(model, inside(radius=0.99)) <= lipschitz_constant(model)


@pytest.mark.parametrize("name", [*ATTAINED, *TRUE])
def test_tight_bounds_are_below_simple_ones(name, monkeypatch):
    branches, _ = {**ATTAINED, **TRUE}[name]
    inputs = keras.Input((SIZE,))
    trained = SpectralDense(SIZE)(BoundedInput((SIZE,), radius=1.0)(inputs))
    model = keras.Model(inputs, SpectralDense(1)(K.Flatten()(branches(trained))))
    loss = KantorovichRubinstein()
    tight, constant = gradient_bounds(model, loss).parameters, lipschitz_constant(model)
    monkeypatch.setattr(cotangent.Cotangent, "bound", cotangent.Cotangent.triangle)
    monkeypatch.setattr(
        inference, "joint_bound", lambda c: math.hypot(*(part.triangle for part in c))
    )
    simple = gradient_bounds(model, loss).parameters
    assert all(t <= s * (1 + 1e-12) for t, s in zip(tight, simple, strict=True))
    assert constant <= lipschitz_constant(model) * (1 + 1e-12)
    if name == "concatenated":
        assert simple[0] / tight[0] == pytest.approx(4 / math.sqrt(10))


def test_what_is_shared_ends_where_the_backward_pass_is_not_linear():
    clip = 0.1

    def branches(x):
        return K.Concatenate()([x, CotangentClip(clip)(scaled(3.0)(x))])

    inputs = keras.Input((SIZE,))
    first = SpectralDense(SIZE)
    x = first(BoundedInput((SIZE,), radius=1.0)(inputs))
    model = keras.Model(inputs, SpectralDense(1)(branches(x)))
    bound = gradient_bounds(model, KantorovichRubinstein()).parameters[0]
    slope = KantorovichRubinstein().lipschitz(math.inf, 1)
    assert bound == pytest.approx(slope + 3 * clip, rel=1e-6)


class TestSeveralInputs:
    def model(self, merge, *radii, size=SIZE):
        inputs = [keras.Input((size,)) for _ in radii]
        balls = [BoundedInput((size,), radius=r)(i) for i, r in zip(inputs, radii, strict=True)]
        return keras.Model(inputs, (merge() if isinstance(merge, type) else merge)(balls))

    @pytest.mark.parametrize(
        ("merge", "constant"),
        [
            (K.Add, math.sqrt(2)),
            (K.Average, math.sqrt(0.5)),
            (K.Concatenate, 1.0),
            (lambda t: K.Add()([scaled(3.0)(t[0]), scaled(4.0)(t[1])]), 5.0),
            (lambda t: K.Concatenate()([t[0], K.Add()(t)]), (1 + math.sqrt(5)) / 2),
        ],
    )
    def test_one_constant_for_all_inputs_together(self, merge, constant):
        model = self.model(merge, 1.0, 2.0)
        assert constant <= lipschitz_constant(model) <= constant * (1 + 1e-9)
        found = jacobian_norm(model, inside(sizes=(SIZE, SIZE)))
        assert found == pytest.approx(constant, rel=1e-9)

    def test_each_input_has_its_own_radius(self):
        model = self.model(lambda t: SpectralDense(2)(K.Concatenate()(t)), 3.0, 4.0)
        slope = MulticlassHinge(0.1).lipschitz(math.inf, 2)
        assert gradient_bounds(model, MulticlassHinge(0.1)).parameters[0] == pytest.approx(
            5.0 * slope, rel=1e-9
        )

    def test_a_gate_of_two_inputs(self):
        model = self.model(K.Multiply, 2.0, 3.0)
        constant = lipschitz_constant(model)
        assert constant == pytest.approx(math.sqrt(13), rel=1e-9)
        at = [[2 * np.eye(SIZE)[0], 3 * np.eye(SIZE)[0]]]
        assert constant * (1 - 1e-9) <= jacobian_norm(model, at) <= constant

    def test_an_input_without_a_ball_is_refused(self):
        inputs = [keras.Input((SIZE,)), keras.Input((SIZE,))]
        one = BoundedInput((SIZE,), radius=1.0)(inputs[0])
        model = keras.Model(inputs, SpectralDense(2)(K.Concatenate()([one, inputs[1]])))
        with pytest.raises(LipdpError, match="BoundedInput"):
            gradient_bounds(model, MulticlassHinge(0.1))


@pytest.mark.parametrize("merge", [K.Add, K.Average, K.Subtract])
def test_sums_of_unequal_shapes_are_refused(merge):
    model = joined(lambda x: merge(name="sum")([x, SpectralDense(1)(x)]))
    with pytest.raises(UnsupportedLayer, match="smaller shape"):
        lipschitz_constant(model)


def test_a_concatenation_of_the_batch_is_refused():
    inputs = keras.Input((SIZE,))
    ball = BoundedInput((SIZE,), radius=1.0)(inputs)
    model = keras.Model(inputs, SpectralDense(2)(K.Concatenate(axis=0, name="rows")([ball, ball])))
    with pytest.raises(UnsupportedLayer, match="rows"):
        gradient_bounds(model, MulticlassHinge(0.1))


@pytest.mark.parametrize("layer", [K.Maximum, K.Minimum, lambda **k: K.Dot(axes=1, **k)])
def test_other_merging_layers_are_refused_by_name(layer):
    model = joined(lambda x: layer(name="odd")([x, MaxMin()(x)]))
    with pytest.raises(UnsupportedLayer, match="odd"):
        lipschitz_constant(model)


def test_an_operator_in_place_of_a_layer_is_refused():
    with pytest.raises(LipdpError):
        lipschitz_constant(joined(lambda x: x + MaxMin()(x)))


@pytest.mark.parametrize(
    "branches",
    [
        lambda x: K.Concatenate()([SpectralDense(3)(x), K.Multiply()([x, MaxMin()(x)])]),
        lambda x: K.Add()([SpectralDense(SIZE)(x), K.Average()([x, MaxMin()(x)])]),
        lambda x: K.Subtract()([SpectralDense(SIZE)(x), x]),
    ],
)
def test_numerical_errors_pass_through_merges(branches):
    keras.utils.set_random_seed(0)
    exact = joined(branches)
    use("float32")
    keras.utils.set_random_seed(0)
    model = joined(branches)
    model.set_weights([0.99 * w for w in exact.get_weights()])
    exact.set_weights(model.get_weights())
    x = np.random.default_rng(0).normal(size=(300, SIZE)).astype("float32")
    gap = np.linalg.norm(model.predict(x, verbose=0) - exact.predict(x, verbose=0), axis=1).max()
    assert 0 < gap <= numerical_error(model) + numerical_error(exact) < 1e-4
