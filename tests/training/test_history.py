"""What weights have cost goes where they go; what one statement cannot say is refused."""

import copy
import pickle
import shutil

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import BudgetExhausted, InvalidState, InvalidValue, UnsafeSetting
from lipdp.layers import BoundedBias, BoundedInput, MaxMin, SpectralDense
from lipdp.losses import MulticlassHinge
from lipdp.privacy import PrivacyLedger
from lipdp.statistics import PrivateStandardization
from lipdp.training.ledger_file import LedgerFile

BUDGET = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
SEEDED = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5, seed=3)
USERS = {"groups": np.arange(200) // 4, "max_examples_per_user": 2}


def train(model, rows, epochs=1, **options):
    model.fit(*rows, batch_size=50, epochs=epochs, verbose=0, **options)
    return model


def compiled(layers, budget=BUDGET):
    model = lipdp.Sequential(layers)
    model.compile("sgd", MulticlassHinge(margin=0.5), privacy=budget)
    return model


class TestWeights:
    def test_trained_layers_bring_their_ledger(self, make_model, rows):
        first = train(make_model(BUDGET), rows, epochs=3)
        second = train(compiled([*first.layers[:-1], SpectralDense(2)]), rows)
        assert second.ledger.steps == 12 + 4
        # They were trained again: what the first model may now release costs both.
        assert first.ledger.steps == 16

    def test_a_model_that_fit_built_has_layers_that_remember(self, rows):
        front = lipdp.layers.SphereNormalization(1.0, min_norm=0.1)
        first = train(compiled([front, SpectralDense(8), MaxMin(), SpectralDense(2)]), rows, 2)
        assert train(compiled([*first.layers[:-1], SpectralDense(2)]), rows).ledger.steps == 8 + 4

    @pytest.mark.parametrize(("built", "how"), [(False, "fit"), (True, "train_on_batch")])
    def test_layers_that_trained_without_privacy_have_an_unknown_history(self, rows, built, how):
        front = BoundedInput((4,), 2.0) if built else lipdp.layers.SphereNormalization(1.0, 0.1)
        public = compiled([front, SpectralDense(4), SpectralDense(2)], None)
        train(public, rows) if how == "fit" else public.train_on_batch(*rows)
        with pytest.raises(BudgetExhausted, match="declare_public_history"):
            train(compiled([*public.layers[:-1], SpectralDense(2)]), rows)

    def test_a_nested_model_brings_its_ledger_from_a_file_too(self, make_model, rows, tmp_path):
        inner = train(make_model(BUDGET), rows, epochs=3)
        outer = compiled([inner, SpectralDense(2)])
        outer.save(tmp_path / "outer.keras")
        assert train(outer, rows).ledger.steps == 16
        loaded = keras.saving.load_model(tmp_path / "outer.keras")
        assert train(loaded, rows).ledger.steps == 16

    def test_a_part_that_is_saved_alone_has_the_ledger_of_the_whole(self, rows, tmp_path):
        inner = lipdp.Sequential([BoundedInput((4,), 2.0), SpectralDense(4), MaxMin()])
        train(compiled([inner, SpectralDense(2)]), rows)
        inner.save(tmp_path / "inner.keras")
        assert keras.saving.load_model(tmp_path / "inner.keras").ledger.steps == 4

    def test_two_trainings_of_one_start_cost_both(self, make_model, rows, tmp_path):
        first = train(make_model(BUDGET), rows)
        first.save_weights(tmp_path / "start.weights.h5")
        second = make_model(BUDGET)
        second.load_weights(tmp_path / "start.weights.h5")
        train(second, rows, epochs=2).save_weights(tmp_path / "second.weights.h5")
        train(first, rows)
        first.load_weights(tmp_path / "second.weights.h5")
        assert first.ledger.steps == 4 + 4 + 8

    def test_copies_train_apart(self, make_model, rows):
        first = train(make_model(BUDGET), rows)
        second = train(copy.deepcopy(first), rows)
        train(first, rows)
        first.ledger.merge(second.ledger)
        assert first.ledger.steps == 4 + 4 + 4

    def test_a_public_nested_model_is_declared_by_the_outer_one(self, make_model, rows):
        inner = make_model(None)
        inner.fit(*rows, epochs=1, verbose=0)
        outer = compiled([inner, SpectralDense(2)])
        with pytest.raises(BudgetExhausted, match="unknown"):
            train(outer, rows)
        outer.declare_public_history()
        assert train(outer, rows).ledger.steps == 4


class TestStatements:
    def test_one_seeded_training_makes_all_of_it_not_private(self, make_model, rows, tmp_path):
        model = train(make_model(SEEDED), rows)
        model.compile("sgd", MulticlassHinge(margin=0.5), privacy=BUDGET)
        assert "NOT PRIVATE" in train(model, rows).privacy_statement().upper()
        model.save(tmp_path / "m.keras")
        assert keras.saving.load_model(tmp_path / "m.keras").ledger.seeded

    def test_secure_noise_of_the_last_training_alone_is_not_claimed(self, make_model, rows):
        model = train(make_model(BUDGET), rows)
        secure = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5, secure_noise=True)
        model.compile("sgd", MulticlassHinge(margin=0.5), privacy=secure)
        mixed = train(model, rows).privacy_statement()
        alone = train(make_model(secure), rows).privacy_statement()
        assert not model.ledger.secure and mixed != alone
        weak = "non-cryptographic generator"
        assert weak in mixed and weak not in alone

    @pytest.mark.parametrize(("first", "second"), [({}, USERS), (USERS, {})])
    def test_rows_and_users_have_no_epsilon_of_both(self, make_model, rows, first, second):
        model = train(make_model(BUDGET), rows, **first)
        with pytest.raises(UnsafeSetting, match="other units"):
            train(model, rows, **second)

    def test_statistics_of_rows_and_a_training_of_users(self, rows):
        for groups, refused in ((None, True), (USERS["groups"], False)):
            found = PrivateStandardization.release(
                rows[0], radius=2.0, budget=BUDGET, noise_multiplier=5.0, groups=groups
            )
            model = compiled([*found.layers(), SpectralDense(2)])
            found.record_in(model)
            if refused:
                with pytest.raises(UnsafeSetting, match="other units"):
                    train(model, rows, **USERS)
            else:
                train(model, rows, **USERS)

    def test_an_earlier_training_is_named_with_its_numbers(self, make_model, rows):
        model = train(make_model(BUDGET), rows)
        louder = lipdp.PrivacyBudget(noise_multiplier=2.5, delta=1e-5)
        model.compile("sgd", MulticlassHinge(margin=0.5), privacy=louder)
        text = " ".join(train(model, rows).privacy_statement().split())
        assert "rate 0.25" in text and "noise multiplier: 1 (4 steps), 2.5 (4 steps)" in text


