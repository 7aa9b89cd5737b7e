"""What a certificate is about: the decision that the loss of a model was made for."""

import keras
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lipdp
import lipdp.layers as ll
from lipdp import losses
from lipdp.certificates import (
    certified_accuracy,
    certified_label_accuracy,
    certify,
    label_radii,
    label_slopes,
)
from lipdp.certificates.decision import task_of
from lipdp.errors import InvalidConfig, InvalidData, InvalidValue
from lipdp.training import load_model, save_for_release

RNG = np.random.default_rng(0)


def network(outputs, *behind, kind=keras.Sequential):
    keras.utils.set_random_seed(1)
    return kind(
        [
            ll.BoundedInput((5,), 4.0),
            ll.SpectralDense(8),
            ll.MaxMin(),
            ll.SpectralDense(outputs),
            *behind,
        ]
    )


def rows(count=200):
    return np.random.default_rng(2).normal(size=(count, 5)).astype("float32")


def multilabel(*behind, **kwargs):
    model = network(3, *behind, **kwargs)
    model.compile(loss=losses.MultilabelBinaryCrossentropy())
    return model


RULES = [
    (losses.BinaryHinge(), 1, "binary"),
    (losses.TemperedBinaryCrossentropy(), 1, "binary"),
    (losses.KantorovichRubinstein(), 1, "binary"),
    (losses.HKR(), 1, "binary"),
    (losses.TemperedCrossentropy(), 3, "multiclass"),
    (losses.MulticlassHinge(), 3, "multiclass"),
    (losses.CosineLoss(), 3, "multiclass"),
    (losses.OneVersusAllHinge(), 3, "multiclass"),
    (losses.KantorovichRubinstein(), 3, "multiclass"),
    (losses.HKR(), 3, "multiclass"),
    (losses.ClippedLoss(losses.HKR(), 1.0), 3, "multiclass"),
    (losses.ClassWeighted(losses.BinaryHinge(), [1.0, 2.0]), 1, "binary"),
    (losses.MultilabelBinaryCrossentropy(), 3, "multilabel"),
    (losses.ClippedLoss(losses.MultilabelBinaryCrossentropy(), 1.0), 1, "multilabel"),
    ("sparse_categorical_crossentropy", 3, "multiclass"),
    (keras.losses.CategoricalCrossentropy(from_logits=True), 3, "multiclass"),
    (keras.losses.BinaryCrossentropy(from_logits=True), 1, "binary"),
    (keras.losses.BinaryCrossentropy(from_logits=True), 3, "multilabel"),
    ("hinge", 1, "binary"),
    (keras.losses.categorical_crossentropy, 3, "multiclass"),
    (None, 1, "binary"),
    (None, 3, "multiclass"),
]


@pytest.mark.parametrize(("loss", "outputs", "task"), RULES)
def test_the_loss_says_what_is_decided(loss, outputs, task):
    model = network(outputs)
    if loss is not None:
        model.compile(loss=loss)
    assert task_of(model) == task
    found = certify(model, rows(4))
    assert found.task == task
    shape = (4, outputs) if task == "multilabel" else (4,)
    assert found.radii.shape == found.predictions.shape == shape


# Weights of classes move no decision, and make losses of two classes incomparable.
PLAIN = [
    (loss, outputs)
    for loss, outputs, _ in RULES
    if isinstance(loss, losses.LipschitzLoss) and not isinstance(loss, losses.ClassWeighted)
]


@pytest.mark.parametrize(("loss", "outputs"), PLAIN)
def test_the_rule_is_the_one_that_the_loss_rewards(loss, outputs):
    """Of all labels the one that is decided for has the least loss, at every vector of logits."""
    model = network(outputs)
    model.compile(loss=loss)
    logits = np.random.default_rng(3).normal(size=(300, outputs)).astype("float32")
    task = task_of(model)
    if task == "multilabel":
        labels = [np.tile(t, (300, 1)) for t in np.ndindex(*[2] * outputs)]
        decided = (logits > 0) @ 2 ** np.arange(outputs)[::-1]
    else:
        labels = [np.full(300, k) for k in range(max(2, outputs))]
        decided = logits.argmax(axis=1) if task == "multiclass" else (logits[:, 0] > 0).astype(int)
    values = np.stack([np.asarray(loss.call(y.astype("float32"), logits)) for y in labels])
    assert (values[decided, np.arange(300)] <= values.min(axis=0) + 1e-6).all()


