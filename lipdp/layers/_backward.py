"""Functions with a backward pass of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops


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
