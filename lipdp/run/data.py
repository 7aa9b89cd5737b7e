"""The rows of a run and the public facts that encode them: loaded, encoded, split."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

from lipdp.config.run import DataSection, RunConfig
from lipdp.datasets import (
    DATASETS,
    ArrayDataset,
    Download,
    Samples,
    TableDataset,
    check_suffix,
    is_table,
    read_arrays,
    read_table,
)
from lipdp.datasets.images import ImageStack
from lipdp.datasets.locate import VARIABLE, keras_cache, locate, search_places
from lipdp.errors import InvalidConfig, InvalidData
from lipdp.preprocessing import (
    EncodedRows,
    Encoding,
    ImageEncoding,
    Schema,
    VectorEncoding,
    class_ids,
    encoding_from_toml,
    group_split,
    limited,
    load_encoding,
    require_two_classes,
    train_test_split,
)
from lipdp.preprocessing.encodings import AnyEncoding
from lipdp.preprocessing.values import texts
from lipdp.privacy.units import number_units
from lipdp.training.data import grouped_rows


def download(dataset: ArrayDataset) -> None:
    """Fetches the files of a set that are not in Keras' cache, and checks their hashes.

    Args:
        dataset: Knows where its files are.

    Raises:
        InvalidData: If a file cannot be fetched, or is another than the official one.
    """
    for file in dataset.downloads:
        try:
            # Its progress must not get between the lines of a program that reads our output.
            with contextlib.redirect_stdout(sys.stderr):
                _fetch(file)
        except Exception as error:
            # Keras raises a plain Exception where there is no network.
            raise InvalidData(
                f"The data set {dataset.name!r} is not on this computer, and could not be "
                f"downloaded: {error}",
                received=file.url,
                fix=f"Fetch {file.url} yourself and pass its folder as --data-dir FOLDER "
                f"(or in the environment variable {VARIABLE}); no network is needed then",
            ) from error


def _fetch(file: Download) -> None:
    # By the cache's whole path: Keras itself would turn to another where it cannot write.
    keras.utils.get_file(
        file.name,
        origin=file.url,
        file_hash=file.sha256,
        cache_dir=str(keras_cache().parent),
        cache_subdir=str(Path("datasets") / file.subfolder),
        extract=file.extract,
    )


def load_source(data: DataSection) -> tuple[Any, Encoding]:
    """The rows that a configuration names, as they are, and their encoding.

    Returns:
        A table with its ``Schema``, or ``Samples`` with the encoding of images or vectors.

    Raises:
        InvalidData: If the rows cannot be found or read, or are of another kind than the schema.
        InvalidConfig: If there is no schema, or it is not whole.
    """
    if data.name is not None:
        return _registered(data.name, data.dir)
    if data.schema_path is None:
        raise InvalidConfig(
            "data.path needs data.schema_path: private rows must not choose their own ranges",
            received=data.path,
            fix=f"Write one with: lipdp schema {data.path} > my.toml (a table needs --target NAME)",
        )
    encoding = load_encoding(data.schema_path)
    labels = None if data.labels is None else Path(data.labels)
    return read_rows(Path(str(data.path)), encoding, labels=labels), encoding


def read_rows(
    path: Path, encoding: Encoding, *, labels: Path | None = None, labelled: bool = True
) -> Any:
    """Reads a file or folder of the kind that the encoding is about.

    Args:
        path: A table, an .npz, an .npy, or a folder or .zip of images.
        encoding: The public facts.
        labels: The labels of an .npy, as another one.
        labelled: Whether labels must be there.

    Raises:
        InvalidData: If it cannot be read, or is of another kind.
    """
    check_suffix(path)
    with encoding.naming():
        _check_kind(path, encoding)
    if isinstance(encoding, Schema):
        return read_table(path)
    shape = encoding.shape if isinstance(encoding, ImageEncoding) else None
    return read_arrays(path, labels=labels, labelled=labelled, image_shape=shape)


def _check_kind(path: Path, encoding: Encoding) -> None:
    if is_table(path) != isinstance(encoding, Schema):
        kind = "a table" if isinstance(encoding, Schema) else encoding.kind
        raise InvalidData(
            f"The schema describes {kind}, and the data are none",
            received=str(path),
            fix=f"Begin a schema for them with: lipdp schema {path}",
        )


def _registered(name: str, data_dir: str | None) -> tuple[Any, Encoding]:
    dataset = DATASETS[name]
    encoding = encoding_from_toml(dataset.schema())
    if isinstance(dataset, TableDataset):
        return dataset.load(), encoding
    if not isinstance(dataset, ArrayDataset):
        raise InvalidData("This data set cannot be read", received=name)
    return _arrays(dataset, data_dir), encoding


def _arrays(dataset: ArrayDataset, data_dir: str | None) -> Samples:
    paths = locate(dataset, data_dir)
    if paths is None:
        download(dataset)
        paths = locate(dataset, data_dir)
    if paths is None:
        raise InvalidData(
            f"The data set {dataset.name!r} is not where it was downloaded to",
            received=[str(place) for place in search_places(dataset, data_dir)],
        )
    return dataset.read(paths)


_STRATIFIED = "the split into training and held-out rows, which is stratified by label"
_LIMITED = "which rows a limit of rows keeps: one more row may take the place of one that trains"


@dataclass(frozen=True)
class Rows:
    """Encoded training and held-out rows.

    Attributes:
        encoding: The public facts that encode a row.
        x_train: Shape (n, d): an array, or an indexable that encodes rows when they are read.
        y_train: Class ids, shape (n,).
        x_test: Held-out rows.
        y_test: Their class ids.
        groups: The user of each training row, or None where a row is the unit of privacy.
        split_by_rows: Whether the rows themselves had a say in which of them train.
        limited: Whether there are more rows than were taken.
    """

    encoding: AnyEncoding
    x_train: Any
    y_train: np.ndarray
    x_test: Any
    y_test: np.ndarray
    groups: np.ndarray | None = None
    split_by_rows: bool = True
    limited: bool = False

    @property
    def num_units(self) -> int:
        """Training rows, or users of them."""
        return (
            len(self.x_train) if self.groups is None else int(number_units(self.groups).max()) + 1
        )

    @property
    def num_outputs(self) -> int:
        """Number of logits: one for two classes."""
        return 1 if len(self.encoding.classes) == 2 else len(self.encoding.classes)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the guarantee of a training on these rows does not cover."""
        split = (_STRATIFIED,) if self.split_by_rows else ()
        return (*split, _LIMITED) if self.limited else split


