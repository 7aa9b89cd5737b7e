"""The ledger travels with every file of a model, and no file holds the noise state."""

import contextlib
import pickle
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import lipdp
from lipdp.errors import BudgetExhausted, InvalidState, InvalidValue, UnsafeSetting
from lipdp.privacy import Phase
from lipdp.training import save_for_release

BUDGET = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)


class StopAfter(keras.callbacks.Callback):
    """Raises after a number of parts of batches, like an interrupt."""

    def __init__(self, parts):
        super().__init__()
        self.left = parts

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def interrupted(model, rows, parts, callbacks=(), **options):
    with pytest.raises(KeyboardInterrupt):
        model.fit(
            *rows, batch_size=50, verbose=0, callbacks=[*callbacks, StopAfter(parts)], **options
        )


class TestNoiseState:
    """Generators, host noise, open sums and the noise factor are in no file."""

    CASES = {
        "generators and factor": ({}, {}, 2),
        "open sums": ({}, {"micro_batch_size": 30}, 6),
        "host noise": ({"secure_noise": True}, {}, 2),
        "open sums and host noise": ({"secure_noise": True}, {"micro_batch_size": 30}, 6),
    }
    WAYS = {
        "model": lambda model, path: model.save(path / "m.keras"),
        "folder": lambda model, path: model.save(path / "m", zipped=False),
        "weights": lambda model, path: model.save_weights(path / "m.weights.h5"),
        "shards": lambda model, path: model.save_weights(
            path / "m.weights.json", max_shard_size=1e-6
        ),
        "release": lambda model, path: save_for_release(model, path / "m.keras"),
        "pickle": lambda model, path: (path / "m").write_bytes(pickle.dumps(model)),
        "tf checkpoint": lambda model, path: tf.train.Checkpoint(model=model).save(path / "m"),
        "tf optimizer": lambda model, path: tf.train.Checkpoint(
            weights=model.layers[1], optimizer=model.optimizer
        ).save(path / "m"),
        "export": lambda model, path: model.export(path / "m", verbose=False),
        "saved model": lambda model, path: tf.saved_model.save(model, path / "m"),
    }

    @pytest.mark.slow
    @pytest.mark.parametrize("case", CASES)
    def test_no_file_holds_it(self, make_model, rows, tmp_path, case):
        budget, options, parts = self.CASES[case]
        schedule = {"noise_schedule": ((0, 1.3717),)}
        model = make_model(
            lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5, **schedule, **budget)
        )
        interrupted(model, rows, parts, **options)
        secrets = self.secrets(model)
        # Two generators, the factor, all noise, and open sums of two variables.
        assert len(secrets) == 3 + 1 + (2 if "micro_batch_size" in options else 0)
        kernel = np.asarray(model.layers[1].kernel)[0, :3].tobytes()
        for way, save in self.WAYS.items():
            (tmp_path / way).mkdir()
            save(model, tmp_path / way)
            content = self.content(tmp_path / way)
            assert kernel in content, way
            found = [name for name, secret in secrets.items() if secret in content]
            assert not found, (way, found)

    def secrets(self, model):
        """The bytes of a few numbers of each variable that is the private optimizer's own."""
        optimizer = model.optimizer
        public = {id(v) for v in optimizer.inner_optimizer.variables}
        words = {}
        for variable in optimizer.variables:
            value, name = np.asarray(variable).ravel(), variable.path.split("/")[-1]
            if id(variable) in public or name in ("iteration", "learning_rate", "noise_is_fresh"):
                continue
            assert np.any(value), name
            first = np.flatnonzero(value)[0]
            words[name, id(variable)] = value[first : first + 2].tobytes()
        return words

    def content(self, folder):
        for path in folder.glob("*.keras"):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(folder)
        return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())

    def test_a_legacy_file_is_refused(self, make_model, rows, tmp_path):
        model = make_model(BUDGET)
        for name in ("m.h5", "m.hdf5", "m.weights.h5"):
            with pytest.raises(UnsafeSetting, match="noise state"):
                model.save(tmp_path / name)
        whole = keras.callbacks.ModelCheckpoint(tmp_path / "m.weights.h5")
        with pytest.raises(UnsafeSetting, match="noise state"):
            model.fit(*rows, verbose=0, callbacks=[whole])
        assert list(tmp_path.iterdir()) == []
        assert model.ledger.steps == 0

    def test_orbax_checkpoints_are_refused(self, make_model, rows):
        class OrbaxCheckpoint(keras.callbacks.Callback):
            pass

        with pytest.raises(UnsafeSetting, match="noise state"):
            make_model(BUDGET).fit(*rows, verbose=0, callbacks=[OrbaxCheckpoint()])


