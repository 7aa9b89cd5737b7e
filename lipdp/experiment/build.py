"""From names and options to model, loss and optimizer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import keras

from lipdp.config import Component, RunConfig
from lipdp.errors import InvalidConfig, LipdpError
from lipdp.losses import LOSSES, ClassWeighted, ClippedLoss
from lipdp.models import MODELS
from lipdp.privacy import PrivacyBudget
from lipdp.training import Sequential


def build_model(
    config: RunConfig,
    num_features: int,
    num_outputs: int,
    front: Sequence[keras.layers.Layer] = (),
) -> Sequential:
    """The untrained model; its initial weights follow from ``training.initial_seed``.

    Args:
        config: Names the model.
        num_features: Size of a row.
        num_outputs: Number of logits.
        front: Layers in front of the model's own.

    Raises:
        InvalidConfig: If the model has no such option, or an option has a bad value.
        UnknownName: If there is no such model.
    """
    keras.utils.set_random_seed(config.training.initial_seed)
    factory = MODELS[config.model.name]
    layers = _call(
        "model", config.model, factory, num_features, num_outputs, dtype=config.training.dtype
    )
    return Sequential([*front, *layers], name=config.model.name)


def build_loss(component: Component) -> keras.losses.Loss:
    """The loss, with two options that wrap it.

    ``class_weights`` are public weights of the classes; ``max_norm`` clips each row's gradient with
    respect to the logits, weights included.
    """
    options = dict(component.options)
    max_norm, weights = options.pop("max_norm", None), options.pop("class_weights", None)
    plain = Component(name=component.name, **options)
    loss = _call("loss", plain, LOSSES[component.name])
    loss = loss if weights is None else ClassWeighted(loss, weights)
    return loss if max_norm is None else ClippedLoss(loss, max_norm=max_norm)


def build_optimizer(config: RunConfig, steps: int) -> keras.optimizers.Optimizer:
    """A Keras optimizer whose learning rate decays over the given number of steps."""
    options = dict(config.optimizer.options)
    rate = float(options.pop("learning_rate", 0.01))
    decay = config.training.learning_rate_decay
    schedules = keras.optimizers.schedules
    rates: dict[str, Any] = {
        "constant": rate,
        "cosine": schedules.CosineDecay(rate, steps),
        "linear": schedules.PolynomialDecay(rate, steps, end_learning_rate=0.0),
    }
    plain = Component(name=config.optimizer.name, **options)
    return _call("optimizer", plain, _optimizer_class(plain.name), learning_rate=rates[decay])


def build_budget(config: RunConfig) -> PrivacyBudget:
    """The privacy section as a budget."""
    options = config.privacy.model_dump()
    options["noise_schedule"] = tuple(options["noise_schedule"])
    return PrivacyBudget(options.pop("epsilon"), options.pop("delta"), **options)


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
    names = [name for name in _parameters(factory)[len(given) :] if name not in fixed]
    for key, value in component.options.items():
        if key not in names:
            raise InvalidConfig(
                f"{section}.{key} is no option of {component.name}",
                received=value,
                fix=f"Use one of: {', '.join(names) or 'none'}",
            )
    try:
        return factory(*given, **component.options, **fixed)
    except LipdpError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidConfig(
            f"The section {section} does not fit {component.name}: {error}",
            received=component.options,
        ) from error


def _parameters(factory: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(factory).parameters.values()
    return [p.name for p in parameters if p.kind in kinds]
