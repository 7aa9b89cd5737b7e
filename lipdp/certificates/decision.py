"""What the outputs of a model decide: one class a row, a yes or no for each label, or nothing.

A certificate is about a decision. With one logit that is whether it is above 0 ("binary"); with K
logits which one is greatest ("multiclass"), or for each whether it is above 0 ("multilabel"). Each
loss was made for one of these rules:

* the sign of the one logit: ``BinaryHinge``, ``TemperedBinaryCrossentropy``, and with one logit
  ``KantorovichRubinstein`` and ``HKR``;
* the greatest logit: ``TemperedCrossentropy``, ``MulticlassHinge``, ``CosineLoss`` (the cosine with
  the one-hot vector of a class is its logit over a number that all classes share), and with K
  logits ``OneVersusAllHinge``, ``KantorovichRubinstein`` and ``HKR``, whose K terms are made small
  by a large logit at the true class and small ones elsewhere;
* the sign of each logit: ``MultilabelBinaryCrossentropy``;
* none: ``MeanSquaredError``, ``MeanAbsoluteError`` and ``Huber``, whose outputs are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args

import keras

from lipdp.errors import InvalidValue
from lipdp.losses.base import LipschitzLoss, Reading

_TASKS: tuple[Reading, ...] = get_args(Reading)

_CLASSES = ("CategoricalCrossentropy", "SparseCategoricalCrossentropy", "CategoricalHinge")
_SIGNS = ("Hinge", "SquaredHinge")
_PROBABILITIES = ("BinaryCrossentropy", "BinaryFocalCrossentropy")
_NUMBERS = (
    "MeanSquaredError",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanSquaredLogarithmicError",
    "Huber",
    "LogCosh",
    "Poisson",
)
_KERAS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys((*_CLASSES, "CategoricalFocalCrossentropy"), "multiclass"),
        **dict.fromkeys((*_SIGNS, *_PROBABILITIES), "signs"),
        **dict.fromkeys(_NUMBERS, "regression"),
    }
)


def task_of(model: keras.Model, asked: Reading | None = None) -> Reading:
    """What the outputs of a model decide.

    What is asked for counts first, then the loss that the model was compiled with, then what a file
    of it remembers. A model that says nothing is taken for a classifier: by the sign of one logit,
    by the greatest of several.

    Args:
        model: A built model of outputs (n, K).
        asked: The decision, if the caller names it.

    Raises:
        InvalidValue: If there is no decision to certify (regression; logits at several positions;
            probabilities in place of logits), it does not fit the number of outputs, or the loss is
            one that says nothing about it.
    """
    shape = tuple(model.output_shape[1:])
    loss = getattr(model, "loss", None)
    if len(shape) != 1 or getattr(loss, "positions", None) is not None:
        raise _several_positions(shape)
    outputs = int(shape[0])
    task = _checked(asked) or _of_loss(loss, outputs) or _remembered(model, outputs)
    if task == "regression":
        raise _no_decision(model)
    _check_outputs(task, outputs)
    if task != "multiclass" and _ends_in_sigmoid(model):
        raise _not_logits(model.layers[-1].name)
    return task


def _checked(asked: Any) -> Reading | None:
    if asked is None or _named(asked):
        return _named(asked)
    raise InvalidValue("There is no such task", received=asked, fix=f"Use one of: {_listed()}")


def _named(task: Any) -> Reading | None:
    return next((known for known in _TASKS if known == task), None)


def _listed() -> str:
    return ", ".join(repr(name) for name in _TASKS if name != "regression")


def _remembered(model: keras.Model, outputs: int) -> Reading:
    known: Reading | None = _named(getattr(model, "task", None))
    return known or ("binary" if outputs == 1 else "multiclass")


def _of_loss(loss: Any, outputs: int) -> Reading | None:
    """What a compiled loss says; None without one."""
    if loss is None:
        return None
    if isinstance(loss, LipschitzLoss):
        return loss.task_for(outputs)
    name = _keras_name(loss)
    if name in _PROBABILITIES and not getattr(loss, "from_logits", False):
        raise _not_logits(name)
    kind = _KERAS.get(name)
    if kind is None:
        raise InvalidValue(
            "The loss of the model does not say what its outputs decide",
            received=loss,
            fix=f"Name the decision: certify(model, x, task=...), one of {_listed()}",
        )
    if kind == "signs":
        return "binary" if outputs == 1 else "multilabel"
    return "regression" if kind == "regression" else "multiclass"


def _keras_name(loss: Any) -> str:
    """The class of Keras that a loss is, or that its name or function stands for."""
    if isinstance(loss, keras.losses.Loss):
        exact = getattr(keras.losses, type(loss).__name__, None) is type(loss)
        return type(loss).__name__ if exact else ""
    try:
        found = keras.losses.get(loss) if isinstance(loss, str) else loss
    except ValueError:
        return ""
    if isinstance(found, keras.losses.Loss):
        return _keras_name(found)
    name = getattr(found, "__name__", "").replace("_", "").lower()
    return next((known for known in _KERAS if known.lower() == name), "")


def _ends_in_sigmoid(model: keras.Model) -> bool:
    return getattr(model.layers[-1], "activation", None) is keras.activations.sigmoid


def _check_outputs(task: Reading, outputs: int) -> None:
    if (task == "binary" and outputs != 1) or (task == "multiclass" and outputs < 2):
        raise InvalidValue(
            f"A {task} decision does not fit this number of outputs",
            received=outputs,
            fix='Use "binary" for one logit, and for several "multiclass" or "multilabel"',
        )


def _no_decision(model: keras.Model) -> InvalidValue:
    return InvalidValue(
        "The outputs are numbers and no classes (the task is regression), so there is no decision "
        "whose radius could be certified",
        received=model.name,
        fix="What holds is that outputs move by at most lipschitz_constant(model) times the "
        "distance of two inputs, and by 2 * numerical_error(model) as computed (both of "
        'lipdp.bounds). If the outputs do decide a class, say so by task="multiclass"',
    )


def _several_positions(shape: tuple[int, ...]) -> InvalidValue:
    return InvalidValue(
        "Certificates are about one decision a row, or one a label: outputs must have shape (n, K)",
        received=(None, *shape),
        fix="For logits of shape (n, T, K), lipdp.certificates.radii(logits[:, t], "
        "lipschitz=lipschitz_constant(model), error=numerical_error(model)) are radii in the whole "
        "row within which the class at position t stays the same",
    )


def _not_logits(name: str) -> InvalidValue:
    return InvalidValue(
        "The outputs are probabilities, with 1/2 between yes and no, and not logits, with 0",
        received=name,
        fix="Certify the model that ends in front of the sigmoid, as keras.Model(model.inputs, "
        "logits); train it with a loss that takes logits (from_logits=True)",
    )
