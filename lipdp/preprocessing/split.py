"""Which rows train and which test."""

from __future__ import annotations

import hashlib

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


def limited(rows: int, limit: int, seed: int) -> np.ndarray:
    """The rows that stay when a run takes fewer: chosen at random, by a public seed.

    Every position has a public random number, and the smallest stay. The choice never looks at a
    row, and a row added at the end changes at most one of those that stay.

    Args:
        rows: Number of rows.
        limit: Most rows that stay.
        seed: Public seed, at least 0.

    Returns:
        Positions, increasing.
    """
    order = np.argsort(np.random.default_rng([seed, 1]).random(rows), kind="stable")
    return np.sort(order[:limit])


def group_split(
    groups: np.ndarray, test_fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Splits rows such that all rows of a group are on one side.

    A group tests if a hash of the seed and its own name falls below the fraction, so a group that
    is added or removed moves no other.

    Args:
        groups: Name of the group of each row, shape (n,); compared as text.
        test_fraction: Probability that a group tests, in (0, 1).
        seed: Public seed, at least 0.

    Returns:
        Positions of the training rows and of the test rows, each increasing.

    Raises:
        InvalidValue: If the fraction or the seed is outside its domain.
        InvalidData: If one side has no rows.
    """
    _check_numbers(test_fraction, seed)
    tests = np.array([_hashed(seed, str(name)) < test_fraction for name in groups], dtype=bool)
    if tests.all() or not tests.any():
        raise InvalidData(
            "All groups fall on one side of the split",
            received=len(set(map(str, groups))),
            fix="Use another split_seed or test_fraction, or more groups",
        )
    return np.flatnonzero(~tests), np.flatnonzero(tests)


def _hashed(seed: int, name: str) -> float:
    digest = hashlib.blake2b(f"{seed}\0{name}".encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big") / 2.0**56


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
    _check_numbers(test_fraction, seed)


def _check_numbers(test_fraction: float, seed: int) -> None:
    if not 0 < test_fraction < 1:
        raise InvalidValue(
            "The test fraction must lie between 0 and 1", received=test_fraction, fix="Use 0.2"
        )
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidValue("The seed must be a whole number from 0", received=seed, fix="Use 0")
