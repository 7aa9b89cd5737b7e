"""Harnesses that anyone can turn on their own parts; each raises ``BoundViolation``."""

from lipdp.testing.base import Tightness
from lipdp.testing.check_layer import check_layer
from lipdp.testing.check_loss import check_loss
from lipdp.testing.check_model import check_model
from lipdp.testing.check_projection import check_projection
from lipdp.testing.check_sampler import SamplerReport, check_sampler

__all__ = [
    "SamplerReport",
    "Tightness",
    "check_layer",
    "check_loss",
    "check_model",
    "check_projection",
    "check_sampler",
]
