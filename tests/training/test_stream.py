"""Rows that cannot be drawn at random train with what is provable for them."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import InvalidData, InvalidState
from lipdp.training.batches import RowStream, Slots, StreamBatches


class Rows:
    """Like a tf.data of unknown size: it can be read again, and no more."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __iter__(self):
        return iter(zip(self.x, self.y, strict=True))


def stream(n=10):
    return RowStream(
        Rows(np.arange(n, dtype="float32")[:, None], np.arange(n)), "shuffled", str, str
    )


@pytest.fixture
def zero_out():
    return lipdp.PrivacyBudget(
        noise_multiplier=1.3, delta=1e-5, sampling="shuffled", adjacency="zero-out"
    )


def test_each_pass_costs_one_full_access(make_model, rows, zero_out):
    model = make_model(zero_out)
    model.fit(Rows(*rows), batch_size=30, epochs=15, verbose=0)
    assert model.ledger.steps == 15
    # Gaussian of mu = sqrt(15) / 1.3, the published value.
    assert model.ledger.epsilon(1e-5) == pytest.approx(16.526, abs=0.001)
    assert "without amplification" in model.privacy_statement()


def test_tensorflow_data_of_unknown_size_trains(make_model, rows, zero_out):
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices(rows).filter(lambda x, y: True)
    assert int(data.cardinality()) == -2
    model = make_model(zero_out)
    history = model.fit(data, batch_size=50, epochs=2, verbose=0, validation_data=rows)
    assert len(history.history["epsilon"]) == 2
    with pytest.raises(InvalidData, match="endless"):
        model.fit(data.repeat(), batch_size=50, verbose=0)


def test_poisson_sampling_of_a_stream_is_refused(make_model, rows):
    model = make_model(lipdp.PrivacyBudget(epsilon=8.0))
    with pytest.raises(InvalidData, match="cannot be sampled"):
        model.fit(Rows(*rows), batch_size=50, verbose=0)
    assert model.ledger.steps == 0


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (lambda x, y: zip(x, y, strict=True), "only once"),
        (lambda x, y: Rows(x, y + 5), "label"),
    ],
)
def test_unusable_streams_are_refused(make_model, rows, zero_out, source, words):
    with pytest.raises(lipdp.errors.LipdpError, match=words):
        make_model(zero_out).fit(source(*rows), batch_size=50, verbose=0)


def test_elements_must_be_pairs():
    with pytest.raises(InvalidData, match="pair"):
        RowStream([1.0, 2.0], "shuffled", str, str)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_row_is_in_at_most_one_batch_of_a_pass(parts):
    batches = StreamBatches(stream(10), 4, Slots(units=4, micro_batches=parts, rows=4 // parts))
    for _ in range(2):
        items = [batches[i] for i in range(batches.micro_batches_per_epoch)]
        seen = np.concatenate([y[mask > 0] for _, y, mask in items])
        assert seen.tolist() == list(range(8))  # two rows are no whole batch


def test_a_stream_read_out_of_order_or_too_short_is_refused():
    batches = StreamBatches(stream(12), 4, Slots(units=4, micro_batches=1, rows=4))
    batches[0]
    with pytest.raises(InvalidState, match="order"):
        batches[0], batches[2]
    shrinking = Rows(np.zeros((8, 1)), np.zeros(8))
    counted = RowStream(shrinking, "shuffled", str, str)
    shrinking.x, shrinking.y = shrinking.x[:5], shrinking.y[:5]
    batches = StreamBatches(counted, 4, Slots(units=4, micro_batches=1, rows=4))
    batches[0]
    with pytest.raises(InvalidState, match="fewer rows"):
        batches[1]


@pytest.mark.slow
def test_a_stream_trains_like_the_same_rows_in_order(make_model, rows, zero_out):
    """Without noise, against Keras' own unshuffled fit."""
    x, y = rows[0][:160], rows[1][:160]
    budget = lipdp.PrivacyBudget(
        noise_multiplier=0.0, delta=1e-5, sampling="shuffled", adjacency="zero-out"
    )
    private, plain = make_model(budget, dtype="float64"), make_model(None, dtype="float64")
    for a, b in zip(private.trainable_variables, plain.trainable_variables, strict=True):
        b.assign(a if a.constraint is None else a.constraint(a))
    private.fit(Rows(x, y), batch_size=40, epochs=2, verbose=0)
    plain.fit(x, y, batch_size=40, epochs=2, shuffle=False, verbose=0)
    for a, b in zip(private.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, atol=5e-6)  # Keras averages the loss in float32
    assert isinstance(private.optimizer.inner_optimizer, keras.optimizers.SGD)


@pytest.mark.parametrize(("batch_size", "micro"), [(64, None), (30, 8)])
def test_a_stream_ends_quietly_as_arrays_do(make_model, rows, batch_size, micro):
    """No b divides the 200 rows, and two epochs are affordable of five asked for."""
    budget = lipdp.PrivacyBudget(
        epsilon=5.0, noise_multiplier=1.3, delta=1e-5, sampling="shuffled", adjacency="zero-out"
    )
    found = []
    for data in (rows, (Rows(*rows),)):
        model = make_model(budget)
        options = {"batch_size": batch_size, "micro_batch_size": micro}
        history = model.fit(*data, **options, epochs=5, verbose=0)
        found.append((model.ledger.steps, len(history.epoch)))
    assert found[0] == found[1] and 0 < found[0][0] < 5
    assert found[0][0] == found[0][1]
    assert model.ledger.epsilon(1e-5) <= 5.0
