import math
import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.datasets import DATASETS, read_table
from lipdp.errors import InvalidConfig, InvalidData
from lipdp.preprocessing import Schema, load_schema

TOML = """
target = "y"
classes = ["no", "yes"]

[columns.age]
kind = "number"
range = [0, 100]

[columns.work]
kind = "category"
categories = ["a", "b"]

[columns.id]
kind = "ignore"
"""
SCHEMA = Schema.from_toml(TOML)
ROWS = pd.DataFrame({"age": ["50", "100"], "work": ["a", "b"], "y": ["yes", "no"]})

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
FINITE = st.floats(-1e300, 1e300)


@st.composite
def columns(draw):
    kind = draw(st.sampled_from(["number", "bins", "log", "category", "ignore"]))
    if kind == "ignore":
        return {"kind": "ignore"}
    if kind == "category":
        values = draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=str.strip))
        return {"kind": kind, "categories": values, "allow_unknown": draw(st.booleans())}
    edges = sorted(draw(st.lists(FINITE, min_size=2, max_size=5, unique=True)))
    column = {"kind": "number", "range": [edges[0], edges[-1]]}
    if kind == "bins":
        return {**column, "bins": edges[1:-1]}
    return {**column, "scale": "log" if kind == "log" else "linear"}


@st.composite
def schemas(draw):
    names = draw(st.lists(NAMES, min_size=2, max_size=6, unique=True))
    inner = {name: draw(columns()) for name in names[1:]}
    inner[names[1]] = {"kind": "number", "range": [0, 1]}
    return Schema(target=names[0], classes=["no", "yes", 3], columns=inner)


@st.composite
def schemas_with_rows(draw):
    schema = draw(schemas())
    rows = draw(st.integers(1, 4))
    cells = {}
    for name, column in schema.columns.items():
        known = FINITE
        if column.kind == "category":
            known = st.sampled_from(column.categories)
            known = known | NAMES if column.allow_unknown else known
        cells[name] = draw(st.lists(known, min_size=rows, max_size=rows))
    return schema, pd.DataFrame(cells, dtype=object)


def exact_squares(rows):
    return [sum(Fraction(float(entry)) ** 2 for entry in row) for row in rows]


@given(schemas())
def test_what_is_written_is_read_back(schema):
    assert Schema.from_toml(schema.to_toml()) == schema


@given(schemas_with_rows())
def test_norms_are_between_the_public_bounds_exactly(schema_and_rows):
    schema, frame = schema_and_rows
    rows = schema.encode(frame)
    assert rows.shape == (len(frame), schema.num_features)
    for dtype in (np.float64, np.float32):
        for square in exact_squares(rows.astype(dtype)):
            assert Fraction(schema.min_norm) ** 2 <= square <= 1


@given(st.integers(1, 400))
@example(1)
@example(2)
@example(14)
def test_the_longest_row_is_not_longer_than_one(used):
    column = {"kind": "number", "range": [0, 1]}
    schema = Schema(target="y", classes=[0, 1], columns={f"c{i}": column for i in range(used)})
    longest = schema.encode(pd.DataFrame({name: [1] for name in schema.columns}))
    for dtype in (np.float64, np.float32):
        (square,) = exact_squares(longest.astype(dtype))
        assert 1 - 1e-6 < square <= 1


@pytest.mark.parametrize("numbers", range(4))
def test_the_least_norm_is_rounded_down(numbers):
    number = {"kind": "number", "range": [0, 1]}
    one_hot = {"kind": "category", "categories": ["a"]}
    columns = {f"n{i}": number for i in range(numbers)}
    for i in range(40):
        columns[f"c{i}"] = one_hot
        schema = Schema(target="y", classes=[0, 1], columns=columns)
        exact = (i + 2) * Fraction(schema.scale) ** 2
        assert exact * (1 - Fraction(1, 2**50)) < Fraction(schema.min_norm) ** 2 <= exact


@given(schemas_with_rows(), st.integers(0, 3))
def test_a_row_is_encoded_without_the_others(schema_and_rows, position):
    schema, frame = schema_and_rows
    position %= len(frame)
    alone = schema.encode(frame.iloc[[position]])
    assert (alone[0] == schema.encode(frame)[position]).all()


