"""Proved bounds of plain Keras layers, one family a file."""

from lipdp.bounds.rules.base import LayerBounds, MergeBounds
from lipdp.bounds.rules.lookup import bounds_of, is_merging, merge_bounds_of

__all__ = ["LayerBounds", "MergeBounds", "bounds_of", "is_merging", "merge_bounds_of"]
