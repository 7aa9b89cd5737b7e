"""Certified accuracy as a Keras metric, to watch while training."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp.certificates.radii import non_negative


@keras.saving.register_keras_serializable(package="lipdp")
class CertifiedAccuracy(keras.metrics.Metric):
    """Weighted fraction of samples that stay right under perturbations of norm at most ``radius``.

    A sample counts if its margin is above ``sqrt(2) (l r + 2 e)`` (one logit: ``l r + 2 e``), which
    is ``radii(...) > radius``; the threshold is rounded up to float32 and the comparison is strict,
    so rounding never adds a sample. Where ``l r + 2 e`` is infinite nothing can be proved, and the
    result is NaN instead of 0.

    Args:
        radius: Euclidean norm of the perturbations, in units of the model's input.
        lipschitz: Joint Lipschitz constant of the logits, true for the weights that are evaluated.
        error: Bound of ``||computed logits - exact logits||``.
        name: Name of the metric.
        dtype: Type of the running sums.
    """

    def __init__(
        self,
        radius: float,
        lipschitz: float,
        *,
        error: float = 0.0,
        name: str = "certified_accuracy",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.radius = non_negative("radius", radius)
        self.lipschitz = lipschitz
        self.error = error
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")
        self.count = self.add_variable(shape=(), initializer="zeros", name="count")
        # A variable, since a traced step would keep the threshold of its first weights. No sum
        # over devices: each would keep a share of what is assigned, and compare with that.
        self.thresholds = self.add_variable(
            shape=(2,), initializer="zeros", aggregation="only_first_replica", name="thresholds"
        )
        self.set_bounds(self.lipschitz, self.error)

    def set_bounds(self, lipschitz: float, error: float) -> None:
        """Takes the constants of other weights.

        Args:
            lipschitz: Joint Lipschitz constant of the logits.
            error: Bound of ``||computed logits - exact logits||``.
        """
        self.lipschitz = non_negative("lipschitz", lipschitz)
        self.error = non_negative("error", error)
        exact = (_threshold(self.radius, lipschitz, error, single=s) for s in (True, False))
        self.thresholds.assign(np.array(list(exact), dtype="float32"))

    @property
    def proves(self) -> bool:
        """Whether a margin, however large, proves anything under the present constants."""
        return math.isfinite(_threshold(self.radius, self.lipschitz, self.error, single=False))

    def reset_state(self) -> None:
        """Forgets the samples, not the constants."""
        self.total.assign(0.0)
        self.count.assign(0.0)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: Class ids, shape (n,) or (n, 1), or one-hot rows, shape (n, K).
            y_pred: Logits, shape (n, K), or (n, 1) of threshold 0.
            sample_weight: Weights, shape (n,) or (n, 1).
        """
        z = ops.convert_to_tensor(y_pred)
        if z.dtype not in ("float32", "float64"):
            z = ops.cast(z, "float32")
        single = z.shape[-1] == 1
        margin = _binary_margin(y_true, z) if single else _margin(y_true, z)
        threshold = ops.cast(self.thresholds[0 if single else 1], margin.dtype)
        right = ops.cast(ops.isfinite(margin) & (margin > threshold), self.dtype)
        weight = ops.ones_like(right)
        if sample_weight is not None:
            weight = ops.reshape(ops.cast(sample_weight, self.dtype), (-1,))
        self.total.assign_add(ops.sum(right * weight))
        self.count.assign_add(ops.sum(weight))

    def result(self) -> Any:
        """Certified fraction so far; 0 before the first sample, NaN if nothing can be proved."""
        fraction = ops.divide_no_nan(self.total, self.count)
        proves = ops.all(ops.isfinite(ops.convert_to_tensor(self.thresholds)))
        return ops.where(proves, fraction, ops.full_like(fraction, math.nan))

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {
            **super().get_config(),
            "radius": self.radius,
            "lipschitz": self.lipschitz,
            "error": self.error,
        }


def _threshold(radius: float, lipschitz: float, error: float, *, single: bool) -> float:
    moved = 0.0 if radius == 0.0 else lipschitz * radius
    exact = (moved + 2.0 * error) * (1.0 if single else math.sqrt(2.0))
    # Three roundings in float64 are far below one step of float32.
    with np.errstate(over="ignore"):
        return float(np.nextafter(np.float32(exact), np.float32(np.inf))) if exact else 0.0


def _binary_margin(y_true: Any, z: Any) -> Any:
    y = ops.reshape(ops.convert_to_tensor(y_true), (-1,))
    f = ops.reshape(z, (-1,))
    signed = ops.where(y == 1, f, -f)
    return ops.where((y == 0) | (y == 1), signed, -math.inf)


def _margin(y_true: Any, z: Any) -> Any:
    y = ops.convert_to_tensor(y_true)
    classes = z.shape[-1]
    if len(y.shape) == 2 and y.shape[-1] == classes:
        mine = y == ops.max(y, axis=-1, keepdims=True)
    else:
        mine = ops.reshape(y, (-1, 1)) == ops.cast(ops.arange(classes), y.dtype)
    others = ops.max(ops.where(mine, -math.inf, z), axis=-1)
    # No label, or a shared maximum of a soft one, is no class: never right.
    one = ops.sum(ops.cast(mine, "int32"), axis=-1) == 1
    finite = ops.all(ops.isfinite(z), axis=-1)
    own = ops.sum(ops.where(mine, z, ops.zeros_like(z)), axis=-1)
    return ops.where(one & finite, own - others, -math.inf)
