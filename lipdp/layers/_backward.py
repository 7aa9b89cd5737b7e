"""The identity with a backward pass of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops


def identity(x: Any, *others: Any, backward: Callable[..., Any]) -> Any:
    """A copy of x; ``backward(u, *others)`` stands for the gradient, u being the cotangent.

    Args:
        x: Any tensor.
        *others: Further tensors or weights that get a gradient.
        backward: Returns what is sent back to x, or a tuple of that and of the gradients of the
            others. It must take the others as arguments and not close over them.
    """

    def forward(x: Any, *others: Any) -> tuple[Any, Callable[..., Any]]:
        # TensorFlow and JAX pass the cotangent alone, PyTorch the saved tensors and ``upstream``.
        def pull(*args: Any, upstream: Any = None) -> Any:
            return backward(args[0] if upstream is None else upstream, *others)

        return ops.copy(x), pull

    return ops.custom_gradient(forward)(x, *map(ops.convert_to_tensor, others))
