"""Which rows train and which test."""

from __future__ import annotations

import numpy as np

from lipdp.errors import InvalidData, InvalidValue


def train_test_split(
    labels: np.ndarray, test_fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Splits rows at random within each class, by a public seed.

    Every row has a public random number, fixed by the seed and its position; in each class the
    rows of the smallest numbers test. The split never looks at features. It is a fixed function of
    the seed, the positions and the labels, so a guarantee for the training is one for the training
    rows, the split given; a row added at the end changes at most two of them.

    Args:
        labels: Class ids, shape (n,).
        test_fraction: Part of each class that tests, in (0, 1), rounded to whole rows; at least one
            row of each class is on each side.
        seed: Public seed, at least 0.

    Returns:
        Positions of the training rows and of the test rows, each increasing.

    Raises:
        InvalidValue: If the fraction or the seed is outside its domain.
        InvalidData: If the labels are not class ids, or a class has a single row.
    """
    labels = np.asarray(labels)
    _check(labels, test_fraction, seed)
    order = np.argsort(np.random.default_rng(seed).random(len(labels)), kind="stable")
    tests = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = order[labels[order] == label]
        tests[members[: _test_rows(len(members), test_fraction, label)]] = True
    return np.flatnonzero(~tests), np.flatnonzero(tests)


def _test_rows(rows: int, test_fraction: float, label: object) -> int:
    if rows < 2:
        raise InvalidData(
            f"Class {label} has a single row, which cannot be on both sides of the split",
            received=rows,
            fix="Give more rows of this class, or drop it",
        )
    return min(max(round(test_fraction * rows), 1), rows - 1)


def _check(labels: np.ndarray, test_fraction: float, seed: int) -> None:
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer) or not labels.size:
        raise InvalidData(
            "Labels must be class ids, one a row",
            received=(labels.dtype.name, labels.shape),
            fix="Use Schema.encode_target",
        )
    if not 0 < test_fraction < 1:
        raise InvalidValue(
            "The test fraction must lie between 0 and 1", received=test_fraction, fix="Use 0.2"
        )
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidValue("The seed must be a whole number from 0", received=seed, fix="Use 0")
