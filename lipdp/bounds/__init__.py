"""Backpropagation for bounds: rules for layers, the engine over Keras' own graph."""

from lipdp.bounds.engine import (
    gradient_bounds,
    in_constraint_set,
    lipschitz_constant,
    numerical_error,
)
from lipdp.bounds.table import BoundRow, GradientBounds

__all__ = [
    "BoundRow",
    "GradientBounds",
    "gradient_bounds",
    "in_constraint_set",
    "lipschitz_constant",
    "numerical_error",
]
