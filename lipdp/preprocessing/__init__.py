"""Rows to features by public facts only."""

from lipdp.preprocessing.class_ids import class_ids, require_two_classes
from lipdp.preprocessing.columns import CategoryColumn, IgnoreColumn, NumberColumn
from lipdp.preprocessing.encoded_rows import EncodedRows
from lipdp.preprocessing.image_encoding import ImageEncoding
from lipdp.preprocessing.infer import blank_schema
from lipdp.preprocessing.infer_arrays import blank_array_schema
from lipdp.preprocessing.load import Encoding, encoding_from_toml, load_encoding
from lipdp.preprocessing.schema import Schema, load_schema
from lipdp.preprocessing.split import group_split, limited, train_test_split
from lipdp.preprocessing.vector_encoding import VectorEncoding

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
