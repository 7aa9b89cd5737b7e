"""Options of compile and fit that a private training refuses, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import keras

from lipdp.bounds import gradient_bounds
from lipdp.bounds.final import hidden_methods
from lipdp.errors import InvalidState, InvalidValue, UnsafeSetting, UnsupportedLayer
from lipdp.losses.base import LipschitzLoss
from lipdp.privacy import PrivacyBudget
from lipdp.training.logits import check_logits
from lipdp.training.metrics import check_names
from lipdp.training.optimizer import PrivateOptimizer
from lipdp.training.unchanged import SHOWN

_NO_WEIGHTS = "It would multiply a record's gradient, whose bound assumes weight 1"
#: Of each option of ``fit``: why it is refused, and the way out.
_FIT_REASONS = {
    "class_weight": (
        _NO_WEIGHTS,
        "Leave it out; lipdp.losses.ClassWeighted(loss, weights) takes public weights of classes",
    ),
    "sample_weight": (
        _NO_WEIGHTS,
        "Leave it out; rows that should not count are best left out of x and y, by a rule that is"
        " public",
    ),
    "steps_per_epoch": (
        "An epoch has as many steps as the rows and the expected batch size say, ceil(N / b)",
        "Leave it out, and choose batch_size and epochs",
    ),
}
#: What a model class of the user's may define anew.
_OVERRIDABLE = SHOWN | {"_abc_impl"}


def check_budget(privacy: Any) -> None:
    """Refuses what is neither a budget nor None.

    Raises:
        InvalidValue: If it is so.
    """
    if privacy is not None and not isinstance(privacy, PrivacyBudget):
        raise InvalidValue(
            "privacy= takes a budget",
            received=privacy,
            fix="Pass lipdp.PrivacyBudget(epsilon=3.0), or None for training without privacy",
        )


def check_compile(model: keras.Model, loss: Any, options: Mapping[str, Any]) -> None:
    """Refuses what the mechanism does not cover.

    Args:
        model: The model; if it has a shape already, its output is looked at.
        loss: Its loss.
        options: Further options of ``compile``.

    Raises:
        UnsupportedLayer: If the loss has no proved Lipschitz constant, or the model several
            outputs.
        UnsafeSetting: If an option changes what a step computes, or the output is no logits.
    """
    if not isinstance(loss, LipschitzLoss):
        raise UnsupportedLayer(
            "A private model needs one loss with a proved Lipschitz constant",
            received=loss,
            fix="Use a loss of lipdp.losses, such as TemperedCrossentropy(inverse_temperature=16)",
        )
    if options.get("loss_weights") is not None:
        raise UnsafeSetting(
            "loss_weights would scale the gradient outside its bound",
            received=options["loss_weights"],
            fix="Leave them out",
        )
    check_steps(options.get("steps_per_execution", 1))
    if model.built:
        check_logits(model, loss)


def check_compiled(model: keras.Model, loss: Any) -> None:
    """Refuses an optimizer or loss that took the place of those of ``compile``.

    Args:
        model: A model that was compiled with a budget.
        loss: The loss that ``compile`` was given.

    Raises:
        InvalidState: If one was assigned since.
    """
    private = isinstance(model.optimizer, PrivateOptimizer)
    for name, is_own in (("optimizer", private), ("loss", model.loss is loss)):
        if not is_own:
            raise InvalidState(
                f"model.{name} was assigned after compile(), which had made it part of the private"
                " step",
                received=getattr(model, name),
                fix=f"Call model.compile({name}=..., privacy=...) again; the ledger keeps counting",
            )


def check_steps(per_execution: Any) -> None:
    """Refuses more than one step at a time: the others would run unrecorded.

    Raises:
        UnsafeSetting: If ``steps_per_execution`` is not 1.
    """
    if per_execution != 1:
        raise UnsafeSetting(
            "With steps_per_execution above 1 steps would run before the ledger knows them",
            received=per_execution,
            fix="Use steps_per_execution=1",
        )


def check_fit(options: Mapping[str, Any]) -> None:
    """Refuses options of ``fit`` that the mechanism does not cover.

    Raises:
        UnsafeSetting: Naming the option and why.
        InvalidValue: If a number is none.
    """
    for name, kind in (("epochs", Integral), ("batch_size", Real), ("validation_split", Real)):
        value = options.get(name)
        if value is not None and not isinstance(value, kind):
            word = "a whole number" if kind is Integral else "a number"
            raise InvalidValue(f"{name} must be {word}", received=value)
    for name, (reason, fix) in _FIT_REASONS.items():
        if options.get(name) is not None:
            # Not the value: weights are of private rows.
            given = type(options[name]).__name__
            raise UnsafeSetting(
                f"{name} is refused in a private fit. {reason}", received=given, fix=fix
            )


def check_model(model: keras.Model) -> None:
    """Refuses additional losses and everything without a bound, at each ``fit``.

    Raises:
        UnsafeSetting: If the model adds a loss or a training step of its own, runs several steps at
            a time, a layer has a metric with a reserved name, or the output is no logits.
        UnsupportedLayer: If a layer has no proved bound.
    """
    if model.losses:
        raise UnsafeSetting(
            "The model adds losses of its own (add_loss or a regulariser)",
            received=len(model.losses),
            fix="Remove them; a penalty on weights is the optimizer's weight_decay",
        )
    # Keras lets all of these change after compile.
    _check_own_methods(model)
    check_steps(model.steps_per_execution)
    check_names(model.metrics)
    gradient_bounds(model, model.loss)
    check_logits(model, model.loss)
    _check_methods(model)


def _check_own_methods(model: keras.Model) -> None:
    """An attribute that hides a method stands where a proof is about the method."""
    optimizer = model.optimizer
    for thing in (model, optimizer, optimizer.inner_optimizer, optimizer.noise):
        hidden = sorted(set(hidden_methods(thing)) - SHOWN)
        if hidden:
            raise UnsafeSetting(
                f"{type(thing).__name__} has attributes that hide methods of its class",
                received=hidden,
                fix=f"Delete them, as in `del model.{hidden[0]}`; put what is yours into layers and"
                " callbacks",
            )


def _check_methods(model: keras.Model) -> None:
    """A subclass may change what is saved or shown, and not what a step computes."""
    kinds = type(model).__mro__
    for index, kind in enumerate(kinds):
        if kind.__module__.startswith("lipdp."):
            return
        inherited = {name for other in kinds[index + 1 :] for name in vars(other)}
        changed = {n for n in inherited & set(vars(kind)) - _OVERRIDABLE if not n.startswith("__")}
        if changed:
            raise UnsafeSetting(
                f"The model class {kind.__name__} changes how Keras trains, which has no bound",
                received=sorted(changed),
                fix="Use lipdp.Sequential or lipdp.Model as they are; put what is yours into layers"
                " and callbacks",
            )