def test_encoding_by_hand():
    root = 1 / math.sqrt(3)
    assert SCHEMA.encode(ROWS) == pytest.approx(
        np.array([[0.5, 1, 0, 1], [1, 0, 1, 1]]) * root, rel=1e-6
    )
    assert SCHEMA.feature_names == ["age", "work=a", "work=b", "constant"]
    assert SCHEMA.num_features == 4
    assert SCHEMA.scale == pytest.approx(root, rel=1e-6)
    assert SCHEMA.min_norm == pytest.approx(math.sqrt(2 / 3), rel=1e-6)


def test_unknown_values_lower_the_least_norm():
    loose = Schema.from_toml(TOML.replace('["a", "b"]', '["a", "b"]\nallow_unknown = true'))
    assert loose.min_norm == loose.scale < SCHEMA.min_norm


def test_target_ids_follow_the_classes():
    assert SCHEMA.encode_target(ROWS).tolist() == [1, 0]
    numbered = Schema(target="y", classes=[1, 0], columns=SCHEMA.columns)
    for cells in (["0", "1"], [0, 1], [0.0, 1.0]):
        assert numbered.encode_target(pd.DataFrame({"y": cells})).tolist() == [1, 0]


def test_more_columns_and_ignored_ones_may_be_there_or_not():
    more = ROWS.assign(id=[None, "x"], other=1)
    assert (SCHEMA.encode(more) == SCHEMA.encode(ROWS)).all()
    assert (SCHEMA.encode(ROWS.drop(columns="y")) == SCHEMA.encode(ROWS)).all()


def twice(frame):
    return pd.concat([frame, frame[["age"]]], axis=1)


