import gzip

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipdp.datasets import read_table
from lipdp.errors import InvalidData

GOOD = b"a,b\n1,x\n2,y\n"


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


def has_parquet():
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


needs_parquet = pytest.mark.skipif(not has_parquet(), reason="pyarrow does not load here")

BAD = {
    "empty": ("t.csv", b"", "empty"),
    "blank lines": ("t.csv", b"\n\n\n", "empty"),
    "header only": ("t.csv", b"a,b\n", "no rows"),
    "one column": ("t.csv", b"a\n1\n", "fewer than two"),
    "semicolons": ("t.csv", b"a;b\n1;2\n", "fewer than two"),
    "same name": ("t.csv", b"a,b,a\n1,2,3\n", "'a'"),
    "same name but for spaces": ("t.csv", b"a, a\n1,2\n", "'a'"),
    "no name": ("t.csv", b",b\n1,2\n", "no name"),
    "long row": ("t.csv", b"a,b\n1,2\n1,2,3\n", "row 2 has 3 cells"),
    "short row": ("t.csv", b"a,b\n1\n", "row 1 has 1 cells"),
    "open quote": ("t.csv", b'a,b\n1,"2\n', "not a readable table"),
    "not text": ("t.csv", b"\x89PNG\xff\xfe", "not a readable table"),
    "latin-1": ("t.csv", "a,b\n1,é\n".encode("latin-1"), "not a readable table"),
    "not gzip": ("t.csv.gz", GOOD, "not a readable table"),
    "gzip cut off": ("t.csv.gz", gzip.compress(GOOD)[:-9], "not a readable table"),
    "gzip damaged": ("t.csv.gz", gzip.compress(GOOD)[:12] + b"zzzzzzzzz", "not a readable table"),
    "empty gzip file": ("t.csv.gz", b"", "empty"),
    "gzip of nothing": ("t.csv.gz", gzip.compress(b""), "empty"),
    "suffix": ("t.xlsx", GOOD, "suffix"),
    "no suffix": ("t", GOOD, "suffix"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(tmp_path, case):
    name, content, words = BAD[case]
    with pytest.raises(InvalidData, match=words):
        read_table(write(tmp_path, name, content))


@needs_parquet
def test_a_file_that_is_no_parquet(tmp_path):
    for content in (b"", GOOD, b"PAR1" + bytes(40) + b"PAR1"):
        with pytest.raises(InvalidData, match="not a readable table"):
            read_table(write(tmp_path, "t.parquet", content))


def test_parquet_without_its_reader_is_one_clear_error(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise ImportError("no pyarrow")

    monkeypatch.setattr(pd, "read_parquet", fail)
    with pytest.raises(InvalidData, match="no pyarrow"):
        read_table(write(tmp_path, "t.parquet", b""))


def test_missing_file_and_folder(tmp_path):
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(InvalidData, match="no such file"):
            read_table(path)


def test_cells_stay_text_without_spaces(tmp_path):
    path = write(tmp_path, "T.CSV", b"\xef\xbb\xbfa, b \n 007 ,NA\nNone, ?\n,nan\n\n")
    frame = read_table(path)
    assert list(frame.columns) == ["a", "b"]
    assert frame.to_numpy().tolist() == [["007", "NA"], ["None", "?"], ["", "nan"]]


def test_quotes_commas_and_line_ends(tmp_path):
    path = write(tmp_path, "t.csv", b'a,b\r\n"x, y", "say ""hi"""\r\n1,2\r\n')
    assert read_table(path).to_numpy().tolist() == [["x, y", 'say "hi"'], ["1", "2"]]


CELL = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=5)


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=5))
def test_csv_round_trip(tmp_path_factory, rows):
    frame = pd.DataFrame(rows, columns=["a", "b"], dtype=object)
    path = tmp_path_factory.mktemp("table") / "t.csv.gz"
    frame.to_csv(path, index=False)
    pd.testing.assert_frame_equal(read_table(path), frame)


@needs_parquet
def test_parquet_keeps_types_and_drops_the_index(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [1.5, 2.0], " b": ["x", "y"]}, index=[7, 9]).to_parquet(path)
    frame = read_table(str(path))
    assert list(frame.columns) == ["a", "b"]
    assert frame["a"].tolist() == [1.5, 2.0]
    assert frame.index.tolist() == [0, 1]


@needs_parquet
@given(position=st.integers(0, 10**6), byte=st.integers(0, 255), cut=st.booleans())
def test_damaged_parquet_is_read_or_refused(tmp_path_factory, position, byte, cut):
    path = tmp_path_factory.mktemp("table") / "t.parquet"
    pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}).to_parquet(path)
    content = bytearray(path.read_bytes())
    position %= len(content)
    content[position] = byte
    path.write_bytes(content[:position] if cut else content)
    try:
        assert len(read_table(path).columns) >= 2
    except InvalidData as error:
        assert str(path) in str(error) or "columns" in str(error).lower()


@needs_parquet
def test_parquet_tables_are_checked_too(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [], "b": []}).to_parquet(path)
    with pytest.raises(InvalidData, match="no rows"):
        read_table(path)
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(InvalidData, match="fewer than two"):
        read_table(path)
