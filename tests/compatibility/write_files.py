"""Writes the files of the version that runs, for ``test_files.py`` of every later version.

    python -m tests.compatibility.write_files

makes ``tests/compatibility/VERSION.zip`` of models of every layer and loss, weights, a backup with
its ledger, run folders, a sweep, configurations, schemas and pickles, and ``VERSION.json`` of what
they must say when they are read. A file that was released is never written again.
"""

import contextlib
import json
import pickle
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import keras
import numpy as np

import lipdp
from lipdp import layers as ls
from lipdp._version import __version__
from lipdp.config import load_config
from lipdp.losses import MulticlassHinge
from lipdp.preprocessing import load_schema
from lipdp.privacy import Phase, PrivacyLedger, Terms, epsilon
from lipdp.results import RunResult
from lipdp.run import train
from lipdp.testing.parts import LAYERS, LOSSES
from lipdp.training import save_for_release
from tests.compatibility.public import public_names
from tests.small_table import write_table

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ROWS, BATCH, NOISE, DELTA = 16, 8, 0.25, 1e-3
SETTINGS = (
    *("data.name=", "data.path=t.csv", "data.schema_path=t.toml", "data.target=y"),
    *("training.batch_size=60", "training.epochs=3", "privacy.delta=1e-3"),
)
SWEEP_SETTINGS = tuple(word for one in SETTINGS for word in ("--set", one))
#: The same bytes for the same files.
DATE = (2020, 1, 1, 0, 0, 0)


def slug(name: str) -> str:
    return name.replace(" ", "-")


def inputs_of(shape, ids, rows=ROWS):
    rng = np.random.default_rng(0)
    if ids is not None:
        return rng.integers(0, ids, size=(rows, *shape)).astype("int32")
    return rng.normal(size=(rows, *shape)).astype("float32")


def model_of_layer(part):
    keras.utils.set_random_seed(1)
    layer = part.make(dtype="float32")
    if isinstance(layer, ls.BoundedInput):
        body = [layer]
    elif part.ids is not None:
        body = [keras.Input(part.shape, dtype="int32"), layer]
    else:
        body = [ls.BoundedInput(part.shape, radius=2.0), layer]
    # Frozen features have no bound of their own.
    behind = [keras.layers.Flatten(), ls.ActivationClip(10.0), ls.SpectralDense(2)]
    return lipdp.Sequential([*body, *behind])


def model_of_loss(part):
    keras.utils.set_random_seed(1)
    positions = part.loss.positions
    shape = (6,) if positions is None else (positions, 4)
    last = ls.SpectralDense(part.outputs)
    return lipdp.Sequential([ls.BoundedInput(shape, radius=1.5), last])


def labels_of(model, loss):
    """Labels in the set of any task: ones are a class, a yes, and a number."""
    shape = model.output_shape[1:]
    task = loss.task_for(shape[-1])
    if task == "multiclass":
        return np.ones((ROWS, *shape[:-1]), "int64")
    return np.ones((ROWS, *shape), "float32") * (0.5 if task == "regression" else 1.0)


def fit(model, loss, x, y, **options):
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        loss,
        privacy=lipdp.PrivacyBudget(noise_multiplier=NOISE, delta=DELTA),
    )
    model.fit(x, y, batch_size=BATCH, epochs=1, verbose=0, **options)


def facts_of(model, x):
    return {
        "input": x.tolist(),
        "output": model.predict(x, verbose=0).tolist(),
        "lipschitz": model.lipschitz_constant(),
        "steps": model.ledger.steps,
        "epsilon": model.ledger.epsilon(DELTA),
    }


def write_models(folder: Path) -> dict:
    facts = {}
    for kind, parts in (("layers", LAYERS), ("losses", LOSSES)):
        (folder / kind).mkdir()
        for part in parts:
            name = f"{kind}/{slug(part.name)}"
            if kind == "layers":
                model, loss = model_of_layer(part), MulticlassHinge(margin=0.5)
                x = inputs_of(part.shape, part.ids)
            else:
                model, loss = model_of_loss(part), part.loss
                x = inputs_of(model.input_shape[1:], None)
            fit(model, loss, x, labels_of(model, loss))
            save_for_release(model, folder / f"{name}.keras")
            model.save(folder / f"{name}-compiled.keras")
            facts[name] = facts_of(model, x)
            print(name, flush=True)
    return facts


class Killed(BaseException):
    """Stands for the death of the process."""


