"""Where an epoch begins and ends: one reader serves them all."""

import itertools

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import InvalidState, UnsafeSetting
from lipdp.training.batches import PrivateBatches

SHUFFLED = lipdp.PrivacyBudget(
    noise_multiplier=1.0, delta=1e-5, sampling="shuffled", adjacency="zero-out"
)


class Again(keras.callbacks.Callback):
    """Stops inside an epoch and goes on with the next."""

    def on_train_batch_end(self, batch, logs=None):
        self.model.stop_training = batch == 1

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = False


@pytest.fixture
def read(monkeypatch):
    """(index, rows) of each item that is read."""
    items, original = [], PrivateBatches.__getitem__

    def reading(self, index):
        x, y, mask = original(self, index)
        items.append((index, [row.tobytes() for row in x[mask > 0]]))
        return x, y, mask

    monkeypatch.setattr(PrivateBatches, "__getitem__", reading)
    return items


@pytest.mark.parametrize("micro_batch_size", [None, 15])
def test_one_reader_serves_all_epochs(make_model, rows, read, micro_batch_size):
    """And each epoch of a shuffled training has each row once."""
    model = make_model(SHUFFLED)
    held_out = tuple(part.copy() for part in rows)
    options = {"validation_data": held_out, "micro_batch_size": micro_batch_size, "verbose": 0}
    model.fit(*rows, batch_size=30, epochs=4, **options)
    count = 7 if micro_batch_size is None else 14
    start = max(i for i, (index, _) in enumerate(read) if index == 0)
    trained = read[start:]
    assert [index for index, _ in trained] == list(range(len(trained)))
    assert len(trained) >= 4 * count
    epochs = [trained[i : i + count] for i in range(0, 4 * count, count)]
    whole = sorted(np.ascontiguousarray(row).tobytes() for row in rows[0])
    for epoch in epochs:
        assert sorted(itertools.chain(*(taken for _, taken in epoch))) == whole
    assert len({epoch[0][1][0] for epoch in epochs}) > 1
    assert model.ledger.steps == 4


def test_an_epoch_that_was_cut_short_is_not_continued(make_model, rows):
    model = make_model(SHUFFLED)
    with pytest.raises(InvalidState, match="cut short"):
        model.fit(*rows, batch_size=30, epochs=3, verbose=0, callbacks=[Again()])
    assert model.ledger.steps == 1
    model.fit(*rows, batch_size=30, epochs=2, verbose=0)
    assert model.ledger.steps == 3


def test_keras_limit_of_an_epoch_is_refused(make_model, rows):
    keras.config.set_max_steps_per_epoch(3)
    try:
        with (
            pytest.raises(UnsafeSetting, match="max_steps_per_epoch"),
            pytest.warns(UserWarning, match="Limiting"),
        ):
            make_model(SHUFFLED).fit(*rows, batch_size=30, epochs=2, verbose=0)
    finally:
        keras.config.set_max_steps_per_epoch(None)
