"""Keras layers that state proved bounds."""

from lipdp.layers.activation_clip import ActivationClip
from lipdp.layers.base import LipschitzLayer, NonExpansiveLayer
from lipdp.layers.bounded_bias import BoundedBias
from lipdp.layers.bounded_input import BoundedInput
from lipdp.layers.cotangent_clip import CotangentClip
from lipdp.layers.frobenius_dense import FrobeniusDense
from lipdp.layers.full_sort import FullSort
from lipdp.layers.group_sort import GroupSort
from lipdp.layers.householder_activation import HouseholderActivation
from lipdp.layers.max_min import MaxMin
from lipdp.layers.spectral_dense import SpectralDense
from lipdp.layers.sphere_normalization import SphereNormalization

__all__ = [
    "ActivationClip",
    "BoundedBias",
    "BoundedInput",
    "CotangentClip",
    "FrobeniusDense",
    "FullSort",
    "GroupSort",
    "HouseholderActivation",
    "LipschitzLayer",
    "MaxMin",
    "NonExpansiveLayer",
    "SpectralDense",
    "SphereNormalization",
]
