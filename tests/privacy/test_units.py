"""Who is one unit: exact ids of one kind, and nothing that may have merged two."""

import datetime
import decimal
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lipdp.errors import InvalidData
from lipdp.privacy.units import number_units
from lipdp.statistics.mechanism import private_mean_and_scale, private_mean_and_whitening

BIG = st.one_of(
    st.integers(0, 3),
    st.integers(-(2**65), 2**65),
    st.builds(lambda power, shift: 2**power + shift, st.sampled_from([53, 62, 63, 64, 70]),
              st.integers(-2, 2)),
)  # fmt: skip
TEXTS = st.text(alphabet="a1\0 \ud800é", max_size=3)
ASTRAL = "\U0001f600"


def partition(numbers):
    """The rows of each unit."""
    found = {}
    for row, number in enumerate(numbers):
        found.setdefault(int(number), []).append(row)
    return sorted(found.values())


def by_comparison(ids):
    """The same from comparing every id with every other, which hashes and sorts nothing."""
    return sorted({tuple(j for j, b in enumerate(ids) if a == b) for a in ids})


def check(groups, ids):
    numbers = number_units(groups, len(ids))
    assert numbers.dtype == np.int64 and numbers.shape == (len(ids),)
    assert sorted(set(numbers.tolist())) == list(range(len(by_comparison(ids))))
    assert [tuple(rows) for rows in partition(numbers)] == by_comparison(ids)


@settings(deadline=None, max_examples=150)
@given(
    st.one_of(
        st.lists(BIG, max_size=9),
        st.lists(TEXTS, max_size=9),
        st.lists(TEXTS.map(lambda text: text.encode("utf-16", "surrogatepass")), max_size=9),
    )
)
@example([2**63 + 1, 2**63 + 2, 11, 12, 13, 14])
@example([2**53, 2**53 + 1, 7])
@example([2**64, -(2**64), 2**64 + 1])
@example(["a", "a\0", "a\0\0", ""])
@example([b"a", b"a\0", b""])
def test_as_many_units_as_distinct_ids(ids):
    objects = np.empty(len(ids), dtype=object)
    objects[:] = ids
    for groups in (ids, tuple(ids), objects, pd.Series(ids, dtype=object)):
        check(groups, ids)
    # pandas makes no categories of half characters.
    if ids and "\ud800" not in "".join(map(str, ids)):
        check(pd.Series(ids, dtype=object).astype("category"), ids)
        check(pd.Categorical(ids, categories=sorted(set(ids), reverse=True)), ids)


@pytest.mark.parametrize(
    "groups",
    [
        [np.int64(2**62 + 1), np.uint64(2**62), np.uint64(2**62 + 1), 2**62 - 1, np.int8(5)],
        [np.uint64(2**64 - 1), np.int64(-1), -1, 2**64 - 1],
        np.array([2**63 + 1, 2**63 + 2, 11, 2**63 + 1], dtype=np.uint64),
        np.array([2**62, 2**62 + 1, 2**62], dtype=np.int64),
        np.array([3, 1, 3, 255], dtype=np.uint8),
        pd.Series([2**62, 2**62 + 1, 5], dtype="Int64"),
        pd.Series([2**63 + 1, 2**63 + 2, 5], dtype="UInt64"),
        pd.Index([2**62, 2**62 + 1, 5, 5]),
        pd.RangeIndex(4),
        pd.Series([5, 7, 5], index=[9, 9, 1]),
        pd.arrays.SparseArray([0, 4, 0, 5]),
        np.ma.MaskedArray([2, 1, 2]),
        pd.Series(["a", "a\0", "a"]),
        pd.Series(["b", "a\0", "b", "a"], dtype="string"),
        pd.Index(["a", "b", "a"]),
        np.array(["bob", "eve", "bob"]),
        np.array([b"bob", b"eve", b"bob"]),
        np.array([ASTRAL, "b", ASTRAL]),
        ["", "a", ""],
        [],
        np.zeros(0),
    ],
    ids=repr,
)  # fmt: skip
def test_every_container_of_one_kind(groups):
    check(groups, [one.item() if isinstance(one, np.generic) else one for one in groups])


def test_whole_floats_are_whole_numbers():
    floats = [2.0, -0.0, 0.0, 2.0**53 - 1, 2.0**53 - 2, -5.0]
    for groups in (floats, np.array(floats), pd.Series(floats), pd.Series(floats, dtype="Float64"),
                   pd.Categorical(floats), [np.float64(f) for f in floats]):  # fmt: skip
        check(groups, [int(f) for f in floats])
    assert len(set(number_units(np.array([1, 2, 2047], dtype="float16"), 3))) == 3


def test_units_are_numbered_in_the_order_of_their_ids():
    assert number_units([30, 10, 20, 10]).tolist() == [2, 0, 1, 0]
    assert number_units(np.array([30, 10, 20, 10])).tolist() == [2, 0, 1, 0]
    assert number_units(["c", "a", "b"]).tolist() == [2, 0, 1]
    assert number_units(pd.Categorical(["c", "a"], categories=["c", "b", "a"])).tolist() == [0, 1]


def test_an_id_with_an_equality_of_its_own_counts_by_its_value():
    class Loose(str):
        __slots__ = ()

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

    class Count(int):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

    check([Loose("a"), Loose("b"), "a"], ["a", "b", "a"])
    check([Count(1), Count(2), 1], [1, 2, 1])


