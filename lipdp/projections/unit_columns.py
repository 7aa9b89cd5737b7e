"""A ball for each column, so that each logit is 1-Lipschitz."""

from __future__ import annotations

from typing import final

import keras

from lipdp.projections._euclidean import SliceBall


@final
@keras.saving.register_keras_serializable(package="lipdp")
class UnitColumns(SliceBall):
    """Keeps each column of a kernel, the weights of one unit, at a norm of at most the radius.

    A kernel of shape (..., in, units) keeps ``max_j ||w_j|| <= radius``, where the column w_j holds
    the entries of last index j. With radius 1 each logit ``w_j^T x`` is 1-Lipschitz by itself; all
    of them together are only ``sqrt(units)``-Lipschitz, which ``spectral_bound`` says.
    ``norm_bound`` and ``bound_of`` are those of the greatest column norm, not of the spectral one.

    Args:
        radius: Greatest norm of a column, from 1e-30 to 1e30.

    Guarantees:
        * Each returned column is inside its ball as computed; one that already was stays, up to
          the rounding margin, whatever the others do.
        * A weight with a non-finite entry becomes all NaN.
    """

    _axis = -1
