"""Plain activations of Keras, fixed factors and random layers."""

from __future__ import annotations

from functools import partial

from keras import layers as kl

from lipdp.projections import L2Ball
from lipdp.testing.parts._part import LayerPart

_FUNCTIONS = (
    "linear",
    "relu",
    "relu6",
    "tanh",
    "sigmoid",
    "hard_sigmoid",
    "sparse_sigmoid",
    "hard_tanh",
    "softplus",
    "log_sigmoid",
    "softsign",
    "soft_shrink",
    "tanh_shrink",
    "elu",
    "selu",
    "celu",
    "gelu",
    "silu",
    "mish",
    "hard_silu",
    "squareplus",
    "sparse_plus",
    "softmax",
    "log_softmax",
)

KERAS_ACTIVATIONS = (
    *(
        LayerPart(f"Activation {name}", partial(kl.Activation, name), (4,), 3.0, least=0.6)
        for name in _FUNCTIONS
    ),
    LayerPart("ReLU", kl.ReLU, (6,), 1.0),
    LayerPart("ReLU that leaks", partial(kl.ReLU, negative_slope=1.7), (6,), 1.0),
    LayerPart("ReLU with a ceiling", partial(kl.ReLU, max_value=0.5), (6,), 2.0),
    LayerPart("LeakyReLU", partial(kl.LeakyReLU, negative_slope=1.2), (6,), 1.0),
    LayerPart("ELU", partial(kl.ELU, alpha=1.5), (6,), 1.0),
    LayerPart("PReLU", partial(kl.PReLU, alpha_constraint=L2Ball(1.3)), (6,), 1.0),
    LayerPart(
        "PReLU with shared slopes",
        partial(kl.PReLU, alpha_constraint=L2Ball(1.3), shared_axes=[1]),
        (3, 1),
        1.0,
    ),
    LayerPart("Softmax", kl.Softmax, (3, 2), 3.0),
    LayerPart("Rescaling", partial(kl.Rescaling, 2.0, -0.5), (4,), 1.0),
    LayerPart("Dropout", partial(kl.Dropout, 0.25), (6,), 1.0),
    LayerPart("SpatialDropout1D", partial(kl.SpatialDropout1D, 0.25), (3, 4), 1.0),
    LayerPart("SpatialDropout2D", partial(kl.SpatialDropout2D, 0.5), (2, 2, 2), 1.0),
    LayerPart("SpatialDropout3D", partial(kl.SpatialDropout3D, 0.5), (2, 1, 2, 2), 1.0),
    LayerPart("RandomFlip", kl.RandomFlip, (3, 2, 1), 1.0),
)
