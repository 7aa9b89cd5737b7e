"""Keras layers that state proved bounds."""

from lipdp.layers.activations import (
    AbsoluteValue,
    FullSort,
    GroupSort,
    HouseholderActivation,
    MaxMin,
)
from lipdp.layers.affine import BoundedBias, BoundedScale
from lipdp.layers.base import LipschitzLayer, NonExpansiveLayer
from lipdp.layers.clipping import ActivationClip, AdaptiveCotangentClip, BoundedInput, CotangentClip
from lipdp.layers.convolution import (
    SpectralConv1D,
    SpectralConv1DTranspose,
    SpectralConv2D,
    SpectralConv2DTranspose,
    SpectralConv3D,
    SpectralConv3DTranspose,
    SpectralDepthwiseConv2D,
)
from lipdp.layers.dense import FrobeniusDense, SpectralDense
from lipdp.layers.embedding import BoundedEmbedding
from lipdp.layers.features import FrozenFeatures, Scattering2D
from lipdp.layers.normalization import Centering, CenterNorm, SphereNormalization
from lipdp.layers.pooling import (
    GlobalL2NormPooling,
    L2NormPooling1D,
    L2NormPooling2D,
    L2NormPooling3D,
    ScaledAveragePooling1D,
    ScaledAveragePooling2D,
    ScaledAveragePooling3D,
    ScaledGlobalAveragePooling,
)
from lipdp.layers.reshaping import DepthToSpace, SpaceToDepth

__all__ = [
    "AdaptiveCotangentClip",
    "AbsoluteValue",
    "ActivationClip",
    "BoundedBias",
    "BoundedEmbedding",
    "BoundedInput",
    "BoundedScale",
    "CenterNorm",
    "Centering",
    "CotangentClip",
    "DepthToSpace",
    "FrobeniusDense",
    "FrozenFeatures",
    "FullSort",
    "GlobalL2NormPooling",
    "GroupSort",
    "HouseholderActivation",
    "L2NormPooling1D",
    "L2NormPooling2D",
    "L2NormPooling3D",
    "LipschitzLayer",
    "MaxMin",
    "NonExpansiveLayer",
    "ScaledAveragePooling1D",
    "ScaledAveragePooling2D",
    "ScaledAveragePooling3D",
    "ScaledGlobalAveragePooling",
    "Scattering2D",
    "SpaceToDepth",
    "SpectralConv1D",
    "SpectralConv1DTranspose",
    "SpectralConv2D",
    "SpectralConv2DTranspose",
    "SpectralConv3D",
    "SpectralConv3DTranspose",
    "SpectralDense",
    "SpectralDepthwiseConv2D",
    "SphereNormalization",
]
