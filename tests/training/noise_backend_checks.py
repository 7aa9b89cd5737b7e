"""The noise of private training under fit, run under each backend by test_backends.py."""

import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
from seen import NoiseRun, assert_independent, assert_noise_serves_once, assert_scale, parts_of

import lipdp
from lipdp.layers import AdaptiveCotangentClip, BoundedInput
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


if __name__ == "__main__":
    for name in sys.argv[1:]:
        sys.stderr.write(f"{name}\n")
        globals()[name]()