def prepare_rows(config: RunConfig) -> Rows:
    """Loads, encodes and splits the rows of a run.

    Where whoever made a set says which rows test, that is the split; otherwise it is stratified by
    label. ``data.limit_rows`` takes the first rows of a table, of which some test. Of arrays it
    takes rows at random by a public seed; of a set with a split of its own, as many training rows,
    and test rows in proportion.

    Raises:
        InvalidData: If the rows do not fit their schema, or fewer of them train than a batch holds.
        InvalidConfig: If the schema is blank somewhere or names another target.
    """
    source, encoding = load_source(config.data)
    if isinstance(encoding, Schema):
        rows = _of_table(config, source, encoding)
    else:
        rows = _of_arrays(config, source, encoding)
    rows = _without_test_rows(rows, config.data)
    _check_size(rows, config.training.batch_size)
    return replace(rows, limited=config.data.limit_rows is not None)


def _without_test_rows(rows: Rows, data: DataSection) -> Rows:
    """With ``data.validation_fraction``, training rows take the place of the test rows.

    Users stay whole. The seed is another one than that of the test rows: by the same one a user
    who trains would never validate.
    """
    if data.validation_fraction is None:
        return rows
    names = rows.y_train if rows.groups is None else rows.groups
    split = train_test_split if rows.groups is None else group_split
    train, held = split(names, data.validation_fraction, data.split_seed + 1)
    x, y = rows.x_train, rows.y_train
    x_train, x_held = (x.take(p) if isinstance(x, EncodedRows) else x[p] for p in (train, held))
    groups = None if rows.groups is None else rows.groups[train]
    return Rows(rows.encoding, x_train, y[train], x_held, y[held], groups)


