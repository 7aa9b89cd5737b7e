"""Rules of layers that move entries about."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import keras

from lipdp.bounds.rules.base import LayerBounds, Rules, Weightless
from lipdp.bounds.shapes import Shapes


def _same(layer: Any, shapes: Shapes) -> LayerBounds:
    """A permutation of the entries."""
    return Weightless()


RULES: Rules = MappingProxyType(
    {
        keras.layers.Flatten: _same,
        keras.layers.Identity: _same,
        keras.layers.Permute: _same,
        keras.layers.Reshape: _same,
    }
)
