"""Steps of JAX functions: plain, and private by jax-privacy, each compiled as a whole.

Run by benchmarks.race: python -m benchmarks.workers.jax_privacy_steps CELL, the cell as JSON with
``net`` (mlp or cnn), ``kind`` (plain or private), ``micro_batch`` (rows whose gradients are in
memory at a time; null for all), ``batch`` and ``steps``.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax_privacy
import numpy as np
import optax
from jax_privacy import noise_addition

from benchmarks.workers.turns import serve

CLASSES = 10
SHAPES = {"mlp": (784,), "cnn": (28, 28, 1)}
#: Shapes of kernels; each has a bias.
KERNELS = {
    "mlp": ((784, 256), (256, 256), (256, CLASSES)),
    "cnn": ((3, 3, 1, 32), (3, 3, 32, 64), (7 * 7 * 64, CLASSES)),
}


def make_parameters(net: str) -> list[tuple[jax.Array, jax.Array]]:
    """Kernels and biases."""
    rng = np.random.default_rng(0)
    scales = [np.sqrt(2.0 / np.prod(shape[:-1])) for shape in KERNELS[net]]
    return [
        (jnp.asarray(scale * rng.normal(size=shape), "float32"), jnp.zeros(shape[-1]))
        for scale, shape in zip(scales, KERNELS[net], strict=True)
    ]


def pooled(x: jax.Array) -> jax.Array:
    """Greatest values of windows of 2 by 2."""
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def convolved(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Same padding, channels last."""
    return jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def logits_of(parameters: Any, x: jax.Array) -> jax.Array:
    """Of a batch; a kernel of four axes is a convolution with pooling behind it."""
    *hidden, (last, bias) = parameters
    for kernel, shift in hidden:
        if kernel.ndim == 4:
            x = pooled(jax.nn.relu(convolved(x, kernel) + shift))
        else:
            x = jax.nn.relu(x @ kernel + shift)
    return x.reshape(x.shape[0], -1) @ last + bias


def loss_of(parameters: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean cross-entropy of a batch."""
    logits = logits_of(parameters, x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def make_step(cell: dict[str, Any]) -> tuple[Any, Callable[..., Any]]:
    """The first state, and the function from a state and a batch to the next state."""
    parameters, optimizer = make_parameters(cell["net"]), optax.sgd(0.01, momentum=0.9)
    if cell["kind"] == "plain":
        gradient: Any = jax.grad(loss_of)
        noise = optax.identity()
    else:
        gradient = jax_privacy.clipped_grad(
            loss_of,
            l2_clip_norm=1.0,
            normalize_by=cell["batch"],
            batch_argnums=(1, 2),
            microbatch_size=cell["micro_batch"],
        )
        noise = noise_addition.gaussian_privatizer(
            stddev=1.0 / cell["batch"], prng_key=jax.random.key(0)
        )

    def step(state: Any, x: jax.Array, y: jax.Array) -> Any:
        parameters, noise_state, momenta = state
        noisy, noise_state = noise.update(gradient(parameters, x, y), noise_state)
        updates, momenta = optimizer.update(noisy, momenta)
        return optax.apply_updates(parameters, updates), noise_state, momenta

    state = (parameters, noise.init(parameters), optimizer.init(parameters))
    return state, jax.jit(step, donate_argnums=0)


def make_turn(cell: dict[str, Any]) -> Callable[[], None]:
    """The function that trains for an epoch, of rows on the host in an order at random."""
    rng = np.random.default_rng(0)
    rows = cell["batch"] * cell["steps"]
    x = rng.standard_normal((rows, *SHAPES[cell["net"]]), dtype="float32")
    y = rng.integers(0, CLASSES, rows)
    state, step = make_step(cell)

    def turn() -> None:
        nonlocal state
        for chosen in np.split(rng.permutation(rows), cell["steps"]):
            state = step(state, x[chosen], y[chosen])
        jax.block_until_ready(state)

    return turn


if __name__ == "__main__":
    serve(make_turn)
