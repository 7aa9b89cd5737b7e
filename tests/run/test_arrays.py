"""Rows of registered sets and of a person's own arrays and images."""

import numpy as np
import pytest
from PIL import Image

from lipdp.config import load_config
from lipdp.errors import InvalidConfig, InvalidData
from lipdp.preprocessing import EncodedRows, blank_array_schema
from lipdp.run.data import prepare_rows

IMAGES = 'kind = "images"\nclasses = ["cat", "dog"]\nshape = [4, 4, 1]\nlow = 0\nhigh = 255\n'
VECTORS = 'kind = "vectors"\nclasses = ["cat", "dog"]\nfeatures = 3\nlow = -3\nhigh = 3\nzero = 0\n'
RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (60, 4, 4)).astype(np.uint8)
V = RNG.normal(size=(60, 3))
Y = np.arange(60) % 2


@pytest.fixture
def rows(tmp_path):
    """Rows of a file or folder in a folder of its own."""

    def make(name, schema, *overrides):
        (tmp_path / "my.toml").write_text(schema)
        files = [f"data.path={tmp_path / name}", f"data.schema_path={tmp_path / 'my.toml'}"]
        sizes = ["training.batch_size=8", "training.dtype=float32"]
        return prepare_rows(load_config(None, ["data.name=", *files, *sizes, *overrides]))

    return make


def write_folder(folder, x=X, y=Y, sides=("",)):
    for side in sides:
        for row, (image, label) in enumerate(zip(x, y, strict=True)):
            place = folder / side / ("dog" if label else "cat")
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(place / f"{row:03}.png")


def test_npz_of_images(rows, tmp_path):
    np.savez(tmp_path / "my.npz", x=X, y=Y)
    found = rows("my.npz", IMAGES)
    assert isinstance(found.x_train, EncodedRows)
    assert found.x_train.shape == (48, 16) and len(found.x_test) == len(found.y_test) == 12
    assert found.encoding.shape == (4, 4, 1) and found.num_outputs == 1
    # Stratified: the rows are whole, in order, and on one side.
    both = np.concatenate([found.x_train[:], found.x_test[:]])
    wanted = X.reshape(60, 16).astype("float32") / np.float32(255)
    assert {r.tobytes() for r in both} == {r.tobytes() for r in wanted}
    assert found.y_test.sum() == 6 and found.not_covered


def test_an_official_split_is_kept(rows, tmp_path):
    np.savez(tmp_path / "my.npz", x_train=X, y_train=Y, x_test=X[:20], y_test=Y[:20])
    found = rows("my.npz", IMAGES, "data.test_fraction=0.9")
    assert (len(found.x_train), len(found.x_test)) == (60, 20)
    np.testing.assert_array_equal(found.y_train, Y)
    # Nothing about the training rows decides it.
    assert found.not_covered == ()
    part = rows("my.npz", IMAGES, "data.limit_rows=30")
    assert (len(part.x_train), len(part.x_test)) == (30, 10)
    # One more row may take the place of another in it.
    assert [text.partition(":")[0] for text in part.not_covered] == [
        "which rows a limit of rows keeps"
    ]


def test_vectors_and_limits(rows, tmp_path):
    np.savez(tmp_path / "my.npz", X=V, y=Y)
    found = rows("my.npz", VECTORS, "data.limit_rows=40")
    assert type(found.x_train) is np.ndarray and found.x_train.dtype == "float32"
    assert found.x_train.shape == (32, 4) and found.x_test.shape == (8, 4)
    again = rows("my.npz", VECTORS, "data.limit_rows=40")
    np.testing.assert_array_equal(found.x_train, again.x_train)


def test_npy_beside_its_labels(rows, tmp_path):
    np.save(tmp_path / "x.npy", V)
    np.save(tmp_path / "y.npy", Y)
    found = rows("x.npy", VECTORS, f"data.labels={tmp_path / 'y.npy'}")
    assert isinstance(found.x_train, EncodedRows) and found.x_train.shape == (48, 4)
    np.savez(tmp_path / "my.npz", x=V, y=Y)
    np.testing.assert_array_equal(found.x_train[:], rows("my.npz", VECTORS).x_train)
    with pytest.raises(InvalidConfig, match=r"data\.labels"):
        rows("x.npy", VECTORS)


