"""What a layer must prove before it may train privately."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.numerics import gamma, times


class LipschitzLayer(keras.layers.Layer, abc.ABC):
    """A layer that states proved bounds, one sample at a time, in exact arithmetic.

    Every norm is the Euclidean norm of one sample's whole tensor; the batch axis never enters.
    Bounds are host floats in float64, true for every input of norm at most ``x`` and every weight
    of the constraint set; ``math.inf`` says "no bound". The Jacobian meant is the one that
    automatic differentiation returns, at kinks and ties too. As g grows, ``backward_bound`` and
    ``parameter_bounds`` never fall, and grow at most in proportion: noise that follows an adaptive
    threshold relies on it. Concrete layers are final. What the
    bounds need of the input's shape is fixed in ``build``; a call at another shape is refused.

    Attributes:
        linear_backward: Whether ``backward_bound(x, g) == g * backward_bound(x, 1)``, which lets
            the engine keep track of what the branches of a concatenation share.
        convolves: Whether it runs convolutions without weights of its own; those of a layer with
            a kernel of 3 axes or more are known.
    """

    _kind = "layer"
    linear_backward = False
    convolves = False

    @abc.abstractmethod
    def forward_bound(self, x: float) -> float:
        """Bound of ``||f(t)||`` over ``||t|| <= x``, in training mode."""

    @abc.abstractmethod
    def backward_bound(self, x: float, g: float) -> float:
        """Bound of ``||J_t^T u||`` over ``||t|| <= x`` and ``||u|| <= g``, in training mode."""

    @abc.abstractmethod
    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """Bounds of ``||dl/dv||`` for each v of ``trainable_variables``, in that order."""

    def lipschitz(self, x: float) -> float:
        """Lipschitz constant in inference mode at the present weights, over ``||t|| <= x``.

        This is what certificates use. Layers whose inference map or present weights have a smaller
        constant than the constraint set override it.
        """
        return self.backward_bound(x, 1.0)

    def inference_bound(self, x: float) -> float:
        """Bound of ``||f(t)||`` over ``||t|| <= x`` in inference mode, at the present weights.

        This is what certificates use. Layers with weights override it; without that they are
        certified only while their weights lie in the set that ``forward_bound`` is about.
        """
        return self.forward_bound(x)

    def inference_error(self, x: float, unit: float) -> float:
        """How far f as computed may be from f there, beside what underflows.

        Args:
            x: Bound of the norm of the input.
            unit: Unit round-off of the layer's dtype.
        """
        return times(self.rounding(unit), self.inference_bound(x))

    def rounding(self, unit: float) -> float:
        """Relative slack s: each bound above, times 1 + s, holds for the computed values.

        Args:
            unit: Unit round-off of the layer's dtype.
        """
        return gamma(8, unit)


class NonExpansiveLayer(LipschitzLayer):
    """A layer without weights that maps 0 to 0 and is 1-Lipschitz, one sample at a time."""

    linear_backward = True

    def forward_bound(self, x: float) -> float:
        """``||f(t)|| = ||f(t) - f(0)|| <= ||t||``."""
        return x

    def backward_bound(self, x: float, g: float) -> float:
        """A 1-Lipschitz map has a Jacobian of spectral norm at most 1."""
        return g

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No weights."""
        return []


def with_backward(function: Callable[..., tuple[Any, Callable[[Any], Any]]], *inputs: Any) -> Any:
    """The output of a function, with the gradient that it states for it.

    Args:
        function: Maps the inputs to the output and to ``pull``; ``pull(u)`` is the gradient of the
            input, or a tuple of those of the inputs.
        *inputs: Tensors.
    """

    def forward(*inputs: Any) -> tuple[Any, Callable[..., Any]]:
        y, pull = function(*inputs)

        # TensorFlow and JAX pass the cotangent alone, PyTorch the saved tensors and ``upstream``.
        def adapted(*args: Any, upstream: Any = None) -> Any:
            return pull(args[0] if upstream is None else upstream)

        return y, adapted

    return ops.custom_gradient(forward)(*inputs)


def identity(x: Any, *others: Any, backward: Callable[..., Any]) -> Any:
    """A copy of x; ``backward(u, *others)`` stands for the gradient, u being the cotangent.

    Args:
        x: Any tensor.
        *others: Further tensors or weights that get a gradient.
        backward: Returns what is sent back to x, or a tuple of that and of the gradients of the
            others. It must take the others as arguments and not close over them.
    """

    def function(x: Any, *others: Any) -> tuple[Any, Callable[[Any], Any]]:
        return ops.copy(x), lambda u: backward(u, *others)

    return with_backward(function, x, *map(ops.convert_to_tensor, others))


def sample_shape(input_shape: Sequence[int | None]) -> tuple[int, ...]:
    """The shape without the batch axis, known and of at least one axis.

    Raises:
        InvalidValue: If a size is unknown or there is no axis but the batch.
    """
    known = [size for size in input_shape[1:] if size is not None]
    if not known or len(known) != len(input_shape) - 1:
        raise InvalidValue(
            "The shape of one sample must be known and have at least one axis",
            received=tuple(input_shape),
            fix="Start the model with a BoundedInput or keras.Input of fixed shape",
        )
    return tuple(known)


def entries(input_shape: Sequence[int | None]) -> int:
    """Number of entries of one sample."""
    return math.prod(sample_shape(input_shape))


def positions(input_shape: Sequence[int | None]) -> int:
    """Number of positions of one sample: all its axes but the last."""
    return math.prod(sample_shape(input_shape)[:-1])


def divisible(input_shape: Sequence[int | None], divisor: int) -> None:
    """Checks the last axis.

    Raises:
        InvalidValue: If the divisor does not divide it.
    """
    if sample_shape(input_shape)[-1] % divisor:
        raise InvalidValue(
            f"The last axis must be divisible by {divisor}",
            received=tuple(input_shape),
            fix="Change the number of units in front",
        )