@pytest.mark.parametrize(
    "loss",
    [
        losses.MeanSquaredError(target_bound=1.0),
        losses.Huber(),
        losses.MeanAbsoluteError(),
        "mse",
        keras.losses.LogCosh(),
    ],
)
@pytest.mark.parametrize("outputs", [1, 3])
def test_regression_is_refused_with_what_holds_instead(loss, outputs):
    model = network(outputs)
    model.compile(loss=loss)
    with pytest.raises(InvalidValue, match="lipschitz_constant") as caught:
        certify(model, rows(4))
    assert "regression" in str(caught.value) and "numerical_error" in str(caught.value)
    named = "binary" if outputs == 1 else "multiclass"
    assert certify(model, rows(4), task=named).radii.shape == (4,)


@pytest.mark.parametrize("compiled", [True, False])
def test_logits_at_several_positions_are_refused(compiled):
    model = keras.Sequential([ll.BoundedInput((6, 5), 4.0), ll.SpectralDense(3)])
    if compiled:
        model.compile(loss=losses.PositionwiseLoss(losses.MulticlassHinge(), 6))
    x = RNG.normal(size=(4, 6, 5)).astype("float32")
    with pytest.raises(InvalidValue, match="position t"):
        certify(model, x)


@pytest.mark.parametrize("task", ["binary", "multilabel"])
def test_probabilities_are_no_logits(task):
    outputs = 1 if task == "binary" else 3
    model = network(outputs, keras.layers.Activation("sigmoid"))
    with pytest.raises(InvalidValue, match="from_logits"):
        certify(model, rows(4), task=task)
    model = network(outputs)
    model.compile(loss="binary_crossentropy")
    with pytest.raises(InvalidValue, match="from_logits"):
        certify(model, rows(4))


def test_a_softmax_has_the_classes_of_its_logits():
    model = network(3, keras.layers.Softmax())
    assert certify(model, rows(20)).predictions.tolist() == (
        certify(network(3), rows(20)).predictions.tolist()
    )


def test_a_loss_that_says_nothing_is_refused_until_the_decision_is_named():
    class Own(keras.losses.Loss):
        def call(self, y_true, y_pred):
            return keras.ops.sum(y_pred, axis=-1)

    for loss in (Own(), lambda y, z: keras.ops.sum(z, axis=-1), "kl_divergence"):
        model = network(3)
        model.compile(loss=loss)
        with pytest.raises(InvalidValue, match="task="):
            certify(model, rows(4))
        assert certify(model, rows(4), task="multilabel").radii.shape == (4, 3)


@pytest.mark.parametrize("task", ["binary", "multi-label"])
def test_a_task_that_does_not_fit_is_refused(task):
    with pytest.raises(InvalidValue, match="multilabel"):
        certify(network(3), rows(4), task=task)


def test_rows_of_several_labels_are_told_how():
    y = np.tile([1, 0, 1], (4, 1))
    with pytest.raises(InvalidData, match='task="multilabel"'):
        certify(network(3), rows(4), y)


def test_a_released_model_remembers_its_decision(tmp_path):
    model = multilabel(kind=lipdp.Sequential)
    x = rows(20)
    before = certify(model, x).radii
    assert before.shape == (20, 3)
    save_for_release(model, tmp_path / "released.keras")
    model.save(tmp_path / "saved.keras")
    model.save_weights(tmp_path / "w.weights.h5")
    for name in ("released", "saved"):
        for compiled in (True, False):
            loaded = load_model(tmp_path / f"{name}.keras", compile=compiled)
            assert loaded.task == "multilabel"
            np.testing.assert_array_equal(certify(loaded, x).radii, before)
    fresh = network(3, kind=lipdp.Sequential)
    assert fresh.task is None
    fresh.load_weights(tmp_path / "w.weights.h5")
    np.testing.assert_array_equal(certify(fresh, x).radii, before)


def test_radii_of_labels():
    model = multilabel()
    x = rows()
    found = certify(model, x)
    kernel = keras.ops.convert_to_numpy(model.layers[-1].kernel).astype("float64")
    exact = np.abs(found.logits) / np.linalg.norm(kernel, axis=0)
    # The layers in front have the constant 1.
    assert (found.radii <= exact).all() and np.allclose(found.radii, exact, atol=1e-4)
    assert (found.predictions == (found.logits > 0)).all()
    wrong = certify(model, x, 1 - found.predictions)
    assert not wrong.radii.any()
    half = np.where(np.arange(3) == 1, found.predictions, 1 - found.predictions)
    assert (certify(model, x, half).radii == np.where(np.arange(3) == 1, found.radii, 0.0)).all()


def test_without_a_dense_head_each_label_has_the_constant_of_all():
    found = certify(multilabel(ll.BoundedBias(1.0)), rows())
    bound = np.abs(found.logits) / found.lipschitz
    assert (found.radii <= bound).all() and np.allclose(found.radii, bound, atol=1e-4)


