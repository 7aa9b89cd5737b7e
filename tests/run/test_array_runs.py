"""The commands on images and arrays, from the schema to the predictions."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from PIL import Image

import lipdp
from lipdp.cli import COMMANDS

FAST = ["--set", "training.epochs=1", "--set", "training.batch_size=20", "--delta", "1e-3"]
CONVNET = [
    "model.name=convnet", "model.filters=[4]", "model.input_radius=4.0",
    "loss.name=tempered_crossentropy", "training.dtype=float32",
]  # fmt: skip


def run(*arguments, code=0):
    done = CliRunner().invoke(COMMANDS, [str(a) for a in arguments], prog_name="lipdp")
    assert done.exit_code == code, done.output
    return done.stdout


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder ``photos`` of three classes of images."""
    rng = np.random.default_rng(0)
    for label, name in enumerate(("cat", "dog", "emu")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for row in range(40):
            image = rng.integers(60 * label, 60 * label + 90, (6, 6, 3)).astype(np.uint8)
            Image.fromarray(image).save(tmp_path / "photos" / name / f"{row}.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    return tmp_path


@pytest.mark.slow
def test_from_a_folder_of_images_to_predictions(folder):
    (folder / "photos.toml").write_text(run("schema", "photos"))
    sets = [part for override in CONVNET for part in ("--set", override)]
    data = ["--data", "photos", "--schema", "photos.toml"]
    output = run("train", *data, "--epsilon", 20, *FAST, *sets, "--output", "out")
    assert "pixels are scaled to [0, 1]" in output
    result = json.loads((folder / "out" / "result.json").read_text())
    assert result["training_rows"] == 96 and result["test"]["rows"] == 24
    # The model took the shape of the images from the schema.
    assert lipdp.load_model(folder / "out" / "model.keras").layers[1].target_shape == (6, 6, 3)
    run("predict", "out", "--data", "photos/dog", "-o", "dogs.csv")
    found = pd.read_csv("dogs.csv")
    assert len(found) == 40 and found["file"][0] == "0.png"
    assert set(found["prediction"]) <= {"cat", "dog", "emu"}
    assert (found["certified_radius"] >= 0).all()
    x = np.stack([np.asarray(Image.open(f"photos/dog/{n}")) for n in found["file"]])
    np.savez("dogs.npz", x=x)
    run("predict", "out", "--data", "dogs.npz", "-o", "again.csv")
    pd.testing.assert_frame_equal(pd.read_csv("again.csv"), found.drop(columns="file"))
    run("train", "out/config.toml", "--output", "repeated", "--quiet")
    assert run("predict", "out", "--data", "photos.toml", "-o", "none.csv", code=2) == ""


def test_vectors_with_private_statistics(folder):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    np.save("x.npy", x)
    np.save("y.npy", (x[:, 0] > 0).astype(int))
    facts = run("schema", "x.npy").replace("classes = []", 'classes = ["no", "yes"]')
    (folder / "x.toml").write_text(
        facts.replace("low = []", "low = -4\nzero = 0").replace("high = []", "high = 4")
    )
    data = ["--data", "x.npy", "--set", "data.labels=y.npy", "--schema", "x.toml"]
    options = [*FAST, "--preprocess", "private-standardize", "--output", "out", "--quiet"]
    run("train", *data, "--epsilon", 20, *options)
    run("predict", "out", "--data", "x.npy", "-o", "p.csv")
    assert len(pd.read_csv("p.csv")) == 300
    assert "private mean" in json.loads((folder / "out" / "result.json").read_text())["statement"]


def test_bad_data_ends_with_two_and_leaves_nothing(folder):
    (folder / "photos.toml").write_text(run("schema", "photos"))
    path = folder / "photos" / "dog" / "7.png"
    path.write_bytes(path.read_bytes()[:60])
    data = ["--data", "photos", "--schema", "photos.toml", "--output", "out"]
    done = CliRunner().invoke(COMMANDS, ["train", *data, *FAST, "--epsilon", "8"])
    assert done.exit_code == 2 and "dog/7.png" in done.stderr
    assert sorted(p.name for p in folder.iterdir()) == ["photos", "photos.toml"]


def test_a_registered_set_from_a_folder(folder):
    rng = np.random.default_rng(0)
    (folder / "sets").mkdir()
    np.savez("sets/22_magic.gamma.npz", X=rng.normal(size=(200, 10)), y=np.arange(200) % 2)
    options = ["--set", "data.name=adbench-magic", "--data-dir", "sets", "--epsilon", 8]
    run("train", *options, *FAST, "--output", "out", "--quiet")
    result = json.loads((folder / "out" / "result.json").read_text())
    assert result["training_rows"] == 160
    assert result["config"]["data"]["dir"] == "sets"
    assert str(folder / "sets") in (folder / "out" / "config.toml").read_text()
