"""Every part of this package, with the harness that it must pass: what tests and tables read."""

from lipdp.testing.parts.base import LayerPart, LossPart, ProjectionPart
from lipdp.testing.parts.keras_layers import KERAS_LAYERS
from lipdp.testing.parts.layers import LAYERS
from lipdp.testing.parts.losses import LOSSES
from lipdp.testing.parts.projections import PROJECTIONS

__all__ = [
    "KERAS_LAYERS",
    "LAYERS",
    "LOSSES",
    "PROJECTIONS",
    "LayerPart",
    "LossPart",
    "ProjectionPart",
]