BAD_ROWS = {
    "missing columns": (lambda f: f.drop(columns=["age", "work"]), r"missing.*\['age', 'work'\]"),
    "missing column": (lambda f: f.rename(columns={"age": "Age"}), r"has \['Age'.*\['age'\]"),
    "same name": (twice, "share a name"),
    "no rows": (lambda f: f.iloc[:0], "no rows"),
    "array": (lambda f: f.to_numpy(), "DataFrame"),
    "text": (lambda f: f.assign(age=["1", "old"]), "'age', row 2.*'old'"),
    "nan": (lambda f: f.assign(age=[math.nan, 1]), "'age', row 1: an empty cell"),
    "infinite": (lambda f: f.assign(age=[1, math.inf]), "'age', row 2.*inf"),
    "empty": (lambda f: f.assign(age=["1", ""]), "'age', row 2: an empty cell"),
    "category": (lambda f: f.assign(work=["a", "c"]), "'work', row 2.*'c'"),
    "empty category": (lambda f: f.assign(work=[None, "a"]), "'work', row 1: an empty cell"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows(case):
    change, words = BAD_ROWS[case]
    with pytest.raises(InvalidData, match=words):
        SCHEMA.encode(change(ROWS))


def test_rows_are_counted_by_position():
    with pytest.raises(InvalidData, match="row 1"):
        SCHEMA.encode(ROWS.assign(work=["a", "c"]).iloc[[1]])


BAD_TARGETS = {
    "missing": (lambda f: f.drop(columns="y"), r"missing.*\['y'\]"),
    "unknown": (lambda f: f.assign(y=["no", "maybe"]), "'y', row 2.*'no', 'yes'.*'maybe'"),
    "empty": (lambda f: f.assign(y=["no", None]), "'y', row 2"),
    "one class": (lambda f: f.assign(y="no"), "all 2 rows have the same label.*'no'"),
    "no rows": (lambda f: f.iloc[:0], "no rows"),
}


@pytest.mark.parametrize("case", BAD_TARGETS)
def test_bad_targets(case):
    change, words = BAD_TARGETS[case]
    with pytest.raises(InvalidData, match=words):
        SCHEMA.encode_target(change(ROWS))


BAD_SCHEMAS = {
    "not TOML": ("target =", "Not valid TOML"),
    "no target": (TOML.replace('target = "y"', ""), "target: this key is required"),
    "no columns": ('target = "y"\nclasses = [0, 1]', "columns: this key is required"),
    "target a number": (TOML.replace('"y"', "1"), "target.*Received: 1"),
    "target a column": (TOML.replace('"y"', '"age"'), "target 'age' must not be among"),
    "no classes": (TOML.replace('classes = ["no", "yes"]', ""), "classes: this key is required"),
    "blank classes": (TOML.replace('["no", "yes"]', "[]"), r"classes are blank; write classes ="),
    "one class": (TOML.replace('["no", "yes"]', '["no"]'), r"two or more.*\['no'\]"),
    "same classes": (TOML.replace('["no", "yes"]', '["no", "no "]'), "two or more"),
    "blank range": (TOML.replace("[0, 100]", "[]"), "columns.age: its range is blank; write"),
    "bad range": (TOML.replace("[0, 100]", "[100, 0]"), r"columns.age.*\[100.0, 0.0\]"),
    "text range": (TOML.replace("[0, 100]", '[0, "b"]'), "columns.age.range.1.*'b'"),
    "blank categories": (
        TOML.replace('["a", "b"]', "[]"),
        "columns.work: its categories are blank; write",
    ),
    "unknown kind": (TOML.replace('"ignore"', '"igonre"'), "columns.id.*'igonre'.*'category'"),
    "unknown key": (TOML + "rnage = 1", "columns.id.rnage: there is no such key.*kind"),
    "near key": (
        TOML.replace("range", "rnage"),
        "columns.age.rnage.*did you mean 'range'",
    ),
    "all ignored": (
        'target = "y"\nclasses = [0, 1]\n[columns.a]\nkind = "ignore"',
        "every column is ignored",
    ),
}


@pytest.mark.parametrize("case", BAD_SCHEMAS)
def test_bad_schemas(case):
    text, words = BAD_SCHEMAS[case]
    with pytest.raises(InvalidConfig, match=words):
        Schema.from_toml(text)


def test_several_blank_keys_are_told_at_once():
    blank = TOML.replace('["no", "yes"]', "[]").replace("[0, 100]", "[]")
    with pytest.raises(InvalidConfig, match=r"classes: .* blank.*columns\.age: .* blank"):
        Schema.from_toml(blank)
    with pytest.raises(InvalidData, match=r"missing.*\['y', 'age', 'work'\]"):
        SCHEMA.encode_target(pd.DataFrame({"other": [1]}))


def test_schema_files(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(TOML)
    assert load_schema(path) == SCHEMA
    assert load_schema(path) != Schema.from_toml(TOML.replace("100", "99"))
    path.write_text(TOML.replace("[0, 100]", "[]"))
    with pytest.raises(InvalidConfig, match=f"Schema {path}: columns.age: its range is blank"):
        load_schema(path)
    with pytest.raises(InvalidConfig, match="cannot be read"):
        load_schema(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("age,work,y\n1,a,no\nold,b,yes\n", "Column 'age', row 2"),
        ("age,work,y\n1,a,no\n2,c,yes\n", "Column 'work', row 2"),
        ("age,y\n1,no\n2,yes\n", "missing"),
        ("age,work,y\n1,a,no\n2,b,maybe\n", "Target 'y', row 2"),
        ("age,work,y\n1,a,no\n2,b,no\n", "the same label"),
    ],
)
def test_rows_that_do_not_fit_name_both_files(tmp_path, rows, words):
    (tmp_path / "s.toml").write_text(TOML)
    (tmp_path / "t.csv").write_text(rows)
    schema, frame = load_schema(tmp_path / "s.toml"), read_table(tmp_path / "t.csv")
    files = f"{tmp_path / 't.csv'} (schema {tmp_path / 's.toml'}): "
    with pytest.raises(InvalidData, match=re.escape(files) + f".*{words}"):
        (schema.encode(frame), schema.encode_target(frame.head(2)))


@pytest.fixture(scope="module")
def adult():
    return DATASETS["adult"]


def test_adult_is_encoded(adult):
    schema = load_schema(adult.schema_path)
    frame = adult.load()
    rows, labels = schema.encode(frame), schema.encode_target(frame)
    assert rows.shape == (32561, schema.num_features)
    assert np.isfinite(rows).all()
    assert (labels == 1).sum() == 7841
    norms = np.linalg.norm(rows, axis=1)
    assert schema.min_norm * (1 - 1e-12) <= norms.min()
    assert norms.max() <= 1
    one_hot = [c for c in schema.columns.values() if c.kind == "category"]
    assert sum(len(c.categories) for c in one_hot) == np.count_nonzero(
        ["=" in name for name in schema.feature_names]
    )