class TestCheckpointsWhileTraining:
    @pytest.mark.slow
    @pytest.mark.parametrize("frequency", ["epoch", 3])
    @pytest.mark.parametrize("ending", ["keras", "weights.h5"])
    def test_each_holds_the_steps_until_then(self, make_model, rows, tmp_path, frequency, ending):
        pattern = "{epoch}-{batch}." if frequency == 3 else "{epoch}."
        save = keras.callbacks.ModelCheckpoint(
            tmp_path / (pattern + ending),
            save_freq=frequency,
            save_weights_only=ending != "keras",
        )
        make_model(BUDGET).fit(*rows, batch_size=50, epochs=3, verbose=0, callbacks=[save])
        expected = (
            {"1-3": 3, "2-2": 6, "3-1": 9, "3-4": 12}
            if frequency == 3
            else {"1": 4, "2": 8, "3": 12}
        )
        assert {path.name.split(".")[0] for path in tmp_path.iterdir()} == set(expected)
        for path in tmp_path.iterdir():
            if ending == "keras":
                model = lipdp.load_model(path)
            else:
                model = make_model(BUDGET)
                model.load_weights(path)
            assert model.ledger.steps == expected[path.name.split(".")[0]]

    def test_an_interrupt_inside_a_batch_has_its_access(self, make_model, rows, tmp_path):
        model = make_model(BUDGET)
        interrupted(model, rows, 5, micro_batch_size=30)
        assert model.plan.slots.micro_batches == 4 and model.ledger.steps == 2
        model.save(tmp_path / "m.keras")
        assert lipdp.load_model(tmp_path / "m.keras").ledger.steps == 2


class TestResume:
    """What belongs to an epoch belongs to it after a restore."""

    def backup(self, path):
        return keras.callbacks.BackupAndRestore(path / "backup")

    def test_noise_and_learning_rate(self, make_model, rows, tmp_path):
        budget = lipdp.PrivacyBudget(
            noise_multiplier=1.0, delta=1e-5, noise_schedule=((2, 2.0), (3, 4.0))
        )
        epochs = []

        def rate(epoch):
            epochs.append(epoch)
            return 0.1 / (epoch + 1)

        callbacks = [self.backup(tmp_path), keras.callbacks.LearningRateScheduler(rate)]
        interrupted(make_model(budget), rows, 10, callbacks, epochs=4)
        model = make_model(budget)
        model.fit(*rows, batch_size=50, epochs=4, verbose=0, callbacks=callbacks)
        # Two of the third epoch were lost with the interrupt, and count.
        found = {phase.noise_multiplier: phase.steps for phase in model.ledger.phases}
        assert found == {1.0: 8, 2.0: 2 + 4, 4.0: 4}
        assert epochs == [0, 1, 2, 2, 3]
        assert float(model.optimizer.learning_rate) == pytest.approx(0.025)

    def test_initial_epoch(self, make_model, rows):
        budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5, noise_schedule=((2, 2.0),))
        model = make_model(budget)
        model.fit(*rows, batch_size=50, epochs=3, initial_epoch=1, verbose=0)
        assert [(p.noise_multiplier, p.steps) for p in model.ledger.phases] == [(1.0, 4), (2.0, 4)]

    def test_noise_is_calibrated_for_the_epochs_that_are_left(self, make_model, rows):
        """Three epochs, in which the schedule counts from 0: as five that begin with them."""
        budget = lipdp.PrivacyBudget(epsilon=2.0, delta=1e-5, noise_schedule=((4, 2.0),))
        alike = lipdp.PrivacyBudget(epsilon=2.0, delta=1e-5, noise_schedule=((2, 2.0),))
        part, whole = make_model(budget), make_model(alike)
        part.fit(*rows, batch_size=200, initial_epoch=2, epochs=5, verbose=0)
        whole.fit(*rows, batch_size=200, epochs=3, verbose=0)
        assert part.plan.noise_multiplier == whole.plan.noise_multiplier
        assert part.plan.steps == part.ledger.steps == whole.ledger.steps == 3
        assert part.ledger.epsilon(1e-5) == pytest.approx(2.0, rel=1e-2)
        assert part.plan.shares.stddevs == whole.plan.shares.stddevs

    def test_a_training_that_goes_on_keeps_its_noise(self, make_model, rows, tmp_path):
        budget, file = lipdp.PrivacyBudget(epsilon=2.0, delta=1e-5), tmp_path / "ledger.json"
        first = make_model(budget)
        interrupted(first, rows, 8, [], epochs=5, ledger_file=file)
        again = make_model(budget)
        again.fit(*rows, batch_size=50, initial_epoch=2, epochs=5, verbose=0, ledger_file=file)
        assert again.plan.noise_multiplier == first.plan.noise_multiplier
        assert again.plan.steps == 12 and again.ledger.steps == 20
        assert again.ledger.epsilon(1e-5) <= 2.0

    @pytest.mark.parametrize("first", [-1, 1.0, True, None, "1", 3, 4])
    def test_an_initial_epoch_that_is_none_is_refused(self, make_model, rows, first):
        model = make_model(BUDGET)
        with pytest.raises(InvalidValue, match="initial_epoch"):
            model.fit(*rows, batch_size=50, initial_epoch=first, epochs=3, verbose=0)
        assert model.ledger.steps == 0

    def test_a_backup_of_an_epoch_before_the_first_is_refused(self, make_model, rows, tmp_path):
        interrupted(make_model(BUDGET), rows, 6, [self.backup(tmp_path)], epochs=4)
        model = make_model(BUDGET)
        options = {"callbacks": [self.backup(tmp_path)], "initial_epoch": 3, "epochs": 4}
        with pytest.raises(InvalidState, match="another epoch"):
            model.fit(*rows, batch_size=50, verbose=0, **options)
        assert model.ledger.steps == 6

    def test_a_schedule_of_keras_goes_on_from_the_restored_step(self, make_model, rows, tmp_path):
        schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
        made = lambda: make_model(BUDGET, optimizer=keras.optimizers.SGD(schedule))  # noqa: E731
        interrupted(made(), rows, 10, [self.backup(tmp_path)], epochs=4)
        model = made()
        model.fit(*rows, batch_size=50, epochs=4, verbose=0, callbacks=[self.backup(tmp_path)])
        # 16 steps are in the weights, 18 in the ledger.
        assert int(model.optimizer.iterations) == 16
        assert float(model.optimizer.learning_rate) == pytest.approx(0.1 * 0.5**16)
        assert model.ledger.steps == 18

    def test_another_batch_size_after_loading(self, make_model, rows, tmp_path):
        model = make_model(BUDGET)
        model.fit(*rows, batch_size=50, verbose=0)
        model.save(tmp_path / "m.keras")
        loaded = lipdp.load_model(tmp_path / "m.keras")
        loaded.fit(*rows, batch_size=20, verbose=0)
        assert loaded.ledger.phases == (Phase(0.1, 1.0, 10), Phase(0.25, 1.0, 4))
        left = 1e-5 - loaded.ledger.overflow_delta
        expected = lipdp.privacy.epsilon_of(loaded.ledger.phases, left)
        assert loaded.ledger.epsilon(1e-5) == expected


