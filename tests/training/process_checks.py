"""One of two processes that train one model; test_processes.py compares what they saw.

Each check returns what it saw, which is pickled beside the other process's.
"""

import contextlib
import os
import pickle
import sys
from pathlib import Path
from unittest.mock import patch

NUMBER, PORT, FOLDER = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
os.environ.update(KERAS_BACKEND="jax", JAX_PLATFORMS="cpu")
os.environ["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "gloo"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import keras
import numpy as np
from seen import NoiseRun, Rows, learner, numbers_of

import lipdp
from lipdp.errors import InvalidData, UnsafeSetting
from lipdp.layers import AdaptiveCotangentClip, BoundedInput
from lipdp.losses import MulticlassHinge
from lipdp.privacy import ShuffledSampler
from lipdp.training import processes
from lipdp.training.ledger_file import LedgerFile

keras.distribution.initialize(f"127.0.0.1:{PORT}", 2, NUMBER)
TOGETHER = keras.distribution.DataParallel(auto_shard_dataset=False)
MINE = keras.distribution.list_devices()[2 * NUMBER :][:2]
ALONE = keras.distribution.DataParallel(devices=MINE, auto_shard_dataset=False)


@contextlib.contextmanager
def alone():
    """Each process trains by itself."""
    keras.distribution.set_distribution(None)
    yield
    keras.distribution.set_distribution(TOGETHER)


def copies(model):
    """Each weight on each device of this process."""
    return [[np.asarray(s.data) for s in v.value.addressable_shards] for v in model.variables]


def small(optimizer=None, metrics=(), **budget):
    """One plain layer, which compiles in a second."""
    keras.utils.set_random_seed(0)
    model = lipdp.Sequential([BoundedInput((4,), radius=2.0), keras.layers.Dense(2)])
    usual = {"sampling": "shuffled", "adjacency": "zero-out", "noise_multiplier": 0.0, "seed": 3}
    model.compile(
        optimizer or keras.optimizers.SGD(0.5),
        MulticlassHinge(margin=0.5),
        metrics=metrics,
        privacy=lipdp.PrivacyBudget(**{**usual, "delta": 1e-5, **budget}),
        certified_radius=None,
    )
    return model


class HundredRows(NoiseRun):
    BATCH = 100


def see_noise():
    """Two million weights, so that five sigma are 0.25 %."""
    run = HundredRows(noise_multiplier=2.0, inputs=1000, outputs=2000)
    draws = [draw for (draw,) in run.fit(epochs=2)]
    parts = NoiseRun(noise_multiplier=1.0)
    in_parts = [draw for (draw,) in parts.fit(epochs=2, micro_batch_size=20)]
    (expected,) = run.model.plan.stddevs
    assert parts.model.plan.slots.micro_batches > 1
    weights = [value.tobytes() for device in copies(run.model) for value in device]
    return {
        "scales": [draw.std() / expected for draw in draws],
        "means": [draw.mean() / (5 * expected / np.sqrt(draw.size)) for draw in draws],
        "alike": abs(np.corrcoef(*(draw.ravel() for draw in draws))[0, 1]),
        "in parts": [draw.std() / parts.model.plan.stddevs[0] for draw in in_parts],
        "weights": len(set(weights)),
        "first": draws[0][0, :4].tolist(),
    }


def in_order(sampler, index=0):
    size = sampler.expected_batch_size
    return np.arange(sampler.num_examples)[index * size : (index + 1) * size]


def trained(scope, make, **options):
    rows = Rows(201)
    with scope, patch.object(ShuffledSampler, "draw", in_order):
        model = make()
        found = model.fit(
            rows.x, rows.y, batch_size=41, epochs=3, verbose=0,
            validation_data=(rows.x[:200].copy(), rows.y[:200].copy()), **options,
        ).history  # fmt: skip
        return [v[0] for v in copies(model)], found, model.get_weights()


def see_training():
    """Without noise: what one process finds, and both together."""
    kinds = {
        "adam": (lambda: learner(keras.optimizers.Adam(0.05)), {}),
        "adaptive": (lambda: learner(last=[AdaptiveCotangentClip(0.1)]), {"micro_batch_size": 15}),
    }
    return {
        name: [trained(scope(), make, **options) for scope in (TOGETHER.scope, alone)]
        for name, (make, options) in kinds.items()
    }


def see_rows():
    """The rows that this process reads for each step, and those that the agreed seed draws."""
    rows, read, original = Rows(300), [], processes.SharedBatches.__getitem__

    def reading(self, index):
        batch = original(self, index)
        read.append((index, numbers_of(batch[0], batch[2]).tolist()))
        return batch

    found = {}
    for name, options in {
        "poisson": {"sampling": "poisson", "adjacency": "add-remove"},
        "shuffled": {},
    }.items():
        read.clear()
        model = small(**{"noise_multiplier": 1.0, "seed": None, **options})
        with patch.object(processes.SharedBatches, "__getitem__", reading):
            model.fit(rows.x, rows.y, batch_size=30, epochs=4, verbose=0)
        # The last read of an index is the one that was trained on.
        found[name] = list(dict(read).values())
    read.clear()
    groups = np.arange(300) // 6
    model = small(noise_multiplier=1.0, seed=None)
    with patch.object(processes.SharedBatches, "__getitem__", reading):
        model.fit(rows.x, rows.y, batch_size=5, verbose=0, groups=groups, max_examples_per_user=2)
    found["groups"] = list(dict(read).values())
    return found


def see_ledger():
    """Files of both processes; who wrote; and going on from a saved model."""
    writes, path = [], FOLDER / "shared" / "ledger.json"
    rows, original = Rows(100), LedgerFile.write

    def writing(self, ledger):
        writes.append(ledger.steps)
        original(self, ledger)

    options = {"batch_size": 25, "verbose": 0, "ledger_file": path}
    with patch.object(LedgerFile, "write", writing):
        model = small(noise_multiplier=1.0, seed=None)
        model.fit(rows.x, rows.y, epochs=2, **options)
        kept = model.get_weights()
        fresh = small(noise_multiplier=1.0, seed=None)
        fresh.fit(rows.x, rows.y, epochs=1, **options)
    elsewhere = {**options, "ledger_file": FOLDER / f"of process {NUMBER}.json"}
    if NUMBER == 0:
        LedgerFile(elsewhere["ledger_file"]).write(model.ledger)
    model.save(FOLDER / f"{NUMBER}.keras")
    loaded = keras.saving.load_model(FOLDER / f"{NUMBER}.keras")
    loaded.fit(rows.x, rows.y, batch_size=25, verbose=0)
    return {
        "writes": writes,
        "steps": [m.ledger.steps for m in (model, fresh, loaded)],
        "epsilon": model.ledger.epsilon(1e-5),
        "weights": [w.tobytes() for w in kept],
        "refused": refusal(small(noise_multiplier=1.0, seed=None), **elsewhere),
        "statement": " ".join(str(model.privacy_statement()).split()),
    }


def refusal(model, rows=None, **options):
    """The words of a refusal before anything was recorded."""
    rows = Rows(50) if rows is None else rows
    try:
        model.fit(rows.x, rows.y, **{"batch_size": 10, "verbose": 0, **options})
    except (UnsafeSetting, InvalidData) as error:
        assert model._private.gate is None and model.optimizer._mechanism is None
        return str(error)
    return "not refused"


def see_refusals():
    here = {}
    rows = Rows(50)
    rows.x[7, 0] += NUMBER
    here["inputs differ"] = refusal(small(), rows)
    rows = Rows(50)
    rows.y = np.roll(rows.y, NUMBER)
    here["targets differ"] = refusal(small(), rows)
    here["inputs, targets, groups differ"] = refusal(small(), Rows(50 + NUMBER))
    here["plan differ"] = refusal(small(), batch_size=10 + NUMBER)
    here["model, plan differ"] = refusal(small(noise_multiplier=1.0 + NUMBER))
    here["seed: plan differ"] = refusal(small(seed=NUMBER))
    here["held out rows differ"] = refusal(
        small(), validation_data=(np.zeros((10 + NUMBER, 4)), np.zeros(10 + NUMBER, int))
    )
    model = small()
    model.ledger.record(0.5, 1.0 + NUMBER)
    here["ledger"] = refusal(model)
    here["model differ"] = refusal(
        small(keras.optimizers.SGD(0.5, momentum=0.5, nesterov=bool(NUMBER)))
    )
    plain = {"sampling": "poisson", "adjacency": "add-remove", "seed": None}
    here["Secure noise"] = refusal(small(**plain, secure_noise=True))
    backup = keras.callbacks.BackupAndRestore(FOLDER / "backup")
    here["one backup"] = refusal(small(), callbacks=[backup])
    here["TruePositives, Sum"] = refusal(
        small(metrics=["accuracy", "true_positives", keras.metrics.Sum()]),
        validation_data=(np.zeros((10, 4)), np.zeros(10, int)),
    )
    stream = [(row, target) for row, target in zip(Rows(50).x, Rows(50).y, strict=True)]
    here["a stream"] = refusal(small(), type("Stream", (), {"x": Stream(stream), "y": None}))
    with ALONE.scope():
        here["do not count exactly once"] = refusal(small())
    TOGETHER.auto_shard_dataset = True
    here["auto_shard_dataset"] = refusal(small())
    TOGETHER.auto_shard_dataset = False
    return here


class Stream:
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows)


if __name__ == "__main__":
    with TOGETHER.scope():
        for name in sys.argv[4:]:
            sys.stderr.write(f"{name}\n")
            (FOLDER / f"{name}.{NUMBER}").write_bytes(pickle.dumps(globals()[name]()))
