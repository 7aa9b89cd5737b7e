"""The Gaussian mechanism as a wrapper around any Keras optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from lipdp.errors import InvalidState, UnsafeSetting
from lipdp.training.noise import NoiseSource


@dataclass(frozen=True)
class Mechanism:
    """What is done to the summed gradient of one step.

    Attributes:
        stddevs: Standard deviation of the noise on each trainable variable, in gradient units.
        divisor: The expected batch size, a public constant.
    """

    stddevs: tuple[float, ...]
    divisor: int


@keras.saving.register_keras_serializable(package="lipdp")
class PrivateOptimizer(keras.optimizers.Optimizer):
    """Adds noise to the summed gradient, divides by the expected batch size, then optimizes.

    The inner optimizer and the weight constraints that it applies see the noisy gradient only:
    they are post-processing.

    Args:
        inner_optimizer: Any Keras optimizer without loss scaling or gradient accumulation.
        name: Name of the optimizer.

    Guarantees:
        * Without a mechanism no step is taken.
        * Each step draws its noise once, for all variables, from a generator state that is never
          saved.

    Raises:
        UnsafeSetting: If the inner optimizer scales the loss or accumulates gradients.
    """

    def __init__(
        self, inner_optimizer: keras.optimizers.Optimizer, name: str = "private_optimizer"
    ) -> None:
        super().__init__(learning_rate=0.0, name=name)
        _check_inner(inner_optimizer)
        self.inner_optimizer = inner_optimizer
        self._mechanism: Mechanism | None = None
        self._noise = NoiseSource()
        for state in self._noise.variables:
            self._track_variable(state)

    def arm(self, mechanism: Mechanism, seed: int | None) -> None:
        """Sets the noise of the steps to come and draws a new seed for it."""
        self._mechanism = mechanism
        self._noise.reseed(seed)

    def build(self, variables: list[Any]) -> None:
        """Builds the inner optimizer on the trainable variables."""
        if not self.inner_optimizer.built:
            self.inner_optimizer.build(variables)
        super().build(variables)

    @property
    def variables(self) -> list[Any]:
        """The noise state and the inner optimizer's variables."""
        return self._variables + self.inner_optimizer.variables

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """One noisy step.

        Args:
            grads: Gradient of the sum over the drawn rows, one a trainable variable, or None.
            trainable_variables: The model's trainable variables, in order.

        Raises:
            InvalidState: If no plan was made, or the gradients do not match it.
        """
        if trainable_variables is not None and not self.built:
            self.build(list(trainable_variables))
        noisy = self._noisy(list(grads))
        self.inner_optimizer.apply(noisy, trainable_variables)

    def _noisy(self, grads: list[Any]) -> list[Any]:
        mechanism = self._checked_mechanism(len(grads))
        present = [i for i, g in enumerate(grads) if g is not None]
        dtype = keras.backend.standardize_dtype(grads[present[0]].dtype)
        noise = self._noise.normal([tuple(grads[i].shape) for i in present], dtype)
        for i, draw in zip(present, noise, strict=True):
            total = ops.convert_to_tensor(grads[i]) + mechanism.stddevs[i] * draw
            grads[i] = total / mechanism.divisor
        return grads

    def _checked_mechanism(self, count: int) -> Mechanism:
        if self._mechanism is None:
            raise InvalidState(
                "A private model has no noise before fit() has made its plan",
                fix="Train with model.fit(x, y, ...); train_on_batch and own loops are not private",
            )
        if count != len(self._mechanism.stddevs):
            raise InvalidState(
                "The gradients do not match the variables that the plan was made for",
                received=count,
                fix="Compile the model again after changing `trainable`",
            )
        return self._mechanism

    def scale_loss(self, loss: Any) -> Any:
        """From the logged loss, divided by the expected batch size, back to the sum over rows."""
        return loss if self._mechanism is None else loss * self._mechanism.divisor

    @property
    def learning_rate(self) -> Any:
        """The inner optimizer's learning rate."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: Any) -> None:
        self.inner_optimizer.learning_rate = learning_rate

    @property
    def iterations(self) -> Any:
        """The inner optimizer's step count."""
        return self.inner_optimizer.iterations

    def finalize_variable_values(self, var_list: list[Any]) -> None:
        """Lets moving averages replace the weights, then projects them into their sets."""
        self.inner_optimizer.finalize_variable_values(var_list)
        enter_constraint_sets(var_list)

    def save_own_variables(self, store: Any) -> None:
        """Saves nothing: whoever knew the noise state could subtract the noise."""

    def load_own_variables(self, store: Any) -> None:
        """Loads nothing: a resumed run draws a new seed."""

    def get_config(self) -> dict[str, Any]:
        """Name and inner optimizer."""
        inner = keras.saving.serialize_keras_object(self.inner_optimizer)
        return {"name": self.name, "inner_optimizer": inner}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> PrivateOptimizer:
        """Inverse of ``get_config``."""
        inner = keras.saving.deserialize_keras_object(
            config["inner_optimizer"], custom_objects=custom_objects
        )
        return cls(inner, name=config["name"])


def enter_constraint_sets(variables: Sequence[Any]) -> None:
    """Projects each variable that has a constraint (post-processing of private weights)."""
    for variable in variables:
        if variable.constraint is not None:
            variable.assign(variable.constraint(variable))


def _check_inner(inner: keras.optimizers.Optimizer) -> None:
    if isinstance(inner, keras.optimizers.LossScaleOptimizer) or inner.loss_scale_factor:
        raise UnsafeSetting(
            "Loss scaling skips or rescales steps depending on the data",
            received=type(inner).__name__,
            fix="Pass an optimizer without loss_scale_factor, in float32 or float64",
        )
    if inner.gradient_accumulation_steps:
        raise UnsafeSetting(
            "Gradient accumulation inside the optimizer is not part of the accounted mechanism",
            received=inner.gradient_accumulation_steps,
            fix="Raise batch_size instead",
        )
