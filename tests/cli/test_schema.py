"""``lipdp schema``: a blank schema on stdout, no value of a row in it."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text("age,work,income\n39,state,low\n51,private,high\n")
    return path


def test_a_blank_schema(run, table):
    result = run("schema", table, "--target", "income")
    assert result.exit_code == 0, result.output
    tables = tomllib.loads(result.stdout)
    assert tables["target"] == "income"
    assert set(tables["columns"]) == {"age", "work"}
    assert not any(value in str(tables) for value in ("39", "51", "state", "private", "high"))


def test_arrays_leave_classes_and_ranges_blank(run, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "my.npz", x=rng.normal(size=(9, 3)), y=[7] * 9)
    assert tables_of(run("schema", "my.npz")) == {
        "kind": "vectors",
        "classes": [],
        "features": 3,
        "low": [],
        "high": [],
    }
    np.save(tmp_path / "x.npy", np.zeros((9, 4, 5), np.uint8))
    images = tables_of(run("schema", "x.npy"))
    assert images["shape"] == [4, 5, 1] and (images["low"], images["high"]) == (0, 255)


def test_images_name_their_classes(run, tmp_path):
    for side in ("train", "test"):
        for name in ("dog", "cat"):
            (tmp_path / "own" / side / name).mkdir(parents=True)
            Image.new("RGB", (5, 4)).save(tmp_path / "own" / side / name / "1.png")
    images = tables_of(run("schema", "own"))
    assert images["classes"] == ["cat", "dog"] and images["shape"] == [4, 5, 3]


def tables_of(result):
    assert result.exit_code == 0, result.output
    return tomllib.loads(result.stdout)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.csv", "--target", "income"], ["'nowhere.csv' does not exist"]),
        (["my.csv", "--target", "incom"], ["my.csv: ", "'incom'", "income"]),
        (["my.csv"], ["--target"]),
        (["x.npy", "--target", "income"], ["--target names a column", "x.npy is no table"]),
        (["my.npz"], ["my.npz", "damaged"]),
        (["objects.npz"], ["array y of objects.npz", "dtype="]),
        (["five.npy"], ["five.npy: ", "must be vectors"]),
        (["."], ["no images"]),
        (["empty.csv", "--target", "income"], ["empty.csv"]),
        (["my.doc", "--target", "income"], ["my.doc", ".csv"]),
    ],
)
def test_bad_input(refused, table, tmp_path, arguments, words):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "my.doc").write_text("a,b\n1,2\n")
    (tmp_path / "my.npz").write_text("a,b\n1,2\n")
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    np.save(tmp_path / "five.npy", np.zeros((4, 1, 1, 1, 1)))
    np.savez(tmp_path / "objects.npz", x=np.zeros((4, 2)), y=np.array(["a"] * 4, dtype=object))
    text = refused("schema", *arguments)
    assert all(word in text for word in words), text
