"""The fixed features that a configuration can name, each as a list of layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import keras

from lipdp import layers as ls
from lipdp.errors import InvalidConfig, InvalidData
from lipdp.layers.features import FrozenFeatures, Scattering2D
from lipdp.layers.normalization import Centering
from lipdp.preprocessing.encodings import AnyEncoding


def _bounded(encoding: AnyEncoding, dtype: str) -> keras.layers.Layer:
    return ls.BoundedInput((encoding.num_features,), radius=encoding.max_norm, dtype=dtype)


def _image(encoding: AnyEncoding, dtype: str) -> list[keras.layers.Layer]:
    if len(encoding.shape) != 3:
        raise InvalidConfig(
            "These features are made of images, and the rows are none",
            received=tuple(encoding.shape),
            fix='Use features.name = "none"',
        )
    return [_bounded(encoding, dtype), keras.layers.Reshape(encoding.shape, dtype=dtype)]


def _none(encoding: AnyEncoding, *, train_dtype: str) -> list[keras.layers.Layer]:
    """Rows as they are."""
    return []


def _pooling(
    encoding: AnyEncoding,
    *,
    pool_size: int = 2,
    strides: int | None = None,
    shift: float = 0.0,
    train_dtype: str,
) -> list[keras.layers.Layer]:
    """Averages of windows of pixels, over the norm of averaging, of pixels minus a constant."""
    moved = [keras.layers.Rescaling(1.0, -shift, dtype=train_dtype)] if shift else []
    pool = ls.ScaledAveragePooling2D(pool_size, strides, "same", dtype=train_dtype)
    return [*_image(encoding, train_dtype), *moved, pool]


def _scattering(
    encoding: AnyEncoding,
    *,
    scales: int = 2,
    orientations: int = 8,
    order: int = 2,
    pool_size: int | None = None,
    strides: int | None = None,
    groups: int | None = None,
    min_norm: float = 0.01,
    dtype: str = "float32",
    train_dtype: str,
) -> list[keras.layers.Layer]:
    """Scattering coefficients, averaged over windows, then normalised in groups of channels.

    Each group is centred and brought to norm ``1 / sqrt(groups)``; one of a norm below
    ``min_norm`` is only multiplied by a constant, so that the Lipschitz constant is finite.
    """
    layers = _image(encoding, dtype)
    layers.append(Scattering2D(scales, orientations, order, dtype=dtype))
    if pool_size is not None:
        layers.append(ls.ScaledAveragePooling2D(pool_size, strides, "same", dtype=dtype))
    if groups is not None:
        layers += _normalized(keras.Sequential(layers).output_shape[1:], groups, min_norm, dtype)
    return layers


def _normalized(
    shape: Sequence[int], groups: int, min_norm: float, dtype: str
) -> list[keras.layers.Layer]:
    rows, columns, channels = shape
    if not isinstance(groups, int) or groups < 1 or channels % groups:
        raise InvalidConfig(f"features.groups must divide the {channels} channels", received=groups)
    radius = 1.0 / math.sqrt(groups)
    return [
        keras.layers.Reshape((rows * columns, groups, channels // groups), dtype=dtype),
        keras.layers.Permute((2, 1, 3), dtype=dtype),
        keras.layers.Reshape((groups, -1), dtype=dtype),
        Centering(dtype=dtype),
        ls.SphereNormalization(radius, min_norm, per_position=True, dtype=dtype),
        keras.layers.Reshape((groups, rows * columns, channels // groups), dtype=dtype),
        keras.layers.Permute((2, 1, 3), dtype=dtype),
        keras.layers.Reshape((rows, columns, channels), dtype=dtype),
    ]


def _file(
    encoding: AnyEncoding, *, path: str, radius: float = 1.0, train_dtype: str
) -> list[keras.layers.Layer]:
    """The output of a frozen Keras model, clipped to a ball."""
    extractor = _load_extractor(Path(path))
    first = [_bounded(encoding, train_dtype)]
    taken = tuple(extractor.input_shape[1:])
    if taken == tuple(encoding.shape) != (encoding.num_features,):
        first.append(keras.layers.Reshape(taken, dtype=train_dtype))
    elif taken != (encoding.num_features,):
        raise InvalidData(
            f"The extractor takes samples of shape {taken}",
            received=tuple(encoding.shape),
            fix="Use an extractor of such rows, as encoded by their schema",
        )
    frozen = FrozenFeatures(extractor, dtype=train_dtype)
    return [*first, frozen, ls.ActivationClip(radius, dtype=train_dtype)]


def _load_extractor(path: Path) -> keras.Model:
    if not path.is_file():
        raise InvalidData("There is no extractor here", received=str(path), fix="Check the path")
    try:
        return keras.models.load_model(path, compile=False, safe_mode=True)
    # A damaged archive breaks anywhere: in zipfile, zlib, h5py, json or a class of Keras.
    except Exception as error:
        raise InvalidData(
            f"The file is no readable Keras model without code of its own: {error}",
            received=str(path),
            fix="Pass a .keras file written by model.save(), without Lambda or custom layers",
        ) from error


#: Names to what makes the layers, of an encoding and the options of the section ``features``.
FEATURES: Mapping[str, Callable[..., list[keras.layers.Layer]]] = MappingProxyType(
    {"none": _none, "file": _file, "pooling": _pooling, "scattering": _scattering}
)
