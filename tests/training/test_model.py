"""compile and fit: what works as in Keras, and what is refused."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import (
    BudgetExhausted,
    InvalidData,
    InvalidState,
    InvalidValue,
    UnsafeSetting,
    UnsupportedLayer,
)
from lipdp.layers import BoundedInput, SpectralDense
from lipdp.losses import MulticlassHinge, TemperedBinaryCrossentropy

BUDGET = lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5)


class TestRefusals:
    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("class_weight", {0: 1.0, 1: 9.0}),
            ("sample_weight", np.ones(200)),
            ("steps_per_epoch", 3),
        ],
    )
    def test_fit_options(self, make_model, rows, option, value):
        with pytest.raises(UnsafeSetting, match=option):
            make_model(BUDGET).fit(*rows, batch_size=50, verbose=0, **{option: value})

    @pytest.mark.parametrize(
        ("options", "words"),
        [({"loss_weights": [2.0]}, "loss_weights"), ({"steps_per_execution": 4}, "ledger")],
    )
    def test_compile_options(self, make_model, options, words):
        with pytest.raises(UnsafeSetting, match=words):
            make_model(BUDGET, **options)

    @pytest.mark.parametrize("method", ["compute_loss", "train_step", "_private"])
    def test_a_model_class_with_a_training_of_its_own(self, rows, method):
        class Louder(lipdp.Sequential):
            def evaluate(self, *args, **kwargs):
                return None

        setattr(Louder, method, getattr(lipdp.Sequential, method))
        model = Louder([BoundedInput((4,), 1.0), SpectralDense(2)])
        model.compile("sgd", MulticlassHinge(margin=1.0), privacy=BUDGET)
        with pytest.raises(UnsafeSetting, match=f"Louder changes.*{method}"):
            model.fit(*rows, batch_size=50, verbose=0)
        delattr(Louder, method)
        model.fit(*rows, batch_size=50, verbose=0)

    def test_a_loss_without_a_constant(self, make_model):
        with pytest.raises(UnsupportedLayer, match=r"lipdp\.losses"):
            make_model(BUDGET, loss="mse")

    @pytest.mark.parametrize(
        "optimizer",
        [
            keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
            keras.optimizers.SGD(0.1, loss_scale_factor=8.0),
            keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)),
        ],
    )
    def test_optimizers_that_change_the_mechanism(self, make_model, optimizer):
        with pytest.raises(UnsafeSetting):
            make_model(BUDGET, optimizer=optimizer)

    @pytest.mark.parametrize(
        "callback",
        [
            keras.callbacks.EarlyStopping(monitor="loss"),
            keras.callbacks.ReduceLROnPlateau(monitor="accuracy"),
            keras.callbacks.ModelCheckpoint("x.keras", monitor="loss", save_best_only=True),
            keras.callbacks.TerminateOnNaN(),
            keras.callbacks.SwapEMAWeights(),
        ],
    )
    def test_callbacks_that_decide_by_private_quantities(self, make_model, rows, callback):
        with pytest.raises(UnsafeSetting, match=type(callback).__name__):
            make_model(BUDGET).fit(*rows, batch_size=50, verbose=0, callbacks=[callback])

    def test_train_on_batch(self, make_model, rows):
        with pytest.raises(UnsafeSetting, match="fit"):
            make_model(BUDGET).train_on_batch(*rows)

    def test_a_batch_larger_than_the_data(self, make_model, rows):
        with pytest.raises(InvalidValue, match="200"):
            make_model(BUDGET).fit(*rows, batch_size=201, verbose=0)

    def test_delta_of_a_row_or_more(self, make_model, rows):
        model = make_model(lipdp.PrivacyBudget(epsilon=8.0, delta=0.01))
        with pytest.raises(InvalidValue, match="delta"):
            model.fit(*rows, batch_size=50, verbose=0)

    def test_streams_and_unequal_lengths(self, make_model, rows):
        model = make_model(BUDGET)
        with pytest.raises(InvalidData, match="sampled"):
            model.fit(iter([rows]), verbose=0)
        with pytest.raises(InvalidData, match="different numbers"):
            model.fit(rows[0], rows[1][:50], verbose=0)

    def test_batch_normalization_by_name(self, rows):
        model = lipdp.Sequential(
            [
                BoundedInput((4,), radius=1.0),
                keras.layers.BatchNormalization(name="norm"),
                SpectralDense(2),
            ]
        )
        model.compile("sgd", MulticlassHinge(margin=1.0), privacy=BUDGET)
        with pytest.raises(UnsupportedLayer, match="norm"):
            model.fit(*rows, verbose=0)
        assert model.ledger.steps == 0

    def test_regularisers(self, rows):
        model = lipdp.Sequential(
            [BoundedInput((4,), radius=1.0), keras.layers.Dense(2, kernel_regularizer="l2")]
        )
        model.compile("sgd", MulticlassHinge(margin=1.0), privacy=BUDGET)
        with pytest.raises(UnsafeSetting, match="weight_decay"):
            model.fit(*rows, verbose=0)

    def test_private_training_after_training_without_privacy(self, make_model, rows):
        model = make_model(None)
        model.fit(*rows, verbose=0)
        model.compile("sgd", MulticlassHinge(margin=1.0), privacy=BUDGET)
        with pytest.raises(BudgetExhausted, match="unknown"):
            model.fit(*rows, verbose=0)

    def test_no_statement_before_training(self, make_model):
        with pytest.raises(InvalidState):
            make_model(BUDGET).privacy_statement()


class TestAsInKeras:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("options", "batches"),
        [
            ({}, 4),
            # Four parts of 25 slots hold a batch; of its 50 expected rows each has 13.
            ({"micro_batch_size": 25}, 16),
            ({"validation_batch_size": 200}, 1),
            ({"validation_split": 0.5, "validation_data": None}, 2),
        ],
    )
    def test_held_out_rows_are_read_by_the_batch_size(self, make_model, rows, options, batches):
        read = []
        seen = keras.callbacks.Callback()
        seen.on_test_batch_end = lambda batch, logs=None: read.append(1)
        given = {"validation_data": tuple(part.copy() for part in rows), **options}
        make_model(BUDGET).fit(*rows, batch_size=50, verbose=0, callbacks=[seen], **given)
        assert len(rows[1]) == 200 and len(read) == batches

    def test_weights_enter_their_set_before_the_first_step(self, make_model, rows):
        model = make_model(lipdp.PrivacyBudget(noise_multiplier=0.0, delta=1e-5, seed=0))
        model.layers[1].kernel.assign(50.0 * np.eye(4, 6))
        model.optimizer.learning_rate = 0.0
        model.fit(*rows, batch_size=50, verbose=0)
        assert np.linalg.norm(model.layers[1].kernel, 2) <= 1.0

    def test_moving_averages_end_inside_the_set(self, make_model, rows):
        optimizer = keras.optimizers.SGD(5.0, use_ema=True, ema_momentum=0.9)
        model = make_model(lipdp.PrivacyBudget(noise_multiplier=5.0, delta=1e-5), optimizer)
        model.fit(*rows, batch_size=50, epochs=3, verbose=0)
        for layer in (model.layers[1], model.layers[3]):
            assert np.linalg.norm(np.asarray(layer.kernel, "float64"), 2) <= 1.0

    def test_schedules_callbacks_and_validation_split(self, make_model, rows, tmp_path):
        schedule = keras.optimizers.schedules.CosineDecay(0.5, 20)
        model = make_model(BUDGET, optimizer=keras.optimizers.Adam(schedule))
        callbacks = [
            keras.callbacks.ModelCheckpoint(
                tmp_path / "best.keras", monitor="val_loss", save_best_only=True
            ),
            keras.callbacks.EarlyStopping(monitor="val_loss", patience=50),
            keras.callbacks.CSVLogger(tmp_path / "log.csv"),
        ]
        history = model.fit(
            *rows, batch_size=50, epochs=2, validation_split=0.25, callbacks=callbacks, verbose=0
        )
        assert model.plan.num_examples == 150
        assert model.plan.sampling_rate == pytest.approx(1 / 3)
        assert "val_loss" in history.history
        assert lipdp.load_model(tmp_path / "best.keras").ledger.steps >= 3
        assert "epsilon" in (tmp_path / "log.csv").read_text()

    def test_learning_rate_scheduler_reaches_the_inner_optimizer(self, make_model, rows):
        model = make_model(BUDGET)
        callback = keras.callbacks.LearningRateScheduler(lambda epoch: 0.25)
        model.fit(*rows, batch_size=50, verbose=0, callbacks=[callback])
        assert float(model.optimizer.inner_optimizer.learning_rate) == 0.25

    def test_an_unknown_callback_is_named_in_the_statement(self, make_model, rows):
        class Curious(keras.callbacks.Callback):
            pass

        model = make_model(BUDGET)
        model.fit(*rows, batch_size=50, verbose=0, callbacks=[Curious()])
        assert "Curious" in model.privacy_statement()

    def test_accuracy_and_auc_on_one_logit(self, rows):
        model = lipdp.Sequential([BoundedInput((4,), radius=3.0), SpectralDense(1)])
        model.compile(
            keras.optimizers.SGD(0.5),
            TemperedBinaryCrossentropy(inverse_temperature=4.0),
            metrics=["accuracy", "auc"],
            privacy=BUDGET,
        )
        model.layers[1].kernel.assign([[1.0], [0.0], [0.0], [0.0]])
        x, y = rows
        found = model.evaluate(x, y, verbose=0, return_dict=True)
        assert found["accuracy"] == 1.0
        assert found["auc"] > 0.999

    def test_a_functional_model_trains_and_loads(self, rows, tmp_path):
        inputs = keras.Input((4,))
        outputs = SpectralDense(2)(BoundedInput((4,), radius=2.0)(inputs))
        model = lipdp.Model(inputs, outputs)
        model.compile(keras.optimizers.SGD(0.5), MulticlassHinge(margin=0.5), privacy=BUDGET)
        model.fit(*rows, batch_size=50, verbose=0)
        model.save(tmp_path / "f.keras")
        loaded = lipdp.load_model(tmp_path / "f.keras")
        assert isinstance(loaded, lipdp.Model)
        assert loaded.ledger.steps == 4
        np.testing.assert_allclose(
            loaded.predict(rows[0], verbose=0), model.predict(rows[0], verbose=0), atol=1e-6
        )

    def test_dropout_trains(self, rows):
        model = lipdp.Sequential(
            [BoundedInput((4,), radius=2.0), keras.layers.Dropout(0.5), SpectralDense(2)]
        )
        model.compile(keras.optimizers.SGD(0.5), MulticlassHinge(margin=0.5), privacy=BUDGET)
        model.fit(*rows, batch_size=50, verbose=0)
        assert model.gradient_bounds().total == pytest.approx(4 * np.sqrt(2), rel=1e-4)

    def test_without_privacy_everything_is_keras(self, make_model, rows):
        model = make_model(None, metrics=["accuracy"])
        history = model.fit(*rows, epochs=2, verbose=0)
        assert "epsilon" not in history.history

    def test_loading_something_else(self, tmp_path):
        (tmp_path / "x.keras").write_text("no model")
        for path in (tmp_path / "x.keras", tmp_path / "missing.keras"):
            with pytest.raises(InvalidData):
                lipdp.load_model(path)
