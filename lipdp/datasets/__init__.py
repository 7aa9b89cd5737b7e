"""Registered data sets, and rows from files."""

from lipdp.datasets.base import ArrayDataset, Dataset, Download, Samples, TableDataset
from lipdp.datasets.files import array_form, check_suffix, read_arrays
from lipdp.datasets.registered import DATASETS
from lipdp.datasets.tables import is_table, read_table

__all__ = [
    "DATASETS",
    "ArrayDataset",
    "Dataset",
    "Download",
    "Samples",
    "TableDataset",
    "array_form",
    "check_suffix",
    "is_table",
    "read_arrays",
    "read_table",
]