def _of_table(config: RunConfig, source: Any, schema: Schema) -> Rows:
    data = config.data
    _check_target(data, schema)
    # The first rows: which others stay may not change because of one that is added.
    frame = source if data.limit_rows is None else source.head(data.limit_rows)
    labels = schema.encode_target(frame)
    features = schema.encode(frame).astype(config.training.dtype)
    with schema.naming(str(frame.attrs.get("file", ""))):
        names = _groups(frame, schema, data)
    train, test = _split(labels, names, config)
    groups = None if names is None else names[train]
    return Rows(schema, features[train], labels[train], features[test], labels[test], groups)


def _of_arrays(
    config: RunConfig, source: Samples, encoding: ImageEncoding | VectorEncoding
) -> Rows:
    data, dtype = config.data, config.training.dtype
    _check_array_options(data)
    x, y = _encoded(source.x, source.y, encoding, dtype)
    if source.x_test is None or source.y_test is None:
        kept = _limited(len(x), data.limit_rows, data.split_seed)
        train, test = train_test_split(y[kept], data.test_fraction, data.split_seed)
        train, test = kept[train], kept[test]
        require_two_classes(y[train], encoding.classes)
        return Rows(encoding, _taken(x, train), y[train], _taken(x, test), y[test])
    x_test, y_test = _encoded(source.x_test, source.y_test, encoding, dtype)
    share = None if data.limit_rows is None else max(1, data.limit_rows * len(x_test) // len(x))
    train = _limited(len(x), data.limit_rows, data.split_seed)
    test = _limited(len(x_test), share, data.split_seed)
    require_two_classes(y[train], encoding.classes)
    rows = Rows(encoding, _taken(x, train), y[train], _taken(x_test, test), y_test[test])
    return replace(rows, split_by_rows=False)


def _encoded(
    values: Any, labels: Any, encoding: ImageEncoding | VectorEncoding, dtype: str
) -> tuple[EncodedRows, np.ndarray]:
    rows = EncodedRows(values, encoding, dtype)
    with encoding.naming():
        ids = class_ids(labels, encoding.classes)
    if len(ids) != len(rows):
        raise InvalidData(
            "There are not as many labels as rows",
            received=f"{len(rows)} rows, {len(ids)} labels",
            fix="Give one label a row",
        )
    return rows, ids


def _taken(rows: EncodedRows, positions: np.ndarray) -> Any:
    """Images and arrays on disk stay raw, which is less; the rest is encoded, or decoded, once."""
    if isinstance(rows.values, ImageStack):
        return EncodedRows(rows.values[positions], rows.encoding, rows.dtype)
    return rows.take(positions) if rows.stays_raw else rows[positions]


def _limited(count: int, limit: int | None, seed: int) -> np.ndarray:
    return np.arange(count) if limit is None else limited(count, limit, seed)


def _check_array_options(data: DataSection) -> None:
    for key, value in {"data.target": data.target, "data.group": data.group}.items():
        if value is not None:
            raise InvalidConfig(
                f"{key} names a column, and arrays have none", received=value, fix="Leave it out"
            )


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
    # Text as everywhere else: "bob" and "bob " are one user, whose rows one promise covers.
    users = texts(frame[data.group])
    blank = users.count("")
    if blank:
        raise InvalidData(
            f"The column of users is blank in {blank} of {len(users)} rows",
            received=data.group,
            fix="Fill it in or drop these rows: nobody knows how many users they are",
        )
    # A text can be that of ids of several kinds, or of numbers that were rounded.
    number_units(frame[data.group])
    return np.array(users, dtype=object)


def _split(
    labels: np.ndarray, names: np.ndarray | None, config: RunConfig
) -> tuple[np.ndarray, np.ndarray]:
    """Splits rows; a user's rows beyond the limit are left out before anything reads them."""
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


def _check_target(data: DataSection, schema: Schema) -> None:
    if data.target is None or data.target == schema.target:
        return
    with schema.naming():
        raise InvalidConfig(
            f"The target is {schema.target!r}",
            received=data.target,
            fix="Make --target and the schema agree",
        )