def test_folders_of_images(rows, tmp_path):
    write_folder(tmp_path / "flat")
    found = rows("flat", IMAGES)
    assert found.x_train.shape == (48, 16) and found.y_train.sum() == 24
    write_folder(tmp_path / "split", sides=("train", "test"))
    split = rows("split", IMAGES)
    assert len(split.x_train) == len(split.x_test) == 60 and split.not_covered == ()
    # Decoded once: the files are not needed any more.
    for path in (tmp_path / "split").rglob("*.png"):
        path.unlink()
    wanted = X[Y == 0].reshape(30, 16) / np.float32(255)
    np.testing.assert_array_equal(split.x_train[:30], wanted)
    assert len(rows("flat", IMAGES, "data.limit_rows=20").x_train) == 16


def save(folder, **arrays):
    np.savez(folder / "my.npz", **{"x": V, "y": Y, **arrays})


DAMAGED = {
    "NaN": ({"x": np.where(np.arange(180).reshape(60, 3) == 100, np.nan, V)}, "Row 34, column 2"),
    "infinite": ({"x": np.full((60, 3), np.inf)}, "Row 1, column 1"),
    "text": ({"x": V.astype(str)}, "must hold numbers"),
    "wrong shape": ({"x": V[:, :2]}, "3 numbers each"),
    "no rows": ({"x": V[:0], "y": Y[:0]}, "must hold numbers"),
    "label out of range": ({"y": Y + 1}, "Label of row 2"),
    "negative label": ({"y": -Y}, "Label of row 2"),
    "half a label": ({"y": Y / 2}, "Label of row 2"),
    "label is NaN": ({"y": np.where(Y, np.nan, 0)}, "Label of row 2"),
    "one class": ({"y": Y * 0}, "same label"),
    "fewer labels": ({"y": Y[:50]}, "not as many labels"),
    "labels of rows": ({"y": np.eye(2)[Y]}, "one number or text a row"),
    "unknown name": ({"y": np.where(Y, "dog", "cow")}, r"^Schema .*: Label of row 1"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_arrays(rows, tmp_path, case):
    arrays, words = DAMAGED[case]
    save(tmp_path, **arrays)
    with pytest.raises(InvalidData, match=words):
        rows("my.npz", VECTORS)


def test_data_of_another_kind_than_the_schema(rows, tmp_path):
    save(tmp_path)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "t.mat").write_bytes(b"")
    write_folder(tmp_path / "folder")
    table = 'target = "b"\nclasses = [0, 1]\n[columns.a]\nkind = "number"\nrange = [0, 1]\n'
    for name, schema, words in [
        ("my.npz", table, r"^Schema .*describes a table"),
        ("t.csv", VECTORS, "describes vectors"),
        ("my.npz", IMAGES, r"shape \(4, 4, 1\)"),
        ("folder", VECTORS, "describes vectors"),
        ("t.mat", VECTORS, "cannot be read"),
        ("t.mat", table, "cannot be read"),
        ("folder", IMAGES.replace("[4, 4, 1]", "[5, 4, 1]"), "the schema says 5 and 4"),
        ("folder", IMAGES.replace('"dog"', '"cow"'), "none of the classes"),
    ]:
        with pytest.raises(InvalidData, match=words):
            rows(name, schema)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (["data.target=y"], r"data\.target names a column"),
        (["data.group=y", "data.max_examples_per_user=2"], r"data\.group names a column"),
        (["data.labels=y.npy"], "belongs to an .npy"),
    ],
)
def test_options_of_other_kinds(rows, tmp_path, override, words):
    save(tmp_path)
    with pytest.raises(InvalidConfig, match=words):
        rows("my.npz", VECTORS, *override)


def test_a_blank_schema_is_refused(rows, tmp_path):
    save(tmp_path)
    with pytest.raises(InvalidConfig, match="blank"):
        rows("my.npz", blank_array_schema(V.shape, "float64"))
