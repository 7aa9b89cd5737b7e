"""From the labels of arrays to class ids."""

from __future__ import annotations

import numpy as np

from lipdp.errors import InvalidData
from lipdp.preprocessing.values import as_text


def class_ids(labels: np.ndarray, classes: tuple[str, ...]) -> np.ndarray:
    """The class id of each label.

    A label that is text, or a number where all classes are whole numbers, is compared with the
    classes as text; any other number is itself the id, 0 .. number of classes - 1.

    Args:
        labels: Shape (n,) or (n, 1).
        classes: The values of the classes, or their names.

    Returns:
        Shape (n,), int64.

    Raises:
        InvalidData: If a label is none of these; the message gives the row (the first is 1).
    """
    values = np.asarray(labels)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "biufUS" or not len(values):
        raise InvalidData(
            "Labels must be one number or text a row",
            received=f"shape {values.shape}, dtype {values.dtype}",
            fix="Give class ids, shape (n,)",
        )
    texts, where = _distinct(values)
    by_text = values.dtype.kind in "US" or all(c.lstrip("-").isdigit() for c in classes)
    known = classes if by_text else tuple(map(str, range(len(classes))))
    ids = np.array([known.index(t) if t in known else -1 for t in texts], dtype=np.int64)[where]
    if (ids < 0).any():
        raise _unknown(values, int(np.argmax(ids < 0)), classes, by_text)
    return ids


def require_two_classes(ids: np.ndarray, classes: tuple[str, ...]) -> None:
    """Refuses rows that all have one label.

    Raises:
        InvalidData: If they do.
    """
    if (ids == ids[0]).all():
        raise InvalidData(
            f"All {len(ids)} rows have the same label",
            received=classes[ids[0]],
            fix="Give rows of at least two classes",
        )


def _distinct(values: np.ndarray) -> tuple[list[str], np.ndarray]:
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind == "b":
        values = values.astype(np.uint8)
    distinct, where = np.unique(values, return_inverse=True)
    return [as_text(value.item()) for value in distinct], where.reshape(-1)


def _unknown(values: np.ndarray, row: int, classes: tuple[str, ...], by_text: bool) -> InvalidData:
    named = [repr(c) if by_text else f"{i} ({c!r})" for i, c in enumerate(classes)]
    shown = named if len(named) <= 12 else [*named[:3], "...", named[-1]]
    value = values[row].item()
    return InvalidData(
        f"Label of row {row + 1}: it is none of the classes {', '.join(shown)}",
        received=value.decode("utf-8", "replace") if isinstance(value, bytes) else value,
        fix="Correct it, drop the row, or correct the classes of the schema",
    )
