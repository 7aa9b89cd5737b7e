"""Certificates of whole models, attacked through the model's own forward pass."""

import keras
import numpy as np
import pytest

import lipdp.layers as ll
from lipdp.bounds import lipschitz_constant, numerical_error
from lipdp.certificates import certify, pairwise_radii, radii
from lipdp.errors import InvalidData, InvalidValue, UnsafeSetting, UnsupportedLayer


def identity(units=2, radius=10.0):
    model = keras.Sequential([ll.BoundedInput((units,), radius=radius), ll.SpectralDense(units)])
    kernel = model.layers[-1].kernel
    kernel.assign(kernel.constraint(np.eye(units, dtype="float32")))
    return model


def network(classes=4, features=6, *extra, dtype="float32"):
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            ll.BoundedInput((features,), radius=5.0, dtype=dtype),
            ll.SpectralDense(16, dtype=dtype),
            ll.MaxMin(dtype=dtype),
            ll.SpectralDense(16, dtype=dtype),
            ll.GroupSort(2, dtype=dtype),
            ll.FrobeniusDense(classes, dtype=dtype),
            *extra,
        ]
    )


def inputs(rows, features=6, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, features)).astype("float32")


def test_identity_map_has_the_exact_distance():
    x = np.array([[1.0, 0.0]], dtype="float32")
    model = identity()
    found = certify(model, x)
    assert found.radii[0] == pytest.approx(0.70711, abs=1e-4) and found.radii[0] < 0.5**0.5
    assert found.predictions.tolist() == [0] and np.allclose(found.logits, x, atol=1e-5)
    direction = np.array([[-1.0, 1.0]]) / 2**0.5
    inside = x + 0.999999 * found.radii[0] * direction
    outside = x + 1.0001 * 0.5**0.5 * direction
    assert certify(model, inside).predictions == [0]
    assert certify(model, outside).predictions == [1]


def test_labels_decide_which_radius_is_positive():
    x = inputs(30)
    model = network()
    free = certify(model, x)
    labels = (free.predictions + (np.arange(30) % 2)) % 4
    found = certify(model, x, labels)
    np.testing.assert_array_equal(found.radii, np.where(np.arange(30) % 2, 0.0, free.radii))
    np.testing.assert_array_equal(found.predictions, free.predictions)
    one_hot = certify(model, x, np.eye(4)[labels])
    np.testing.assert_array_equal(one_hot.radii, found.radii)
    assert found.lipschitz == lipschitz_constant(model)


def test_takes_the_greater_of_both_radii():
    model, x = network(), inputs(50)
    found = certify(model, x)
    error = numerical_error(model)
    joint = radii(found.logits, lipschitz=found.lipschitz, error=error)
    rest = lipschitz_constant(keras.Model(model.inputs, model.layers[-1].input))
    kernel = keras.ops.convert_to_numpy(model.layers[-1].kernel)
    through = pairwise_radii(found.logits, kernel, lipschitz_rest=rest, error=error)
    np.testing.assert_array_equal(found.radii, np.maximum(joint, through))
    assert (through > joint).any()


def test_without_a_dense_head_the_joint_radius_remains():
    model, x = network(4, 6, ll.BoundedBias(1.0)), inputs(20)
    found = certify(model, x)
    error = numerical_error(model)
    np.testing.assert_array_equal(
        found.radii, radii(found.logits, lipschitz=found.lipschitz, error=error)
    )


def test_rounding_errors_are_subtracted():
    # The margin is 1e-7, below what float32 guarantees behind an input ball of radius 10.
    x = np.array([[1e-7, 0.0]], dtype="float32")
    assert certify(identity(), x).logits[0, 0] > 0
    assert certify(identity(), x).radii[0] == 0.0


def test_weights_outside_their_set_have_no_radius_above_the_true_distance():
    model = identity()
    model.layers[-1].kernel.assign(3.0 * np.eye(2))
    x = np.array([[1.0, 0.0]], dtype="float32")
    assert certify(model, x).radii[0] <= 0.5**0.5


def test_one_logit_is_binary():
    model, x = network(classes=1), inputs(40)
    found = certify(model, x)
    assert found.predictions.tolist() == (found.logits[:, 0] > 0).astype(int).tolist()
    assert set(found.predictions.tolist()) == {0, 1}
    bound = np.abs(found.logits[:, 0]) / found.lipschitz
    assert (found.radii <= bound).all() and np.allclose(found.radii, bound, atol=1e-3)
    wrong = certify(model, x, 1 - found.predictions)
    assert not wrong.radii.any()


def test_plain_dense_head_is_a_head():
    model = keras.Sequential([ll.BoundedInput((3,), radius=1.0), keras.layers.Dense(3)])
    model.layers[-1].kernel.assign(np.diag([1.0, 1.0, 0.1]))
    model.layers[-1].trainable = False
    x = np.array([[0.0, 0.1, 0.9]], dtype="float32")
    model.layers[-1].bias.assign([0.0, 0.0, 0.5])
    # Margin 0.49 to class 1; ||w_2 - w_1|| = sqrt(1.01) beats sqrt(2).
    assert certify(model, x).radii[0] == pytest.approx(0.49 / 1.01**0.5, abs=1e-3)


