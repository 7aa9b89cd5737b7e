"""Lets a step run only as planned and recorded, as a whole batch or as one of its microbatches."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras

from lipdp.errors import InvalidState
from lipdp.training.settings import check_steps
from lipdp.training.unchanged import Unchanged


class StepGate:
    """Stands between Keras' loop and the compiled step.

    A batch in k microbatches needs two compiled steps: one that adds the gradient of a microbatch
    to a sum, and one that also adds the noise and updates. Each is traced with the optimizer in
    that mode.

    Guarantees:
        * No step runs that was not announced, and an announcement serves one step.
        * No step runs, and no access is recorded, of a model that is not what its bounds were
          proved for, whichever callback changed it.
        * Noise is added in the last microbatch of a batch alone.
        * No step has the trace of another mode, or of another plan.

    Args:
        model: A model compiled with a private optimizer.
        micro_batches: Microbatches k of a batch.
        bring_noise: Called before each step that adds noise, with the factor of its noise.
    """

    def __init__(
        self, model: keras.Model, micro_batches: int, bring_noise: Callable[[float], None]
    ) -> None:
        self._model = model
        self._optimizer = model.optimizer
        self._micro_batches = micro_batches
        self._bring_noise = bring_noise
        self._factor = 1.0
        self._announced: tuple[int, Callable[[], None]] | None = None
        self._unchanged = Unchanged(model, self)
        self._steps: dict[bool, Callable[..., Any]] = {}

    def set_noise(self, factor: float) -> None:
        """Sets the noise of the steps to come, as a factor of the planned one."""
        self._factor = factor
        self._optimizer.set_noise_factor(factor)

    def check(self) -> None:
        """Refuses a model that is not what its bounds were proved for.

        Raises:
            InvalidState: Naming what changed.
        """
        self._unchanged.check()

    def announce(self, micro_batch: int, record: Callable[[], None]) -> None:
        """A microbatch is about to run.

        Args:
            micro_batch: Its place in the batch, counted from 0.
            record: Called when nothing but the step itself is left to do.

        Raises:
            InvalidState: If steps run somewhere else.
        """
        if self._announced is not None or self._model.train_function != self._run:
            raise InvalidState(
                "The model's train_function was replaced, which ran steps that nobody recorded",
                received=getattr(self._model.train_function, "__qualname__", None),
                fix="Leave model.train_function as it is",
            )
        self._announced = micro_batch, record
        if self._is_last(micro_batch):
            self._bring_noise(self._factor)

    def _is_last(self, micro_batch: int) -> bool:
        return micro_batch == self._micro_batches - 1

    def guard(self, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        """A train function that runs announced steps.

        Args:
            make: Makes a new train function, which is traced when it is first called.

        Raises:
            UnsafeSetting: If it would run several steps at a time.
        """
        check_steps(self._model.steps_per_execution)
        last = {True} if self._micro_batches == 1 else {False, True}
        for is_last in last:
            with _step_of_its_own(self._model):
                self._steps[is_last] = make()
        return self._run

    def _run(self, *args: Any) -> Any:
        announced, self._announced = self._announced, None
        if announced is None:
            raise InvalidState(
                "A private step runs inside fit() alone, where the ledger records it first",
                fix="Train with model.fit(x, y, ...)",
            )
        micro_batch, record = announced
        # TensorFlow reads it when it traces, which is now.
        check_steps(self._model.steps_per_execution)
        self.check()
        record()
        is_last = self._is_last(micro_batch)
        self._optimizer.set_mode(updates=is_last)
        try:
            return self._steps[is_last](*args)
        finally:
            self._optimizer.set_mode(updates=None)


@contextlib.contextmanager
def _step_of_its_own(model: keras.Model) -> Iterator[None]:
    """Inside, the model's step equals no other function: JAX gives equal ones the same trace."""
    model.train_step = functools.partial(type(model).train_step, model)
    try:
        yield
    finally:
        del model.train_step