class DieAt(keras.callbacks.Callback):
    def __init__(self, step):
        super().__init__()
        self.left = step

    def on_train_batch_begin(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            raise Killed


def small_model():
    keras.utils.set_random_seed(1)
    return lipdp.Sequential(
        [ls.BoundedInput((4,), radius=2.0), ls.SpectralDense(6), ls.MaxMin(), ls.SpectralDense(2)]
    )


def write_training(folder: Path) -> dict:
    """Weights, a ledger file, and a backup that was interrupted in its third epoch."""
    x = inputs_of((4,), None)
    y = (x[:, 0] > 0).astype("int64")
    model = small_model()
    fit(model, MulticlassHinge(margin=0.5), x, y, ledger_file=folder / "ledger.json")
    model.save_weights(folder / "weights.weights.h5")
    facts = {"weights": facts_of(model, x)}
    stopped = small_model()
    stopped.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        MulticlassHinge(margin=0.5),
        privacy=lipdp.PrivacyBudget(noise_multiplier=NOISE, delta=DELTA),
    )
    backup = keras.callbacks.BackupAndRestore(folder / "backup")
    with contextlib.suppress(Killed):
        stopped.fit(x, y, batch_size=BATCH, epochs=5, verbose=0, callbacks=[backup, DieAt(6)])
    facts["backup"] = {"steps": stopped.ledger.steps}
    return facts


def write_runs(folder: Path) -> dict:
    """A finished run, one that was interrupted, and a sweep, by the command line."""
    table = folder / "table"
    table.mkdir()
    write_table(table, 300)
    data = ["--data", "t.csv", "--schema", "t.toml", "--target", "y", "--quiet"]
    small = ["--set", "training.batch_size=60", "--set", "privacy.delta=1e-3"]
    epochs = ["--set", "training.epochs=2"]
    lipdp_at(table, "train", *data, *small, *epochs, "--output", "run")
    result = RunResult.load(table / "run" / "result.json")
    with contextlib.chdir(table), contextlib.suppress(Killed):
        train(load_config(None, SETTINGS), Path("stopped"), listener=StopAt(8))
    sweep = (ROOT / "configs" / "adult-sweep.toml").read_text()
    small_batches = sweep.replace("[2048, 4096, 8192]", "[40, 60]")
    (table / "sweep.toml").write_text(small_batches)
    lipdp_at(
        table,
        *("sweep", "sweep.toml", "--trials", "2", "--output", "sweep"),
        *SWEEP_SETTINGS,
    )
    return {"run": {"epsilon": result.spent.epsilon, "steps": result.spent.steps}, "stopped": 8}


class StopAt:
    """Dies in a step."""

    def __init__(self, step):
        self.left = step

    def on_start(self, plan, total_epochs, steps_per_epoch):
        pass

    def on_step(self, epoch, step):
        self.left -= 1
        if self.left == 0:
            raise Killed

    def on_epoch(self, epoch, logs):
        pass

    def on_message(self, text):
        pass


def lipdp_at(folder: Path, *words: str) -> None:
    print("lipdp", *words, flush=True)
    subprocess.run([sys.executable, "-m", "lipdp", *words], cwd=folder, check=True)


def write_settings(folder: Path) -> None:
    """A configuration of each kind, and a schema of each."""
    for path in sorted((ROOT / "configs").glob("*.toml")):
        shutil.copy(path, folder / path.name)


def write_pickles(folder: Path) -> dict:
    ledger = PrivacyLedger()
    ledger.record(0.01, 1.0, 100)
    model = small_model()
    x = inputs_of((4,), None)
    fit(model, MulticlassHinge(margin=0.5), x, (x[:, 0] > 0).astype("int64"))
    objects = {
        "budget": lipdp.PrivacyBudget(epsilon=3.0, delta=1e-5),
        "ledger": ledger,
        "phase": Phase(0.01, 1.0, 100),
        "terms": Terms("user", False, True),
        "bounds": model.gradient_bounds(),
        "certificates": lipdp.certify(model, x),
        "schema": load_schema(folder.parent / "runs" / "table" / "t.toml"),
        "config": load_config(folder.parent / "configs" / "adult.toml"),
        "result": RunResult.load(folder.parent / "runs" / "table" / "run" / "result.json"),
    }
    written = []
    for name, one in objects.items():
        with contextlib.suppress(pickle.PicklingError, AttributeError, TypeError):
            (folder / f"{name}.pickle").write_bytes(pickle.dumps(one))
            written.append(name)
    return {"written": written, "ledger": epsilon(0.01, 1.0, 100, 1e-5)}


def write_all(folder: Path) -> dict:
    facts = {"version": __version__, "names": public_names()}
    for name, write in (
        ("models", write_models),
        ("training", write_training),
        ("runs", write_runs),
        ("configs", write_settings),
        ("pickles", write_pickles),
    ):
        (folder / name).mkdir()
        facts[name] = write(folder / name)
    return facts


def pack(folder: Path, archive: Path) -> None:
    """Everything but caches, with the times of files left out."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix not in {".html", ".svg", ".png"}:
                packed.writestr(
                    zipfile.ZipInfo(str(path.relative_to(folder)), DATE),
                    path.read_bytes(),
                    zipfile.ZIP_DEFLATED,
                    9,
                )


def main() -> None:
    archive = HERE / f"{__version__}.zip"
    if archive.exists():
        sys.exit(f"{archive} was written already: files of a version stay as they were")
    with tempfile.TemporaryDirectory() as name:
        facts = write_all(Path(name))
        pack(Path(name), archive)
    archive.with_suffix(".json").write_text(json.dumps(facts, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
