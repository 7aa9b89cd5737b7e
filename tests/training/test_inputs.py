"""Models of several inputs: private fit, validation, certificates."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import InvalidData
from lipdp.layers import BoundedInput, MaxMin, SpectralDense
from lipdp.losses import MulticlassHinge

BUDGET = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(120, 4)), rng.normal(size=(120, 3))
    return {"left": left, "right": right}, (left[:, 0] + right[:, 0] > 0).astype("int64")


@pytest.fixture
def model():
    keras.utils.set_random_seed(0)
    left, right = keras.Input((4,), name="left"), keras.Input((3,), name="right")
    branches = [
        SpectralDense(4)(BoundedInput((4,), radius=2.0)(left)),
        SpectralDense(4)(BoundedInput((3,), radius=1.0)(right)),
    ]
    joined = MaxMin()(keras.layers.Concatenate()(branches))
    made = lipdp.Model({"left": left, "right": right}, SpectralDense(2)(joined))
    made.compile(keras.optimizers.SGD(0.1), MulticlassHinge(margin=0.5), privacy=BUDGET)
    return made


def test_a_private_fit_with_a_dict_of_inputs(model, rows, tmp_path):
    x, y = rows
    before = [w.copy() for w in model.get_weights()]
    history = model.fit(x, y, batch_size=30, epochs=2, validation_split=0.2, verbose=0)
    assert model.plan.num_examples == 96 and model.ledger.steps == 8
    assert np.isfinite(history.history["val_loss"]).all()
    assert any(np.any(a != b) for a, b in zip(before, model.get_weights(), strict=True))
    model.save(tmp_path / "model.keras")
    again = lipdp.load_model(tmp_path / "model.keras")
    assert again.lipschitz_constant() == pytest.approx(model.lipschitz_constant(), rel=1e-6)
    assert again.ledger.steps == 8


def test_bounds_and_constant_count_both_inputs(model):
    # ||z|| <= sqrt(2^2 + 1^2), both branches 1-Lipschitz, so is the concatenation.
    bounds = model.gradient_bounds()
    assert np.sqrt(5.0) <= bounds.logit_bound <= np.sqrt(5.0) * (1 + 1e-4)
    assert model.lipschitz_constant() <= 1.0 + 1e-6


def test_the_radius_holds_for_both_inputs_together(model, rows):
    x, _ = rows
    certificates = lipdp.certify(model, x)
    rng = np.random.default_rng(1)
    noise = {name: rng.normal(size=values.shape) for name, values in x.items()}
    length = np.sqrt(sum(np.sum(n**2, axis=1) for n in noise.values()))
    scale = (0.999 * certificates.radii / length)[:, None]
    moved = {name: values + scale * noise[name] for name, values in x.items()}
    assert np.all(certificates.radii > 0)
    assert np.array_equal(lipdp.certify(model, moved).predictions, certificates.predictions)


@pytest.mark.parametrize("case", ["one array", "one of two", "unequal lengths", "shorter labels"])
def test_inputs_that_do_not_fit(model, rows, case):
    x, y = rows
    wrong = {
        "one array": (x["left"], y),
        "one of two": ({"left": x["left"]}, y),
        "unequal lengths": ({"left": x["left"], "right": x["right"][:50]}, y),
        "shorter labels": (x, y[:50]),
    }[case]
    with pytest.raises(InvalidData):
        model.fit(*wrong, batch_size=30, verbose=0)


@pytest.mark.parametrize("label", [-1, 2, 0.5])
def test_labels_outside_their_set_are_named_before_training(model, rows, label):
    x, y = rows
    wrong = y.astype("float64")
    wrong[7] = label
    with pytest.raises(InvalidData, match="1 of 120 rows"):
        model.fit(x, wrong, batch_size=30, verbose=0)
    assert model.ledger.steps == 0