class TestBounds:
    def test_other_variables_than_the_optimizer_moves(self, rows):
        model = compiled([BoundedInput((4,), 2.0), *(SpectralDense(4) for _ in range(2))])
        model.layers[1].trainable = False
        model.compile("sgd", MulticlassHinge(margin=0.5), privacy=BUDGET)
        train(model, rows)
        model.layers[1].trainable, model.layers[2].trainable = True, False
        before = model.get_weights()
        with pytest.raises(InvalidState, match="Compile"):
            train(model, rows)
        assert all(map(np.array_equal, before, model.get_weights()))

    @pytest.mark.parametrize("kind", ["frozen", "bias"])
    def test_a_backup_of_larger_weights_is_not_trained(self, rows, tmp_path, kind):
        """Keras restores a backup behind the plan."""

        def make(size):
            between = (
                keras.layers.Dense(
                    4, trainable=False, kernel_initializer=keras.initializers.Identity(size)
                )
                if kind == "frozen"
                else BoundedBias(size)
            )
            model = compiled([BoundedInput((4,), 2.0), between, SpectralDense(2)])
            if kind == "bias":
                between.bias.assign(np.full(4, size / 2))
            return model

        class Kill(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                if epoch == 1 and self.model is first:
                    raise KeyboardInterrupt

        def backup():
            return keras.callbacks.BackupAndRestore(tmp_path / "backup")

        first = make(8.0)
        with pytest.raises(KeyboardInterrupt):
            train(first, rows, epochs=3, callbacks=[backup(), Kill()])
        second = make(1.0)
        with pytest.raises(InvalidState, match="present weights"):
            train(second, rows, epochs=3, callbacks=[backup()])
        assert second.ledger.steps == 4
        assert train(make(8.0), rows, epochs=3, callbacks=[backup()]).ledger.steps == 12


class TestCallbacks:
    def test_a_nest_is_looked_into(self, make_model, rows, tmp_path):
        early = keras.callbacks.EarlyStopping(monitor="loss")
        for nest in ([[early]], early, ((early,),)):
            with pytest.raises(UnsafeSetting, match="monitor"):
                train(make_model(BUDGET), rows, callbacks=nest)
        backup = keras.callbacks.BackupAndRestore(tmp_path / "b", delete_checkpoint=False)
        model = train(make_model(BUDGET), rows, callbacks=[[backup]])
        assert LedgerFile(tmp_path / "b.privacy_ledger.json").read().steps == model.ledger.steps

    def test_what_hides_callbacks_is_refused(self, make_model, rows):
        hidden = keras.callbacks.CallbackList([keras.callbacks.EarlyStopping(monitor="loss")])
        with pytest.raises(InvalidValue, match="one by one"):
            train(make_model(BUDGET), rows, callbacks=hidden)


def test_two_trainings_that_write_one_file_add_up(make_model, rows, tmp_path):
    path = tmp_path / "ledger.json"
    second = make_model(BUDGET)

    class Meanwhile(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                train(second, rows, ledger_file=path)

    first = train(make_model(BUDGET), rows, 2, ledger_file=path, callbacks=[Meanwhile()])
    assert LedgerFile(path).read().steps == 12
    assert first.ledger.steps == 12


def test_what_another_process_spent_counts_against_the_budget(make_model, rows, tmp_path):
    path = tmp_path / "ledger.json"
    budget = lipdp.PrivacyBudget(epsilon=3.0, delta=1e-5)

    class Other(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                other = PrivacyLedger()
                other.record(0.25, 0.5, 50)
                LedgerFile(path).write(other)

    model = make_model(budget)
    with pytest.raises(BudgetExhausted):
        train(model, rows, 3, ledger_file=path, callbacks=[Other()])
    assert model.ledger.steps == 4 + 1 + 50


def test_sessions_of_a_ledger_add_up_and_one_session_counts_once():
    ledger = PrivacyLedger()
    ledger.record(0.1, 1.0, 10)
    other = PrivacyLedger.from_json(ledger.to_json())
    other.record(0.1, 1.0, 5)
    ledger.merge(other)
    ledger.merge(other)
    assert ledger.steps == 15
    assert ledger.phases == other.phases


def merged_steps(*models):
    whole = PrivacyLedger()
    for model in models:
        whole.merge(model.ledger)
    return whole.steps


class TestForks:
    """Two models that go on from one count it once, and each its own steps."""

    def saved_twice(self, model, folder):
        model.save(folder / "model.keras")
        return [lipdp.load_model(folder / "model.keras") for _ in range(2)]

    WAYS = {
        "deepcopy": lambda model, folder: [copy.deepcopy(model)],
        "pickle": lambda model, folder: [pickle.loads(pickle.dumps(model))],
        "files": lambda model, folder: TestForks().saved_twice(model, folder),
    }

    @pytest.mark.parametrize("way", WAYS)
    def test_models(self, make_model, rows, tmp_path, way):
        model = train(make_model(BUDGET), rows)
        models = [model, *self.WAYS[way](model, tmp_path)]
        for one in models:
            train(one, rows)
        assert [one.ledger.steps for one in models] == [8] * len(models)
        assert merged_steps(*models) == 4 + 4 * len(models)

    def test_a_backup_that_two_runs_go_on_from(self, make_model, rows, tmp_path):
        def backup(name, **options):
            folder = tmp_path / name / "backup"
            return [keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False, **options)]

        train(make_model(BUDGET), rows, callbacks=backup("one"))
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        models = [
            train(make_model(BUDGET), rows, epochs=3, callbacks=backup(name))
            for name in ("one", "two")
        ]
        assert [one.ledger.steps for one in models] == [12, 12]
        assert merged_steps(*models) == 4 + 8 + 8


class Peek(keras.callbacks.Callback):
    """Nobody knows what it does."""


def test_what_the_statement_must_name_goes_with_the_weights(rows, tmp_path):
    model = compiled([BoundedInput((4,), 2.0), SpectralDense(4), SpectralDense(2)], None)
    train(model, rows)
    model.declare_public_history()
    model.compile("sgd", MulticlassHinge(margin=0.5), privacy=BUDGET)
    train(model, rows, callbacks=[Peek()])
    model.save(tmp_path / "model.keras")
    loaded = train(lipdp.load_model(tmp_path / "model.keras"), rows)
    again = train(compiled([*model.layers[:-1], SpectralDense(2)]), rows)
    for one in (model, loaded, again):
        said = " ".join(one.privacy_statement().split())
        assert "the callback Peek" in said and "as the user declares" in said


def test_a_declaration_stays_when_the_adjacency_changes(rows):
    model = compiled([BoundedInput((4,), 2.0), SpectralDense(2)], None)
    train(model, rows)
    model.declare_public_history()
    budget = lipdp.PrivacyBudget(
        noise_multiplier=1.0, delta=1e-5, sampling="shuffled", adjacency="zero-out"
    )
    model.compile("sgd", MulticlassHinge(margin=0.5), privacy=budget)
    said = train(model, rows).privacy_statement()
    assert "as the user declares" in " ".join(said.split())


def test_a_step_that_is_traced_anew_for_other_variables_is_refused(rows, make_model):
    """As many of them: a count tells nothing."""

    class Swap(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            first, second = (self.model.layers[i] for i in kernels)
            first.trainable, second.trainable = False, True
            self.model.make_train_function(force=True)

    model = make_model(BUDGET)
    kernels = [i for i, one in enumerate(model.layers) if isinstance(one, SpectralDense)][:2]
    model.layers[kernels[1]].trainable = False
    model.compile("sgd", MulticlassHinge(margin=0.5), privacy=BUDGET)
    with pytest.raises(InvalidState, match="trains other variables"):
        train(model, rows, epochs=2, callbacks=[Swap()])
