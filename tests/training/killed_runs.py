"""Private trainings that are killed and resumed, run by test_resume.py.

    python killed_runs.py FOLDER

reads scenarios from standard input and writes what was seen, both as JSON. Each run is a process
of its own, forked before TensorFlow starts its threads: the import is most of a short run's time.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np

import lipdp
from lipdp.layers import BoundedInput, MaxMin, SpectralDense
from lipdp.losses import MulticlassHinge
from lipdp.privacy import PrivacyLedger

ROWS, BATCH, EPOCHS = 200, 50, 4
DELTA = 1e-5


def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 4)).astype("float32")
    return x, (x[:, 0] > 0).astype("int64")


def made(scenario):
    model = lipdp.Sequential(
        [BoundedInput((4,), radius=2.0), SpectralDense(6), MaxMin(), SpectralDense(2)]
    )
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        MulticlassHinge(margin=0.5),
        privacy=lipdp.PrivacyBudget(
            epsilon=scenario.get("epsilon"), delta=DELTA, noise_multiplier=1.0
        ),
    )
    return model


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def countdown(number, then: Callable = die):
    """A function that acts at its call of a number, counted from 1."""
    left = iter(range(number - 1, -1, -1))
    return lambda: then() if next(left, -1) == 0 else None


class KillAt(keras.callbacks.Callback):
    """Dies at a hook of Keras."""

    def __init__(self, hook, number):
        super().__init__()
        tick = countdown(number)
        setattr(self, hook, lambda *args, **kwargs: tick())


def patch(owner, name, number, *, after=False):
    """Dies before or after a call of a function."""
    original, tick = getattr(owner, name), countdown(number)

    def patched(*args, **kwargs):
        if not after:
            tick()
        result = original(*args, **kwargs)
        if after:
            tick()
        return result

    setattr(owner, name, patched)


def die_while_removing(number):
    """Dies when the small files of the backup are gone, and the weights are not."""

    def removing(folder, *args, **kwargs):
        for path in Path(folder).glob("*.json"):
            path.unlink()
        die()

    keras.src.utils.file_utils.rmtree = removing


PATCHES = {
    "ledger text": lambda n: patch(PrivacyLedger, "to_json", n),
    "before fsync": lambda n: patch(os, "fsync", n),
    "after fsync": lambda n: patch(os, "fsync", n, after=True),
    "before replace": lambda n: patch(Path, "replace", n),
    "after replace": lambda n: patch(Path, "replace", n, after=True),
    "weights saved": lambda n: patch(SpectralDense, "save_own_variables", n, after=True),
    "backup begins": lambda n: patch(keras.callbacks.BackupAndRestore, "_save_model", n),
    "backup removed": die_while_removing,
}


def watch_steps(witness, kill):
    """Counts the compiled steps that ran, inside everything that the library counts."""
    original = keras.Sequential.make_train_function
    before = countdown(kill["number"]) if kill["at"] == "before step" else lambda: None
    after = countdown(kill["number"]) if kill["at"] == "after step" else lambda: None

    def making(self, force=False):
        original(self, force)
        step = self.train_function

        def watched(*args):
            before()
            result = step(*args)
            os.write(witness, b".")
            after()
            return result

        self.train_function = watched

    keras.Sequential.make_train_function = making


def fit(model, folder, scenario, kill):
    backup = keras.callbacks.BackupAndRestore(
        folder / "backup", save_freq=scenario.get("save_freq", "epoch"), double_checkpoint=True
    )
    killers = [KillAt(kill["at"], kill["number"])] if kill["at"].startswith("on_") else []
    model.fit(
        *rows(),
        batch_size=BATCH,
        epochs=EPOCHS,
        verbose=0,
        callbacks=[backup, *killers],
        micro_batch_size=scenario.get("micro_batch_size"),
        ledger_file=folder / "ledger.json" if scenario.get("ledger_file") else None,
    )


def resumed(folder, scenario, kill):
    """A trained model; like a user, deletes a backup that cannot be read."""
    model = made(scenario)
    try:
        fit(model, folder, scenario, kill)
    except (OSError, lipdp.errors.InvalidData) as error:
        if not any(word in str(error) for word in ("was cut", "damaged")):
            raise
        shutil.rmtree(folder / "backup")
        return resumed(folder, scenario, kill)
    except lipdp.errors.BudgetExhausted as error:
        model.load_weights(folder / "backup" / "latest.weights.h5")
        return model, str(error)
    return model, None


def train(folder, scenario, kill, witness):
    """One run; returns what is to be said of one that was not killed."""
    PATCHES.get(kill["at"], lambda number: None)(kill["number"])
    watch_steps(witness, kill)
    model, refusal = resumed(folder, scenario, kill)
    return {
        "refusal": refusal,
        "steps": model.ledger.steps,
        "epsilon": model.ledger.epsilon(DELTA),
        "finite": bool(all(np.isfinite(w).all() for w in model.get_weights())),
    }


def run_child(folder, number, scenario, kill):
    witness = os.open(folder / f"witness{number}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    code = 1
    try:
        seen = train(folder, scenario, kill, witness)
        (folder / "result.json").write_text(json.dumps(seen))
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def run(folder, number, scenario, kill):
    """Forks one run, kills it if a time was given, and says how it ended."""
    child = os.fork()
    if child == 0:
        run_child(folder, number, scenario, kill)
    if kill["at"] == "time":
        _kill_later(child, folder / f"witness{number}", random.Random(kill["number"]))
    status = os.waitpid(child, 0)[1]
    return {"killed": os.WIFSIGNALED(status), "code": status, "at": kill}


def _kill_later(child, witness, generator):
    while not (witness.exists() and witness.stat().st_size):
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.001)
    time.sleep(generator.uniform(0.0, 0.15))
    os.kill(child, signal.SIGKILL)


def play(folder, scenario):
    """All runs of a scenario, one after the other on the same files, the last one in peace."""
    folder.mkdir()
    kills = [*scenario["kills"], {"at": "never", "number": 1}]
    runs = [run(folder, number, scenario, kill) for number, kill in enumerate(kills)]
    ran = [(folder / f"witness{number}").stat().st_size for number in range(len(kills))]
    parts = scenario.get("parts", 1)
    result = folder / "result.json"
    return {
        "runs": runs,
        "ran": sum(-(-count // parts) for count in ran),
        "last": json.loads(result.read_text()) if result.exists() else None,
        "left": sorted(path.name for path in folder.glob("*ledger*")),
    }


if __name__ == "__main__":
    root = Path(sys.argv[1])
    scenarios = json.load(sys.stdin)
    seen = {name: play(root / name, one) for name, one in scenarios.items()}
    json.dump(seen, sys.stdout)
