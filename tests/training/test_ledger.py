"""What fit spends, where it stops, and that it survives every way of saving."""

import subprocess
import sys

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import BudgetExhausted, UnsafeSetting

RATE_001 = {"batch_size": 1, "verbose": 0}  # of 100 rows


def tiny(rows):
    x, y = rows
    return x[:100], y[:100]


def test_epsilon_of_a_fit_is_the_published_value(make_model, rows):
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    model.fit(*tiny(rows), epochs=5, **RATE_001)
    assert model.ledger.steps == 500
    assert 1.3260 <= model.ledger.epsilon(1e-5) <= 1.3361
    assert "1.32" in model.privacy_statement() or "1.33" in model.privacy_statement()


def test_overflow_of_every_step_is_recorded(make_model, rows):
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    model.fit(*rows, batch_size=20, epochs=2, verbose=0)
    price = model.plan.capacity.overflow_probability_per_step
    assert price > 0.0
    assert model.ledger.overflow_delta == pytest.approx(20 * price, rel=1e-9)


@pytest.mark.slow
def test_mixed_fits_compose(make_model, rows):
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    model.fit(*tiny(rows), epochs=5, **RATE_001)
    model.compile(
        keras.optimizers.SGD(0.1),
        lipdp.losses.MulticlassHinge(margin=0.5),
        privacy=lipdp.PrivacyBudget(noise_multiplier=2.0, delta=1e-5),
    )
    model.fit(*tiny(rows), batch_size=2, epochs=10, verbose=0)
    assert model.ledger.steps == 1000
    assert 1.6150 <= model.ledger.epsilon(1e-5) <= 1.6251


@pytest.mark.slow
def test_a_full_batch_after_sampled_ones_composes(make_model, rows):
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    model.fit(*tiny(rows), epochs=5, **RATE_001)
    compiled = {"optimizer": keras.optimizers.SGD(0.1), "loss": lipdp.losses.MulticlassHinge()}
    model.compile(**compiled, privacy=lipdp.PrivacyBudget(noise_multiplier=5.0, delta=1e-5))
    model.fit(*tiny(rows), batch_size=100, verbose=0)
    phases = (lipdp.privacy.Phase(0.01, 1.0, 500), lipdp.privacy.Phase(1.0, 5.0, 1))
    assert model.ledger.phases == phases
    assert 1.5228 <= model.ledger.epsilon(1e-5) <= 1.5329


def test_a_second_fit_continues_what_is_left_and_then_refuses(make_model, rows):
    model = make_model(lipdp.PrivacyBudget(epsilon=2.0, delta=1e-5))
    model.fit(*rows, batch_size=20, epochs=3, verbose=0)
    spent = model.ledger.steps
    assert 1.98 <= model.ledger.epsilon(1e-5) <= 2.0
    with pytest.raises(BudgetExhausted, match="larger epsilon"):
        model.fit(*rows, batch_size=20, epochs=1, verbose=0)
    assert model.ledger.steps == spent


def test_a_budget_stops_before_it_is_passed(make_model, rows):
    """1000 steps are asked for, and 500 cost 1.3261, to which overflowing batches add 1e-4."""
    budget = lipdp.PrivacyBudget(epsilon=1.3264, delta=1e-5, noise_multiplier=1.0)
    model = make_model(budget)
    history = model.fit(*tiny(rows), epochs=10, **RATE_001).history
    assert model.plan.steps == 1000
    assert model.ledger.steps == 500
    assert history["epsilon"] == sorted(history["epsilon"]) and len(history["epsilon"]) == 5
    assert history["epsilon"][-1] == model.ledger.epsilon(1e-5) <= 1.3264
    assert "1.326" in model.privacy_statement() and "500" in model.privacy_statement()


def test_epochs_before_the_last_log_a_bound_that_is_hardly_above(make_model, rows):
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    logged = model.fit(*tiny(rows), epochs=3, **RATE_001).history["epsilon"]
    exact = [lipdp.privacy.epsilon(0.01, 1.0, 100 * n, 1e-5) for n in (1, 2, 3)]
    for one, other in zip(logged[:-1], exact, strict=False):
        assert other <= one <= 1.003 * other
    # What batches may overflow is taken from delta.
    assert logged[-1] == model.ledger.epsilon(1e-5) == pytest.approx(exact[-1], rel=1e-6)


@pytest.mark.slow
def test_no_epoch_logs_more_than_the_budget(make_model, rows):
    """Of many full epochs, each a little nearer to the budget."""
    model = make_model(lipdp.PrivacyBudget(epsilon=1.0, delta=1e-5))
    x, y = tiny(rows)
    logged = model.fit(x, y, batch_size=50, epochs=400, verbose=0).history["epsilon"]
    assert max(logged) <= 1.0 and logged[-1] > 0.999


def test_history_carries_epsilon_and_certified_accuracy(make_model, rows):
    budget = lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5, seed=0)
    model = make_model(budget, metrics=["accuracy"], certified_radius=0.1)
    held_out = tuple(part.copy() for part in rows)
    history = model.fit(*rows, batch_size=50, epochs=2, validation_data=held_out, verbose=0).history
    assert "certified_accuracy" not in history
    assert len(history["val_certified_accuracy"]) == 2
    radii = lipdp.certify(model, *rows).radii
    assert history["val_certified_accuracy"][-1] == pytest.approx((radii > 0.1).mean(), abs=0.006)
    assert history["epsilon"] == sorted(history["epsilon"])


@pytest.mark.slow
def test_resume_in_a_new_process_continues_the_count(make_model, rows, tmp_path):
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    model.fit(*tiny(rows), epochs=5, **RATE_001)
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "rows.npz", *tiny(rows), model.predict(rows[0], verbose=0), rows[0])
    script = """
import sys, numpy as np, lipdp
model = lipdp.load_model(sys.argv[1] + "/model.keras")
x, y, before, inputs = np.load(sys.argv[1] + "/rows.npz").values()
assert np.abs(model.predict(inputs, verbose=0) - before).max() < 1e-6
model.fit(x, y, epochs=5, batch_size=1, verbose=0)
print(model.ledger.steps, model.ledger.epsilon(1e-5), model.lipschitz_constant())
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    steps, epsilon, lipschitz = map(float, done.stdout.split()[-3:])
    assert steps == 1000
    assert 1.8281 <= epsilon <= 1.8382
    assert 0 < lipschitz <= 1.0


def test_another_adjacency_is_refused_after_training(make_model, rows):
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    model.fit(*rows, batch_size=50, verbose=0)
    with pytest.raises(UnsafeSetting, match="add-remove"):
        model.compile(
            "sgd",
            lipdp.losses.MulticlassHinge(margin=0.5),
            privacy=lipdp.PrivacyBudget(noise_multiplier=1.0, adjacency="replace-one"),
        )
