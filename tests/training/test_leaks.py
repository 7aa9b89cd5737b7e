"""Ways around the mechanism: each is refused before a step, and its harmless neighbour trains."""

import keras
import numpy as np
import pandas as pd
import pytest

import lipdp
from lipdp.errors import InvalidData, InvalidState, UnsafeSetting
from lipdp.layers import BoundedInput, SpectralDense
from lipdp.losses import MulticlassHinge
from lipdp.statistics.layers import PrivateStandardization
from lipdp.training.callbacks import unknown_callbacks
from lipdp.training.data import check_held_out
from lipdp.training.gate import StepGate
from lipdp.training.metrics import check_names

BUDGET = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)


@pytest.fixture
def refused(make_model, rows):
    """``refused(error, match, **options)``: a fit that ends before its first step."""

    def check(error, match, model=None, **options):
        model = make_model(BUDGET) if model is None else model
        before = [weight.copy() for weight in model.get_weights()] if model.built else None
        with pytest.raises(error, match=match):
            model.fit(*rows, **{"batch_size": 50, "verbose": 0, **options})
        assert model.ledger.steps == 0
        for a, b in zip(before or (), model.get_weights(), strict=before is not None):
            np.testing.assert_array_equal(a, b)

    return check


class TestSeveralStepsAtATime:
    def test_after_compile(self, make_model, refused):
        model = make_model(BUDGET)
        model.steps_per_execution = 4
        refused(UnsafeSetting, "steps_per_execution", model)

    def test_from_a_callback(self, make_model, rows):
        """TensorFlow reads the number when the first step is traced."""
        model = make_model(BUDGET)
        late = keras.callbacks.Callback()
        late.on_train_begin = lambda logs=None: setattr(model, "steps_per_execution", 4)
        with pytest.raises(UnsafeSetting, match="steps_per_execution"):
            model.fit(*rows, batch_size=50, verbose=0, callbacks=[late])
        assert int(model.optimizer.iterations) == 0

    def test_the_gate_makes_no_such_step(self, make_model):
        model = make_model(BUDGET)
        model.steps_per_execution = 2
        with pytest.raises(UnsafeSetting, match="steps_per_execution"):
            StepGate(model, 1, lambda factor: None).guard(lambda: print)


class TestHeldOutRows:
    def test_the_training_arrays(self, rows, refused):
        refused(UnsafeSetting, "validation_data", validation_data=rows)

    @pytest.mark.parametrize("of", [lambda x: x, lambda x: x[150:], lambda x: x[::3], np.asarray])
    def test_parts_of_them(self, rows, of):
        for one in (rows, rows[0], rows[1]):
            with pytest.raises(UnsafeSetting, match="training data"):
                check_held_out(rows, keras.tree.map_structure(of, one))

    def test_nests_and_frames(self, rows):
        x, frame = rows[0], pd.DataFrame(rows[0])
        with pytest.raises(UnsafeSetting):
            check_held_out(({"a": x.copy(), "b": x}, None), ([x.copy(), x[3:]], None))
        with pytest.raises(UnsafeSetting):
            check_held_out((frame, None), (frame[150:], None))

    def test_one_stream_for_both(self, rows):
        stream = keras.utils.PyDataset()
        for data in (stream, iter([rows])):
            with pytest.raises(UnsafeSetting):
                check_held_out((data, None), data)

    def test_other_parts_of_one_array_are_other_rows(self, rows):
        x, frame = rows[0], pd.DataFrame(rows[0])
        check_held_out((x[:150], rows[1][:150]), (x[150:], rows[1][150:]))
        check_held_out((x[::2], None), (x[1::2], None))
        check_held_out((x[:, :2], None), (x[:, 2:], None))
        check_held_out((frame[:150], None), (frame[150:], None))
        check_held_out(([1, 2, 3], ["a"]), ([3, 2, 1], ["a"]))
        check_held_out(rows, None)

    def test_other_parts_train(self, make_model, rows):
        x, y = rows
        held_out = (x[150:], y[150:])
        model = make_model(BUDGET)
        model.fit(x[:150], y[:150], batch_size=50, verbose=0, validation_data=held_out)
        assert model.ledger.steps == 3


class TestUsers:
    USERS = np.tile(np.arange(50), 4)

    def test_a_split_through_users(self, refused):
        options = {"groups": self.USERS, "max_examples_per_user": 3, "batch_size": 10}
        refused(UnsafeSetting, "other users", validation_split=0.25, **options)

    def test_held_out_data_of_their_own(self, make_model, rows):
        model = make_model(BUDGET)
        model.fit(
            *rows, batch_size=10, verbose=0, groups=self.USERS, max_examples_per_user=3,
            validation_split=0.25, validation_data=(rows[0] + 1.0, rows[1].copy()),
        )  # fmt: skip
        assert model.ledger.steps == 5

    @pytest.mark.parametrize("count", [1, 199, 201, 2000])
    def test_groups_of_another_length(self, refused, count):
        options = {"groups": np.arange(count), "max_examples_per_user": 3, "batch_size": 1}
        refused(InvalidData, f"{count},.*200 rows", **options)

    def test_one_group_for_all(self, refused):
        refused(InvalidData, "200 rows", groups=np.array(3), max_examples_per_user=3)


