import numpy as np
import pytest

from lipdp.errors import InvalidConfig, InvalidData
from lipdp.preprocessing import (
    ImageEncoding,
    Schema,
    VectorEncoding,
    blank_array_schema,
    encoding_from_toml,
    load_encoding,
)

TABLE = 'target = "y"\nclasses = [0, 1]\n[columns.a]\nkind = "number"\nrange = [0, 1]\n'
IMAGES = 'kind = "images"\nclasses = [0, 1]\nshape = [2, 2, 1]\nlow = 0\nhigh = 255\n'
VECTORS = 'kind = "vectors"\nclasses = [0, 1]\nfeatures = 2\nlow = 0\nhigh = 1\n'


def test_the_content_tells_the_kind(tmp_path):
    for text, kind in ((TABLE, Schema), (IMAGES, ImageEncoding), (VECTORS, VectorEncoding)):
        (tmp_path / "schema.toml").write_text(text)
        found = load_encoding(tmp_path / "schema.toml")
        assert type(found) is kind
        assert encoding_from_toml(found.to_toml()) == found


def test_an_unknown_kind_is_named():
    with pytest.raises(InvalidConfig, match="'sounds'"):
        encoding_from_toml('kind = "sounds"\n')


DAMAGED = {
    "no key": (TABLE.replace('target = "y"', ""), "target"),
    "wrong type": (TABLE.replace('"y"', "3"), "target"),
    "range": (TABLE.replace("range = [0, 1]", "range = [1, 0]"), "range"),
    "kind of a column": (TABLE.replace("number", "nubmer"), "nubmer"),
    "kind": (f'kind = "sounds"\n{TABLE}', "sounds"),
    "one class": (VECTORS.replace("[0, 1]", "[0]"), "classes"),
    "no features": (VECTORS.replace("features = 2", ""), "features"),
    "ends": (VECTORS.replace("low = 0", "low = 2"), "low must be below high"),
    "shape": (IMAGES.replace("[2, 2, 1]", "[2, 2]"), "shape"),
    "pixels": (IMAGES.replace("low = 0", 'low = "black"'), "low"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_errors_name_the_file(tmp_path, case):
    text, words = DAMAGED[case]
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(InvalidConfig, match=f"^Schema {path}: .*{words}"):
        load_encoding(path)


@pytest.mark.parametrize("text", [IMAGES, VECTORS])
def test_arrays_of_another_shape_name_the_schema(tmp_path, text):
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(InvalidData, match=f"^Schema {path}: .*must have"):
        load_encoding(path).check(np.zeros((3, 5)))


def test_what_is_blank_is_told_at_once():
    blank = IMAGES.replace("[0, 1]", "[]").replace("[2, 2, 1]", "[]").replace("low = 0", "low = []")
    with pytest.raises(InvalidConfig, match=r"classes: .*; shape: .*; low: "):
        encoding_from_toml(blank)


@pytest.mark.parametrize(
    ("shape", "kind"), [((9, 5), "vectors"), ((9, 4, 4), "images"), ((9, 4, 4, 3), "images")]
)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_blank_schema_is_refused_until_it_is_complete(shape, kind, dtype):
    text = blank_array_schema(shape, dtype)
    assert f'kind = "{kind}"' in text
    with pytest.raises(InvalidConfig, match="blank"):
        encoding_from_toml(text)
    filled = text.replace("classes = []", "classes = [0, 1]")
    if dtype == "float32":
        with pytest.raises(InvalidConfig, match="blank"):
            encoding_from_toml(filled)
        filled = filled.replace("low = []", "low = -1").replace("high = []", "high = 1")
    found = encoding_from_toml(filled)
    assert found.num_features == {2: 6, 3: 16, 4: 48}[len(shape)]


def test_names_of_folders_are_the_classes():
    found = encoding_from_toml(blank_array_schema((9, 4, 4, 3), "uint8", ["cat", "dog"]))
    assert found.classes == ("cat", "dog") and (found.low, found.high) == (0, 255)
