"""Damaged arrays and images given to ``lipdp train``: exit code 2, a sentence, nothing written."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

SCHEMA = 'kind = "images"\nclasses = ["cat", "dog"]\nshape = [4, 4, 1]\nlow = 0.0\nhigh = 255.0\n'
TRAIN = ["train", "--quiet", "--output", "out", "--epsilon", 8, "--delta", 1e-4]
OWN = [*TRAIN, "--data", "my.npz", "--schema", "my.toml"]
FASHION = [
    f"{part}-{kind}-ubyte.gz"
    for part in ("train", "t10k")
    for kind in ("images-idx3", "labels-idx1")
]


def registered(name):
    return [*TRAIN, "--set", f"data.name={name}", "--data-dir", "sets"]


def save(folder, x=None, y=None):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (60, 4, 4)) if x is None else x
    np.savez(folder / "my.npz", x=x, y=rng.integers(0, 2, 60) if y is None else y)


@pytest.fixture
def folder(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path_factory.mktemp("keras")))
    monkeypatch.delenv("LIPDP_DATA", raising=False)
    (tmp_path / "my.toml").write_text(SCHEMA)
    save(tmp_path)
    sets = tmp_path / "sets"
    (sets / "fashion-mnist").mkdir(parents=True)
    idx = bytes([0, 0, 8, 1, 0, 0, 0, 9]) + bytes(9)
    for name in FASHION:
        (sets / "fashion-mnist" / name).write_bytes(gzip.compress(idx)[:-6])
    whole = (tmp_path / "my.npz").read_bytes()
    (sets / "mnist.npz").write_bytes(whole[: len(whole) // 2])
    (sets / "cifar10-jpeg.zip").write_bytes(b"PK\x03\x04 and then nothing")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mnist", "mnist.npz"),
        ("fashion-mnist", "train-images-idx3-ubyte.gz"),
        ("cifar10", "cifar10-jpeg.zip"),
    ],
)
def test_a_registered_set_that_is_damaged(folder, refused, name, file):
    assert file in refused(*registered(name))


ARRAYS = {
    "wrong shape": ({"x": np.zeros((60, 5, 4))}, ["my.toml", "(4, 4, 1)", "(60, 5, 4)"]),
    "NaN": ({"x": np.full((60, 4, 4), np.nan)}, ["finite"]),
    "text": ({"x": np.full((60, 4, 4), "a")}, ["number"]),
    "objects": ({"x": np.full((60, 4, 4), None)}, ["my.npz", "Python objects"]),
    "label out of range": ({"y": np.full(60, 2)}, ["my.toml", "0 ('cat'), 1 ('dog')", "2"]),
    "too few labels": ({"y": np.zeros(9, int)}, ["60 rows, 9 labels"]),
    "one class": ({"y": np.zeros(60, int)}, ["class"]),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_that_are_no_images(folder, refused, case):
    arrays, words = ARRAYS[case]
    save(folder, **arrays)
    text = refused(*OWN)
    assert all(word in text for word in words), text
