"""Reference architectures, each a function that returns a list of layers; found by name."""

from lipdp.registry import Registry

#: Names to architectures; listing them imports no Keras.
MODELS = Registry("lipdp.models", "model")

__all__ = ["MODELS"]
