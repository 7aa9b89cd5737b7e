"""Private training under fit, run under each backend by test_backends.py."""

import itertools
import sys
import threading

import keras
import numpy as np
from seen import NoiseRun, Rows, learner, numbers_of, parts_of

import lipdp
from lipdp.errors import InvalidState, UnsafeSetting
from lipdp.layers import AdaptiveCotangentClip, BoundedInput, MaxMin, SpectralDense
from lipdp.losses import TemperedCrossentropy

BACKEND = keras.backend.backend()


def check_a_step_waits_for_no_metrics():
    """Where Keras may call the ends of steps from other threads, private training lets it."""
    threads = set()
    ends = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: threads.add(threading.current_thread())
    )
    ends.async_safe = True
    NoiseRun(noise_multiplier=1.0).fit(epochs=2, callbacks=[ends])
    assert threads and (threading.main_thread() in threads) == (BACKEND == "tensorflow")


def check_parts_train_as_one():
    """Without noise, to rounding, with users' metrics and the loss in the log."""
    found = []
    for parts in (1, 3, 7):
        model = learner(keras.optimizers.Adam(0.05))
        rows = Rows(203)
        history = model.fit(
            rows.x,
            rows.y,
            batch_size=41,
            micro_batch_size=parts_of(41, parts),
            epochs=2,
            verbose=0,
        ).history
        assert model.plan.slots.micro_batches == parts
        assert model.ledger.steps == 2
        found.append((model.get_weights(), history))
    (weights, history), *others = found
    for other, logs in others:
        for a, b in zip(weights, other, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5)
        np.testing.assert_allclose(history["accuracy"], logs["accuracy"], atol=1e-6)
        # Keras weighs the logged loss of a part by its slots, of which some are empty.
        np.testing.assert_allclose(history["loss"], logs["loss"], rtol=0.06)


def check_shuffled_batches_hold_each_row_once():
    rows, seen = Rows(50), []
    model = learner(tell=lambda *part: seen.append(numbers_of(*part)), run_eagerly=True)
    model.fit(rows.x, rows.y, batch_size=20, micro_batch_size=7, epochs=3, verbose=0)
    assert len(seen) == 3 * 9
    epochs = [np.concatenate(seen[i : i + 9]).tolist() for i in range(0, 27, 9)]
    assert all(sorted(epoch) == list(range(50)) for epoch in epochs)
    batches = [[frozenset(np.concatenate(seen[i : i + 3]))] for i in range(0, 27, 9)]
    assert all(a != b for a, b in itertools.combinations(batches, 2))
    assert model.ledger.steps == 3


def check_poisson_batches_are_fresh_and_hold_a_row_once():
    rows, seen = Rows(50), []
    model = learner(
        tell=lambda *part: seen.append(numbers_of(*part)),
        run_eagerly=True,
        sampling="poisson",
        adjacency="add-remove",
    )
    model.fit(rows.x, rows.y, batch_size=10, micro_batch_size=20, epochs=6, verbose=0)
    parts = model.plan.slots.micro_batches
    assert parts > 1 and len(seen) == 30 * parts
    batches = [np.concatenate(seen[i : i + parts]).tolist() for i in range(0, len(seen), parts)]
    assert all(len(set(batch)) == len(batch) for batch in batches)
    # Two draws are the same with probability (q^2 + (1-q)^2)^50 = 4e-9.
    assert len({frozenset(batch) for batch in batches}) == 30
    # Binomial(1500, 0.2): 300 +- 15.5; five times that.
    assert abs(sum(map(len, batches)) - 300) < 78


def check_an_adaptive_clip_without_noise():
    """The threshold settles between the shorter and the longer cotangents."""
    model = learner(
        keras.optimizers.SGD(1e-3),
        loss=TemperedCrossentropy(inverse_temperature=4.0),
        last=[AdaptiveCotangentClip(0.01, target_quantile=0.5, rate=0.5)],
    )
    rows = Rows(200)
    model.fit(rows.x, rows.y, batch_size=200, epochs=40, verbose=0)
    # The norm of softmax minus one-hot.
    p = keras.ops.convert_to_numpy(keras.ops.softmax(4.0 * model(rows.x)))
    norms = np.sqrt(2) * (1.0 - p[np.arange(200), rows.y])
    threshold = float(keras.ops.convert_to_numpy(model.layers[-1].threshold))
    assert 0.4 < (norms > threshold).mean() < 0.6


def check_steps_outside_fit_are_refused():
    rows, model = Rows(203), learner(noise_multiplier=1.0)
    model.fit(rows.x, rows.y, batch_size=41, epochs=1, verbose=0)
    before = model.get_weights()
    batch = (rows.x[:42], rows.y[:42], np.ones(42, "float32"))
    tensors = tuple(keras.ops.convert_to_tensor(part) for part in batch)
    kinds = (model.trainable_variables, model.non_trainable_variables, model.optimizer.variables)
    state = tuple([v.value for v in kind] for kind in (*kinds, model.metrics_variables))
    arguments = (state, tensors) if BACKEND == "jax" else (tensors,)
    grads = [np.zeros(v.shape, "float32") for v in model.trainable_variables]
    for error, refused in [
        (UnsafeSetting, lambda: model.train_on_batch(*batch)),
        (InvalidState, lambda: model.train_step(*arguments)),
        (InvalidState, lambda: model.optimizer.apply(grads)),
        (InvalidState, lambda: model.train_function(*arguments)),
    ]:
        try:
            refused()
        except error:
            continue
        raise AssertionError(f"not refused with {error.__name__}")
    for a, b in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def check_training_learns_and_counts():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")
    model = lipdp.Sequential(
        [BoundedInput((4,), radius=2.0), SpectralDense(8), MaxMin(), SpectralDense(2)]
    )
    model.compile(
        keras.optimizers.Adam(0.05),
        TemperedCrossentropy(inverse_temperature=8.0),
        metrics=["accuracy"],
        privacy=lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5, seed=1),
    )
    held_out = (x.copy(), y.copy())
    history = model.fit(
        x, y, batch_size=100, epochs=10, validation_data=held_out, verbose=0
    ).history
    assert history["val_accuracy"][-1] > 0.85, history
    assert 7.92 <= history["epsilon"][-1] <= 8.0
    assert model.ledger.steps == 60
    radii = lipdp.certify(model, x, y).radii
    assert abs(history["val_certified_accuracy"][-1] - (radii > 0.05).mean()) < 0.01


def check_bounds_hold_after_training():
    from lipdp.bounds.probe import per_sample_gradient_norms

    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")
    loss = TemperedCrossentropy(inverse_temperature=8.0)
    model = lipdp.Sequential(
        [BoundedInput((4,), radius=2.0), SpectralDense(8), MaxMin(), SpectralDense(2)]
    )
    model.compile("sgd", loss, privacy=lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    model.fit(x, y, batch_size=50, epochs=3, verbose=0)
    bounds = np.asarray(model.gradient_bounds().parameters)
    assert (per_sample_gradient_norms(model, loss, x[:50], y[:50]) <= bounds).all()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        sys.stderr.write(f"{name}\n")
        globals()[name]()