SECRET = 271828
REFUSED = {
    "1 and '1'": ([SECRET, str(SECRET)], "str after int at position 1"),
    "text and bytes": (["a", "b", b"a"], "bytes after str at position 2"),
    "1 and True": ([1, 2, True], "bool at position 2"),
    "True": ([True, False], "bool at position 0"),
    "NumPy's True": (np.array([True, False]), "bool at position 0"),
    "nullable True": (pd.Series([True, False], dtype="boolean"), "bool at position 0"),
    "1 and 1.0": ([1, 2.0], "float after int at position 1"),
    "big and a fraction": ([2**53, 2**53 + 1, 0.5, 7], "float after int at position 2"),
    "fractions": ([1.0, 0.5], "float with a fraction at position 1"),
    "array of fractions": (np.array([3.0, 0.25]), "float with a fraction at position 1"),
    "2^53": ([5.0, 2.0**53], r"float beyond 2\^53, which may have been rounded at position 1"),
    "merged by NumPy": (np.array([2**63 + 1, 0.0]), r"float beyond 2\^53"),
    "float32 at 2^24": (np.array([1.0, 2.0**24], dtype="float32"), r"float beyond 2\^24"),
    "list of float32": ([np.float32(1.0), np.float32(2.0**24)], r"float beyond 2\^24"),
    "long fraction": (np.array([5, 5 + np.longdouble(2) ** -58]), "fraction at position 1"),
    "infinite": (np.array([1.0, math.inf]), r"float beyond 2\^53"),
    "None": (["a", None], "missing id at position 1"),
    "NaN in a list": ([1, 2, math.nan], "missing id at position 2"),
    "NaN after text": (["a", math.nan], "missing id at position 1"),
    "NaN": (np.array([0.0, math.nan]), "missing id at position 1"),
    "NA": (pd.Series([1, None], dtype="Int64"), "missing id at position 1"),
    "NA in a list": ([pd.NA, 1], "missing id at position 0"),
    "no text": (pd.Series(["a", None, "b"]), "missing id at position 1"),
    "NaT": ([pd.NaT, pd.NaT], "missing id at position 0"),
    "NumPy's NaT": (np.array(["NaT", "2020-01-01"], "datetime64[s]"), "at position 0"),
    "no category": (pd.Categorical(["a", None]), "missing id at position 1"),
    "masked": (np.ma.MaskedArray([1, 2], mask=[False, True]), "missing id at position 1"),
    "dates": (pd.to_datetime(pd.Series(["2020-01-01"] * 2)), "Timestamp at position 0"),
    "times": (np.array([1, 2], "timedelta64[s]"), "timedelta"),
    "timedelta scalars": ([np.timedelta64(1, "s"), 1], "timedelta64 at position 0"),
    "date": ([datetime.date(2020, 1, 1)], "date at position 0"),
    "decimals": ([decimal.Decimal(1)], "Decimal at position 0"),
    "complex": (np.array([1j]), "complex at position 0"),
    "tuples": ([(1, 2), (3, 4)], "tuple at position 0"),
    "lists": ([[1, 2], [3, 4]], "list at position 0"),
    "pairs": (pd.MultiIndex.from_tuples([(1, 2)]), "tuple at position 0"),
    "cut text": (np.array(["a", "a\0"]), "shorter than the width at position 0"),
    "cut bytes": (np.array([b"a", b"a\0"]), "shorter than the width at position 0"),
    "cut among longer": (np.array(["new", "new\0", "others"]), "width at position 0"),
    "cut scalars": (list(np.array(["a", "a\0"])), "width at position 0"),
    "cut scalars of bytes": (["a", np.bytes_(b"a")], "width at position 1"),
    "categories of two kinds": (pd.Categorical([1, "1", True]), "str after int at category 1"),
    "rounded categories": (pd.Categorical([2**53, 2**53 + 1, 0.5]), "at category"),
    "bool categories": (pd.Categorical([True, False]), "bool at category 0"),
    "one text": ("ab", r"\(str\)"),
    "a set": ({1, 2}, r"\(set\)"),
    "a generator": ((i for i in range(2)), r"\(generator\)"),
    "a number": (3, r"\(int\)"),
    "a matrix": (np.zeros((2, 2), int), r"\(2, 2\)"),
    "a table": (pd.DataFrame({"a": [1, 2]}), r"\(2, 1\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_have_merged_two_ids_is_refused(name):
    groups, words = REFUSED[name]
    with pytest.raises(InvalidData, match=words):
        number_units(groups)


@pytest.mark.parametrize("find", [private_mean_and_scale, private_mean_and_whitening])
@pytest.mark.parametrize("name", ["1 and '1'", "cut text", "NaN", "True", "fractions"])
def test_statistics_refuse_the_same(find, name):
    groups, words = REFUSED[name]
    with pytest.raises(InvalidData, match=words):
        find(np.ones((len(groups), 2)), radius=1.0, noise_multiplier=1.0, groups=groups)


def test_another_number_of_rows_is_refused():
    with pytest.raises(InvalidData, match=r"\(2,\).*3 rows"):
        number_units([1, 2], 3)


SECRETS = ["mallory", 314159265, b"mallory", 2.5, None, True, np.str_("mallory")]


@settings(deadline=None)
@given(st.lists(st.sampled_from(SECRETS), min_size=1, max_size=4))
def test_no_error_shows_an_id(groups):
    kinds = (groups, np.array(groups, dtype=object), pd.Series(groups, dtype=object), groups[0])
    for values in kinds:
        try:
            number_units(values, 4)
        except InvalidData as error:
            text = repr(error)
            assert not any(str(secret) in text for secret in ("mallory", 314159265, "2.5"))
