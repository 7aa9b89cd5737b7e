"""Files that were cut, edited, or are of another model: refused, and nothing changes."""

import itertools
import json

import h5py
import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import BudgetExhausted, InvalidData, UnsafeSetting
from lipdp.layers import BoundedInput, SpectralDense
from lipdp.losses import MulticlassHinge
from lipdp.privacy import PrivacyLedger

BUDGET = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
OTHER = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5, adjacency="replace-one")


def state(model):
    optimizer = model.optimizer.inner_optimizer.variables
    return model.ledger.to_json(), [np.asarray(v).copy() for v in (*model.weights, *optimizer)]


def assert_unchanged(model, before):
    ledger, values = state(model)
    assert ledger == before[0]
    assert all(map(np.array_equal, values, before[1]))


def trained(model, rows, batch_size=50):
    model.fit(*rows, batch_size=batch_size, verbose=0)
    return model


def damaged(content, seed):
    """One of: cut, a flipped bit, a changed byte, zeros, many flipped bits."""
    rng = np.random.default_rng(seed)
    data = np.frombuffer(content, np.uint8).copy()
    kind, start = seed % 5, rng.integers(len(data))
    if kind == 0:
        return data[:start].tobytes()
    if kind == 1:
        data[start] ^= 1 << rng.integers(8)
    if kind == 2:
        data[start] = rng.integers(256)
    if kind == 3:
        data[start : start + 64] = 0
    if kind == 4:
        data[rng.integers(len(data), size=20)] ^= 1
    return data.tobytes()


class TestDamage:
    # HDF5 has no checksum of the weights' own bytes: such a file loads, with the whole ledger.
    @pytest.mark.slow
    def test_weights(self, make_model, rows, tmp_path):
        source, model = trained(make_model(BUDGET), rows), trained(make_model(BUDGET), rows, 20)
        source.save_weights(tmp_path / "m.weights.h5")
        content = (tmp_path / "m.weights.h5").read_bytes()
        before, refused = state(model), 0
        for seed in range(150):
            # A name of its own: HDF5 keeps what it knows of a file that is open.
            path = tmp_path / f"{seed}.weights.h5"
            path.write_bytes(damaged(content, seed))
            try:
                model.load_weights(path)
            except (ValueError, OSError):
                refused += 1
                assert_unchanged(model, before)
            else:
                assert model.ledger.unknown_history or model.ledger.steps == 10 + 4
                model._private.ledger = PrivacyLedger.from_json(before[0])
                model._private.mark(model)
                for variable, value in zip(model.weights, before[1], strict=False):
                    variable.assign(value)
                moved = model.optimizer.inner_optimizer.variables
                for variable, value in zip(moved, before[1][len(model.weights) :], strict=True):
                    variable.assign(value)
        assert refused >= 50

    @pytest.mark.slow
    def test_models(self, make_model, rows, tmp_path):
        source = trained(make_model(BUDGET), rows)
        source.save(tmp_path / "m.keras")
        content = (tmp_path / "m.keras").read_bytes()
        refused = 0
        for seed in range(40):
            path = tmp_path / f"{seed}.keras"
            path.write_bytes(damaged(content, seed))
            try:
                loaded = lipdp.load_model(path)
            except InvalidData as error:
                refused += 1
                assert path.name in str(error)
            else:
                assert loaded.ledger.to_json() == source.ledger.to_json()
                assert all(map(np.array_equal, loaded.get_weights(), source.get_weights()))
        assert refused >= 25

    def edited(self, model, path):
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

    def test_an_edited_ledger(self, make_model, rows, tmp_path):
        path = tmp_path / "m.weights.h5"
        self.edited(trained(make_model(BUDGET), rows), path)
        model = trained(make_model(BUDGET), rows)
        before = state(model)
        # Keras collects the InvalidData of the ledger into an error of its own.
        with pytest.raises(ValueError, match="checksum"):
            model.load_weights(path)
        assert_unchanged(model, before)
        # Keras only warns here, and takes the weights: what they cost is not known.
        with pytest.warns(UserWarning, match="checksum"):
            model.load_weights(path, skip_mismatch=True)
        with pytest.raises(BudgetExhausted, match="unknown"):
            model.fit(*rows, verbose=0)

    def test_an_edited_ledger_past_the_model(self, make_model, rows, tmp_path):
        """Keras' function takes the weights before it raises."""
        path = tmp_path / "m.weights.h5"
        self.edited(trained(make_model(BUDGET), rows), path)
        model = make_model(BUDGET)
        with pytest.raises(ValueError, match="checksum"):
            keras.saving.load_weights(model, path)
        with pytest.raises(BudgetExhausted, match="unknown"):
            model.fit(*rows, verbose=0)


