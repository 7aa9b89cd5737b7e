"""What fit spends, where it stops, and that it survives every way of saving."""

import json
import subprocess
import sys
import zipfile

import h5py
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


def test_a_second_fit_continues_what_is_left_and_then_refuses(make_model, rows):
    model = make_model(lipdp.PrivacyBudget(epsilon=2.0, delta=1e-5))
    model.fit(*rows, batch_size=20, epochs=3, verbose=0)
    spent = model.ledger.steps
    assert 1.98 <= model.ledger.epsilon(1e-5) <= 2.0
    with pytest.raises(BudgetExhausted, match="larger epsilon"):
        model.fit(*rows, batch_size=20, epochs=1, verbose=0)
    assert model.ledger.steps == spent


def test_a_budget_stops_before_it_is_passed(make_model, rows):
    budget = lipdp.PrivacyBudget(epsilon=1.3275, delta=1e-5, noise_multiplier=1.0)
    model = make_model(budget)
    history = model.fit(*tiny(rows), epochs=10, **RATE_001)
    assert 495 <= model.ledger.steps <= 502
    assert model.ledger.epsilon(1e-5) <= 1.3275
    assert len(history.history["epsilon"]) == 6 or len(history.history["epsilon"]) == 5
    assert max(history.history["epsilon"]) <= 1.3275


def test_history_carries_epsilon_and_certified_accuracy(make_model, rows):
    model = make_model(
        lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5), metrics=["accuracy"], certified_radius=0.1
    )
    history = model.fit(*rows, batch_size=50, epochs=2, validation_data=rows, verbose=0).history
    assert "certified_accuracy" not in history
    assert len(history["val_certified_accuracy"]) == 2
    radii = lipdp.certify(model, *rows).radii
    assert history["val_certified_accuracy"][-1] == pytest.approx((radii > 0.1).mean(), abs=0.006)
    assert history["epsilon"] == sorted(history["epsilon"])


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


class TestSavedFiles:
    def test_no_file_holds_the_noise_state(self, make_model, rows, tmp_path):
        model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
        model.fit(*rows, batch_size=50, verbose=0)
        words = [int(w) for s in model.optimizer.noise.generators for w in np.asarray(s)[:1]]
        model.save(tmp_path / "a.keras")
        model.save_weights(tmp_path / "a.weights.h5")
        with zipfile.ZipFile(tmp_path / "a.keras") as archive:
            archive.extractall(tmp_path)
        blobs = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
        for word in words:
            for kind in ("<u4", "<i8"):
                needle = np.array([word]).astype(kind).tobytes()
                assert not any(needle in blob for blob in blobs)
            assert not any(str(word).encode() in blob for blob in blobs)

    def test_weights_without_a_ledger_are_of_unknown_history(self, make_model, rows, tmp_path):
        plain = keras.Sequential(make_model(None).layers)
        plain.save_weights(tmp_path / "plain.weights.h5")
        model = make_model(lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5))
        model.load_weights(tmp_path / "plain.weights.h5")
        with pytest.raises(BudgetExhausted, match="declare_public_history"):
            model.fit(*rows, batch_size=50, verbose=0)
        model.declare_public_history()
        model.fit(*rows, batch_size=50, verbose=0)
        assert "public data only" in model.privacy_statement()

    def test_an_old_checkpoint_does_not_roll_back(self, make_model, rows, tmp_path):
        model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
        model.fit(*rows, batch_size=50, epochs=1, verbose=0)
        model.save_weights(tmp_path / "old.weights.h5")
        model.fit(*rows, batch_size=50, epochs=1, verbose=0)
        model.load_weights(tmp_path / "old.weights.h5")
        assert model.ledger.steps == 8

    def test_an_edited_ledger_is_refused(self, make_model, rows, tmp_path):
        model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
        model.fit(*rows, batch_size=50, verbose=0)
        path = tmp_path / "edited.weights.h5"
        model.save_weights(path)
        with h5py.File(path, "r+") as file:
            found = []
            file.visit(lambda name: found.append(name) if name.endswith("lipdp_ledger") else None)
            text = bytes(file[found[0]][:]).decode()
            steps = json.loads(text)["entries"][0]["steps"]
            edited = text.replace(f'"steps": {steps}', f'"steps": {steps - 1}')
            assert edited != text
            del file[found[0]]
            file[found[0]] = np.frombuffer(edited.encode(), dtype=np.uint8)
        # Keras collects the InvalidData of the ledger into an error of its own.
        with pytest.raises(ValueError, match="checksum"):
            model.load_weights(path)

    def test_backup_and_restore_resumes_the_count(self, make_model, rows, tmp_path):
        class Interrupt(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                if epoch == 2:
                    raise RuntimeError("stopped")

        budget = lipdp.PrivacyBudget(epsilon=4.0, delta=1e-5)
        backup = lambda: keras.callbacks.BackupAndRestore(tmp_path / "backup")  # noqa: E731
        model = make_model(budget)
        with pytest.raises(RuntimeError, match="stopped"):
            model.fit(*rows, batch_size=50, epochs=4, verbose=0, callbacks=[backup(), Interrupt()])
        fresh = make_model(budget)
        fresh.fit(*rows, batch_size=50, epochs=4, verbose=0, callbacks=[backup()])
        assert fresh.ledger.steps == 16
        assert 3.96 <= fresh.ledger.epsilon(1e-5) <= 4.0


def test_another_adjacency_is_refused_after_training(make_model, rows):
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    model.fit(*rows, batch_size=50, verbose=0)
    with pytest.raises(UnsafeSetting, match="add-remove"):
        model.compile(
            "sgd",
            lipdp.losses.MulticlassHinge(margin=0.5),
            privacy=lipdp.PrivacyBudget(noise_multiplier=1.0, adjacency="replace-one"),
        )
