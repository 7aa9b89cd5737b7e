"""A table of vectors, looked up by ids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import keras
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers.base import LipschitzLayer
from lipdp.layers.dense import ProjectedInitializer
from lipdp.numerics import count, gamma, times
from lipdp.projections import ChannelBall
from lipdp.setting import Setting


@final
@keras.saving.register_keras_serializable(package="lipdp")
class BoundedEmbedding(LipschitzLayer):
    """Rows of a trained table of shape (num_embeddings, units), each in the ball of ``radius``.

    Ids of shape (n, ...), T a sample, become vectors of shape (n, ..., units). An id is an integer,
    or a float without fraction, from 0 to ``num_embeddings - 1``; anything else (NaN too) gets the
    zero vector and trains nothing. ``keras.Input((T,), dtype="int32")`` in front casts what it is
    given: with it a float loses its fraction before this layer sees it.

    The output norm is at most ``sqrt(T)`` times the greatest row norm, whatever the input. Row v of
    the gradient is ``sum_(t: id_t = v) g_t``. With c_v such terms, its square is at most
    ``c_v sum g_t^2`` (Cauchy-Schwarz), and ``c_v <= T``, so the whole has norm at most
    ``sqrt(T) ||g||``, attained by one id at all positions. The whole table is noised, rows that no
    record names too, so its size tells nothing about the records.

    Ids have no gradient, and no norm in which the map had a Lipschitz constant: that is infinite,
    and ``lipdp.certify`` says that nothing can be proved about such a model.

    Args:
        num_embeddings: Rows of the table.
        units: Size of a vector.
        radius: Radius of the ball of each row; None for free rows, whose norm has no bound: put a
            ``SphereNormalization`` behind them.

    Guarantees:
        * No id raises an error, and none makes NaN of finite weights.
        * Each row is inside its ball from the start and after every update.
    """

    num_embeddings = Setting[int]()
    units = Setting[int]()
    constraint = Setting[ChannelBall | None]()

    def __init__(
        self, num_embeddings: int, units: int, radius: float | None = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.num_embeddings = count("num_embeddings", num_embeddings)
        self.units = count("units", units)
        self.constraint = None if radius is None else ChannelBall(radius, axis=0)
        # Casting float64 ids to float32 could make another id of them.
        self.autocast = False

    def build(self, input_shape: Any) -> None:
        """Creates the table, of random rows of a norm of about the radius (or 1)."""
        self._tokens = _tokens(input_shape)
        self.table = self.add_weight(
            name="table",
            shape=(self.num_embeddings, self.units),
            initializer=self._initializer(),
            constraint=self.constraint,
        )

    def _initializer(self) -> keras.initializers.Initializer:
        radius = 1.0 if self.constraint is None else self.constraint.radius
        start = keras.initializers.RandomNormal(stddev=radius / math.sqrt(self.units))
        return start if self.constraint is None else ProjectedInitializer(start, self.constraint)

    def call(self, inputs: Any) -> Any:
        """Ids of shape (n, ...) to vectors of shape (n, ..., units)."""
        ids, known = self.known_ids(inputs)
        # Behind a reshape TensorFlow makes the lookup's gradient dense, equal ids summed up. The
        # sparse one lists them one by one, and whoever assigns it keeps the last alone.
        table = ops.reshape(ops.convert_to_tensor(self.table), self.table.shape)
        rows = ops.take(table, ids, axis=0)
        return ops.where(ops.expand_dims(known, -1), rows, ops.zeros_like(rows))

    def known_ids(self, inputs: Any) -> tuple[Any, Any]:
        """Ids as int32, 0 in place of those that are none, and whether each is one."""
        ids = _exact(ops.convert_to_tensor(inputs))
        known = ops.logical_and(ids >= 0, ids < self.num_embeddings)
        if "float" in keras.backend.standardize_dtype(ids.dtype):
            known = ops.logical_and(known, ops.equal(ids, ops.floor(ids)))
        return ops.cast(ops.where(known, ids, ops.zeros_like(ids)), "int32"), known

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """The input shape and ``units``."""
        return (*input_shape, self.units)

    def compute_output_spec(self, inputs: Any) -> keras.KerasTensor:
        """Vectors in the layer's dtype, of ids in any."""
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), self.compute_dtype)

    def forward_bound(self, x: float) -> float:
        """``sqrt(T)`` times the greatest row norm; ``x`` is the norm of ids and means nothing."""
        return times(math.sqrt(self._tokens), self._row_norm())

    def backward_bound(self, x: float, g: float) -> float:
        """Ids have no gradient."""
        return 0.0

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """``sqrt(T) g``."""
        return [times(math.sqrt(self._tokens), g) for _ in self.trainable_variables]

    def lipschitz(self, x: float) -> float:
        """None is known."""
        return math.inf

    def inference_bound(self, x: float) -> float:
        """``sqrt(T)`` times the greatest norm of a present row."""
        return times(math.sqrt(self._tokens), self._present_norm())

    def rounding(self, unit: float) -> float:
        """The gradient of a row is a sum of up to T terms, exact up to ``gamma(T) sum |g_t|``."""
        return gamma(self._tokens + 2, unit)

    def _row_norm(self) -> float:
        """Norm of every row that training can visit, present ones outside their ball included."""
        trained = bool(self.trainable_variables)
        if self.constraint is None and trained:
            return math.inf
        return self._ball.reach(ops.convert_to_numpy(self.table), trained=trained)

    def _present_norm(self) -> float:
        return self._ball.bound_of(ops.convert_to_numpy(self.table))

    @property
    def _ball(self) -> ChannelBall:
        """Norms of rows are measured alike without a constraint."""
        return self.constraint or ChannelBall(axis=0)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {
            **super().get_config(),
            "num_embeddings": self.num_embeddings,
            "units": self.units,
            "radius": None if self.constraint is None else self.constraint.radius,
        }


def _tokens(input_shape: Sequence[int | None]) -> int:
    """Number of ids of one sample, one if there is no axis but the batch."""
    sizes = [size for size in input_shape[1:] if size is not None]
    if len(sizes) != len(input_shape) - 1:
        raise InvalidValue(
            "The number of ids of one sample must be known",
            received=tuple(input_shape),
            fix='Start the model with keras.Input((T,), dtype="int32") of fixed T',
        )
    return math.prod(sizes)


def _exact(ids: Any) -> Any:
    """Ids in a type that can be compared with any number of rows; values of no id stay none."""
    dtype = keras.backend.standardize_dtype(ids.dtype)
    if "float" in dtype:
        return ids if dtype == "float64" else ops.cast(ids, "float32")
    return ops.cast(ids, "int64" if dtype.endswith("int64") else "int32")
