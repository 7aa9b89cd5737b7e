"""Rows that are read when asked for train and validate as an array does, a batch at a time."""

import keras
import numpy as np

import lipdp

ROWS = np.random.default_rng(0).normal(size=(400, 5)).astype("float32")
LABELS = (ROWS[:, 0] > 0).astype("int64")


class ByRows:
    """Gives rows, and remembers how many it was asked for."""

    def __init__(self, rows):
        self._rows = rows
        self.shape, self.dtype = rows.shape, rows.dtype
        self.asked = []

    def __len__(self):
        return len(self._rows)

    def __getitem__(self, index):
        found = self._rows[index]
        self.asked.append(len(found))
        return found


def trained(x, validation):
    keras.utils.set_random_seed(0)
    model = lipdp.Sequential(
        [lipdp.layers.BoundedInput((5,), radius=2.0), lipdp.layers.FrobeniusDense(1)]
    )
    model.compile(
        keras.optimizers.SGD(0.5),
        lipdp.losses.TemperedBinaryCrossentropy(inverse_temperature=4.0),
        metrics=["accuracy"],
        privacy=lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-3, seed=0),
    )
    history = model.fit(
        x, LABELS, batch_size=40, epochs=2, verbose=0, validation_data=(validation, LABELS.copy())
    )
    return model.get_weights()[0], history.history


def test_they_train_to_the_same_weights_and_are_never_read_as_a_whole():
    x, validation = ByRows(ROWS), ByRows(ROWS)
    weights, history = trained(x, validation)
    expected, whole = trained(ROWS, ROWS.copy())
    np.testing.assert_array_equal(weights, expected)
    for name in whole:
        np.testing.assert_allclose(history[name], whole[name], rtol=1e-5)
    # About 40 rows at a time, twenty steps and a look ahead; validations read all rows, in chunks.
    assert len(x.asked) < 30 and max(x.asked) < 100
    assert sum(validation.asked) >= 2 * len(ROWS)