def stack(*widths, budget=BUDGET):
    model = lipdp.Sequential([BoundedInput((4,), radius=2.0), *map(SpectralDense, widths)])
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), MulticlassHinge(), privacy=budget)
    return model


class TestAnotherModel:
    #: The first pair fits in every layer that the shorter model has.
    WIDTHS = ((4, 4, 4), (4, 4), (4, 6, 4), (6, 4, 4))

    @pytest.mark.parametrize(("saved", "present"), itertools.permutations(WIDTHS, 2))
    def test_of_another_architecture(self, tmp_path, saved, present):
        source = stack(*saved)
        source.ledger.record(0.25, 1.0, 9)
        source.save_weights(tmp_path / "m.weights.h5")
        model = stack(*present)
        model.ledger.record(0.25, 1.0, 5)
        before = state(model)
        with pytest.raises(ValueError, match="another model"):
            model.load_weights(tmp_path / "m.weights.h5")
        assert_unchanged(model, before)

    def test_of_another_adjacency(self, make_model, rows, tmp_path):
        path = tmp_path / "m.weights.h5"
        trained(make_model(BUDGET), rows).save_weights(path)
        model = trained(make_model(OTHER), rows)
        before = state(model)
        with pytest.raises(ValueError, match="different adjacencies"):
            model.load_weights(path)
        assert_unchanged(model, before)
        # A model without a history takes that of the file, and does not train under another one.
        fresh = make_model(OTHER)
        fresh.load_weights(path)
        with pytest.raises(UnsafeSetting, match="add-remove"):
            fresh.fit(*rows, batch_size=50, verbose=0)
        assert fresh.ledger.steps == 4


class TestWithoutALedger:
    def test_the_history_is_unknown_until_it_is_declared(self, make_model, rows, tmp_path):
        plain = keras.Sequential(make_model(None).layers)
        plain.save_weights(tmp_path / "plain.weights.h5")
        model = make_model(lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5))
        model.load_weights(tmp_path / "plain.weights.h5")
        with pytest.raises(BudgetExhausted, match="declare_public_history"):
            model.fit(*rows, batch_size=50, verbose=0)
        model.declare_public_history()
        model.fit(*rows, batch_size=50, verbose=0)
        assert "public data only" in model.privacy_statement()

    def test_legacy_files_and_options_that_leave_it_out(self, make_model, rows, tmp_path):
        model = make_model(None)
        model.save(tmp_path / "m.h5")
        trained(make_model(BUDGET), rows).save_weights(tmp_path / "m.weights.h5")
        for name, options in (("m.h5", {}), ("m.weights.h5", {"objects_to_skip": True})):
            fresh = make_model(BUDGET)
            chosen = {name: [fresh] for name in options}
            fresh.load_weights(tmp_path / name, **chosen)
            assert fresh.ledger.unknown_history
        with pytest.raises(InvalidData, match="legacy"):
            lipdp.load_model(tmp_path / "m.h5")

    def test_an_unknown_history_stays_unknown(self, make_model, rows, tmp_path):
        trained(make_model(BUDGET), rows).save_weights(tmp_path / "m.weights.h5")
        model = make_model(BUDGET)
        model.ledger.mark_unknown()
        model.load_weights(tmp_path / "m.weights.h5")
        assert model.ledger.unknown_history and model.ledger.steps == 4

    def test_an_old_checkpoint_does_not_roll_back(self, make_model, rows, tmp_path):
        model = trained(make_model(BUDGET), rows)
        model.save_weights(tmp_path / "old.weights.h5")
        trained(model, rows).load_weights(tmp_path / "old.weights.h5")
        assert model.ledger.steps == 8
