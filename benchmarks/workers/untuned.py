"""Keras' data pipelines without tf.data's tuning thread."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_ADAPTERS = ("py_dataset_adapter.PyDatasetAdapter", "array_data_adapter.ArrayDataAdapter")


def without_tuning_threads() -> None:
    """Iterators of tf.data go at once, in whatever was imported of Keras so far.

    The thread that tunes one sleeps for up to a minute. Its wake-up may be lost when the iterator
    is collected, and the collection waits: seen in one epoch of a hundred, private or not.
    """
    for name in _ADAPTERS:
        file, adapter = name.split(".")
        module = sys.modules.get(f"keras.src.trainers.data_adapters.{file}")
        cls = getattr(module, adapter, None)
        if cls is not None and not hasattr(cls.get_tf_dataset, "original"):
            cls.get_tf_dataset = _untuned(cls.get_tf_dataset)


def _untuned(original: Callable[..., Any]) -> Callable[..., Any]:
    def untuned(self: Any) -> Any:
        import tensorflow as tf

        options = tf.data.Options()
        options.autotune.enabled = False
        return original(self).with_options(options)

    untuned.original = original  # type: ignore[attr-defined]
    return untuned
