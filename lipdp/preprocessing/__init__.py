"""Rows to features by public facts only."""

from lipdp.preprocessing.columns import CategoryColumn, IgnoreColumn, NumberColumn
from lipdp.preprocessing.infer import blank_schema
from lipdp.preprocessing.schema import Schema, load_schema
from lipdp.preprocessing.split import group_split, train_test_split

__all__ = [
    "CategoryColumn",
    "IgnoreColumn",
    "NumberColumn",
    "Schema",
    "blank_schema",
    "group_split",
    "load_schema",
    "train_test_split",
]
