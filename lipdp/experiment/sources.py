"""Raw rows of a run and the public facts that encode them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lipdp.config.run import DataSection
from lipdp.datasets import (
    DATASETS,
    ArrayDataset,
    Samples,
    TableDataset,
    check_suffix,
    is_table,
    read_arrays,
    read_table,
)
from lipdp.datasets.locate import locate, search_places
from lipdp.errors import InvalidConfig, InvalidData
from lipdp.experiment.download import download
from lipdp.preprocessing import (
    Encoding,
    ImageEncoding,
    Schema,
    encoding_from_toml,
    load_encoding,
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
