"""Reference architectures, each a function that returns a list of layers; found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lipdp.registry import Registry

if TYPE_CHECKING:
    from lipdp.models.images import convnet, mixer, resnet
    from lipdp.models.vectors import linear, mlp

#: Names to architectures; listing them imports no Keras.
MODELS = Registry("lipdp.models", "model")

__all__ = ["MODELS", "convnet", "linear", "mixer", "mlp", "resnet"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return MODELS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
