"""One case for each loss, and its values and gradients by automatic differentiation."""

import functools
from typing import NamedTuple

import numpy as np
import pytest
from keras import ops

from lipdp import losses
from lipdp.bounds.probe import GradientProbe, Point


class Case(NamedTuple):
    """A loss and the number of its logits."""

    loss: losses.LipschitzLoss
    outputs: int

    @property
    def shape(self):
        """Of the logits of one sample."""
        positions = self.loss.positions
        return (self.outputs,) if positions is None else (positions, self.outputs)

    def labels(self, rows, rng=None):
        """Labels of any sample, in float32 (one dtype, one trace); zeros without a generator."""
        ids, vectors = (rows, *self.shape[:-1]), (rows, *self.shape)
        shape = vectors if self.loss.task in ("regression", "multilabel") else ids
        if rng is None:
            return np.zeros(shape, "float32")
        if self.loss.task == "regression":
            return rng.normal(size=shape).astype("float32")
        classes = 2 if self.loss.task == "multilabel" else max(2, self.outputs)
        return rng.integers(0, classes, shape).astype("float32")


CASES = [
    Case(losses.TemperedCrossentropy(4.0), 10),
    Case(losses.TemperedCrossentropy(64.0), 2),
    Case(losses.TemperedCrossentropy(0.5, label_smoothing=0.2), 3),
    Case(losses.TemperedBinaryCrossentropy(3.0), 1),
    Case(losses.TemperedBinaryCrossentropy(3.0, label_smoothing=0.1), 1),
    Case(losses.MultilabelBinaryCrossentropy(3.0), 4),
    Case(losses.MulticlassHinge(0.5), 5),
    Case(losses.BinaryHinge(2.0), 1),
    Case(losses.OneVersusAllHinge(1.0), 5),
    Case(losses.KantorovichRubinstein(), 1),
    Case(losses.KantorovichRubinstein(), 7),
    Case(losses.HKR(3.0, 0.5), 1),
    Case(losses.HKR(3.0, 0.5), 7),
    Case(losses.CosineLoss(0.5), 4),
    Case(losses.MeanAbsoluteError(), 3),
    Case(losses.MeanSquaredError(2.0), 3),
    Case(losses.Huber(0.7), 3),
    Case(losses.Huber(0.7, target_bound=2.0), 1),
    Case(losses.ClassWeighted(losses.TemperedCrossentropy(2.0), [1.0, 0.3, 2.5]), 3),
    Case(losses.ClassWeighted(losses.BinaryHinge(1.0), [0.2, 3.0]), 1),
    Case(losses.PositionwiseLoss(losses.TemperedCrossentropy(2.0), 5), 3),
    Case(losses.PositionwiseLoss(losses.MeanAbsoluteError(), 3, over_positions="sum"), 2),
    Case(losses.ClippedLoss(losses.TemperedCrossentropy(4.0), 0.5), 10),
    Case(losses.ClippedLoss(losses.TemperedCrossentropy(4.0), 5.0), 10),
    Case(losses.ClippedLoss(losses.PositionwiseLoss(losses.HKR(2.0), 3), 0.1), 4),
]


@pytest.fixture(params=CASES, ids=lambda c: f"{c.loss.name}-{c.outputs}")
def case(request):
    return request.param


@pytest.fixture(scope="session")
def cases():
    return CASES


class Evaluator:
    """Values and logit gradients of a batch under one loss, compiled once."""

    def __init__(self, loss, shape, jit_compile="auto"):
        self.loss, self.point = loss, Point(shape, dtype=loss.dtype)
        self.probe = GradientProbe(
            self.point,
            lambda y: ops.sum(loss.call(y, self.point.value)),
            dtype=loss.dtype,
            jit_compile=jit_compile,
        )

    def __call__(self, labels, logits):
        with np.errstate(over="ignore"):
            self.point.assign(np.asarray(logits, self.loss.dtype))
        value, (gradient,) = self.probe.probe(np.asarray(labels))
        return value, gradient.astype("float64")


@pytest.fixture(scope="session")
def evaluator():
    return functools.lru_cache(maxsize=None)(Evaluator)


@pytest.fixture(scope="session")
def gradient_of():
    """``gradient_of(loss, labels, logits)``: the summed value and the gradient."""
    return lambda loss, labels, logits: Evaluator(loss, np.shape(logits))(labels, logits)
