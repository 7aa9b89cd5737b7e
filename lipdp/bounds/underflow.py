"""What layers lose where numbers underflow: absolute terms beside the relative slacks.

Backends may set results below ``e = 2^-126``, the least normal number of float32, to zero, and read
such numbers as zero. So ``fl(a op b) = (a op b)(1 + d) + h`` with ``|h| <= e`` (Higham, Accuracy
and Stability of Numerical Algorithms, section 2.8), and no relative slack covers h: behind
``Rescaling(1e-38)`` it may be all that is left. Casts lose as much, float64 by itself less.

Proof of ``lost_by``. Let the tensors and weights of a layer have at most N entries, and its input
norm at most x.

* An entry is a sum of at most N products, each of which loses at most ``2 e``; a weight that is
  read as zero costs ``e x`` a product. A tensor of at most N entries has lost at most
  ``2 N^1.5 e (1 + x)``. Backward and for gradients it is the same with the cotangent's norm g.
* What is lost inside reaches the output multiplied by at most ``8 A``, A the greatest of 1, the
  Jacobian's bound and, in a layer of several kernels, each kernel's norm: a layer of one kernel and
  an activation multiplies by the slope, at most 2, or by the kernel, whose norm is at most 8 times
  the Jacobian's, as the bounds of slopes are at least 1/8. A product of several tensors multiplies
  by norms of the others: its Jacobians at norms ``1 + x``. Layers of others must keep to that.
* What is left of ``2^-110 = 2^16 e`` is for the constants of the code: roots of counts of windows
  and classes, the terms of exp, tanh and erf, the levels of a scattering.

A computed norm is then at most ``(1 + slack) bound + lost (1 + x)``, a gradient's ``(1 + slack)
bound + lost (1 + x)(1 + g)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras

from lipdp.bounds.graph import Call
from lipdp.bounds.rules.base import weight_bound
from lipdp.projections import frobenius_norm_bound

_LOST = 2.0**-110

#: How much more outputs may be off by than their norms are: ``smooth_norm`` multiplies sums of
#: squares by 2^49. Squares that vanish make a norm smaller, but not its error. Numbers of losses
#: lie in [1e-12, 1e12], and multiply by at most 2^40.
MULTIPLIED = 2.0**40

#: Bounds that are less than this many times ``lost_by`` are mostly about underflow.
_ENOUGH = 2.0**20

#: Above every usable bound.
_VAST = 2.0**600


def lost_by(call: Call, jacobian: float) -> float:
    """Bound of what a tensor of a layer loses, for inputs and cotangents of norm 0.

    Args:
        call: Of the layer.
        jacobian: Bound of its Jacobian norm; an infinite one passes nothing on that has a bound.
    """
    return _lost_by(call, jacobian, lambda v: weight_bound(v, frobenius_norm_bound))


def lost_at_present(call: Call, lipschitz: float) -> float:
    """The same in inference mode, at the weights of now.

    Args:
        call: Of the layer.
        lipschitz: Bound of its Lipschitz constant there.
    """
    return _lost_by(call, lipschitz, lambda v: frobenius_norm_bound(keras.ops.convert_to_numpy(v)))


def _lost_by(call: Call, jacobian: float, norm: Callable[[Any], float]) -> float:
    weights = [math.prod(v.shape) for v in call.layer.weights]
    gains = [jacobian, *_kernel_norms(call.layer, norm)] if jacobian > 0.0 else []
    return lost(max(call.shapes.entries, *weights, 1), *gains)


def lost(entries: int, *gains: float) -> float:
    """``2^-110 N^1.5 A``, A the greatest finite gain, or 1."""
    return _LOST * entries**1.5 * max([1.0, *(gain for gain in gains if math.isfinite(gain))])


def _kernel_norms(layer: Any, norm: Callable[[Any], float]) -> list[float]:
    """Norms of a layer's kernels: where it has several, one multiplies what another lost."""
    kernels = [v for v in layer.weights if len(v.shape) > 1]
    return [norm(v) for v in kernels] if len(kernels) > 1 else []


def with_size(size: float, made: float = 0.0) -> float:
    """``1 + x`` for what a layer reads.

    Whatever has a bound although x has none does not depend on x: the size counts of what is made.
    """
    return 1.0 + (size if math.isfinite(size) else made)


def unless_zero(lost: float, bound: float, of_vast: Callable[[], float]) -> float:
    """What is lost: nothing of a bound that is 0, if it is also 0 for vast norms.

    If it is not, a product of small factors underflowed on the host.
    """
    return 0.0 if bound == 0.0 and of_vast() == 0.0 else lost


def vast(size: float) -> float:
    """A norm that none is above, 0 for 0."""
    return _VAST if size > 0.0 else 0.0


def is_mostly_lost(bound: float, lost: float) -> bool:
    """Whether a bound says more about underflow than about the model."""
    return 0.0 < bound < _ENOUGH * lost
