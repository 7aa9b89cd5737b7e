"""Architectures for rows of features: linear, and a multilayer perceptron."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from lipdp.errors import InvalidValue
from lipdp.layers import BoundedBias, FrobeniusDense, SpectralDense
from lipdp.models.base import front
from lipdp.numerics import count
from lipdp.registry import Registry


def linear(
    num_features: int,
    num_outputs: int,
    *,
    input_radius: float = 1.0,
    min_norm: float | None = None,
    head_radius: float = 1.0,
    dtype: str = "float32",
) -> list[keras.layers.Layer]:
    """Layers of ``x W`` with ``||W||_F <= head_radius`` behind a bounded input; no bias.

    Weights start at 0: a random start would be most of what a short training ends with.

    Args:
        num_features: Size of one row.
        num_outputs: Number of logits; 1 for binary labels.
        input_radius: Euclidean norm to which rows are clipped.
        min_norm: If given, rows are then normalised to the unit sphere, those of a smaller norm
            only scaled by ``1 / min_norm``.
        head_radius: Radius of the Frobenius ball of the weights.
        dtype: Type of computation and weights.

    Raises:
        InvalidValue: If an argument is outside its domain.
    """
    head = FrobeniusDense(
        count("num_outputs", num_outputs),
        radius=head_radius,
        kernel_initializer="zeros",
        dtype=dtype,
    )
    return [*front(num_features, input_radius, min_norm, dtype), head]


_LAYERS = Registry("lipdp.layers", "activation")
_ACTIVATIONS = ("full_sort", "group_sort", "householder_activation", "max_min")
_HEADS = ("frobenius", "spectral")


def mlp(
    num_features: int,
    num_outputs: int,
    *,
    widths: Sequence[int] = (128,),
    activation: str = "max_min",
    bias_radius: float | None = None,
    head: str = "frobenius",
    head_radius: float = 1.0,
    input_radius: float = 1.0,
    min_norm: float | None = None,
    dtype: str = "float32",
) -> list[keras.layers.Layer]:
    """Layers of a network of near-orthogonal dense layers and norm-preserving activations.

    Args:
        num_features: Size of one row.
        num_outputs: Number of logits; 1 for binary labels.
        widths: Units of each hidden layer; without any, this is the linear model, from zero.
        activation: ``"max_min"``, ``"group_sort"``, ``"full_sort"`` or
            ``"householder_activation"``; all but ``"full_sort"`` need even widths.
        bias_radius: Radius of the ball of each hidden bias; None for no bias.
        head: ``"frobenius"`` or ``"spectral"``, the ball of the last layer's weights.
        head_radius: Radius of the ball of a Frobenius head; a spectral head has radius 1.
        input_radius: Euclidean norm to which rows are clipped.
        min_norm: If given, rows are then normalised to the unit sphere, those of a smaller norm
            only scaled by ``1 / min_norm``.
        dtype: Type of computation and weights.

    Raises:
        InvalidValue: If an argument is outside its domain.
    """
    _check_choice("activation", activation, _ACTIVATIONS)
    layers = front(num_features, input_radius, min_norm, dtype)
    for width in _checked_widths(widths, activation):
        layers.append(SpectralDense(width, dtype=dtype))
        if bias_radius is not None:
            layers.append(BoundedBias(bias_radius, dtype=dtype))
        layers.append(_LAYERS[activation](dtype=dtype))
    start = "glorot_uniform" if widths else "zeros"
    return [*layers, _head(num_outputs, head, head_radius, dtype, start)]


def _head(num_outputs: int, head: str, radius: float, dtype: str, start: str) -> keras.layers.Layer:
    _check_choice("head", head, _HEADS)
    units = count("num_outputs", num_outputs)
    if head == "frobenius":
        return FrobeniusDense(units, radius=radius, kernel_initializer=start, dtype=dtype)
    if radius != 1.0:
        raise InvalidValue(
            "A spectral head has radius 1", received=radius, fix='Leave it out or use "frobenius"'
        )
    return SpectralDense(units, dtype=dtype)


def _checked_widths(widths: Sequence[int], activation: str) -> list[int]:
    if not isinstance(widths, Sequence) or isinstance(widths, str):
        raise InvalidValue("widths must be a list", received=widths, fix="Use widths=(128,)")
    checked = [count(f"widths[{i}]", width) for i, width in enumerate(widths)]
    for i, width in enumerate(checked):
        if width % 2 and activation != "full_sort":
            raise InvalidValue(
                f"widths[{i}] must be even for the activation {activation}",
                received=width,
                fix=f'Use {width + 1}, or activation="full_sort"',
            )
    return checked


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidValue(
            f"There is no such {name}", received=value, fix=f"Use one of: {', '.join(choices)}"
        )
