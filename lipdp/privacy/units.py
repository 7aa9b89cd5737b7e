"""Who is one unit: the users that rows belong to, told apart by their ids themselves."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from lipdp.errors import InvalidData

_MISSING, _CUT = "missing id", "cut id"
_KINDS = (int, float, str, bytes)
#: The plain value of an id of each kind: subclasses may define equality anew.
_PLAIN: Mapping[type, Callable[[Any], Any]] = MappingProxyType(
    {int: operator.index, str: str.__str__, bytes: lambda value: bytes(memoryview(value))}
)
_NOT_ROWS = (str, bytes, bytearray, dict, set, frozenset)


def number_units(groups: Any, rows: int | None = None) -> np.ndarray:
    """The number of the unit that each row belongs to, by the exact ids.

    Ids are of one kind: all whole numbers (Python's or NumPy's, of any size, in any mixture), all
    text, all bytes, or the categories of one pandas categorical, which are of one of these kinds.
    Whole numbers written as floats count as whole numbers where the float can hold no rounded one:
    below 2^53 in float64. Nothing is converted on the way, so no two ids become one.

    A NumPy array of text or bytes has one width, and drops what NULs an id ends with: ids that are
    shorter than the width may have been two, and are refused, as are NumPy's scalars of text, which
    no longer tell the width. Lists, arrays of objects and pandas columns hold text as it is.

    Guarantees:
        * Two rows have one number exactly if their ids are equal as whole numbers, texts or bytes
          (``test_units.py::test_as_many_units_as_distinct_ids``).
        * No error shows an id (``test_units.py::test_no_error_shows_an_id``).

    Args:
        groups: The id of each row, shape (n,).
        rows: Number of rows n, if it is known from elsewhere.

    Returns:
        Shape (n,), int64: 0, 1, .. in the order of the ids, or of the categories.

    Raises:
        InvalidData: If there is not one id a row, or they are of several kinds, of another kind
            (booleans, fractions, dates), missing, or may have lost their last NULs.
    """
    values = _one_a_row(groups, rows)
    if isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        return _of_categories(values)
    return _numbered(values, "position")


def _one_a_row(groups: Any, rows: int | None) -> Any:
    is_list = hasattr(groups, "__len__") and not isinstance(groups, _NOT_ROWS)
    shape = getattr(groups, "shape", None)
    shape = tuple(shape) if shape is not None else (len(groups),) if is_list else ()
    if len(shape) != 1 or (rows is not None and shape != (rows,)):
        raise InvalidData(
            "groups must have one value for each row",
            received=f"groups of shape {shape} ({type(groups).__name__})"
            + ("" if rows is None else f", and {rows} rows"),
            fix="Pass the user of each row, in the order of the rows",
        )
    return groups


def _of_categories(values: Any) -> np.ndarray:
    categorical = pd.Categorical(values)
    codes = np.asarray(categorical.codes)
    if (codes < 0).any():
        _refuse(_MISSING, "position", int(np.argmax(codes < 0)))
    # Categories that were made of several kinds, or of rounded numbers, may have lost some.
    _numbered(categorical.categories, "category")
    return _ranks(codes)


def _numbered(values: Any, word: str) -> np.ndarray:
    if isinstance(values, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        values = _of_pandas(values, word)
    elif not isinstance(values, np.ndarray | list | tuple):
        values = np.asarray(values) if hasattr(values, "__array__") else list(values)
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        _refuse(_MISSING, word, int(np.argmax(np.ma.getmaskarray(values))))
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return _ranks(_whole(np.asarray(values), word))
    if isinstance(values, np.ndarray) and values.dtype.kind in "US":
        _check_width(np.asarray(values), word)
    return _of_objects(values.tolist() if isinstance(values, np.ndarray) else values, word)


def _of_pandas(values: Any, word: str) -> Any:
    """A NumPy array of numbers of the column's own width, or the objects of the column."""
    if isinstance(values, pd.MultiIndex):
        return list(values)
    missing = np.asarray(pd.isna(values))
    if missing.any():
        _refuse(_MISSING, word, int(np.argmax(missing)))
    if getattr(values.dtype, "kind", "O") not in "iuf":
        return list(values)
    inside = getattr(values.dtype, "subtype", values.dtype)
    return values.to_numpy(dtype=getattr(inside, "numpy_dtype", inside))


