"""What a private fit cannot take is refused with a sentence, before a step is recorded."""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import lipdp
from lipdp import layers as ls
from lipdp import losses
from lipdp.errors import InvalidData, InvalidState, InvalidValue, LipdpError, UnsafeSetting
from lipdp.training import noise_plan

BUDGET = lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5, seed=0)
ZERO_OUT = lipdp.PrivacyBudget(
    epsilon=8.0, delta=1e-5, sampling="shuffled", adjacency="zero-out", seed=0
)
ROOT = Path(__file__).parents[2]


def says(error, *words):
    """A sentence on what happened, what came, and the way out."""
    text = str(error.value)
    assert isinstance(error.value, LipdpError)
    assert "Received" in text
    assert error.value.fix
    for word in words:
        assert word in text
    return text


class Batches(keras.utils.PyDataset):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def __len__(self):
        return 10

    def __getitem__(self, index):
        rows = slice(20 * index, 20 * index + 20)
        return self.x[rows], self.y[rows]


class TestRows:
    def refused(self, model, *words, **given):
        with pytest.raises(InvalidData) as error:
            model.fit(batch_size=50, verbose=0, **given)
        assert model.ledger.steps == 0
        return says(error, *words)

    def test_a_dataset_of_batches(self, make_model, rows):
        self.refused(make_model(BUDGET), "PyDataset", "memmap", x=Batches(*rows))
        self.refused(make_model(BUDGET), "PyDataset", x=Batches(*rows), y=rows[1])

    @pytest.mark.parametrize("kind", ["csr_matrix", "coo_array"])
    def test_sparse_rows(self, make_model, rows, kind):
        import scipy.sparse

        x, y = rows
        sparse = getattr(scipy.sparse, kind)
        self.refused(make_model(BUDGET), "sparse", "x.toarray()", x=sparse(x), y=y)
        self.refused(make_model(BUDGET), "sparse", "y.toarray()", x=x, y=sparse(y[:, None]))

    def test_a_list_of_batches(self, make_model, rows):
        x, y = rows
        self.refused(make_model(BUDGET), "different shapes", x=[(x[:20], y[:20])])

    def test_texts(self, make_model, rows):
        x, y = rows
        self.refused(make_model(BUDGET), "numeric", "preprocessing", x=x.astype(str), y=y)
        self.refused(make_model(BUDGET), "numeric", x=x.astype(object), y=y)

    def test_a_stream_beside_targets(self, make_model, rows):
        import tensorflow as tf

        data = tf.data.Dataset.from_tensor_slices(rows)
        self.refused(make_model(ZERO_OUT), "stream", "as x", x=data, y=rows[1])


class TestBatchedStreams:
    """A batch of a stream is so many rows of it, as its shape cannot be that of a row."""

    @pytest.mark.parametrize("size", [7, 200])
    def test_the_same_rows_train(self, make_model, rows, size):
        import tensorflow as tf

        data = tf.data.Dataset.from_tensor_slices(rows)
        single, batched = (make_model(ZERO_OUT) for _ in range(2))
        single.fit(data, batch_size=50, verbose=0)
        batched.fit(data.batch(size), batch_size=50, verbose=0)
        assert batched.plan.num_examples == 200
        assert batched.ledger.phases == single.ledger.phases
        for one, other in zip(single.get_weights(), batched.get_weights(), strict=True):
            assert np.allclose(one, other, atol=1e-6)

    def test_batches_of_rows_of_another_shape(self, make_model, rows):
        import tensorflow as tf

        x, y = rows
        data = tf.data.Dataset.from_tensor_slices((x[:, :3], y)).batch(20)
        model = make_model(ZERO_OUT)
        with pytest.raises(InvalidData) as error:
            model.fit(data, batch_size=50, verbose=0)
        assert "(20, 3)" not in says(error, "rows of shape (3,)")
        assert model.ledger.steps == 0

    def test_a_poisson_budget_names_the_sampling(self, make_model, rows):
        import tensorflow as tf

        data = tf.data.Dataset.from_tensor_slices(rows).batch(20)
        with pytest.raises(InvalidData) as error:
            make_model(BUDGET).fit(data, batch_size=50, verbose=0)
        says(error, "shuffled", "arrays")


