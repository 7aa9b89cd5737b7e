"""The convolutions of this package.

Where windows overlap, a kernel that attains the bound must see the same cotangent in each of them,
which borders forbid: there the search comes less close.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lipdp import layers as ls
from lipdp.testing.parts._part import LayerPart

_LINE, _IMAGE, _VOLUME = (6, 2), (4, 4, 2), (3, 2, 3, 2)


def _part(
    name: str, make: Callable[..., Any], shape: tuple[int, ...], least: float = 0.8
) -> LayerPart:
    return LayerPart(name, make, shape, 2.0, least=least)


CONVOLUTIONS = (
    _part("SpectralConv1D", partial(ls.SpectralConv1D, 3, 3), _LINE),
    _part("SpectralConv2D", partial(ls.SpectralConv2D, 2, 3), _IMAGE),
    _part("SpectralConv2D valid", partial(ls.SpectralConv2D, 2, 2, padding="valid"), _IMAGE),
    _part(
        "SpectralConv2D without overlap",
        partial(ls.SpectralConv2D, 3, 2, strides=2, padding="valid"),
        _IMAGE,
        0.99,
    ),
    _part("SpectralConv2D circular", partial(ls.SpectralConv2D, 2, 3, padding="circular"), _IMAGE),
    _part(
        "SpectralConv2D circular, strided",
        partial(ls.SpectralConv2D, 2, (2, 3), strides=(2, 1), padding="circular"),
        (4, 3, 1),
    ),
    _part("SpectralConv2D strided", partial(ls.SpectralConv2D, 2, 3, strides=2), (5, 4, 1)),
    _part("SpectralConv2D dilated", partial(ls.SpectralConv2D, 2, 2, dilation_rate=(1, 2)), _IMAGE),
    _part("SpectralConv2D in groups", partial(ls.SpectralConv2D, 4, 2, groups=2), _IMAGE),
    _part("SpectralConv2D of one tap", partial(ls.SpectralConv2D, 3, 1), (3, 3, 2), 0.99),
    _part("SpectralConv3D", partial(ls.SpectralConv3D, 2, 2), _VOLUME),
    _part("SpectralDepthwiseConv2D", partial(ls.SpectralDepthwiseConv2D, 3), _IMAGE),
    _part(
        "SpectralDepthwiseConv2D of two multipliers",
        partial(ls.SpectralDepthwiseConv2D, 2, 2, strides=2, padding="valid"),
        _IMAGE,
    ),
    _part("SpectralConv1DTranspose", partial(ls.SpectralConv1DTranspose, 3, 3), _LINE),
    _part(
        "SpectralConv2DTranspose", partial(ls.SpectralConv2DTranspose, 2, 2, strides=2), (3, 2, 2)
    ),
    _part(
        "SpectralConv2DTranspose valid",
        partial(ls.SpectralConv2DTranspose, 2, 3, strides=2, padding="valid"),
        (2, 2, 2),
    ),
    _part("SpectralConv3DTranspose", partial(ls.SpectralConv3DTranspose, 2, 2), (2, 2, 2, 2)),
)
