"""Plain Keras layers with a rule."""

from __future__ import annotations

from functools import partial

from keras import layers as kl

from lipdp.projections import FrobeniusProjection, L2Ball, SpectralProjection
from lipdp.testing.parts._part import LayerPart
from lipdp.testing.parts.keras_activations import KERAS_ACTIVATIONS
from lipdp.testing.parts.keras_convolutions import KERAS_CONVOLUTIONS
from lipdp.testing.parts.keras_poolings import KERAS_POOLINGS

_PAIR, _TRIPLE = [(4,), (4,)], [(2, 3)] * 3

KERAS_LAYERS = (
    LayerPart(
        "Dense",
        partial(
            kl.Dense, 5, kernel_constraint=SpectralProjection(1.2), bias_constraint=L2Ball(0.5)
        ),
        (6,),
        2.0,
    ),
    LayerPart(
        "Dense at positions",
        partial(
            kl.Dense, 3, kernel_constraint=FrobeniusProjection(0.8), bias_constraint=L2Ball(0.5)
        ),
        (3, 4),
        2.0,
    ),
    LayerPart(
        "Dense with relu",
        partial(kl.Dense, 4, "relu", kernel_constraint=SpectralProjection(1.2), use_bias=False),
        (5,),
        2.0,
    ),
    LayerPart("Flatten", kl.Flatten, (2, 3), 1.0),
    LayerPart("Identity", kl.Identity, (4,), 1.0),
    LayerPart("Permute", partial(kl.Permute, (2, 1)), (2, 3), 1.0),
    LayerPart("Reshape", partial(kl.Reshape, (6,)), (2, 3), 1.0),
    LayerPart("Add", kl.Add, _PAIR, 1.0),
    LayerPart("Average", kl.Average, _TRIPLE, 1.0),
    LayerPart("Subtract", kl.Subtract, _PAIR, 1.0),
    LayerPart("Concatenate", kl.Concatenate, [(2, 3), (2, 2)], 1.0),
    LayerPart("Multiply", kl.Multiply, _TRIPLE, 1.2),
    LayerPart("Multiply that broadcasts", kl.Multiply, [(2, 3), (2, 1)], 1.2),
    *KERAS_ACTIVATIONS,
    *KERAS_CONVOLUTIONS,
    *KERAS_POOLINGS,
)
