"""Backpropagation for bounds: rules for layers, the engine over Keras' own graph."""

from lipdp.bounds.engine import (
    BoundRow,
    GradientBounds,
    adaptive_clips,
    gradient_bounds,
    gradient_bounds_now,
)
from lipdp.bounds.inference import (
    InferenceBounds,
    in_constraint_set,
    inference_bounds,
    lipschitz_constant,
    numerical_error,
)

__all__ = [
    "adaptive_clips",
    "gradient_bounds_now",
    "BoundRow",
    "GradientBounds",
    "gradient_bounds",
    "InferenceBounds",
    "in_constraint_set",
    "inference_bounds",
    "lipschitz_constant",
    "numerical_error",
]
