"""Rules of layers that draw random numbers in training."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import keras

from lipdp.bounds.rules.base import LayerBounds, Rules, Weightless
from lipdp.bounds.shapes import Shapes


def _dropout(layer: Any, shapes: Shapes) -> LayerBounds:
    """Kept entries are divided by 1 - p; in inference it is the identity.

    Rows lie in uniformly random slots of a batch of fixed size, so the masks of the slots are the
    same random variables whether or not one row is there.
    """
    return Weightless(gain=1.0 / (1.0 - float(layer.rate)), inference=1.0)


RULES: Rules = MappingProxyType({keras.layers.Dropout: _dropout})
