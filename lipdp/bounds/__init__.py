"""Backpropagation for bounds: rules for layers, the engine over Keras' own graph."""

from lipdp.bounds.engine import gradient_bounds, lipschitz_constant
from lipdp.bounds.inference import in_constraint_set
from lipdp.bounds.rounding_error import InferenceBounds, inference_bounds, numerical_error
from lipdp.bounds.table import BoundRow, GradientBounds
from lipdp.bounds.thresholds import adaptive_clips, gradient_bounds_now

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
