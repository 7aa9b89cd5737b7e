"""Plain convolutions of Keras, with weights inside a ball."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from keras import layers as kl

from lipdp.projections import ChannelBall, FrobeniusProjection, L2Ball, SpectralProjection
from lipdp.testing.parts._part import LayerPart

_LINE, _IMAGE, _VOLUME = (5, 2), (4, 4, 2), (3, 2, 2, 1)


def _part(name: str, make: Callable[..., Any], *args: Any, shape: Any, **kwargs: Any) -> LayerPart:
    ball = {"kernel_constraint": SpectralProjection(0.6), "bias_constraint": L2Ball(0.3)}
    return LayerPart(name, partial(make, *args, **{**ball, **kwargs}), shape, 2.0, least=0.6)


def _depthwise(name: str, make: Callable[..., Any], *args: Any, shape: Any, **kw: Any) -> LayerPart:
    ball = {"depthwise_constraint": ChannelBall(0.8), "bias_constraint": L2Ball(0.3)}
    return LayerPart(name, partial(make, *args, **{**ball, **kw}), shape, 2.0, least=0.6)


KERAS_CONVOLUTIONS = (
    _part("Conv1D", kl.Conv1D, 3, 3, shape=_LINE),
    _part("Conv1D causal", kl.Conv1D, 2, 2, padding="causal", dilation_rate=2, shape=_LINE),
    _part("Conv2D", kl.Conv2D, 2, 3, shape=_IMAGE),
    _part("Conv2D same", kl.Conv2D, 2, 3, padding="same", activation="relu", shape=_IMAGE),
    _part("Conv2D strided", kl.Conv2D, 2, (3, 2), strides=(2, 1), padding="same", shape=(5, 4, 1)),
    _part("Conv2D dilated", kl.Conv2D, 2, 2, dilation_rate=2, shape=_IMAGE),
    _part("Conv2D in groups", kl.Conv2D, 4, 2, groups=2, shape=_IMAGE),
    _part(
        "Conv2D in the Frobenius ball",
        kl.Conv2D,
        2,
        2,
        strides=2,
        kernel_constraint=FrobeniusProjection(0.8),
        shape=_IMAGE,
    ),
    _part("Conv3D", kl.Conv3D, 2, 2, shape=_VOLUME),
    _part("Conv1DTranspose", kl.Conv1DTranspose, 2, 3, strides=2, shape=(3, 2)),
    _part("Conv2DTranspose", kl.Conv2DTranspose, 2, 2, strides=2, padding="same", shape=(2, 2, 2)),
    _part("Conv2DTranspose valid", kl.Conv2DTranspose, 1, 3, strides=2, shape=(2, 2, 2)),
    _part("Conv3DTranspose", kl.Conv3DTranspose, 1, 2, shape=(2, 2, 2, 1)),
    _depthwise("DepthwiseConv1D", kl.DepthwiseConv1D, 3, depth_multiplier=2, shape=_LINE),
    _depthwise("DepthwiseConv2D", kl.DepthwiseConv2D, 2, padding="same", shape=_IMAGE),
    _depthwise(
        "DepthwiseConv2D strided", kl.DepthwiseConv2D, 2, strides=2, use_bias=False, shape=_IMAGE
    ),
    _depthwise(
        "SeparableConv1D",
        kl.SeparableConv1D,
        3,
        2,
        pointwise_constraint=SpectralProjection(0.9),
        shape=_LINE,
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
