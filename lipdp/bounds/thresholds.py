"""Bounds of models whose clipping thresholds are trained."""

from __future__ import annotations

from typing import Any

import keras

from lipdp.bounds.engine import gradient_bounds
from lipdp.bounds.table import GradientBounds
from lipdp.layers.clipping import AdaptiveCotangentClip, at_threshold


def adaptive_clips(model: keras.Model) -> tuple[AdaptiveCotangentClip, ...]:
    """The layers of a model whose thresholds are trained, each once."""
    layers = model._flatten_layers(include_self=False)
    found = {id(one): one for one in layers if isinstance(one, AdaptiveCotangentClip)}
    return tuple(one for one in found.values() if one.trainable_variables)


def gradient_bounds_now(model: keras.Model, loss: Any) -> GradientBounds:
    """Bounds of one sample's gradient at the present thresholds.

    ``gradient_bounds`` itself takes each trained threshold at its minimum; its noise is scaled up
    with the threshold while training.

    Args:
        model: A built model.
        loss: A loss of ``lipdp.losses``.

    Raises:
        LipdpError: As ``gradient_bounds``.
    """
    clips = adaptive_clips(model)
    radii = [float(keras.ops.convert_to_numpy(clip.radius())) for clip in clips]
    with at_threshold(clips, radii):
        return gradient_bounds(model, loss)