def test_functional_graphs_and_batches():
    a = keras.Input((6,))
    x = ll.BoundedInput((6,), radius=5.0)(a)
    x = ll.MaxMin()(ll.SpectralDense(6)(x))
    model = keras.Model(a, ll.SpectralDense(3)(x))
    whole, parts = certify(model, inputs(33)), certify(model, inputs(33), batch_size=5)
    np.testing.assert_allclose(whole.radii, parts.radii, atol=1e-5)
    assert whole.radii.shape == (33,) and (whole.radii > 0).any()


def test_non_finite_rows_are_the_zero_record():
    x = np.array([[1.0, 0.0], [np.nan, 0.0], [np.inf, 1.0]], dtype="float32")
    assert certify(identity(), x).radii[1:].tolist() == [0.0, 0.0]


def weights_of(model):
    return [keras.ops.convert_to_numpy(v).astype(np.float64) for v in model.weights]


def attack(model, x, labels, radius, steps=100):
    """Projected gradient descent on the margin; the gradient by hand, in float64."""
    first, second, head = weights_of(model)
    start, rows = x.astype(np.float64), np.arange(len(x))
    x = start + 0.01 * radius[:, None] * inputs(len(x), x.shape[1], seed=9)
    for _ in range(steps):
        a, back_maxmin = maxmin(x @ first)
        b, back_sort = groupsort(a @ second)
        z = b @ head
        z[rows, labels] = -np.inf
        pull = (head[:, z.argmax(axis=1)] - head[:, labels]).T
        gradient = back_maxmin(back_sort(pull) @ second.T) @ first.T
        length = np.linalg.norm(gradient, axis=1, keepdims=True)
        x = x + 0.2 * radius[:, None] * gradient / np.maximum(length, 1e-30)
        step = x - start
        far = np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-30)
        x = start + step * np.minimum(1.0, radius[:, None] / far)
    return x


def maxmin(z):
    half = z.shape[1] // 2
    order = np.where(z[:, :half] > z[:, half:], 0, half) + np.arange(half)
    return permute(z, np.concatenate([order, (order + half) % (2 * half)], axis=1))


def groupsort(z):
    even = np.arange(0, z.shape[1], 2)
    low = even + (z[:, 1::2] < z[:, ::2])
    return permute(z, np.stack([low, 2 * even + 1 - low], axis=2).reshape(z.shape))


def permute(z, order):
    def back(g):
        out = np.empty_like(g)
        np.put_along_axis(out, order, g, axis=1)
        return out

    return np.take_along_axis(z, order, axis=1), back


def test_attack_surrogate_is_the_model():
    model, x = network(), 0.5 * inputs(50)
    first, second, head = weights_of(model)
    z = groupsort(maxmin(x @ first)[0] @ second)[0] @ head
    np.testing.assert_allclose(model.predict(x, verbose=0), z, atol=1e-5)


def test_attack_finds_nothing_inside_a_radius_and_something_outside():
    model, x = network(), 0.5 * inputs(1000)
    found = certify(model, x)
    assert (found.radii > 0.01).mean() > 0.5
    # The perturbed input is rounded to float32 before the model: stay inside by that much.
    inside = attack(model, x, found.predictions, np.maximum(found.radii - 1e-6, 0.0))
    inside = inside.astype("float32")
    moved = np.linalg.norm(inside.astype(np.float64) - x, axis=1)
    assert ((moved < found.radii) | (found.radii < 2e-6)).all()
    same = certify(model, inside).predictions == found.predictions
    assert same[moved < found.radii].all()
    outside = attack(model, x, found.predictions, 2.0 * found.radii)
    assert (certify(model, outside).predictions != found.predictions).mean() > 0.1


def test_float64_is_computed_in_float64_or_refused(monkeypatch):
    model, x = network(dtype="float64"), inputs(5).astype("float64")
    if keras.ops.convert_to_numpy(keras.ops.ones((), "float64")).dtype != "float64":
        with pytest.raises(UnsafeSetting, match="float64"):
            certify(model, x)
        return
    found = certify(model, x)
    # The rounding term is invisible in float64.
    bound = radii(found.logits, lipschitz=found.lipschitz)
    assert (found.radii >= bound - 1e-10).all()
    monkeypatch.setattr(model, "predict", lambda *a, **k: found.logits.astype("float32"))
    with pytest.raises(UnsafeSetting, match="float64"):
        certify(model, x)


def test_bad_arguments_are_refused():
    with pytest.raises(InvalidValue, match="batch_size"):
        certify(identity(), np.zeros((1, 2)), batch_size=0)
    with pytest.raises(InvalidData, match="labels"):
        certify(identity(), np.zeros((1, 2)), [5])
    model = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization()])
    with pytest.raises(UnsupportedLayer, match="BatchNormalization"):
        certify(model, np.zeros((1, 3)))


def test_a_layer_that_was_changed_after_a_prediction_is_certified_as_it_is_now():
    """The logits of the old function with the constant of the new one gave twice the radius."""
    model = keras.Sequential(
        [ll.BoundedInput((3,), 4.0), ll.SpectralDense(3), keras.layers.Activation("linear")]
    )
    x = np.array([[2.0, 0.2, 0.0]], "float32")
    before = certify(model, x)
    model.layers[-1].activation = keras.activations.softmax
    after = certify(model, x)
    assert after.logits.sum() == pytest.approx(1.0, abs=1e-5)
    assert after.radii[0] < before.radii[0]
