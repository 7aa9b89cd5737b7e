"""Bounds of cotangent norms that remember what a concatenation shares out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from lipdp.numerics import times
from lipdp.projections import spectral_norm_bound


@dataclass(frozen=True)
class Cotangent:
    """A bound of ``||u||``, as ``constant + sum_j sum_i shares[j, i] a_(j, i)``.

    A concatenation j shares its cotangent out: the norms ``a_(j, i)`` of the parts, relative to the
    bound of the whole, have squares that sum to at most 1. So branches of one concatenation that
    meet again cost ``sqrt(sum l_i^2)`` and not ``sum l_i``: the greatest value of the form is
    ``constant + sum_j sqrt(sum_i shares[j, i]^2)``, by Cauchy-Schwarz.

    Attributes:
        constant: Part that no concatenation shares out.
        shares: Coefficient of each (concatenation, part).
    """

    constant: float = 0.0
    shares: Mapping[tuple[int, int], float] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def bound(self) -> float:
        """The greatest value of the form."""
        joins: dict[int, list[float]] = defaultdict(list)
        for (join, _), share in self.shares.items():
            joins[join].append(share)
        return math.fsum([self.constant, *(math.hypot(*shares) for shares in joins.values())])

    @property
    def triangle(self) -> float:
        """The simpler bound of the triangle inequality, which forgets what parts share."""
        return math.fsum([self.constant, *self.shares.values()])

    def __mul__(self, factor: float) -> Cotangent:
        shares = {part: times(share, factor) for part, share in self.shares.items()}
        return Cotangent(times(self.constant, factor), MappingProxyType(shares))

    def __add__(self, other: Cotangent) -> Cotangent:
        shares = dict(self.shares)
        for part, share in other.shares.items():
            shares[part] = shares.get(part, 0.0) + share
        return Cotangent(self.constant + other.constant, MappingProxyType(shares))


def joint_bound(cotangents: Sequence[Cotangent]) -> float:
    """Bound of the norm of several cotangents together.

    With constants c and, for each concatenation j, the matrix M_j of coefficients (cotangents by
    parts), ``||c + sum_j M_j a_j|| <= ||c|| + sum_j ||M_j||_2``; the norm of the single bounds is
    another bound, and the smaller one counts.
    """
    single = math.hypot(*(c.bound for c in cotangents))
    together = math.hypot(*(c.constant for c in cotangents))
    for join in {join for c in cotangents for join, _ in c.shares}:
        parts = sorted({p for c in cotangents for p in c.shares if p[0] == join})
        rows = [[c.shares.get(p, 0.0) for p in parts] for c in cotangents]
        together += spectral_norm_bound(np.asarray(rows))
    return min(single, together)


def part(join: int, index: int, whole: float) -> Cotangent:
    """What a concatenation hands to its input ``index``, of a cotangent of norm at most ``whole``.

    Args:
        join: Key of the concatenation.
        index: Of the input.
        whole: Bound of the norm of all parts together.
    """
    return Cotangent(0.0, MappingProxyType({(join, index): whole}))


def start(output: int, g: float) -> dict[int, Cotangent]:
    """Bounds by tensor where a backward pass begins: ``g`` at the output, 0 elsewhere."""
    cotangents: dict[int, Cotangent] = defaultdict(Cotangent)
    cotangents[output] = Cotangent(g)
    return cotangents


def give(cotangents: dict[int, Cotangent], keys: Sequence[int], parts: list[Cotangent]) -> None:
    """Adds what one call gives each tensor that it reads; several readers sum up."""
    for key, given in zip(keys, parts, strict=True):
        cotangents[key] = cotangents[key] + given
