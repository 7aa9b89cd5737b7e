"""The statement of trained models: a block for each kind of access, from the ledger alone."""

import re

import keras
import numpy as np
import pytest

import lipdp
from lipdp.losses import MulticlassHinge
from lipdp.statistics import PrivateStandardization

BUDGET = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
USERS = {"groups": np.arange(200) // 4, "max_examples_per_user": 2}


def blocks(model):
    """The facts and points of each kind of access, by its heading, as one text each."""
    parts = model.privacy_statement().split("\n\n")
    found = [part for part in parts if part.startswith("Accesses for ")]
    return [" ".join(part.split()) for part in found]


def said(model):
    return " ".join(model.privacy_statement().split())


def test_fits_with_other_rows_and_sampling_each_have_a_block(make_model, rows):
    x, y = rows
    model = make_model(BUDGET)
    model.fit(x, y, batch_size=50, verbose=0)
    model.fit(x[:150], y[:150], batch_size=10, verbose=0)
    model.compile(
        "sgd",
        MulticlassHinge(margin=0.5),
        privacy=lipdp.PrivacyBudget(noise_multiplier=5.0, delta=1e-5, sampling="full-batch"),
    )
    model.fit(x, y, batch_size=200, verbose=0)
    first, second, third = blocks(model)
    assert "rows: 200 expected batch: 50 rows sampling: Poisson, rate 0.25" in first
    assert "rows: 150 expected batch: 10 rows sampling: Poisson, rate 0.0666667" in second
    assert "rows: 200 expected batch: 200 rows sampling: full batch, rate 1" in third
    assert "steps: 4 " in first and "steps: 15 " in second and "steps: 1 " in third
    for one in (first, second):
        assert "each step draws each row independently of all others" in one
    assert "independently" not in third and "each step uses every row once" in third
    # The same kind once more is the same block.
    model.fit(x, y, batch_size=200, verbose=0)
    assert len(blocks(model)) == 3 and "steps: 2 " in blocks(model)[2]


def test_users_are_drawn_and_not_their_rows(make_model, rows):
    model = make_model(BUDGET)
    model.fit(*rows, batch_size=10, verbose=0, **USERS)
    (block,) = blocks(model)
    assert "users: 50 expected batch: 10 users" in block and "steps: 5 " in block
    assert "draws each user independently" in block and "each row" not in said(model)
    assert "the rows of a user come together into a batch, at most 2 of them" in block
    assert "all rows of one user, of which at most 2 take part" in said(model)


def test_a_seed_never_leaves_a_secret(make_model, rows):
    seeded = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5, seed=3)
    model = make_model(seeded)
    model.fit(*rows, batch_size=50, verbose=0)
    (block,) = blocks(model)
    assert "randomness: a seed (not private)" in block and "come from a seed" in block
    assert "secret" not in said(model) and "of the operating system" not in block
    # What follows without one is told apart from it, and the whole stays not private.
    model.compile("sgd", MulticlassHinge(margin=0.5), privacy=BUDGET)
    model.fit(*rows, batch_size=50, verbose=0)
    first, second = blocks(model)
    assert first == block and "must stay secret" in second
    assert said(model).startswith("NOT PRIVATE")


def test_a_stream_and_shuffled_rows(make_model, rows):
    class Rows:
        def __iter__(self):
            return iter(zip(*rows, strict=True))

    zero_out = {"sampling": "shuffled", "adjacency": "zero-out"}
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5, **zero_out))
    model.fit(Rows(), batch_size=50, epochs=2, verbose=0)
    model.fit(*rows, batch_size=50, epochs=3, verbose=0)
    stream, shuffled = blocks(model)
    assert "epochs: 2 " in stream and "epochs: 3 " in shuffled
    for words in ("must bring each row at most once a pass", "must not mix rows"):
        assert words in stream and words not in shuffled
    assert "each row is in at most one batch of an epoch" in shuffled


def test_statistics_say_whose_rows_they_used(make_model, rows):
    """A mean over all rows of a user is no access to at most m of them."""
    options = {"radius": 2.0, "budget": BUDGET, "noise_multiplier": 5.0}
    statistics = PrivateStandardization.release(rows[0], groups=USERS["groups"], **options)
    model = make_model(BUDGET)
    statistics.record_in(model)
    model.fit(*rows, batch_size=10, verbose=0, **USERS)
    first, second = blocks(model)
    assert first.startswith("Accesses for private mean and scale of the features users: 50")
    assert "each access uses every user once" in first and "their mean" in first
    assert "at most 2" in second
    assert "all rows of one user, and neighbouring" in said(model)


@pytest.mark.slow
def test_a_statement_is_the_same_after_the_weights_were_loaded(make_model, rows, tmp_path):
    """Of all that the ledger holds; the plan of the last fit gives delta alone."""
    model = make_model(BUDGET)
    model.fit(*rows, batch_size=50, verbose=0)
    model.save(tmp_path / "m.keras")
    loaded = lipdp.load_model(tmp_path / "m.keras")
    loaded.fit(*rows, batch_size=20, verbose=0)
    first, second = blocks(loaded)
    assert [first] == blocks(model) and "expected batch: 20 rows" in second


class TestNotCovered:
    def test_files_of_exact_losses_are_named_where_they_were_written(
        self, make_model, rows, tmp_path
    ):
        class OwnLogger(keras.callbacks.CSVLogger):
            pass

        words = "which hold exact training losses"
        model = make_model(BUDGET)
        model.fit(*rows, batch_size=50, verbose=0)
        assert words not in said(model)
        writers = [
            keras.callbacks.CSVLogger(tmp_path / "log.csv"),
            OwnLogger(tmp_path / "own.csv"),
            keras.callbacks.TensorBoard(tmp_path / "board"),
        ]
        history = model.fit(*rows, batch_size=50, verbose=0, callbacks=writers).history
        assert re.findall(r"the files of (\w+), which hold exact training losses", said(model)) == [
            "CSVLogger",
            "OwnLogger",
            "TensorBoard",
        ]
        # They do.
        assert repr(history["loss"][0])[:6] in (tmp_path / "log.csv").read_text()

    def test_errors_that_depend_on_private_rows(self, make_model, rows):
        """A label out of range is refused, which nobody would see without it."""
        x, y = rows
        model = make_model(BUDGET)
        with pytest.raises(lipdp.errors.LipdpError, match=r"label|class"):
            model.fit(x, np.where(np.arange(200) == 7, 9, y), batch_size=50, verbose=0)
        model.fit(x, y, batch_size=50, verbose=0)
        assert "errors that depend on private rows" in said(model)

    @pytest.mark.slow
    def test_what_one_training_did_not_cover_stays(self, make_model, rows, tmp_path):
        """Float32 sums first, float64 sums in another model with the same ledger afterwards."""
        words = "rounding of the float32 sum"
        first = make_model(BUDGET)
        first.fit(*rows, batch_size=50, verbose=0)
        second = make_model(BUDGET, dtype="float64")
        second.fit(rows[0].astype("float64"), rows[1], batch_size=50, verbose=0)
        assert words in said(first) and words not in said(second)
        second.ledger.merge(first.ledger)
        assert words in said(second)
