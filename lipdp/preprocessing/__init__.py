"""Rows to features by public facts only."""

from lipdp.preprocessing.class_ids import class_ids, require_two_classes
from lipdp.preprocessing.encoded_rows import EncodedRows
from lipdp.preprocessing.encodings import (
    Encoding,
    ImageEncoding,
    VectorEncoding,
    encoding_from_toml,
    load_encoding,
)
from lipdp.preprocessing.infer import blank_array_schema, blank_schema
from lipdp.preprocessing.schema import (
    CategoryColumn,
    IgnoreColumn,
    NumberColumn,
    Schema,
    load_schema,
)
from lipdp.preprocessing.split import group_split, limited, train_test_split

__all__ = [
    "CategoryColumn",
    "EncodedRows",
    "Encoding",
    "IgnoreColumn",
    "ImageEncoding",
    "NumberColumn",
    "Schema",
    "VectorEncoding",
    "blank_array_schema",
    "blank_schema",
    "class_ids",
    "encoding_from_toml",
    "group_split",
    "limited",
    "load_encoding",
    "load_schema",
    "require_two_classes",
    "train_test_split",
]
