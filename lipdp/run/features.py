"""Fixed features of each row, in front of what is trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras
import numpy as np

from lipdp import layers as ls
from lipdp.bounds import lipschitz_constant
from lipdp.bounds.graph import graph_of
from lipdp.bounds.steps import forward_steps
from lipdp.config import Component, RunConfig
from lipdp.errors import InvalidConfig, InvalidData
from lipdp.layers.features import FrozenFeatures, Scattering2D
from lipdp.layers.normalization import Centering
from lipdp.preprocessing.encodings import AnyEncoding, FeatureEncoding
from lipdp.run.build import _call
from lipdp.run.data import Rows
from lipdp.run.preprocess import check_maps
from lipdp.training import Model, Sequential


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


#: Rows whose features are in memory as intermediate maps at a time.
_BATCH = 64
_CHUNK = 4096
_BATCHES = "rounding in the fixed features, which are computed in batches of rows"
_UNSEEN = (
    "the rows that the frozen feature extractor was trained on: the guarantee holds if the private "
    "rows were not among them"
)
_FEATURE_UNIT = "L2 distance of the features of a frozen extractor, not of rows"


@dataclass(frozen=True)
class Features:
    """Layers without trained weights, from an encoded row to a flat row of features.

    Attributes:
        layers: The layers; the first one bounds its input.
        encoding: What is publicly known about the features.
        unseen: What the guarantee does not speak of because of them.
    """

    layers: tuple[keras.layers.Layer, ...]
    encoding: FeatureEncoding
    unseen: tuple[str, ...] = ()

    def of(self, x: Any) -> np.ndarray:
        """The features of encoded rows; those of a row depend on that row alone."""
        return _computed(keras.Sequential(list(self.layers)), x)

    def in_front_of(self, head: Model | Sequential) -> Sequential:
        """A copy of a model of features, with its ledger, that takes the rows themselves."""
        whole = Sequential([*self.layers, *head.layers], name=head.name)
        copy = Sequential.from_config(whole.get_config())
        copy.set_weights(whole.get_weights())
        copy._private.ledger, copy._private.task = head.ledger, head.task
        return copy


@dataclass(frozen=True)
class FeatureRows(Rows):
    """Rows of features, with what they were made of.

    Attributes:
        raw: The rows.
        features: How features are made.
    """

    raw: Rows = field(kw_only=True)
    features: Features = field(kw_only=True)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the guarantee does not cover."""
        return (*super().not_covered, *self.features.unseen)


def with_features(config: RunConfig, rows: Rows) -> Rows:
    """The rows as the features that a configuration wants, computed once, or as they are.

    Raises:
        LipdpError: As ``features_of`` and ``check_maps``, before anything is computed.
    """
    features = features_of(config, rows.encoding)
    if features is None:
        return rows
    check_maps(config, features.encoding)
    given = {f.name: getattr(rows, f.name) for f in fields(Rows)}
    made = {
        "encoding": features.encoding,
        "x_train": features.of(rows.x_train),
        "x_test": features.of(rows.x_test),
    }
    return FeatureRows(**{**given, **made}, raw=rows, features=features)


def with_whole_path(config: RunConfig) -> RunConfig:
    """The configuration with the path of an extractor that is right in every folder."""
    options = config.features.options
    if "path" not in options:
        return config
    options["path"] = str(Path(options["path"]).resolve())
    features = Component(name=config.features.name, **options)
    return config.model_copy(update={"features": features})


def with_facts(config: RunConfig, rows: Rows) -> Rows:
    """The rows as they are, with the public facts of what is trained on and certified."""
    features = features_of(config, rows.encoding)
    return rows if features is None else replace(rows, encoding=features.encoding)


def without_features(rows: Rows) -> Rows:
    """The rows that features were made of."""
    return rows.raw if isinstance(rows, FeatureRows) else rows


def whole_model(model: Model | Sequential, rows: Rows) -> Model | Sequential:
    """What is released: takes encoded rows, whatever the model was trained on."""
    return rows.features.in_front_of(model) if isinstance(rows, FeatureRows) else model


def radius_in_features(radius: float, rows: Rows) -> float:
    """The radius around features that the features of all rows within a radius stay in.

    Of a frozen extractor, whose certified radii are distances of features, it is the same.
    """
    if not isinstance(rows, FeatureRows):
        return radius
    front = lipschitz_constant(keras.Sequential(list(rows.features.layers)))
    return radius * front if front < math.inf else radius


def provable_part(model: keras.Model, x: Any) -> tuple[keras.Model, Any]:
    """What is certified of a released model, and its inputs.

    A frozen extractor has no Lipschitz constant: there it is what follows, on its features.
    """
    positions = [i for i, layer in enumerate(model.layers) if isinstance(layer, FrozenFeatures)]
    if not positions:
        return model, x
    front, rest = model.layers[: positions[-1] + 1], model.layers[positions[-1] + 1 :]
    features = _computed(keras.Sequential(front), x)
    start = keras.Input(features.shape[1:], dtype=features.dtype)
    part = keras.Sequential([start, *rest])
    # A copy, because in Keras a layer that has two places in graphs has no single input.
    copy = keras.Sequential.from_config(part.get_config())
    copy.set_weights(part.get_weights())
    return copy, features


def features_of(config: RunConfig, encoding: AnyEncoding) -> Features | None:
    """The features that a configuration wants; None if rows are used as they are.

    Raises:
        InvalidConfig: If there are no such features, or an option is none of theirs or has a bad
            value.
        InvalidData: If a file holds no model for these rows.
        UnsupportedLayer: If the model in a file mixes rows.
    """
    component, dtype = config.features, config.training.dtype
    if component.name not in FEATURES:
        raise InvalidConfig(
            "There are no features of this name",
            received=component.name,
            fix=f"Use one of: {', '.join(FEATURES)}",
        )
    layers = _call("features", component, FEATURES[component.name], encoding, train_dtype=dtype)
    if not layers:
        return None
    layers.append(keras.layers.Flatten(dtype=layers[-1].compute_dtype))
    for position, layer in enumerate(layers):
        layer.name = f"features_{position}"
    return _with_facts(layers, encoding)


def _with_facts(layers: list[keras.layers.Layer], encoding: AnyEncoding) -> Features:
    flattened = forward_steps(graph_of(keras.Sequential(layers)))[-1]
    frozen = any(isinstance(layer, FrozenFeatures) for layer in layers)
    facts = FeatureEncoding(
        encoding,
        shape=tuple(flattened.call.shapes.inputs[0]),
        max_norm=flattened.x_out,
        unit=_FEATURE_UNIT if frozen else encoding.unit,
    )
    return Features(tuple(layers), facts, (_BATCHES, _UNSEEN) if frozen else (_BATCHES,))


def _computed(model: keras.Model, x: Any) -> np.ndarray:
    parts = [
        model.predict(x[start : start + _CHUNK], batch_size=_BATCH, verbose=0)
        for start in range(0, len(x), _CHUNK)
    ]
    return np.concatenate(parts)
