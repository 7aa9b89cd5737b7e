"""Training on two devices, each check in a process of its own; run by test_devices.py.

MirroredStrategy on two logical devices of TensorFlow, DataParallel on two host devices of JAX.
"""

import contextlib
import functools
import os
import sys
import threading
import time
from unittest.mock import patch

BACKEND = os.environ["KERAS_BACKEND"]
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

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
)

import lipdp
from lipdp.errors import UnsafeSetting
from lipdp.layers import AdaptiveCotangentClip
from lipdp.privacy import ShuffledSampler
from lipdp.training.batches import PrivateBatches

if BACKEND == "tensorflow":
    import tensorflow as tf

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    # One a process: collective operations of several have the same numbers.
    STRATEGY = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def two_devices():
    if BACKEND == "tensorflow":
        return STRATEGY.scope()
    return keras.distribution.DataParallel().scope()


def copies(variable):
    """The values of a variable on each device."""
    if BACKEND == "tensorflow":
        return [value.numpy() for value in variable.value.values]
    return [np.asarray(shard.data) for shard in variable.value.addressable_shards]


def assert_copies_agree(model):
    for variable in model.variables:
        first, second = copies(variable)
        np.testing.assert_array_equal(first, second)


class HundredRows(NoiseRun):
    BATCH = 100


def check_the_noise_is_drawn_once_a_step():
    """Two million weights: 0.25 % is five sigma, with sigma 2, batch 100 and Delta sqrt(2).

    Noise that each device draws for itself would show as 0.0200, noise that is added twice or
    divided wrongly as 0.0400 or 0.0141.
    """
    for scope in (contextlib.nullcontext(), two_devices()):
        with scope:
            run = HundredRows(noise_multiplier=2.0, inputs=1000, outputs=2000)
            draws = [draw / 100 for (draw,) in run.fit(epochs=2)]
        # The bound of so large a kernel in float32 has a slack of 0.2 %, which the noise follows.
        (expected,) = (stddev / 100 for stddev in run.model.plan.stddevs)
        assert 0.0 <= expected / 0.0282842 - 1 < 0.003
        for draw in draws:
            assert abs(draw.std() / expected - 1) < 0.0025
            assert abs(draw.mean()) < 5 * 0.0282843 / np.sqrt(draw.size)
        assert_independent(draws)
    assert_copies_agree(run.model)


def check_parts_get_the_noise_once():
    with two_devices():
        run = NoiseRun(noise_multiplier=1.0)
        draws = [draw for (draw,) in run.fit(epochs=2, micro_batch_size=20)]
    assert run.model.plan.slots.micro_batches == 4 and run.model.ledger.steps == 2
    for draw in draws:
        assert_scale(draw, np.sqrt(2))
    assert_independent(draws)
    assert_copies_agree(run.model)


def check_secure_noise():
    with two_devices():
        run = NoiseRun(noise_multiplier=2.0, secure_noise=True)
        draws = [draw for (draw,) in run.fit(epochs=2)]
        (grid,), (stddev,) = run.model.plan.shares.grids, run.model.plan.stddevs
        steps = draws[0] / grid.width
        assert np.array_equal(steps, np.round(steps)) and np.abs(steps).max() > 100
        for draw in draws:
            assert_scale(draw, stddev)
        assert_independent(draws)
        assert_copies_agree(run.model)
        assert_noise_serves_once(run)


def in_order(sampler, index=0):
    size = sampler.expected_batch_size
    return np.arange(sampler.num_examples)[index * size : (index + 1) * size]


def assert_trains_as_one(make, **options):
    """Without noise: the same weights, losses and metrics on one device and on two."""
    rows, found = Rows(201), []
    validation = (rows.x[:200].copy(), rows.y[:200].copy())  # whole numbers of rows for each device
    for scope in (contextlib.nullcontext(), two_devices()):
        # On two devices one reader more begins an epoch, so that the orders would differ.
        with scope, patch.object(ShuffledSampler, "draw", in_order):
            model = make()
            history = model.fit(
                rows.x,
                rows.y,
                batch_size=41,
                epochs=3,
                verbose=0,
                validation_data=validation,
                **options,
            ).history
        found.append((model.get_weights(), history))
    assert_copies_agree(model)
    (one, logs), (two, other_logs) = found
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, atol=5e-6)
    for name in ("accuracy", "val_loss", "val_accuracy"):
        np.testing.assert_allclose(logs[name], other_logs[name], atol=2e-6)
    # Keras weighs the logged loss of a batch by its slots, of which some are empty.
    np.testing.assert_allclose(logs["loss"], other_logs["loss"], rtol=0.06)
    assert len(set(logs["loss"])) == 3


def check_adam_trains_as_on_one_device():
    assert_trains_as_one(lambda: learner(keras.optimizers.Adam(0.05)))


def check_averages_in_parts_train_as_on_one_device():
    optimizer = lambda: keras.optimizers.SGD(0.3, momentum=0.9, use_ema=True)  # noqa: E731
    assert_trains_as_one(lambda: learner(optimizer()), micro_batch_size=15)


