"""The rows of a run: loaded, encoded by public facts, split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from lipdp.config.run import DataSection, RunConfig
from lipdp.datasets import DATASETS, read_table
from lipdp.errors import InvalidConfig, InvalidData
from lipdp.preprocessing import Schema, load_schema, train_test_split


@dataclass(frozen=True)
class Rows:
    """Encoded training and held-out rows.

    Attributes:
        schema: The public facts that encode a row.
        x_train: Shape (n, d), each row of Euclidean norm at most 1.
        y_train: Class ids, shape (n,).
        x_test: Held-out rows.
        y_test: Their class ids.
    """

    schema: Schema
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

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
    train, test = train_test_split(labels, config.data.test_fraction, config.data.split_seed)
    if len(train) < config.training.batch_size:
        raise InvalidData(
            f"The expected batch of {config.training.batch_size} rows is larger than the "
            f"{len(train)} training rows",
            received=len(frame),
            fix="Lower it, as in --set training.batch_size=" + str(max(1, len(train) // 8)),
        )
    return Rows(schema, features[train], labels[train], features[test], labels[test])


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
