"""Bad input to every command: exit code 2, words that help, nothing left in the folder."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

SCHEMA = """
target = "income"
classes = ["low", "high"]

[columns.age]
kind = "number"
range = [18, 90]

[columns.job]
kind = "category"
categories = ["clerk", "smith", "none"]
"""
CONFIG = """
[data]
name = "adult"
[model]
name = "linear"
[loss]
name = "tempered_binary_crossentropy"
[optimizer]
name = "SGD"
[privacy]
epsilon = 2.0
"""
SPACE = '[sweep.space]\n"optimizer.learning_rate" = [0.1, 1.0]\n'
FAST = ["--set", "training.epochs=2", "--set", "training.batch_size=100"]
OWN = ["train", "--data", "my.csv", "--schema", "my.toml", "--target", "income", "--epsilon", 8]
OWN = [*OWN, "--output", "out", "--quiet", *FAST]
ACCOUNT = ["account", "epsilon", "--sampling-rate", 0.01, "--noise-multiplier", 1, "--steps", 10]
NOISE = ["account", "noise", "--sampling-rate", 0.01, "--steps", 10, "--delta", 1e-5]
BOARD = ["--set", "training.tensorboard=out/none-seed0/board"]
BOARD_OF_TRIAL = ["--set", "training.tensorboard=out/trials/000"]
PREDICT = ["predict", "run", "-o", "p.csv", "--data"]


def table():
    rng = np.random.default_rng(0)
    age, job = rng.integers(18, 90, 300), rng.choice(["clerk", "smith", "none"], 300)
    income = np.where((age > 45) & (job != "none"), "high", "low")
    return pd.DataFrame({"age": age, "job": job, "income": income}).astype(object)


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    import keras

    import lipdp

    path = tmp_path_factory.mktemp("model") / "model.keras"
    layers = lipdp.layers
    keras.utils.set_random_seed(0)
    lipdp.Sequential([layers.BoundedInput((5,), radius=1.0), layers.SpectralDense(1)]).save(path)
    return path.read_bytes()


@pytest.fixture
def folder(tmp_path, saved_model):
    """What a person may have lying about: good files, and files that are not what they seem."""
    table().to_csv(tmp_path / "my.csv", index=False)
    (tmp_path / "my.toml").write_text(SCHEMA)
    (tmp_path / "run.toml").write_text(CONFIG)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "text").write_text("not a folder")
    (tmp_path / "header.csv").write_text("age,job,income\n")
    (tmp_path / "garbage.csv").write_bytes(bytes(range(256)) * 20)
    whole = gzip.compress((tmp_path / "my.csv").read_bytes())
    (tmp_path / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "garbage.keras").write_bytes(b"PK\x03\x04 and then nothing")
    (tmp_path / "blank.toml").write_text(SCHEMA.replace("[18, 90]", "[]"))
    (tmp_path / "typo.toml").write_text(CONFIG + "[trainning]\nepochs = 3\n")
    (tmp_path / "key.toml").write_text(CONFIG + "[training]\nepoch = 3\n")
    (tmp_path / "type.toml").write_text(CONFIG + '[training]\nepochs = "three"\n')
    (tmp_path / "space.toml").write_text(CONFIG + SPACE)
    (tmp_path / "broken.toml").write_text("[data\nname = ")
    (tmp_path / "nothing").mkdir()
    for name in ("full", "run", "damaged"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "precious").write_text("kept")
    (tmp_path / "run" / "model.keras").write_bytes(saved_model)
    (tmp_path / "damaged" / "model.keras").write_bytes(saved_model[:100])
    (tmp_path / "damaged" / "result.json").write_text('{"name": ')
    for name in ("run", "damaged"):
        (tmp_path / name / "schema.toml").write_text(SCHEMA)
    table().drop(columns="job").to_csv(tmp_path / "few.csv", index=False)
    return tmp_path


CASES = {
    # lipdp account
    "rate above 1": (
        ["account", "epsilon", "--sampling-rate", 1.5, *ACCOUNT[4:], "--delta", 1e-5],
        ["1.5", "(0, 1]"],
    ),
    "negative noise": ([*ACCOUNT, "--delta", 1e-5, "--noise-multiplier", -1], ["noise", "-1"]),
    "negative steps": ([*ACCOUNT, "--delta", 1e-5, "--steps", -3], ["steps", "-3"]),
    "delta of 0": ([*ACCOUNT, "--delta", 0], ["delta", "0"]),
    "delta above 1": ([*ACCOUNT, "--delta", 1.5], ["delta", "1.5"]),
    "no delta": (ACCOUNT, ["--delta"]),
    "no steps": ([*ACCOUNT[:-2], "--delta", 1e-5], ["--steps"]),
    "unknown accountant": (
        [*ACCOUNT, "--delta", 1e-5, "--accountant", "hope"],
        ["hope", "pld", "rdp"],
    ),
    "unknown neighbours": (
        [*ACCOUNT, "--delta", 1e-5, "--adjacency", "near"],
        ["near", "add-remove"],
    ),
    "phase of words": (
        ["account", "epsilon", "--phase", "a,b", "--delta", 1e-5],
        ["a,b", "0.01,1.1,1000"],
    ),
    "epsilon of NaN": ([*NOISE, "--epsilon", "nan"], ["epsilon", "nan"]),
    "negative epsilon": ([*NOISE, "--epsilon", -1], ["epsilon", "-1"]),
    "no points": (
        ["account", "curve", *ACCOUNT[2:], "--delta", 1e-5, "--points", 0],
        ["--points", "0"],
    ),
    "cost of no run": (
        ["account", "runs", "nothing"],
        ["nothing", "no result of a run", "lipdp train"],
    ),
    "cost of a damaged run": (
        ["account", "runs", "damaged"],
        ["damaged/result.json", "not the result of a run"],
    ),
    # lipdp bounds
    "bounds of nothing": (["bounds", "nowhere.toml"], ["nowhere.toml", "does not exist"]),
    "bounds of an empty folder": (["bounds", "nothing"], ["nothing", "lipdp train"]),
    "bounds of a damaged model": (["bounds", "garbage.keras"], ["garbage.keras"]),
    "bounds of broken TOML": (["bounds", "broken.toml"], ["TOML", "line 1"]),
    # lipdp list
    "unknown kind": (["list", "foods"], ["foods", "losses"]),
    # lipdp schema
    "schema of nothing": (
        ["schema", "nowhere.csv", "--target", "y"],
        ["nowhere.csv", "does not exist"],
    ),
    "schema of a folder": (["schema", "nothing"], ["nothing"]),
    "schema of an empty file": (["schema", "empty.csv", "--target", "y"], ["empty.csv"]),
    "schema of garbage": (["schema", "garbage.csv", "--target", "y"], ["garbage.csv"]),
    "schema of a cut file": (["schema", "cut.csv.gz", "--target", "income"], ["cut.csv.gz"]),
    "schema of another target": (["schema", "my.csv", "--target", "wage"], ["wage", "income"]),
    "schema of no target": (["schema", "my.csv"], ["--target"]),
    # lipdp train: files
    "no such file": ([*OWN, "--data", "nowhere.csv"], ["nowhere.csv", "does not exist"]),
    "a folder as data": ([*OWN, "--data", "nothing"], ["nothing", "lipdp schema"]),
    "cut gzip": ([*OWN, "--data", "cut.csv.gz"], ["cut.csv.gz"]),
    "empty data": ([*OWN, "--data", "empty.csv"], ["empty.csv"]),
    "header alone": ([*OWN, "--data", "header.csv"], ["header.csv", "no rows"]),
    "binary garbage": ([*OWN, "--data", "garbage.csv"], ["garbage.csv"]),
    "missing column": ([*OWN, "--data", "few.csv"], ["job"]),
    "another target": ([*OWN, "--target", "age"], ["my.toml", "age", "income", "--target"]),
    "blank schema": ([*OWN, "--schema", "blank.toml"], ["age", "range"]),
    "data without schema": (
        ["train", "--data", "my.csv", "--target", "income"],
        ["lipdp schema my.csv"],
    ),
    "data as schema": ([*OWN, "--schema", "my.csv"], ["TOML", "my.csv"]),
    "broken configuration": (["train", "broken.toml"], ["TOML", "line 1"]),
    "binary configuration": (["train", "garbage.csv"], ["garbage.csv", "UTF-8"]),
    "unknown section": (["train", "typo.toml"], ["trainning", "did you mean 'training'"]),
    "unknown key": (["train", "key.toml"], ["training.epoch", "did you mean 'epochs'"]),
    "wrong type": (["train", "type.toml"], ["training.epochs", "three"]),
    # lipdp train: numbers
    "epsilon of 0": ([*OWN, "--epsilon", 0], ["privacy.epsilon", "greater than 0", "0"]),
    "epsilon below 0": ([*OWN, "--epsilon", -1], ["privacy.epsilon", "-1"]),
    "epsilon NaN": ([*OWN, "--epsilon", "nan"], ["privacy.epsilon", "nan"]),
    "epsilon infinite": ([*OWN, "--epsilon", "inf"], ["privacy.epsilon", "inf"]),
    "delta 0": ([*OWN, "--delta", 0], ["privacy.delta", "0"]),
    "delta of a row": ([*OWN, "--delta", 0.01], ["delta", "0.01"]),
    "infinite noise": ([*OWN, "--noise-multiplier", "inf"], ["privacy.noise_multiplier", "inf"]),
    "negative seed": ([*OWN, "--set", "privacy.seed=-1"], ["privacy.seed", "-1"]),
    "batch above the rows": ([*OWN, "--set", "training.batch_size=5000"], ["5000", "240"]),
    "no epochs": ([*OWN, "--set", "training.epochs=0"], ["training.epochs", "0"]),
    "no rows left": ([*OWN, "--set", "data.test_fraction=1.0"], ["data.test_fraction", "1"]),
    "negative radius": ([*OWN, "--set", "certificates.radii=[-1.0]"], ["certificates.radii", "-1"]),
    "negative width": ([*OWN, "--set", "model.widths=[-3]"], ["-3"]),
    "huge width": ([*OWN, "--set", "model.widths=[1000000000000]"], ["memory", "batch_size"]),
    # lipdp train: names
    "unknown data set": (["train", "--quiet", "--set", "data.name=census"], ["census", "adult"]),
    "unknown accountant of a run": ([*OWN, "--set", "privacy.accountant=hope"], ["hope", "pld"]),
    "unknown model": ([*OWN, "--set", "model.name=transformer"], ["transformer", "mlp"]),
    "unknown loss": ([*OWN, "--set", "loss.name=mse"], ["mse", "hinge"]),
    "unknown optimizer": ([*OWN, "--set", "optimizer.name=Magic"], ["Magic", "Adam"]),
    "option of another model": ([*OWN, "--set", "model.depth=3"], ["model.depth", "mlp", "widths"]),
    "features of no file": (
        [*OWN, "--set", "features.name=file", "--set", "features.path=3"],
        ["features", "path"],
    ),
    "no equals sign": ([*OWN, "--set", "training.epochs"], ["key=value", "training.epochs"]),
    "open bracket": ([*OWN, "--set", "model.widths=[1,"], ["TOML", "bracket"]),
    "unknown sampling": ([*OWN, "--sampling", "lucky"], ["lucky", "poisson"]),
    "sampling without its neighbours": (
        [*OWN, "--sampling", "fixed-size"],
        ["fixed-size", "replace-one"],
    ),
    # lipdp train: output
    "full output": ([*OWN, "--output", "full"], ["full", "--overwrite"]),
    "output is a file": ([*OWN, "--output", "text"], ["text", "file"]),
    "output in a file": ([*OWN, "--output", "text/out"], ["text/out", "cannot be made"]),
    "output is this folder": ([*OWN, "--output", "."], ["not empty", "--overwrite"]),
    "TensorBoard in the output": (
        [*OWN, "--tensorboard", "out/board"],
        ["in out", "out/board", "training.tensorboard", "outside it"],
    ),
    "TensorBoard as the output": (
        [*OWN, "--set", "training.tensorboard=nothing/../out"],
        ["nothing/../out", "training.tensorboard", "outside it"],
    ),
    "nothing to resume": (["train", "--resume", "nowhere"], ["nowhere", "no interrupted run"]),
    "resume a file": (["train", "--resume", "text"], ["text", "no interrupted run"]),
    # lipdp predict
    "rows without a column": ([*PREDICT, "few.csv"], ["job"]),
    "rows of garbage": ([*PREDICT, "garbage.csv"], ["garbage.csv"]),
    "rows of nothing": ([*PREDICT, "nowhere.csv"], ["nowhere.csv", "does not exist"]),
    "no run": (["predict", "nothing", *PREDICT[2:], "my.csv"], ["nothing", "lipdp train"]),
    "a damaged model": (["predict", "damaged", *PREDICT[2:], "my.csv"], ["damaged", "model.keras"]),
    "output without a folder": ([*PREDICT, "my.csv", "-o", "a/b.csv"], ["a/b.csv", "folder"]),
    "output is the data": ([*PREDICT, "my.csv", "-o", "my.csv"], ["my.csv", "another output"]),
    # lipdp report, compare, sweep, config
    "report of nothing": (["report", "nowhere"], ["nowhere", "folder of a run"]),
    "report of no runs": (["report", "nothing"], ["nothing", "lipdp train"]),
    "report of a damaged run": (["report", "damaged"], ["damaged/result.json"]),
    "report of another kind": (["report", "damaged", "-o", "report.pdf"], ["report.pdf", ".html"]),
    "TensorBoard in a run of a comparison": (
        ["compare", "run.toml", "--seeds", 1, "--methods", "none", "-o", "out", *BOARD],
        ["out/none-seed0/board", "training.tensorboard", "outside it"],
    ),
    "TensorBoard in the trials of a sweep": (
        ["sweep", "space.toml", "--trials", 2, "--output", "out", *BOARD_OF_TRIAL],
        ["out/trials/000", "training.tensorboard", "outside it"],
    ),
    "sweep of nothing": (["sweep", "nowhere.toml"], ["nowhere.toml", "does not exist"]),
    "sweep without a space": (["sweep", "run.toml", "--trials", 2], ["sweep"]),
    "configuration of nothing": (["config", "show", "nowhere.toml"], ["nowhere.toml"]),
    "unknown command": (["trian"], ["trian", "Did you mean 'train'"]),
    "unknown option": (["train", "--epsilom", 8], ["--epsilom", "--epsilon"]),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input(folder, refused, case):
    arguments, words = CASES[case]
    text = refused(*arguments)
    assert all(word in text for word in words), text


CELLS = {
    "text in a number": (lambda f: f.assign(age="old"), "age"),
    "NaN": (lambda f: f.assign(age=float("nan")), "age"),
    "infinity": (lambda f: f.assign(age=float("inf")), "age"),
    "one class": (lambda f: f.assign(income="low"), "class"),
    "label of no class": (lambda f: f.replace({"income": {"low": "lower"}}), "lower"),
    "unknown category": (lambda f: f.replace({"job": {"none": "pilot"}}), "pilot"),
    "few rows": (lambda f: pd.concat([f.head(5), f.tail(5)]), "batch"),
    "missing target": (lambda f: f.drop(columns="income"), "income"),
    "a column twice": (lambda f: pd.concat([f, f[["age"]]], axis=1), "age"),
}


@pytest.mark.parametrize("case", CELLS)
def test_bad_cells(folder, refused, case):
    change, word = CELLS[case]
    change(table()).to_csv(folder / "my.csv", index=False)
    assert word in refused(*OWN)
