"""From names and options to model, loss and optimizer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any

import keras

from lipdp.config import Component, RunConfig
from lipdp.errors import InvalidConfig, LipdpError
from lipdp.losses import LOSSES, ClassWeighted, ClippedLoss
from lipdp.models import MODELS
from lipdp.privacy import PrivacyBudget
from lipdp.training import Sequential

#: Keras keeps learning rates in float32.
_LARGEST_RATE = 3.4e38
#: Options of a loss that wrap it.
_WRAPPING = ("max_norm", "class_weights")


def build_model(
    config: RunConfig,
    num_features: int,
    num_outputs: int,
    front: Sequence[keras.layers.Layer] = (),
    *,
    shape: Sequence[int] = (),
) -> Sequential:
    """The untrained model; its initial weights follow from ``training.initial_seed``.

    Args:
        config: Names the model.
        num_features: Size of a row.
        num_outputs: Number of logits.
        front: Layers in front of the model's own.
        shape: Shape of a sample before it was flattened: the ``image_shape`` of a model that needs
            one, unless the configuration says another.

    Raises:
        InvalidConfig: If the model has no such option, or an option has a bad value.
        UnknownName: If there is no such model.
    """
    keras.utils.set_random_seed(config.training.initial_seed)
    factory = MODELS[config.model.name]
    component = _with_image_shape(config.model, factory, shape)
    layers = _call(
        "model", component, factory, num_features, num_outputs, dtype=config.training.dtype
    )
    return Sequential([*front, *layers], name=config.model.name)


def _with_image_shape(
    component: Component, factory: Callable[..., Any], shape: Sequence[int]
) -> Component:
    wanted = "image_shape" in _parameters(factory) and "image_shape" not in component.options
    if not wanted or len(shape) != 3:
        return component
    options = {**component.options, "image_shape": list(shape)}
    return Component(name=component.name, **options)


def build_loss(component: Component) -> keras.losses.Loss:
    """The loss, with two options that wrap it.

    ``class_weights`` are public weights of the classes; ``max_norm`` clips each row's gradient with
    respect to the logits, weights included.
    """
    plain, wrapping = _without(component, *_WRAPPING)
    max_norm, weights = wrapping.get("max_norm"), wrapping.get("class_weights")
    loss = _call("loss", plain, LOSSES[component.name])
    loss = loss if weights is None else ClassWeighted(loss, weights)
    return loss if max_norm is None else ClippedLoss(loss, max_norm=max_norm)


def build_optimizer(config: RunConfig, steps: int) -> keras.optimizers.Optimizer:
    """A Keras optimizer whose learning rate decays over the given number of steps."""
    plain, _ = _without(config.optimizer, "learning_rate")
    rate = _learning_rate(config.optimizer)
    decay = config.training.learning_rate_decay
    schedules = keras.optimizers.schedules
    rates: dict[str, Any] = {
        "constant": rate,
        "cosine": schedules.CosineDecay(rate, steps),
        "linear": schedules.PolynomialDecay(rate, steps, end_learning_rate=0.0),
    }
    return _call("optimizer", plain, _optimizer_class(plain.name), learning_rate=rates[decay])


def check_rates(config: RunConfig) -> None:
    """Refuses a learning rate by which a training cannot end well, before anything is spent.

    Raises:
        InvalidConfig: If it is not a finite positive number.
    """
    _learning_rate(config.optimizer)


def check_loss(config: RunConfig) -> None:
    """Refuses a loss whose outputs are no classes: the label of a row is one class.

    Raises:
        InvalidConfig: If it is a loss of numbers or of several labels.
        UnknownName: If there is no such loss.
    """
    task = LOSSES[config.loss.name].task
    if task in ("regression", "multilabel"):
        raise InvalidConfig(
            f"The rows of a run have one class each, and the loss is for {task}",
            received=config.loss.name,
            fix="Use a loss of classes such as tempered_crossentropy, or train from Python",
        )


def _learning_rate(component: Component) -> float:
    rate = component.options.get("learning_rate", 0.01)
    is_number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    if not is_number or not 0.0 < rate < _LARGEST_RATE:
        raise InvalidConfig(
            "optimizer.learning_rate must be a number above 0 that is finite in float32",
            received=rate,
            fix="Use one such as 0.1; training.learning_rate_decay lets it fall to 0",
        )
    return float(rate)


def build_budget(config: RunConfig) -> PrivacyBudget:
    """The privacy section as a budget; for the method "none" without noise."""
    options = config.privacy.model_dump()
    if config.training.method == "none":
        options |= {"epsilon": None, "noise_multiplier": 0.0, "secure_noise": False}
    options["noise_schedule"] = tuple(options["noise_schedule"])
    return PrivacyBudget(options.pop("epsilon"), options.pop("delta"), **options)


def check_options(config: RunConfig) -> None:
    """Refuses models, losses, optimizers and options of them that do not exist; builds none.

    Raises:
        InvalidConfig: If one of them has no such option, or there is no such learning rate.
        UnknownName: If there is no such model or loss.
    """
    _check_names("model", config.model, MODELS[config.model.name], 2, {"dtype"})
    loss, wrapping = _without(config.loss, *_WRAPPING)
    _check_names("loss", loss, LOSSES[loss.name], 0, wrapping)
    check_loss(config)
    check_rates(config)
    optimizer, rate = _without(config.optimizer, "learning_rate")
    _check_names("optimizer", optimizer, _optimizer_class(optimizer.name), 0, rate)


def _without(component: Component, *names: str) -> tuple[Component, dict[str, Any]]:
    """A component without some options, and those of them that it had."""
    options = dict(component.options)
    taken = {name: options.pop(name) for name in names if name in options}
    return Component(name=component.name, **options), taken


def _optimizer_class(name: str) -> Callable[..., Any]:
    known = {
        key.lower(): value
        for key, value in vars(keras.optimizers).items()
        if inspect.isclass(value) and issubclass(value, keras.optimizers.Optimizer)
    }
    if name.lower() not in known:
        raise InvalidConfig(
            "There is no Keras optimizer of this name",
            received=name,
            fix="Use one such as SGD or Adam",
        )
    return known[name.lower()]


def _call(
    section: str, component: Component, factory: Callable[..., Any], *given: Any, **fixed: Any
) -> Any:
    """Calls a factory with a section's options, which must be parameters of its signature."""
    _check_names(section, component, factory, len(given), fixed)
    try:
        return factory(*given, **component.options, **fixed)
    except LipdpError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidConfig(
            f"The section {section} does not fit {component.name}: {error}",
            received=component.options,
        ) from error


def _check_names(
    section: str,
    component: Component,
    factory: Callable[..., Any],
    given: int,
    fixed: Collection[str],
) -> None:
    names = [name for name in _parameters(factory)[given:] if name not in fixed]
    for key, value in component.options.items():
        if key not in names:
            raise InvalidConfig(
                f"{section}.{key} is no option of {component.name}",
                received=value,
                fix=f"Use one of: {', '.join(names) or 'none'}",
            )


def _parameters(factory: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(factory).parameters.values()
    return [p.name for p in parameters if p.kind in kinds]