def test_no_label_flips_inside_its_radius():
    """Descent on each logit towards the other sign: none flips within 0.999 of it, some beyond."""
    model = multilabel()
    model.layers[-1].kernel.assign(0.3 * np.asarray(model.layers[-1].kernel))
    x = 0.5 * rows()
    found = certify(model, x)
    flips = {0.999: 0, 1.5: 0}
    for scale in flips:
        for label in range(3):
            moved = descent(model, x, label, scale * found.radii[:, label]).astype("float32")
            inside = np.linalg.norm(moved.astype("float64") - x, axis=1) < found.radii[:, label]
            logits = model.predict(moved, verbose=0)
            changed = (logits[:, label] > 0) != found.predictions[:, label]
            assert not changed[inside].any()
            assert scale > 1 or inside.mean() > 0.9
            flips[scale] += int(changed.sum())
    assert flips[1.5] > 100


def descent(model, x, label, radius, steps=30):
    """Projected gradient steps on one logit, the gradient by hand, in float64."""
    first, head = (keras.ops.convert_to_numpy(v).astype("float64") for v in model.weights)
    start = y = x.astype("float64")
    down = None
    for _ in range(steps):
        a, b = np.split(y @ first, 2, axis=1)
        top, low = np.split(np.tile(head[:, label], (len(y), 1)), 2, axis=1)
        pulled = np.where(a > b, top, low), np.where(a > b, low, top)
        gradient = np.concatenate(pulled, axis=1) @ first.T
        logit = np.concatenate([np.maximum(a, b), np.minimum(a, b)], axis=1) @ head[:, label]
        down = -np.sign(logit)[:, None] if down is None else down
        length = np.maximum(np.linalg.norm(gradient, axis=1, keepdims=True), 1e-30)
        step = y + 0.2 * radius[:, None] * down * gradient / length - start
        far = np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-30)
        y = start + step * np.minimum(1.0, radius[:, None] / far)
    return y


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
@example(0, 1)
def test_label_radii_are_the_quotient_rounded_down(seed, count):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(20, count)) * 10.0 ** rng.integers(-3, 3)
    slopes, error = rng.uniform(0.1, 3.0, count), float(rng.uniform(0.0, 0.1))
    found = label_radii(logits, lipschitz=slopes, error=error)
    exact = np.maximum((np.abs(logits) - 2 * error) / slopes, 0.0)
    assert (found <= exact * (1 + 1e-12) + 1e-300).all()
    assert np.allclose(found, exact, rtol=1e-9, atol=1e-12)


def test_slopes_are_column_norms():
    kernel = RNG.normal(size=(4, 3)) * [1e-200, 1.0, 1e200]
    exact = 2.0 * np.array(
        [np.linalg.norm(kernel[:, k] / s) * s for k, s in enumerate([1e-200, 1.0, 1e200])]
    )
    found = label_slopes(kernel, lipschitz_rest=2.0)
    assert (found >= exact).all() and np.allclose(found, exact, rtol=1e-12)
    assert np.isinf(label_slopes(kernel, lipschitz_rest=np.inf)).all()
    assert np.isinf(label_slopes([[np.nan]], lipschitz_rest=1.0)).all()


def test_bad_labels_and_slopes_are_refused():
    z = np.ones((2, 3))
    for bad in (np.zeros(2), np.full((2, 3), 0.5), np.full((2, 3), 2), [["a"] * 3] * 2):
        with pytest.raises(InvalidData, match="0 or 1"):
            label_radii(z, bad, lipschitz=1.0)
    with pytest.raises(InvalidValue, match="lipschitz"):
        label_radii(z, lipschitz=[1.0, 2.0])
    with pytest.raises(InvalidValue, match="lipschitz"):
        label_radii(z, lipschitz=-1.0)
    assert not label_radii([[np.nan, 5.0]], lipschitz=1.0).any()
    assert not label_radii([[2.0, 5.0]], lipschitz=np.inf).any()


def test_certified_accuracy_of_labels_and_all_together():
    radii = np.array([[0.3, 0.0], [0.1, 0.5], [0.3, 0.5]])
    assert certified_label_accuracy(radii, 0.2).tolist() == [2 / 3, 2 / 3]
    assert certified_accuracy(radii, 0.2) == 4 / 6
    assert certified_accuracy(radii.min(axis=1), 0.2) == 1 / 3
    with pytest.raises(InvalidData, match="certified_accuracy"):
        certified_label_accuracy(radii[:, 0], 0.2)


@pytest.mark.parametrize("name", ["mean_squared_error", "multilabel_binary_crossentropy"])
def test_a_run_of_rows_with_a_class_refuses_losses_of_other_tasks(name, tmp_path):
    from lipdp.config import load_config
    from lipdp.run import train

    with pytest.raises(InvalidConfig, match="one class each"):
        train(load_config(None, [f"loss.name={name}"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