def val_error(y_true, y_pred):
    return keras.ops.mean(y_pred, axis=-1)


class ValError:
    def __call__(self, y_true, y_pred):
        return val_error(y_true, y_pred)


class TestNames:
    @pytest.mark.parametrize(
        "metric",
        [
            keras.metrics.SparseCategoricalAccuracy(name="val_acc"),
            keras.metrics.SparseCategoricalAccuracy(name="epsilon"),
            val_error,
            ValError(),
            "val_acc",
        ],
    )
    @pytest.mark.parametrize("option", ["metrics", "weighted_metrics"])
    def test_metrics_that_pass_for_public_numbers(self, make_model, metric, option):
        with pytest.raises(UnsafeSetting, match="public number"):
            make_model(BUDGET, **{option: [metric]})

    def test_a_name_as_keras_logs_it(self, make_model, rows):
        model = make_model(None, metrics=[val_error, ValError()])
        history = model.fit(*rows, verbose=0).history
        assert {name for name in history if name.startswith("val_")} == {"val_error", "val_error_1"}

    def test_a_metric_of_a_layer(self, refused):
        layer = SpectralDense(2)
        layer.hidden = keras.metrics.Mean(name="val_mean")
        model = lipdp.Sequential([BoundedInput((4,), radius=1.0), layer])
        model.compile("sgd", MulticlassHinge(margin=0.5), privacy=BUDGET)
        refused(UnsafeSetting, "val_mean", model)

    def test_a_metric_of_several_numbers(self, make_model, rows):
        class Several(keras.metrics.Mean):
            def update_state(self, y_true, y_pred, sample_weight=None):
                return super().update_state(y_pred)

            def result(self):
                return {"val_acc": super().result()}

        model = make_model(BUDGET, metrics=[Several(name="several")])
        with pytest.raises(UnsafeSetting, match="val_acc"):
            model.fit(*rows, batch_size=50, verbose=0)

    def test_other_names(self):
        check_names(["accuracy", "value", keras.metrics.AUC(name="interval_auc"), None])
        check_names({"a": [keras.metrics.Mean(name="validity")], "b": np.mean})

    @pytest.mark.parametrize(
        "name",
        ["{loss:.5f}", "{accuracy}", "{epoch}-{loss}", "{epoch:0{loss}}", "{loss.real}", "{}"],
    )
    @pytest.mark.parametrize("ending", [".keras", ".weights.h5"])
    def test_files_that_publish_training_metrics(self, refused, tmp_path, name, ending):
        path = tmp_path / f"m-{name}{ending}"
        callback = keras.callbacks.ModelCheckpoint(path, save_weights_only=ending == ".weights.h5")
        refused(UnsafeSetting, "Names of files", callbacks=[callback])
        assert list(tmp_path.iterdir()) == []

    def test_files_named_by_public_numbers(self, make_model, rows, tmp_path):
        path = tmp_path / "{epoch:02d}-{epsilon:.3g}-{val_loss:.2f}.keras"
        callback = keras.callbacks.ModelCheckpoint(path)
        assert unknown_callbacks([callback]) == ()
        held_out = (rows[0] + 1.0, rows[1].copy())
        make_model(BUDGET).fit(
            *rows, batch_size=50, verbose=0, callbacks=[callback], validation_data=held_out
        )
        assert len(list(tmp_path.glob("01-*.keras"))) == 1
        assert unknown_callbacks([keras.callbacks.ModelCheckpoint("{{loss}}{batch}.keras")]) == ()


class TestNestedStatistics:
    @staticmethod
    def model(layers):
        model = lipdp.Sequential([*layers, SpectralDense(2)])
        model.compile(keras.optimizers.SGD(0.1), MulticlassHinge(margin=0.5), privacy=BUDGET)
        return model

    @staticmethod
    def released(rows):
        return PrivateStandardization.release(
            rows[0], radius=3.0, budget=BUDGET, noise_multiplier=5.0
        )

    @pytest.mark.parametrize("kind", [keras.Sequential, lipdp.Sequential])
    def test_in_a_model_inside(self, rows, refused, kind):
        statistics = self.released(rows)
        model = self.model([kind([kind(statistics.layers())])])
        refused(InvalidState, "record_in", model)
        statistics.record_in(model)
        model.fit(*rows, batch_size=50, verbose=0)
        assert model.ledger.steps == 4

    def test_each_release_needs_its_access(self, rows, refused):
        first, second = self.released(rows), self.released(rows)
        inner = keras.Sequential([keras.Input((4,)), *second.layers()])
        model = self.model([*first.layers(), BoundedInput((4,), radius=1.0), inner])
        first.record_in(model)
        refused(InvalidState, "2 times, and 1 recorded", model)
        second.record_in(model)
        model.fit(*rows, batch_size=50, verbose=0)