def _ranks(numbers: np.ndarray) -> np.ndarray:
    return np.unique(numbers, return_inverse=True)[1].reshape(-1).astype(np.int64, copy=False)


def _whole(values: np.ndarray, word: str, *, digits: int | None = None) -> np.ndarray:
    """Floats that are whole numbers as int64; a float of 2^digits or more may be a rounded one."""
    if values.dtype.kind != "f":
        return values
    digits = min(53, _digits(values.dtype.type) if digits is None else digits)
    for bad, kind in (
        (np.isnan(values), _MISSING),
        (np.trunc(values) != values, "float with a fraction"),
        (~(np.abs(values) < 2.0**digits), f"float beyond 2^{digits}, which may have been rounded"),
    ):
        if bad.any():
            _refuse(kind, word, int(np.argmax(bad)))
    return values.astype(np.int64)


def _digits(kind: type) -> int:
    """Binary digits of a float, the leading one included."""
    return int(np.finfo(kind if issubclass(kind, np.floating) else float).nmant) + 1


def _check_width(values: np.ndarray, word: str) -> None:
    full = np.char.str_len(values) * (4 if values.dtype.kind == "U" else 1) == values.dtype.itemsize
    if not full.all():
        _refuse_cut(word, int(np.argmin(full)))


def _of_objects(values: Iterable[Any], word: str) -> np.ndarray:
    objects = list(values)
    types = set(map(type, objects))
    kinds = set(map(_kind_of, types))
    if len(kinds) > 1 or not kinds <= set(_KINDS):
        _refuse_first(objects, word)
    if kinds == {float}:
        digits = min(map(_digits, types))
        return _ranks(_whole(np.asarray(objects), word, digits=digits))
    if types - set(_PLAIN):
        objects = list(map(_PLAIN[kinds.pop()], objects))
    rank = {key: number for number, key in enumerate(sorted(set(objects)))}
    return np.fromiter(map(rank.__getitem__, objects), np.int64, len(objects))


def _kind_of(kind: type) -> type:
    """The kind of id that values of a type are; the type itself if they are none."""
    if issubclass(kind, bool | np.timedelta64 | np.str_ | np.bytes_):
        return kind
    if issubclass(kind, int | np.integer):
        return int
    if issubclass(kind, float | np.floating):
        return float
    return next((family for family in (str, bytes) if issubclass(kind, family)), kind)


def _refuse_first(objects: list[Any], word: str) -> NoReturn:
    """Names the first id that is missing, of no kind, or of another kind than the first."""
    first = _kind_of(type(objects[0]))
    faults = ((position, _fault(value, first)) for position, value in enumerate(objects))
    position, fault = next((position, fault) for position, fault in faults if fault)
    if fault == _CUT:
        _refuse_cut(word, position)
    _refuse(fault, word, position)


def _fault(value: Any, first: type) -> str:
    kind = _kind_of(type(value))
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return _MISSING
    if kind in (np.str_, np.bytes_):
        return _CUT
    if kind not in _KINDS:
        # NumPy 1 has a bool_.
        return kind.__name__.rstrip("_")
    return "" if kind is first else f"{kind.__name__} after {first.__name__}"


def _refuse(kind: str, word: str, position: int) -> NoReturn:
    raise InvalidData(
        "groups must name each row's user by ids of one kind: whole numbers, text or bytes,"
        " without gaps",
        received=f"{kind} at {word} {position}",
        fix="Name every user by a text, or every one by a whole number",
    )


def _refuse_cut(word: str, position: int) -> NoReturn:
    raise InvalidData(
        "NumPy's text and bytes of one width may have lost NULs at the end of an id, so that two"
        " users would be one",
        received=f"id shorter than the width at {word} {position}",
        fix="Pass a list, an array of dtype object or a pandas column made of the ids themselves;"
        " groups.tolist() if no id ends in a NUL",
    )
