"""The Gaussian mechanism as a wrapper around any Keras optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from lipdp.errors import InvalidState, UnsafeSetting
from lipdp.layers import AdaptiveCotangentClip
from lipdp.training.noise import NoiseState
from lipdp.training.noise_plan import Mechanism, Thresholds


@keras.saving.register_keras_serializable(package="lipdp")
class PrivateOptimizer(keras.optimizers.Optimizer):
    """Adds noise to the summed gradient, divides by the expected batch size, then optimizes.

    The inner optimizer and the weight constraints that it applies see the noisy gradient only:
    they are post-processing. Thresholds of adaptive clips are moved by their noisy counts, not by
    the inner optimizer.

    Args:
        inner_optimizer: Any Keras optimizer without loss scaling or gradient accumulation.
        name: Name of the optimizer.

    Guarantees:
        * Without a mechanism, or outside the steps of ``fit``, no step is taken.
        * Each batch gets its noise once, in its last microbatch, from a state that is never
          saved; noise from the host serves one step, and a step without it makes NaN.

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
        self._thresholds = Thresholds(())
        self._updates: bool | None = None
        self._sums: list[Any] = []
        self._noise = NoiseState()
        for state in self._noise.variables:
            self._track_variable(state)

    def watch(self, clips: Sequence[AdaptiveCotangentClip]) -> None:
        """Names the layers whose thresholds follow their counts; before ``build``."""
        self._thresholds = Thresholds(tuple(clips))

    def require(self, variables: Sequence[Any]) -> None:
        """Refuses another choice of variables: the noise is for those that are moved.

        Raises:
            InvalidState: If the model trains others than this was built on.
        """
        moved = self._trainable_variables
        if [id(v) for v in variables] != [id(v) for v in moved]:
            raise InvalidState(
                "The model trains other variables than its optimizer was made for",
                received={"now": [v.path for v in variables], "then": [v.path for v in moved]},
                fix="Compile the model again after changing `trainable`",
            )

    def arm(self, mechanism: Mechanism, seed: int | None) -> None:
        """Sets the noise of the steps to come, draws a new seed for it, and forgets open sums."""
        self._mechanism = mechanism
        self._noise.reseed(seed)
        shapes = [tuple(v.shape) for v in self._trainable_variables]
        for state in self._noise.make_buffers(mechanism, shapes, self._dtype):
            self._track_variable(state)
        if mechanism.micro_batches > 1 and not self._sums:
            self._sums = [
                self.add_variable_from_reference(v, name="sum") for v in self._trainable_variables
            ]
        self._forget()

    @property
    def _dtype(self) -> str:
        return keras.backend.standardize_dtype(self._trainable_variables[0].dtype)

    def _forget(self) -> None:
        for total in self._sums:
            total.assign(keras.ops.zeros_like(total.value))

    def set_noise_factor(self, factor: float) -> None:
        """Multiplies all noise from now on, as the plan's schedule says."""
        self._noise.set_factor(factor)

    def set_mode(self, *, updates: bool | None) -> None:
        """Whether the step that is traced or run next ends a batch; None: there is none to run."""
        self._updates = updates

    @property
    def noise(self) -> NoiseState:
        """State of the noise, a secret."""
        return self._noise

    def build(self, variables: list[Any]) -> None:
        """Builds the inner optimizer on the variables that it moves."""
        if not self.inner_optimizer.built:
            self.inner_optimizer.build(self._thresholds.others(variables))
        super().build(variables)

    @property
    def variables(self) -> list[Any]:
        """The noise state, open sums and the inner optimizer's variables."""
        return self._variables + self.inner_optimizer.variables

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """One microbatch: adds its gradient to the sum; the last one of a batch makes the step.

        Args:
            grads: Gradient of the sum over its rows, one a trainable variable, or None.
            trainable_variables: The model's trainable variables, in order.

        Raises:
            InvalidState: If no plan was made, or the gradients do not match it.
        """
        if trainable_variables is not None:
            if not self.built:
                self.build(list(trainable_variables))
            # A trace of other variables, as many of them, would get the noise of these.
            self.require(trainable_variables)
        mechanism = self._checked_mechanism(len(grads))
        sums = self._with_earlier_micro_batches(self._over_replicas(list(grads)))
        if not self._updates:
            for total, value in zip(self._sums, sums, strict=True):
                if value is not None:
                    total.assign(value)
            return
        noisy = self._noise.add(sums, mechanism, self._thresholds.scales(mechanism))
        self._update(noisy, mechanism)
        self._forget()

    def _update(self, noisy: list[Any], mechanism: Mechanism) -> None:
        variables = self._trainable_variables
        for clip, index in self._thresholds.places(variables):
            clip.threshold.assign(clip.updated(noisy[index], mechanism.divisor))
        # The inner optimizer sums over replicas, which all hold the whole sum already.
        share = mechanism.divisor * mechanism.replicas
        means = [None if g is None else g / share for g in noisy]
        moved = self._thresholds.others(variables)
        kept = [g for v, g in zip(variables, means, strict=True) if any(v is m for m in moved)]
        self.inner_optimizer.apply(kept, moved)

    def _with_earlier_micro_batches(self, grads: list[Any]) -> list[Any]:
        if not self._sums:
            return grads
        return [g if g is None else total + g for total, g in zip(self._sums, grads, strict=True)]

    def _over_replicas(self, grads: list[Any]) -> list[Any]:
        if self._mechanism is None or self._mechanism.replicas == 1:
            return grads
        pairs = list(zip(grads, self._trainable_variables, strict=True))
        return [grad for grad, _ in self._all_reduce_sum_gradients(pairs)]

    def _checked_mechanism(self, count: int) -> Mechanism:
        if self._mechanism is None or self._updates is None:
            raise InvalidState(
                "A private optimizer steps inside fit() alone, which plans and records each step",
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
        return loss if self._mechanism is None else loss * self._mechanism.loss_divisor

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
        self.inner_optimizer.finalize_variable_values(self._thresholds.others(var_list))
        if self.inner_optimizer.use_ema:
            enter_constraint_sets(var_list)

    def save_own_variables(self, store: Any) -> None:
        """Saves nothing: whoever knew the noise state could subtract the noise."""

    def load_own_variables(self, store: Any) -> None:
        """Loads nothing: a resumed run draws a new seed."""

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """All that TensorFlow's own checkpoints save of this object: the inner optimizer."""
        return {"inner_optimizer": self.inner_optimizer}

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
            fix="Use fit(..., micro_batch_size=...)",
        )