class TestRestoredLedger:
    """A ledger that grows while fit runs counts at once."""

    def load_at(self, path, batch):
        class Load(keras.callbacks.Callback):
            def on_train_batch_end(self, at, logs=None):
                if at == batch:
                    self.model.load_weights(path)

        return Load()

    @pytest.mark.parametrize("batch", [0, 2])
    def test_no_step_passes_the_budget(self, make_model, rows, tmp_path, batch):
        path = tmp_path / "m.weights.h5"
        budget = lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5, noise_multiplier=1.0)
        donor = make_model(budget)
        donor.fit(*rows, batch_size=50, epochs=4, verbose=0)
        donor.save_weights(path)
        model = make_model(budget)
        with contextlib.suppress(BudgetExhausted):
            model.fit(
                *rows, batch_size=50, epochs=4, verbose=0, callbacks=[self.load_at(path, batch)]
            )
        assert model.ledger.steps > donor.ledger.steps
        assert model.ledger.epsilon(1e-5) <= 8.0

    def test_none_runs_without_a_ledger(self, make_model, rows, tmp_path):
        path = tmp_path / "m.weights.h5"
        keras.Sequential(make_model(None).layers).save_weights(path)
        model = make_model(lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5))
        with pytest.raises(BudgetExhausted, match="unknown"):
            model.fit(*rows, batch_size=50, verbose=0, callbacks=[self.load_at(path, 1)])
        assert model.ledger.steps == 2

    def test_recorded_accesses_are_not_declared_away(self, make_model, rows):
        model = make_model(BUDGET)
        model.fit(*rows, batch_size=50, verbose=0)
        with pytest.raises(InvalidState, match="not public"):
            model.declare_public_history()
        assert model.ledger.steps == 4


def test_a_release_keeps_its_adjacency(make_model, rows, tmp_path):
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5, adjacency="replace-one")
    model = make_model(budget)
    model.fit(*rows, batch_size=50, verbose=0)
    save_for_release(model, tmp_path / "m.keras")
    released = lipdp.load_model(tmp_path / "m.keras")
    assert released.ledger.to_json() == model.ledger.to_json()
