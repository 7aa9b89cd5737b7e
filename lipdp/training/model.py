"""Keras models that train privately through Keras' own ``compile`` and ``fit``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from lipdp.bounds import (
    GradientBounds,
    adaptive_clips,
    gradient_bounds,
    inference_bounds,
    lipschitz_constant,
)
from lipdp.bounds.graph import input_spec_of
from lipdp.certificates import UncertifiedWarning
from lipdp.errors import InvalidState, UnsafeSetting
from lipdp.losses.base import LipschitzLoss, per_row
from lipdp.privacy import PrivacyBudget, PrivacyLedger
from lipdp.training.fit import FitRequest, prepare_fit
from lipdp.training.metrics import certified_metric, check_names, on_logits
from lipdp.training.optimizer import PrivateOptimizer
from lipdp.training.plan import TrainingPlan
from lipdp.training.rehearsal import rehearse
from lipdp.training.report import statement_of
from lipdp.training.saving import SavedWithLedger, budget_of, saved_budget
from lipdp.training.settings import check_budget, check_compile, check_compiled, check_fit
from lipdp.training.state import PrivateState

#: Options of ``compile`` that Keras' own models do not have.
_OWN_OPTIONS = ("privacy", "certified_radius")


class PrivateTraining(SavedWithLedger):
    """Mixin over ``keras.Model``: ``compile(..., privacy=...)`` makes ``fit`` private.

    Without ``privacy`` everything is Keras'. With it, ``fit`` draws the batches itself, noises the
    summed gradient once a step and keeps a ledger that travels with the weights.
    """

    #: Keras sets it to None, and makes it when it is first needed.
    train_function: Any

    @property
    def _private(self) -> PrivateState:
        # Created on demand: Keras builds models through several constructors.
        if "_private_state" not in self.__dict__:
            self._private_state = PrivateState()
        return self._private_state

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        *,
        metrics: Any = None,
        weighted_metrics: Any = None,
        privacy: PrivacyBudget | None = None,
        certified_radius: float | None = 0.05,
        **kwargs: Any,
    ) -> None:
        """As in Keras, and with ``privacy`` a budget for the training to come.

        Args:
            optimizer: Any Keras optimizer.
            loss: A loss; with ``privacy`` one of ``lipdp.losses``.
            metrics: One metric, or several in a list or dict; padded slots of a private batch do
                not count. With a loss of this package, whose outputs are logits, those of Keras'
                metrics that take probabilities get them; functions and classes of your own get
                logits (``lipdp.training.metrics.on_logits``).
            weighted_metrics: More metrics.
            privacy: The budget, or None for training without privacy.
            certified_radius: L2 radius, in units of the input, at which validation carries
                ``val_certified_accuracy``; None leaves it out. Private models of one class a row
                only, and left out with a warning where nothing can be proved.
            **kwargs: Keras' other options.

        Raises:
            InvalidValue: If ``privacy`` is no budget, or a metric none.
            UnsafeSetting: If an option would leak or is not covered by the proof, or the output is
                no logits, as behind a sigmoid, softmax or ReLU.
            UnsupportedLayer: If the loss has no proved Lipschitz constant.
        """
        check_budget(privacy)
        state = self._private
        state.compile_arguments = {
            "optimizer": optimizer,
            "loss": loss,
            "metrics": metrics,
            "weighted_metrics": weighted_metrics,
            "privacy": None if privacy is None else privacy.to_config(),
            "certified_radius": certified_radius,
            **kwargs,
        }
        state.plan, state.gate, state.certified = None, None, None
        state.set_budget(privacy)
        if privacy is not None:
            check_compile(self, loss, kwargs)
            optimizer = PrivateOptimizer(keras.optimizers.get(optimizer))
            optimizer.watch(adaptive_clips(self))
            asked = [metrics, weighted_metrics]
            metrics, weighted_metrics = None, self._private_metrics(asked, loss, certified_radius)
            kwargs["auto_scale_loss"] = False
        elif isinstance(loss, LipschitzLoss):
            metrics, weighted_metrics = on_logits(metrics, loss), on_logits(weighted_metrics, loss)
        super().compile(
            optimizer, loss, metrics=metrics, weighted_metrics=weighted_metrics, **kwargs
        )

    def _private_metrics(
        self, metrics: Any, loss: LipschitzLoss, radius: float | None
    ) -> list[Any]:
        check_names(metrics)
        num_outputs = self.output_shape[-1] if self.built else None
        self._private.certified = found = certified_metric(num_outputs, loss, radius)
        return [*on_logits(metrics, loss), *([] if found is None else [found])]

    def get_compile_config(self) -> dict[str, Any]:
        """The arguments of ``compile``, serialised; without noise or seeds."""
        arguments, private = dict(self._private.compile_arguments), self._private.budget is not None
        if not private:
            # Keras' clone_model compiles a plain Sequential with the rest.
            arguments = {k: v for k, v in arguments.items() if k not in _OWN_OPTIONS}
        config = {k: keras.saving.serialize_keras_object(v) for k, v in arguments.items()}
        return {**config, "privacy": saved_budget(arguments["privacy"])} if private else config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Inverse of ``get_compile_config``."""
        given = {name: value for name, value in config.items() if name != "privacy"}
        arguments = {k: keras.saving.deserialize_keras_object(v) for k, v in given.items()}
        self.compile(**arguments, privacy=budget_of(config.get("privacy")))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Sequence[keras.callbacks.Callback] | None = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        *,
        micro_batch_size: int | None = None,
        groups: Any = None,
        max_examples_per_user: int | None = None,
        ledger_file: Any = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """As in Keras; private if the model was compiled with ``privacy``.

        Args:
            x: Inputs, an array of shape (N, ...); for several inputs a list or dict of arrays.
            y: Targets, shape (N, ...).
            batch_size: Expected batch size b of a draw (default 32), in rows, or in users where
                groups are given; q = b / N.
            epochs: Epochs of ``ceil(N / b)`` steps; training stops before the budget is passed. As
                in Keras those before ``initial_epoch`` count, and noise is calibrated without them.
            verbose: As in Keras.
            callbacks: As in Keras; one that decides by a training quantity is refused.
            validation_split: Fraction of the last rows that are held out, as in Keras; not with
                groups, whose rows lie anywhere.
            validation_data: Held-out data, other than x and y; its metrics are exact and not
                covered by epsilon.
            micro_batch_size: Most rows that are processed at a time; a larger batch is summed up
                in microbatches, with one noise and one accounted step, and each counts as a batch
                for callbacks. By default, in host memory, as many as keep each layer's output
                within 32 MiB (JAX: 8), 32 rows at least; on accelerators a whole batch.
            groups: The user of each row, shape (N,): then the unit of privacy is a user. Ids are
                of one kind: whole numbers, text or bytes, as a list, an array, a pandas column or a
                categorical; see ``lipdp.privacy.units``.
            max_examples_per_user: Most rows of a user (needs groups); of more a random part stays.
            ledger_file: Where the ledger is kept, durable before each step, and continued from.
                With ``BackupAndRestore`` it is by default in the backup's folder.
            **kwargs: Keras' other options. ``validation_batch_size`` is by default the expected
                size of a microbatch, in whole rows for each device.

        Guarantees:
            * Each step is the Gaussian mechanism on a draw of the budget's sampling, with the
              plan's noise, however many microbatches it is processed in.
            * A step is in ``ledger`` before its result can be seen, and none passes the budget.

        Raises:
            BudgetExhausted: If not one more step is affordable.
            UnsafeSetting: If an option would leak, or the output is no logits.
            InvalidState: If the optimizer or loss was assigned after ``compile``.
            InvalidData: If the data are no arrays, or the ledger file was edited, or the one of a
                backup is missing or holds less than the backup.
        """
        options = {
            "epochs": epochs,
            "callbacks": callbacks,
            "validation_split": validation_split,
            "validation_data": validation_data,
        }
        state = self._private
        if state.budget is None:
            with state.without_privacy(self):
                return super().fit(x, y, batch_size, verbose=verbose, **options, **kwargs)
        check_fit({**kwargs, **options, "batch_size": batch_size})
        check_compiled(self, state.compile_arguments["loss"])
        asked = FitRequest(
            x,
            y,
            batch_size=32 if batch_size is None else batch_size,
            micro_batch_size=micro_batch_size,
            groups=groups,
            max_examples_per_user=max_examples_per_user,
            ledger_file=ledger_file,
            validation_batch_size=kwargs.pop("validation_batch_size", None),
            initial_epoch=kwargs.pop("initial_epoch", 0),
            **options,
        )
        prepared = prepare_fit(self, state, asked)
        # The noise is part of the traced step, and so is what a layer was: a plan has own traces.
        self.train_function = self.test_function = None
        with state.rehearsing(prepared.plan, prepared.gate):
            rehearse(self, prepared.batches.outline, replicas=prepared.plan.mechanism.replicas)
        return super().fit(verbose=verbose, **{**kwargs, **prepared.options})

    def make_train_function(self, force: bool = False) -> Any:
        """As in Keras; in private training a step runs only after it was recorded."""
        gate, make = self._private.gate, super().make_train_function
        if self._private.budget is None or gate is None:
            return make(force)
        if self.train_function is None or force:

            def fresh() -> Any:
                make(True)
                return self.train_function

            self.train_function = gate.guard(fresh)
        return self.train_function

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """In private training the sum over drawn rows, over b; otherwise as in Keras.

        ``PrivateOptimizer.scale_loss`` multiplies by b again, so that the gradient is that of the
        sum; the division is for the log.
        """
        plan = self._private.plan
        if self._private.budget is None or not training:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        if plan is None or sample_weight is None:
            raise InvalidState(
                "A private model trains through fit() alone",
                fix="Call model.fit(x, y, ...) instead of train_on_batch or an own loop",
            )
        if self._private.gate is not None:
            # This runs when a step is traced, and in each step that is not.
            self._private.gate.check()
        values = per_row(self.loss.call(y, y_pred), y_pred)
        kept = ops.where(sample_weight > 0, values, ops.zeros_like(values))
        return ops.sum(kept) / plan.mechanism.loss_divisor

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """As in Keras; certified accuracy uses the constants of the present weights.

        Where nothing can be proved about any row it is left out of a dict and NaN in a list, and an
        ``UncertifiedWarning`` says why.
        """
        certified = self._private.certified
        if certified is None:
            return super().evaluate(*args, **kwargs)
        # Outside fit a layer may be another one than when the function was traced.
        self.make_test_function(force="_use_cached_eval_dataset" not in kwargs)
        bounds = inference_bounds(self)
        certified.set_bounds(bounds.lipschitz, bounds.error)
        found = super().evaluate(*args, **kwargs)
        if not certified.proves:
            message = f"There is no certified accuracy: {bounds.reason}"
            warnings.warn(message, UncertifiedWarning, stacklevel=2)
            if isinstance(found, dict):
                found.pop(certified.name, None)
        return found

    def train_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        """As in Keras; refused for a private model, whose batches are not the user's to choose."""
        if self._private.budget is not None:
            raise UnsafeSetting(
                "train_on_batch would train on rows that were not Poisson-sampled",
                fix="Call model.fit(x, y, ...)",
            )
        with self._private.without_privacy(self):
            return super().train_on_batch(*args, **kwargs)

    @property
    def plan(self) -> TrainingPlan:
        """The plan of the last private ``fit``.

        Raises:
            InvalidState: If there was none.
        """
        if self._private.plan is None:
            raise InvalidState("There is no plan yet", fix="Train with fit() first")
        return self._private.plan

    @property
    def ledger(self) -> PrivacyLedger:
        """What training this model, or parts of it, has cost; saved with its weights."""
        self._private.gather(self)
        return self._private.ledger

    def declare_public_history(self) -> None:
        """States that all earlier training used public data only; the statement repeats it."""
        self._private.declare_public(self)

    def declare_lost_run(self) -> None:
        """States that an earlier run of unknown cost read the rows; the statement repeats it.

        For new weights, after the ledger of an interrupted run was lost.
        """
        self._private.declare_lost_run(self)

    def gradient_bounds(self) -> GradientBounds:
        """Proved bound of one sample's gradient for each trainable variable."""
        return gradient_bounds(self, self.loss)

    def lipschitz_constant(self) -> float:
        """Lipschitz constant of the inference map at the present weights."""
        return lipschitz_constant(self)

    def privacy_statement(self) -> str:
        """The guarantee in words, with every assumption named.

        Raises:
            InvalidState: Before the first private ``fit``.
        """
        return str(statement_of(self.plan, self.ledger))


@keras.saving.register_keras_serializable(package="lipdp")
class Sequential(PrivateTraining, keras.Sequential):
    """``keras.Sequential`` with private training; a call at another shape is refused."""

    # Keras sets it to None while it makes the model.
    input_spec = property(input_spec_of, lambda self, value: None)


@keras.saving.register_keras_serializable(package="lipdp")
class Model(PrivateTraining, keras.Model):
    """``keras.Model(inputs, outputs)`` with private training."""