class TestOptions:
    @pytest.mark.parametrize(
        "privacy", [3.0, "strong", {"epsilon": 3.0}, lipdp.PrivacyBudget, True, ()]
    )
    def test_what_is_no_budget(self, make_model, privacy):
        with pytest.raises(InvalidValue) as error:
            make_model(privacy)
        says(error, "PrivacyBudget(epsilon=")

    @pytest.mark.parametrize(
        ("option", "value", "word"),
        [
            ("sample_weight", np.full(200, 0.12345), "left out"),
            ("class_weight", {0: 0.12345, 1: 9.0}, "ClassWeighted"),
            ("steps_per_epoch", 12345, "batch_size and epochs"),
        ],
    )
    def test_refused_options_show_no_weights(self, make_model, rows, option, value, word):
        with pytest.raises(UnsafeSetting) as error:
            make_model(BUDGET).fit(*rows, batch_size=50, verbose=0, **{option: value})
        text = says(error, option, word)
        assert "2345" not in text
        assert ("ClassWeighted" in text) == (option == "class_weight")

    @pytest.mark.parametrize(
        "given", [{"epochs": 2.5}, {"epochs": "2"}, {"batch_size": "20"}, {"validation_split": "1"}]
    )
    def test_numbers(self, make_model, rows, given):
        model = make_model(BUDGET)
        with pytest.raises(InvalidValue, match="must be a"):
            model.fit(*rows, verbose=0, **given)
        assert model.ledger.steps == 0

    @pytest.mark.parametrize("optimizer", [keras.optimizers.SGD(), "sgd", None])
    def test_an_optimizer_that_was_assigned(self, make_model, rows, optimizer):
        model = make_model(BUDGET)
        model.optimizer = optimizer
        with pytest.raises(InvalidState) as error:
            model.fit(*rows, batch_size=50, verbose=0)
        says(error, "model.optimizer", "compile(optimizer=")
        assert model.ledger.steps == 0

    @pytest.mark.parametrize("loss", ["mse", None, losses.MulticlassHinge(margin=0.1)])
    def test_a_loss_that_was_assigned(self, make_model, rows, loss):
        model = make_model(BUDGET)
        model.loss = loss
        with pytest.raises(InvalidState) as error:
            model.fit(*rows, batch_size=50, verbose=0)
        says(error, "model.loss", "compile(loss=")
        assert model.ledger.steps == 0

    def test_secure_noise_names_the_option(self):
        shape = noise_plan.BatchShape(rows=2**20, rows_per_unit=1, expected_rows=100)
        grid = noise_plan.Grid(1.0, 2.0**10)
        with pytest.raises(UnsafeSetting) as error:
            noise_plan._check_room([grid], [1.0], shape)
        says(error, "secure_noise=True", "float64", "secure_noise=False")

    @pytest.mark.parametrize("policy", ["bfloat16", "mixed_bfloat16", "float16"])
    def test_half_precision(self, rows, policy):
        with pytest.raises(UnsafeSetting) as error:
            model = lipdp.Sequential(
                [ls.BoundedInput((4,), 2.0, dtype=policy), ls.SpectralDense(2, dtype=policy)]
            )
            model.compile("sgd", losses.MulticlassHinge(), privacy=BUDGET)
            model.fit(*rows, batch_size=50, verbose=0)
        says(error, "float32 or float64")

    @pytest.mark.parametrize("rank", [1, 2])
    def test_half_precision_of_convolutions(self, rank):
        kind = ls.SpectralConv1D if rank == 1 else ls.SpectralConv2D
        with pytest.raises(UnsafeSetting, match="float32"):
            kind(2, 3, dtype="bfloat16").build((None, *([5] * rank), 2))


class TestClones:
    def test_a_plain_clone_of_a_private_model(self, make_model):
        with pytest.raises(InvalidState) as error:
            keras.models.clone_model(make_model(BUDGET))
        says(error, "clone_model", "from_config")

    def test_a_clone_without_privacy_is_keras_own(self, make_model, rows):
        model = make_model(None, metrics=["accuracy"])
        clone = keras.models.clone_model(model)
        assert type(clone) is keras.Sequential
        clone.fit(*rows, batch_size=50, verbose=0)

    def test_a_functional_clone_stays_private(self, rows):
        inputs = keras.Input((4,))
        outputs = ls.SpectralDense(2)(ls.BoundedInput((4,), 1.0)(inputs))
        model = lipdp.Model(inputs, outputs)
        model.compile("sgd", losses.MulticlassHinge(), privacy=BUDGET)
        clone = keras.models.clone_model(model)
        clone.fit(*rows, batch_size=50, verbose=0)
        assert clone.ledger.steps == clone.plan.steps > 0

    def test_a_budget_survives_and_older_files_are_read(self, make_model):
        model = make_model(BUDGET)
        config = model.get_compile_config()
        other = make_model(None)
        other.compile_from_config(config)
        assert other._private.budget == BUDGET
        other.compile_from_config({**config, "privacy": BUDGET.to_config()})
        assert other._private.budget == BUDGET


class TestLoading:
    @pytest.mark.parametrize("order", ["keras, lipdp", "lipdp, keras"])
    def test_keras_finds_the_classes(self, make_model, rows, tmp_path, order):
        """In a fresh process that names no part of this package."""
        model = make_model(BUDGET, metrics=["accuracy"])
        model.fit(*rows, batch_size=50, verbose=0)
        path = tmp_path / "model.keras"
        model.save(path)
        script = (
            f"import {order}; model = keras.models.load_model({str(path)!r});"
            "print(type(model) is lipdp.Sequential, model.ledger.steps)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT
        )
        assert done.stdout.split() == ["True", str(model.ledger.steps)], done.stderr

    def test_without_keras_nothing_heavy_is_imported(self):
        script = (
            "import sys, lipdp, lipdp.privacy, lipdp.registry;"
            "print([m for m in ('keras', 'tensorflow', 'lipdp.training') if m in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
        )
        assert done.stdout.strip() == "[]"
