"""Private training under fit, run under each backend by test_backends.py."""

import itertools
import sys
import tempfile
import threading
from pathlib import Path

import keras
import numpy as np
from seen import (
    NoiseRun,
    Rows,
    assert_independent,
    assert_noise_serves_once,
    assert_scale,
    learner,
    numbers_of,
    parts_of,
)

import lipdp
from lipdp.errors import InvalidState, UnsafeSetting
from lipdp.layers import AdaptiveCotangentClip, BoundedInput, MaxMin, SpectralDense
from lipdp.losses import TemperedCrossentropy
from lipdp.training import devices

BACKEND = keras.backend.backend()


def check_noise_is_fresh():
    """Over steps and variables: pure noise (rows of zeros), a step an epoch."""
    model = lipdp.Sequential(
        [
            BoundedInput((60,), radius=1.0),
            keras.layers.Dense(50, use_bias=False, kernel_initializer="zeros"),
            lipdp.layers.CotangentClip(1.0),
            lipdp.layers.SphereNormalization(1.0, min_norm=1.0),
            keras.layers.Dense(60, use_bias=False, kernel_initializer="zeros"),
        ]
    )
    run = NoiseRun(noise_multiplier=1.0, model=model)
    draws = [draw for step in run.fit(epochs=4) for draw in step]
    for draw, stddev in zip(draws, list(model.plan.stddevs) * 4, strict=True):
        assert_scale(draw, stddev)
    assert_independent(draws)


def check_a_step_waits_for_no_metrics():
    """Where Keras may call the ends of steps from other threads, private training lets it."""
    threads = set()
    ends = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: threads.add(threading.current_thread())
    )
    ends.async_safe = True
    NoiseRun(noise_multiplier=1.0).fit(epochs=2, callbacks=[ends])
    assert threads and (threading.main_thread() in threads) == (BACKEND == "tensorflow")


def check_resumed_runs_draw_anew():
    run = NoiseRun(noise_multiplier=1.0)
    draws = run.fit(epochs=2) + run.fit(epochs=1)
    with tempfile.TemporaryDirectory() as folder:
        run.model.save(Path(folder) / "m.keras")
        run.model.save_weights(Path(folder) / "m.weights.h5")
        for _ in range(2):
            loaded = NoiseRun(model=lipdp.load_model(Path(folder) / "m.keras"), compiled=True)
            draws += loaded.fit(epochs=1)
            assert loaded.model.ledger.steps == 4
        run.model.load_weights(Path(folder) / "m.weights.h5")
        draws += run.fit(epochs=1)
    run.compile(noise_multiplier=1.0)
    draws += run.fit(epochs=1)
    assert len(draws) == 7
    assert_independent([draw for (draw,) in draws])


def check_the_noise_follows_its_schedule():
    run = NoiseRun(noise_multiplier=1.0, noise_schedule=((0, 1.0), (2, 0.5)))
    for (draw,), factor in zip(run.fit(epochs=4), (1.0, 1.0, 0.5, 0.5), strict=True):
        assert_scale(draw, factor * run.model.plan.stddevs[0])


def check_generators_inside_the_step():
    """As on an accelerator: fresh over steps, fits and a schedule."""
    found, devices.is_in_host_memory = devices.is_in_host_memory, lambda variable: False
    run = NoiseRun(noise_multiplier=1.0, noise_schedule=((0, 1.0), (2, 0.5)))
    draws = [draw for (draw,) in run.fit(epochs=3) + run.fit(epochs=1)]
    assert not run.model.plan.draws_outside
    devices.is_in_host_memory = found
    for draw, factor in zip(draws, (1.0, 1.0, 0.5, 1.0), strict=True):
        assert_scale(draw, factor * run.model.plan.stddevs[0])
    assert_independent(draws)
    assert NoiseRun(noise_multiplier=1.0).fit() and run.fit()
    assert run.model.plan.draws_outside


def check_a_new_plan_has_a_new_trace():
    """Equal functions share a trace on JAX; the old step is still alive."""
    run, alive = NoiseRun(noise_multiplier=1.0), []
    for noise_multiplier in (1.0, 4.0, 2.0):
        run.compile(noise_multiplier=noise_multiplier)
        ((draw,),) = run.fit(epochs=1)
        alive.append((run.model.train_function, run.model.optimizer))
        assert_scale(draw, noise_multiplier * np.sqrt(2))


def check_parts_get_the_noise_once():
    """Not once a part, and not in the first part alone: fresh in each batch, one access each."""
    run, draws = NoiseRun(noise_multiplier=1.0), []
    for parts in (1, 4, 8):
        draws += run.fit(epochs=2, micro_batch_size=parts_of(NoiseRun.BATCH + 1, parts))
        assert run.model.plan.slots.micro_batches == parts
    for (draw,) in draws:
        assert_scale(draw, np.sqrt(2))
    assert_independent([draw for (draw,) in draws])
    assert run.model.ledger.steps == 6


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


def check_secure_noise():
    """Whole numbers of grid widths at the right scale, fresh, in parts too."""
    for dtype in ("float32",) if BACKEND == "jax" else ("float32", "float64"):
        run = NoiseRun(noise_multiplier=2.0, secure_noise=True, dtype=dtype)
        draws = run.fit(epochs=1) + run.fit(epochs=2, micro_batch_size=20)
        (grid,), (stddev,) = run.model.plan.shares.grids, run.model.plan.stddevs
        # The divisor is a power of two, and the first change starts at zero: exact.
        steps = draws[0][0] / grid.width
        assert np.array_equal(steps, np.round(steps)) and np.abs(steps).max() > 100
        for (draw,) in draws:
            assert_scale(draw, stddev)
        assert_independent([draw for (draw,) in draws])


def check_secure_noise_serves_once():
    assert_noise_serves_once(NoiseRun(noise_multiplier=2.0, secure_noise=True))


def check_an_adaptive_clip():
    """All cotangents are longer than the threshold, which grows; the noise grows with it."""
    clip = AdaptiveCotangentClip(0.01, target_quantile=0.9, rate=0.5, minimum=0.005)
    dense = keras.layers.Dense(300, use_bias=False, kernel_initializer="zeros")
    model = lipdp.Sequential([BoundedInput((100,), radius=1.0), dense, clip])
    run = NoiseRun(noise_multiplier=1.0, model=model)
    thresholds = [0.01]
    follow = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: thresholds.append(
            float(keras.ops.convert_to_numpy(clip.threshold))
        )
    )
    draws = run.fit(epochs=4, callbacks=[follow])
    stddev, count_stddev = model.plan.stddevs
    growth = np.diff(np.log(thresholds))
    # log C moves by rate (fraction above - 0.1), of count noise 0.05: five times that.
    np.testing.assert_allclose(growth, 0.5 * 0.9, atol=5 * 0.5 * 0.05)
    assert len(set(growth)) == 4 and count_stddev == 0.05 * NoiseRun.BATCH
    for (draw, _), threshold in zip(draws, thresholds, strict=False):
        assert_scale(draw, stddev * threshold / 0.005)


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
        privacy=lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5),
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
