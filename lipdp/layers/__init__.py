"""Keras layers that state proved bounds."""

from lipdp.layers.absolute_value import AbsoluteValue
from lipdp.layers.activation_clip import ActivationClip
from lipdp.layers.adaptive_cotangent_clip import AdaptiveCotangentClip
from lipdp.layers.base import LipschitzLayer, NonExpansiveLayer
from lipdp.layers.bounded_bias import BoundedBias
from lipdp.layers.bounded_embedding import BoundedEmbedding
from lipdp.layers.bounded_input import BoundedInput
from lipdp.layers.bounded_scale import BoundedScale
from lipdp.layers.center_norm import CenterNorm
from lipdp.layers.centering import Centering
from lipdp.layers.cotangent_clip import CotangentClip
from lipdp.layers.depth_to_space import DepthToSpace
from lipdp.layers.frobenius_dense import FrobeniusDense
from lipdp.layers.frozen_features import FrozenFeatures
from lipdp.layers.full_sort import FullSort
from lipdp.layers.global_l2_norm_pooling import GlobalL2NormPooling
from lipdp.layers.group_sort import GroupSort
from lipdp.layers.householder_activation import HouseholderActivation
from lipdp.layers.l2_norm_pooling1d import L2NormPooling1D
from lipdp.layers.l2_norm_pooling2d import L2NormPooling2D
from lipdp.layers.l2_norm_pooling3d import L2NormPooling3D
from lipdp.layers.max_min import MaxMin
from lipdp.layers.scaled_average_pooling1d import ScaledAveragePooling1D
from lipdp.layers.scaled_average_pooling2d import ScaledAveragePooling2D
from lipdp.layers.scaled_average_pooling3d import ScaledAveragePooling3D
from lipdp.layers.scaled_global_average_pooling import ScaledGlobalAveragePooling
from lipdp.layers.scattering2d import Scattering2D
from lipdp.layers.space_to_depth import SpaceToDepth
from lipdp.layers.spectral_conv1d import SpectralConv1D
from lipdp.layers.spectral_conv1d_transpose import SpectralConv1DTranspose
from lipdp.layers.spectral_conv2d import SpectralConv2D
from lipdp.layers.spectral_conv2d_transpose import SpectralConv2DTranspose
from lipdp.layers.spectral_conv3d import SpectralConv3D
from lipdp.layers.spectral_conv3d_transpose import SpectralConv3DTranspose
from lipdp.layers.spectral_dense import SpectralDense
from lipdp.layers.spectral_depthwise_conv2d import SpectralDepthwiseConv2D
from lipdp.layers.sphere_normalization import SphereNormalization

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
