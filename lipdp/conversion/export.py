"""A model as a plain Keras model that needs this package no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from lipdp.conversion._functional import call_again
from lipdp.conversion.rules import dense_like, plain
from lipdp.errors import UnsupportedLayer
from lipdp.layers import BoundedBias, FrobeniusDense, SpectralDense


def export(model: keras.Model) -> keras.Model:
    """The inference-mode function of a model, built of plain Keras layers and ``keras.ops``.

    Dense layers become ``keras.layers.Dense``, with the bias that follows them; cotangent clips
    vanish; all other layers are written out as operations. The copy shares nothing with the model,
    is not compiled, holds no privacy ledger, and training it has no guarantee.

    Args:
        model: A built Sequential or Functional model; nested models are exported too.

    Returns:
        A Functional model of the same name with equal predictions (to rounding). A ``.keras`` file
        of it loads where this package is not installed.

    Raises:
        InvalidState: If the model is not built.
        UnsupportedLayer: If a layer has no rule, or the model is subclassed.
    """
    exported = call_again(model, _Calls())
    _check_plain(exported)
    return exported


class _Calls:
    """Calls each layer's plain counterpart; a layer used twice has one counterpart."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, ...], Callable[..., Any]] = {}
        self._dense: dict[int, tuple[Any, Any]] = {}

    def __call__(self, layer: Any, *args: Any, **kwargs: Any) -> Any:
        if type(layer) is BoundedBias and id(args[0]) in self._dense:
            return self._with_bias(layer, args[0])
        outputs = self._counterpart(layer)(*args, **kwargs)
        if type(layer) in (SpectralDense, FrobeniusDense):
            self._dense[id(outputs)] = (layer, args[0])
        return outputs

    def _with_bias(self, bias: BoundedBias, product: Any) -> Any:
        """Makes the product again with a bias; Keras drops the first one if nothing reads it."""
        dense, inputs = self._dense[id(product)]
        key = (id(dense), id(bias))
        if key not in self._made:
            self._made[key] = dense_like(dense, bias)
        return self._made[key](inputs)

    def _counterpart(self, layer: Any) -> Callable[..., Any]:
        key = (id(layer),)
        if key not in self._made:
            nested = isinstance(layer, keras.Model)
            self._made[key] = call_again(layer, _Calls()) if nested else plain(layer)
        return self._made[key]


def _check_plain(model: keras.Model) -> None:
    """A last look at what would be written: a name from here needs this package to load."""
    text = model.to_json()
    if '"lipdp>' in text or '"lipdp.' in text:
        raise UnsupportedLayer(
            f"The model {model.name!r} has an option that plain Keras does not know",
            fix="Replace the activation or other option that comes from lipdp",
        )
