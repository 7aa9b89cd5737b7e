"""Data sets in the package, and tables from files."""

from lipdp.datasets.base import Dataset
from lipdp.datasets.tables import read_table
from lipdp.registry import Registry

DATASETS = Registry("lipdp.datasets", "data set", exclude=frozenset({"base", "tables"}))

__all__ = ["DATASETS", "Dataset", "read_table"]