def check_adaptive_clips_train_as_on_one_device():
    assert_trains_as_one(lambda: learner(last=[AdaptiveCotangentClip(0.1)]))


def check_certified_accuracy():
    with two_devices():
        model, rows = learner(certified_radius=0.3), Rows(200)
        model.fit(rows.x, rows.y, batch_size=50, verbose=0)
        found = model.evaluate(rows.x, rows.y, verbose=0, return_dict=True)
    radii = lipdp.certify(model, rows.x, rows.y).radii
    assert abs(found["certified_accuracy"] - (radii > 0.3).mean()) < 0.006
    assert 0.1 < (radii > 0.3).mean() < (radii > 0.15).mean() - 0.05


def check_each_row_is_on_one_device():
    rows, parts, kinds = Rows(40), [], []

    def note(x, mask):
        parts.append(numbers_of(x, mask))

    def tell(x, mask):
        if BACKEND == "tensorflow":
            tf.numpy_function(note, [x, mask], [])
        else:
            import jax

            jax.debug.inspect_array_sharding(x, callback=kinds.append)
            jax.debug.callback(note, x, mask)

    with two_devices():
        model = learner(tell=tell)
        model.fit(rows.x, rows.y, batch_size=10, epochs=2, verbose=0)
    # TensorFlow's replicas show a half each; JAX' step is one, of a batch that lies in halves.
    assert len(parts) == (16 if BACKEND == "tensorflow" else 8)
    assert all(kind.shard_shape((10, 4)) == (5, 4) for kind in kinds)
    assert len(kinds) == (BACKEND == "jax")
    for epoch in (parts[: len(parts) // 2], parts[len(parts) // 2 :]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(40))


def check_batches_have_one_reader():
    """Keras reads a batch ahead of training to build the model: that reader has to be gone."""
    events, original = [], PrivateBatches.__getitem__
    inside = threading.Lock()

    def reading(self, index):
        assert inside.acquire(blocking=False)
        time.sleep(0.02)
        events.append(index)
        batch = original(self, index)
        inside.release()
        return batch

    def ending(self):
        events.append("end")

    PrivateBatches.__getitem__, PrivateBatches.on_epoch_end = reading, ending
    rows = Rows(201)
    with two_devices():
        learner().fit(rows.x, rows.y, batch_size=20, micro_batch_size=10, epochs=2, verbose=0)
    PrivateBatches.__getitem__ = original
    del PrivateBatches.on_epoch_end
    start = events.index("end")
    read = [event for event in events[start:] if event != "end"]
    assert len(read) >= 44
    assert [index % 22 for index in read] == [place % 22 for place in range(len(read))]


def assert_refused(words, model, scope=contextlib.nullcontext):
    rows = Rows(50)
    with scope():
        try:
            model.fit(rows.x, rows.y, batch_size=10, verbose=0)
        except UnsafeSetting as error:
            assert words in str(error) and model.ledger.steps == 0, error
            return
    raise AssertionError(f"not refused: {words}")


def made_on_two(optimizer, **options):
    with two_devices():
        return learner(optimizer(0.1), **options)


def check_what_does_not_work_is_refused():
    if BACKEND == "jax":
        return
    sgd = keras.optimizers.SGD
    for name in ("clipnorm", "clipvalue", "global_clipnorm"):
        assert_refused(name, made_on_two(functools.partial(sgd, **{name: 1.0})))
    often = functools.partial(sgd, use_ema=True, ema_overwrite_frequency=2)
    assert_refused("overwrite", made_on_two(often))
    assert_refused("jit_compile", made_on_two(sgd, jit_compile=True))
    assert_refused("inside the scope", learner(), scope=two_devices)
    elsewhere = sgd(0.1)
    assert_refused("inside the scope", made_on_two(lambda rate: elsewhere))
    model = made_on_two(sgd)
    model.compile(sgd(0.1), model.loss, privacy=model._private.budget)
    assert_refused("inside the scope", model)


def check_unknown_distributions_are_refused():
    if BACKEND == "tensorflow":
        with tf.distribute.MultiWorkerMirroredStrategy().scope():
            model = learner()
        assert_refused("MirroredStrategy", model)
        # It needs servers, and counts one replica.
        model._distribute_strategy = object.__new__(tf.distribute.ParameterServerStrategy)
        assert_refused("ParameterServer", model)
        return
    mesh = keras.distribution.DeviceMesh(
        (1, 2), ["batch", "model"], keras.distribution.list_devices()
    )
    layout = keras.distribution.LayoutMap(mesh)
    several = keras.distribution.DataParallel()
    several._is_multi_process = True
    for unknown in (
        keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch"),
        type("Own", (keras.distribution.DataParallel,), {})(),
        several,
    ):
        assert_refused(type(unknown).__name__, learner(), scope=unknown.scope)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        sys.stderr.write(f"{name}\n")
        globals()[name]()
