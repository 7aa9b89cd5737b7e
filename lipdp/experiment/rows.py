"""The rows of a run: loaded, encoded by public facts, split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from lipdp.config.run import DataSection, RunConfig
from lipdp.datasets import DATASETS, read_table
from lipdp.errors import InvalidConfig, InvalidData
from lipdp.preprocessing import Schema, group_split, load_schema, train_test_split
from lipdp.training.units import grouped_rows


@dataclass(frozen=True)
class Rows:
    """Encoded training and held-out rows.

    Attributes:
        schema: The public facts that encode a row.
        x_train: Shape (n, d), each row of Euclidean norm at most 1.
        y_train: Class ids, shape (n,).
        x_test: Held-out rows.
        y_test: Their class ids.
        groups: The user of each training row, or None where a row is the unit of privacy.
    """

    schema: Schema
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    groups: np.ndarray | None = None

    @property
    def num_units(self) -> int:
        """Training rows, or users of them."""
        return len(self.x_train) if self.groups is None else len(set(self.groups.tolist()))

    @property
    def num_outputs(self) -> int:
        """Number of logits: one for two classes."""
        return 1 if len(self.schema.classes) == 2 else len(self.schema.classes)


def prepare_rows(config: RunConfig) -> Rows:
    """Loads, encodes and splits the rows of a run.

    Raises:
        InvalidData: If the table does not fit its schema, or has fewer training rows than a batch.
        InvalidConfig: If the schema is blank somewhere or names another target.
    """
    frame, schema = load_source(config.data)
    labels = schema.encode_target(frame)
    features = schema.encode(frame).astype(config.training.dtype)
    names = _groups(frame, schema, config.data)
    train, test = _split(labels, names, config)
    groups = None if names is None else names[train]
    rows = Rows(schema, features[train], labels[train], features[test], labels[test], groups)
    _check_size(rows, config.training.batch_size)
    return rows


def _groups(frame: pd.DataFrame, schema: Schema, data: DataSection) -> np.ndarray | None:
    if data.group is None:
        return None
    if data.group not in frame.columns:
        raise InvalidData(
            "The table has no such column of users", received=data.group, fix="Correct data.group"
        )
    column = schema.columns.get(data.group)
    if data.group == schema.target or (column is not None and column.kind != "ignore"):
        raise InvalidConfig(
            "The column of users is a feature or the target in the schema",
            received=data.group,
            fix='Set its kind to "ignore" there',
        )
    if frame[data.group].isna().any():
        raise InvalidData("The column of users has gaps", received=data.group)
    return frame[data.group].astype(str).to_numpy()


def _split(
    labels: np.ndarray, names: np.ndarray | None, config: RunConfig
) -> tuple[np.ndarray, np.ndarray]:
    """Of a user too many training rows are left out, for good, before anything reads them."""
    data = config.data
    if names is None or data.max_examples_per_user is None:
        return train_test_split(labels, data.test_fraction, data.split_seed)
    train, test = group_split(names, data.test_fraction, data.split_seed)
    units = grouped_rows(names[train], data.max_examples_per_user, config.privacy.seed)
    return np.sort(train[units.rows_of(np.arange(len(units)))[0]]), test


def _check_size(rows: Rows, batch_size: int) -> None:
    if rows.num_units < batch_size:
        what = "training rows" if rows.groups is None else "users"
        raise InvalidData(
            f"The expected batch of {batch_size} is larger than the {rows.num_units} {what}",
            received=len(rows.x_train),
            fix="Lower it, as in --set training.batch_size=" + str(max(1, rows.num_units // 8)),
        )


def load_source(data: DataSection) -> tuple[pd.DataFrame, Schema]:
    """The table and the schema that a configuration names."""
    if data.name is not None:
        dataset = DATASETS[data.name]
        frame, schema = dataset.load(), Schema.from_toml(dataset.schema())
    else:
        frame, schema = _load_file(data)
    _check_target(data, schema)
    return (frame if data.limit_rows is None else frame.head(data.limit_rows)), schema


def _load_file(data: DataSection) -> tuple[pd.DataFrame, Schema]:
    if data.schema_path is None:
        raise InvalidConfig(
            "data.path needs data.schema_path: private rows must not choose their own ranges",
            received=data.path,
            fix=f"Write one with: lipdp schema {data.path} --target NAME > my.toml",
        )
    return read_table(Path(str(data.path))), load_schema(Path(data.schema_path))


def _check_target(data: DataSection, schema: Schema) -> None:
    if data.target is not None and data.target != schema.target:
        raise InvalidConfig(
            f"The schema's target is {schema.target!r}",
            received=data.target,
            fix="Make --target and the schema agree",
        )
