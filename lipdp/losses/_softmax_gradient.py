"""The largest gradient of softmax cross-entropy over a ball of logits."""

from __future__ import annotations

import functools
import math

import numpy as np

_CELLS = 2048
_PIECES = 8
_MOST_CELLS = 200_000
_PRECISION = 1e-7
_ROUNDING = 1.0 + 1e-12


@functools.lru_cache(maxsize=4096)
def softmax_gradient_supremum(radius: float, num_classes: int) -> float:
    """Bound of ``||softmax(z) - e_y||_2`` over ``||z||_2 <= radius`` and every class y.

    Above the supremum by at most about 1e-7 (relative), and never below it.

    Proof. Write s = 1 - p_y and q for the softmax of the other logits: F = s sqrt(1 + ||q||^2).

    * Lowering z_y raises s and leaves q alone, so F has no maximum inside the ball, and (F being
      blind to a common shift, which shortens z unless its mean is 0) none of mean other than 0.
    * Given z_y, let ``u_j = e^{z_j}`` for the other classes, ``E = sum u``, ``Q = sum u^2``:
      ``f = F^2 = (E^2 + Q) / (E + e^{z_y})^2``. At a maximum over a ball of the others there is a
      multiplier m >= 0 with ``f_E u + 2 f_Q u^2 = 2 m ln u`` for each u_j. As ``f_Q > 0``,
      ``k(u) = 2 f_Q u^2 + f_E u - 2 m ln u`` is strictly convex: at most two values p < q, and
      ``k'(q) > 0``. Were two coordinates at q, then along ``e_i - e_j`` (tangent, and E and Q are
      stationary) the Lagrangian would have the second derivative ``2 q k'(q) > 0``: no maximum.
      So one other class stands at b and the K - 2 others at a common c.
    * What is left is a circle: mean 0, norm ``radius``, three values. The Jacobian of softmax has
      spectral norm at most 1/2, so F moves by at most radius / 2 times the angle: branch and bound.

    K = 2 has the closed form ``sqrt 2 / (1 + exp(-sqrt 2 radius))``. The cap ``sqrt 2`` holds for
    every z: ``(1 - p_y)^2 + sum p_j^2 <= 2 (1 - p_y)^2``.

    Args:
        radius: Bound of the Euclidean norm of the logits, temperature included; may be ``inf``.
        num_classes: Number of logits K, at least 2.
    """
    cap = math.sqrt(2.0)
    if num_classes == 2:
        return min(cap, _ROUNDING * cap / (1.0 + math.exp(-cap * radius)))
    if math.isinf(radius):
        return cap
    centres = (np.arange(_CELLS) + 0.5) * (2.0 * np.pi / _CELLS)
    half = np.pi / _CELLS
    while True:
        values = _gradient_norms(centres, radius, num_classes)
        best, error = float(values.max()), 0.5 * radius * half
        if best * (1.0 + _PRECISION) >= cap:
            return cap
        kept = centres[values + error >= best]
        if error <= _PRECISION * best or len(kept) * _PIECES > _MOST_CELLS:
            return min(cap, (best + error) * _ROUNDING)
        half /= _PIECES
        offsets = half * (2.0 * np.arange(_PIECES) + 1.0 - _PIECES)
        centres = (kept[:, None] + offsets).ravel()


def _gradient_norms(angles: np.ndarray, radius: float, classes: int) -> np.ndarray:
    """F on the circle of mean 0 and norm ``radius`` in the space of (z_y, b, c, ..., c)."""
    others = classes - 2
    along, across = radius * np.cos(angles) / math.sqrt(2.0), radius * np.sin(angles)
    common = across * math.sqrt(2.0 / (classes * others))
    shared = -across * math.sqrt(others / (2.0 * classes))
    true, other = shared - along, shared + along
    top = np.maximum(np.maximum(true, other), common)
    e_true, e_other, e_common = (np.exp(v - top) for v in (true, other, common))
    total = e_true + e_other + others * e_common
    away = (e_other + others * e_common) / total
    squares = away**2 + (e_other / total) ** 2 + others * (e_common / total) ** 2
    return np.sqrt(squares)
