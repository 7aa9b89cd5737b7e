"""Rescaling into a ball, shared by the projections that have a radius."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from keras import ops

from lipdp.projections import _gram
from lipdp.projections._checks import positive
from lipdp.projections.base import Projection


class RadiusBall(Projection):
    """Keeps a weight whose proved norm is at most the radius, shrinks any other.

    With ``V = w / peak`` and a proved ``b >= ||V||``, a weight with ``peak b <= limit`` is kept and
    any other becomes ``limit U``, where U is ``V / b`` or another tensor made of V with norm at
    most 1, and ``limit = radius (1 - margin)``. The margin covers the roundings of limit, U and
    their product. A weight with a non-finite entry becomes all NaN.

    Args:
        radius: Radius of the ball, from 1e-30 to 1e30.
    """

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = positive("radius", radius)

    @property
    def norm_bound(self) -> float:
        """The radius."""
        return self.radius

    def spectral_bound(self, shape: Sequence[int]) -> float:
        """The radius: the norm of this ball is at least the spectral one."""
        return self.radius

    @abc.abstractmethod
    def _norm(self, v: Any) -> Any:
        """Proved bound of the norm of a tensor with greatest absolute entry 1 (or all zero)."""

    @abc.abstractmethod
    def _growth(self, w: Any) -> float:
        """Factor c: entrywise relative errors of at most u grow the norm by at most 1 + c u."""

    @abc.abstractmethod
    def _certificate(self, w: Any) -> float:
        """Relative overshoot of ``bound_of``."""

    def _peak_axes(self, w: Any) -> tuple[int, ...] | None:
        """Axes that share one norm, all if None; the others have a ball each."""
        return None

    def _shrunk(self, v: Any, norm: Any) -> Any:
        """U, exact up to four roundings an entry."""
        return v / norm

    def __call__(self, w: Any) -> Any:
        """The weight inside the ball, same shape and dtype.

        Args:
            w: Weight of any shape, float32 or float64.
        """
        w = ops.convert_to_tensor(w)
        v, peak = _gram.normalized(_gram.widen(w), self._peak_axes(w))
        rounding = self._growth(w) * (2 * _gram.unit_of(w) + 8 * _gram.unit_of(v))
        limit = self.radius * (1.0 - rounding - self._certificate(w))
        norm = self._norm(v)
        shrunk = ops.cast(self._shrunk(v, norm) * limit, w.dtype)
        return _gram.nan_unless_finite(w, ops.where(peak <= limit / norm, w, shrunk))

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {"radius": self.radius}
