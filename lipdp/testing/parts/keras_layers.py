"""Plain Keras layers with a rule, with weights inside a ball."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from keras import layers as kl

from lipdp.projections import ChannelBall, FrobeniusProjection, L2Ball, SpectralProjection
from lipdp.testing.parts.base import LayerPart

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


_TWO_CHANNEL_LINE, _TWO_CHANNEL_IMAGE, _TWO_CHANNEL_VOLUME = (5, 2), (4, 4, 2), (3, 2, 2, 1)


def _part(name: str, make: Callable[..., Any], *args: Any, shape: Any, **kwargs: Any) -> LayerPart:
    ball = {"kernel_constraint": SpectralProjection(0.6), "bias_constraint": L2Ball(0.3)}
    return LayerPart(name, partial(make, *args, **{**ball, **kwargs}), shape, 2.0, least=0.6)


def _depthwise(name: str, make: Callable[..., Any], *args: Any, shape: Any, **kw: Any) -> LayerPart:
    ball = {"depthwise_constraint": ChannelBall(0.8), "bias_constraint": L2Ball(0.3)}
    return LayerPart(name, partial(make, *args, **{**ball, **kw}), shape, 2.0, least=0.6)


KERAS_CONVOLUTIONS = (
    _part("Conv1D", kl.Conv1D, 3, 3, shape=_TWO_CHANNEL_LINE),
    _part(
        "Conv1D causal", kl.Conv1D, 2, 2, padding="causal", dilation_rate=2, shape=_TWO_CHANNEL_LINE
    ),
    _part("Conv2D", kl.Conv2D, 2, 3, shape=_TWO_CHANNEL_IMAGE),
    _part(
        "Conv2D same", kl.Conv2D, 2, 3, padding="same", activation="relu", shape=_TWO_CHANNEL_IMAGE
    ),
    _part("Conv2D strided", kl.Conv2D, 2, (3, 2), strides=(2, 1), padding="same", shape=(5, 4, 1)),
    _part("Conv2D dilated", kl.Conv2D, 2, 2, dilation_rate=2, shape=_TWO_CHANNEL_IMAGE),
    _part("Conv2D in groups", kl.Conv2D, 4, 2, groups=2, shape=_TWO_CHANNEL_IMAGE),
    _part(
        "Conv2D in the Frobenius ball",
        kl.Conv2D,
        2,
        2,
        strides=2,
        kernel_constraint=FrobeniusProjection(0.8),
        shape=_TWO_CHANNEL_IMAGE,
    ),
    _part("Conv3D", kl.Conv3D, 2, 2, shape=_TWO_CHANNEL_VOLUME),
    _part("Conv1DTranspose", kl.Conv1DTranspose, 2, 3, strides=2, shape=(3, 2)),
    _part("Conv2DTranspose", kl.Conv2DTranspose, 2, 2, strides=2, padding="same", shape=(2, 2, 2)),
    _part("Conv2DTranspose valid", kl.Conv2DTranspose, 1, 3, strides=2, shape=(2, 2, 2)),
    _part("Conv3DTranspose", kl.Conv3DTranspose, 1, 2, shape=(2, 2, 2, 1)),
    _depthwise(
        "DepthwiseConv1D", kl.DepthwiseConv1D, 3, depth_multiplier=2, shape=_TWO_CHANNEL_LINE
    ),
    _depthwise("DepthwiseConv2D", kl.DepthwiseConv2D, 2, padding="same", shape=_TWO_CHANNEL_IMAGE),
    _depthwise(
        "DepthwiseConv2D strided",
        kl.DepthwiseConv2D,
        2,
        strides=2,
        use_bias=False,
        shape=_TWO_CHANNEL_IMAGE,
    ),
    _depthwise(
        "SeparableConv1D",
        kl.SeparableConv1D,
        3,
        2,
        pointwise_constraint=SpectralProjection(0.9),
        shape=_TWO_CHANNEL_LINE,
    ),
    _depthwise(
        "SeparableConv2D",
        kl.SeparableConv2D,
        2,
        2,
        depth_multiplier=2,
        pointwise_constraint=SpectralProjection(0.9),
        shape=(3, 3, 2),
    ),
)


_LINE, _IMAGE, _VOLUME = (6, 2), (4, 4, 1), (2, 2, 2, 1)

KERAS_POOLINGS = (
    LayerPart("MaxPooling1D", kl.MaxPooling1D, _LINE, 1.0),
    LayerPart("MaxPooling2D", kl.MaxPooling2D, _IMAGE, 1.0),
    LayerPart(
        "MaxPooling2D of overlapping windows",
        partial(kl.MaxPooling2D, 3, strides=1, padding="same"),
        (3, 3, 1),
        1.0,
    ),
    LayerPart("MaxPooling3D", kl.MaxPooling3D, _VOLUME, 1.0),
    LayerPart("AveragePooling1D", partial(kl.AveragePooling1D, 2), _LINE, 1.0),
    LayerPart("AveragePooling2D", partial(kl.AveragePooling2D, 2), _IMAGE, 1.0),
    LayerPart(
        "AveragePooling2D of overlapping windows",
        partial(kl.AveragePooling2D, 3, strides=1, padding="same"),
        (4, 3, 1),
        1.0,
    ),
    LayerPart("AveragePooling3D", partial(kl.AveragePooling3D, 2), _VOLUME, 1.0),
    LayerPart("GlobalAveragePooling1D", kl.GlobalAveragePooling1D, _LINE, 1.0),
    LayerPart("GlobalAveragePooling2D", kl.GlobalAveragePooling2D, (3, 2, 2), 1.0),
    LayerPart("GlobalAveragePooling3D", kl.GlobalAveragePooling3D, _VOLUME, 1.0),
    LayerPart("GlobalMaxPooling1D", kl.GlobalMaxPooling1D, _LINE, 1.0),
    LayerPart("GlobalMaxPooling2D", kl.GlobalMaxPooling2D, (3, 2, 2), 1.0),
    LayerPart("GlobalMaxPooling3D", kl.GlobalMaxPooling3D, _VOLUME, 1.0),
    LayerPart("ZeroPadding1D", kl.ZeroPadding1D, _LINE, 1.0),
    LayerPart("ZeroPadding2D", partial(kl.ZeroPadding2D, ((1, 0), (0, 2))), (2, 2, 2), 1.0),
    LayerPart("ZeroPadding3D", kl.ZeroPadding3D, (1, 2, 1, 1), 1.0),
    LayerPart("Cropping1D", kl.Cropping1D, _LINE, 1.0),
    LayerPart("Cropping2D", partial(kl.Cropping2D, ((1, 0), (0, 2))), _IMAGE, 1.0),
    LayerPart("Cropping3D", kl.Cropping3D, (3, 3, 4, 1), 1.0),
    LayerPart("RepeatVector", partial(kl.RepeatVector, 3), (3,), 1.0),
    LayerPart("UpSampling1D", kl.UpSampling1D, (3, 2), 1.0),
    LayerPart("UpSampling2D", partial(kl.UpSampling2D, (2, 3)), (2, 2, 1), 1.0),
    LayerPart("UpSampling3D", kl.UpSampling3D, (2, 1, 1, 1), 1.0),
)


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
