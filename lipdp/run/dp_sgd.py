"""Training with clipping by tensorflow-privacy, as a baseline on equal terms."""

from __future__ import annotations

import importlib.util
import json
import math
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

from lipdp.config import Component, RunConfig
from lipdp.conversion import plain
from lipdp.conversion.graph import call_again
from lipdp.errors import BudgetExhausted, InvalidState, UnsafeSetting, UnsupportedLayer
from lipdp.layers import (
    AbsoluteValue,
    AdaptiveCotangentClip,
    BoundedBias,
    CotangentClip,
    FullSort,
    GroupSort,
    HouseholderActivation,
    MaxMin,
)
from lipdp.privacy import PrivacyLedger
from lipdp.run.build import build_budget, build_optimizer
from lipdp.run.callbacks import plan_facts, variable_record
from lipdp.run.child import ChildFailed, run_child
from lipdp.run.data import Rows
from lipdp.run.outcome import Listener, Trained
from lipdp.training import Sequential, TrainingPlan, statement_of
from lipdp.training.optimizer import enter_constraint_sets
from lipdp.training.plan import Request, make_plan
from lipdp.training.report import remember_limits

_ACTIVATIONS = (AbsoluteValue, FullSort, GroupSort, HouseholderActivation, MaxMin)
_BACKWARD = (AdaptiveCotangentClip, CotangentClip)


def unconstrained(model: keras.Sequential, *, relu: bool = False) -> Sequential:
    """A model of the same layers and present weights, none of which has a constraint.

    Dense layers and convolutions become Keras' own, with the bias that follows them. Layers without
    weights stay, but for cotangent clips, which act on gradients alone: the clipping of whole
    gradients takes their place.

    Args:
        model: A built model; blocks in it may be any graphs.
        relu: Whether activations become ReLU, which is what networks without constraints mostly
            have; otherwise they stay.

    Raises:
        UnsupportedLayer: If a layer with weights has no counterpart; it is named.
    """
    made = call_again(model, _Calls(relu))
    # A chain of layers is called one after the other, so that they stand in order.
    layers = [layer for layer in made.layers if not isinstance(layer, keras.layers.InputLayer)]
    start = keras.Input(made.inputs[0].shape[1:], dtype=made.inputs[0].dtype)
    return Sequential([start, *layers], name=model.name)


class _Calls:
    """Calls each layer's counterpart; a layer used twice has one counterpart."""

    def __init__(self, relu: bool) -> None:
        self._relu = relu
        self._made: dict[tuple[int, ...], Any] = {}
        self._affine: dict[int, tuple[Any, Any]] = {}

    def __call__(self, layer: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(layer, BoundedBias):
            return self._with_bias(layer, args[0])
        if isinstance(layer, _BACKWARD):
            return args[0]
        if (id(layer),) not in self._made:
            self._made[id(layer),] = self._counterpart(layer)
        made = self._made[id(layer),]
        outputs = made(*args, **kwargs)
        if getattr(made, "use_bias", None) is False:
            self._affine[id(outputs)] = (made, args[0])
        return outputs

    def _with_bias(self, bias: BoundedBias, product: Any) -> Any:
        """Makes the product again with a bias; Keras drops the first one if nothing reads it."""
        if id(product) not in self._affine:
            raise _unknown(bias)
        layer, inputs = self._affine[id(product)]
        key = (id(layer), id(bias))
        if key not in self._made:
            self._made[key] = _biased(layer, bias)
        return self._made[key](inputs)

    def _counterpart(self, layer: Any) -> Any:
        if isinstance(layer, keras.Model):
            return _block(call_again(layer, _Calls(self._relu)))
        if not isinstance(layer, keras.layers.Layer):
            return layer
        if self._relu and isinstance(layer, _ACTIVATIONS):
            return keras.layers.ReLU(name=layer.name, dtype=layer.dtype_policy)
        return _free(layer) if layer.trainable_variables else _copy(layer)


def _block(model: keras.Model) -> keras.Model:
    """With tensors in place of lists of one, as blocks are called."""
    ends = (
        tensors[0] if len(tensors) == 1 else tensors for tensors in (model.inputs, model.outputs)
    )
    return keras.Model(*ends, name=model.name)


def _free(layer: Any) -> Any:
    """Keras' own layer with the present weights.

    Raises:
        UnsupportedLayer: If there is none.
    """
    try:
        made = plain(layer)
    except UnsupportedLayer:
        raise _unknown(layer) from None
    # Some counterparts are functions, with the weights as constants.
    if not isinstance(made, keras.layers.Layer):
        raise _unknown(layer)
    return made


def _copy(layer: Any) -> Any:
    copy = type(layer).from_config(layer.get_config())
    if layer.weights:
        copy.build_from_config(layer.get_build_config())
        copy.set_weights(layer.get_weights())
    return copy


def _biased(layer: Any, bias: BoundedBias) -> Any:
    config = {**layer.get_config(), "use_bias": True, "name": f"{layer.name}_{bias.name}"}
    made = type(layer).from_config(config)
    made.build_from_config(layer.get_build_config())
    made.set_weights([*layer.get_weights(), keras.ops.convert_to_numpy(bias.bias)])
    return made


def _unknown(layer: Any) -> UnsupportedLayer:
    return UnsupportedLayer(
        f"The layer {layer.name!r} has no counterpart without constraints, which DP-SGD needs",
        received=type(layer).__name__,
        fix="Use another model, or training.method=clipless",
    )


_PROCESS = Path(__file__).with_name("dp_sgd_process.py")
_ENVIRONMENT = {
    "TF_USE_LEGACY_KERAS": "1",
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
_ROWS_AT_A_TIME = 4096

_MECHANISM = (
    "Gaussian noise on the sum of the per-row gradients, each clipped to Euclidean norm {norm:g};"
    " one sum a step; clipping and noise are tensorflow-privacy's; all variables have the same"
    " noise (one clip norm)"
)
_WEAK = (
    "a search of the noise: tensorflow-privacy draws it from TensorFlow's generator, of whose seed"
    " about 31 bits matter, so that an attacker may try all seeds",
    "rounding in tensorflow-privacy: a clipped gradient may be longer than the clip norm, and"
    " float32 noise has gaps",
)


def check_dp_sgd(config: RunConfig) -> None:
    """Refuses what the baseline cannot do, before any row is read.

    Raises:
        InvalidState: If tensorflow-privacy is not installed.
        UnsafeSetting: If an option has no counterpart in it.
    """
    for package in ("tensorflow_privacy", "tf_keras"):
        if importlib.util.find_spec(package) is None:
            raise InvalidState(
                f"The method dp-sgd needs the package {package}, which is not installed",
                fix="Use Python below 3.12 and pip install 'lipdp[tf-privacy]'",
            )
    refused = {
        "data.group": config.data.group is not None,
        "privacy.secure_noise": config.privacy.secure_noise,
        "training.tensorboard": config.training.tensorboard is not None,
    }
    for key, given in refused.items():
        if given:
            raise UnsafeSetting(
                f"tensorflow-privacy has no counterpart of {key}",
                received="training.method=dp-sgd",
                fix=f"Leave out {key}, or use training.method=clipless",
            )


def fit_dp_sgd(
    model: Sequential,
    config: RunConfig,
    rows: Rows,
    listener: Listener,
    keep: Callable[[PrivacyLedger], None],
) -> Trained:
    """Trains the model's architecture without constraints by DP-SGD, in a process of its own.

    Sampler, steps, noise multiplier, delta and accountant are those of the plan that the model
    itself would be trained by. The trained model has that plan, the ledger of the run and frozen
    layers.

    Guarantees:
        * A step is in the ledger, and this is kept, before a result that depends on it is heard.

    Args:
        model: A compiled model before its first step.
        config: What is trained on what.
        rows: Rows of norm at most the model's own bound.
        listener: Hears about the progress.
        keep: Writes a ledger to disk.

    Raises:
        InvalidState: If the process fails.
        UnsupportedLayer: If a layer has no counterpart without constraints.
        BudgetExhausted: If not one step is affordable.
    """
    plan = _planned(model, config, rows)
    made = unconstrained(model, relu=config.dp_sgd.activation == "relu")
    norm = _clip_norm(plan, config)
    book = _Book(plan, model.ledger, _MECHANISM.format(norm=norm))
    made._private.plan, made._private.ledger = plan, book.after(plan.steps)
    record = _record(plan, made, norm)
    listener.on_start(record, config.training.epochs, plan.steps_per_epoch)
    heard = _Heard(plan, book, listener, keep)
    # Only this user may read the folder: it holds the training rows.
    with tempfile.TemporaryDirectory(prefix="lipdp-") as name:
        folder = Path(name)
        _save_arrays(folder, rows, config.training.dtype)
        keras.Model(made.inputs[0], made.outputs[0], name=made.name).save(folder / "model.keras")
        request = _request(plan, norm, model.loss, config)
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        _run(folder, heard)
        with np.load(folder / "weights.npz") as weights:
            made.set_weights([weights[key] for key in weights.files])
        done = json.loads((folder / "done.json").read_text(encoding="utf-8"))
    # Frozen layers are bounded by their present weights.
    made.trainable = False
    statement = statement_of(plan, made.ledger, not_covered=rows.not_covered)
    history = pd.DataFrame(heard.rows)
    return Trained(made, history, record, statement, done["peak_memory_bytes"])


def _clip_norm(plan: TrainingPlan, config: RunConfig) -> float:
    """As asked for; else at most the bound of the whole gradient that the clipless method has."""
    return config.dp_sgd.clip_norm or min(1.0, math.hypot(*plan.sensitivities))


def _record(plan: TrainingPlan, model: keras.Model, norm: float) -> dict[str, Any]:
    """The plan as plain data, with one clip norm for all variables together."""
    stddev = norm * plan.noise_multiplier
    return {
        **plan_facts(plan),
        "clip_norm": norm,
        "variables": [
            variable_record(variable.path.split("/")[0], variable, norm, stddev)
            for variable in model.trainable_variables
        ],
    }


def _planned(model: Sequential, config: RunConfig, rows: Rows) -> TrainingPlan:
    training = config.training
    model.loss.check_labels(rows.y_train, int(model.output_shape[-1]))
    enter_constraint_sets(model.trainable_variables)
    request = Request(rows.num_units, training.batch_size, training.epochs)
    plan = make_plan(model, model.loss, build_budget(config), model.ledger, request)
    if plan.affordable_steps < 1:
        raise BudgetExhausted(
            "The privacy budget is spent: not one more step is affordable",
            received=config.privacy.epsilon,
            fix="Use a larger privacy.epsilon",
        )
    return replace(plan, steps=plan.affordable_steps)


class _Book:
    """The ledger of one training after any number of its steps.

    All of them are in one session, in which nothing else is recorded: whenever the steps are
    counted anew, they are the same accesses.
    """

    def __init__(self, plan: TrainingPlan, before: PrivacyLedger, mechanism: str) -> None:
        self._plan, self._before = plan, before
        self._terms = replace(plan.terms, mechanism=mechanism)
        self._session = secrets.token_hex(8)

    def after(self, steps: int) -> PrivacyLedger:
        """What was spent before, with the plan's first steps."""
        plan, ledger = self._plan, PrivacyLedger(self._before.adjacency)
        ledger.merge(self._before)
        ledger.begin_session(self._session)
        for epoch in range(plan.request.epochs):
            taken = min(steps, plan.steps_per_epoch)
            accesses = -(-taken // plan.sampler.steps_per_access)
            plan.record_in(ledger, epoch, accesses, self._terms)
            steps -= taken
        remember_limits(plan, ledger)
        for words in _WEAK:
            ledger.remarks.add("not_covered", words)
        ledger.begin_session()
        return ledger


class _Heard:
    """What the process says, for the listener and the history."""

    def __init__(
        self,
        plan: TrainingPlan,
        book: _Book,
        listener: Listener,
        keep: Callable[[PrivacyLedger], None],
    ) -> None:
        self._plan, self._book, self._listener, self._keep = plan, book, listener, keep
        self.rows: list[dict[str, float]] = []

    def line(self, text: str) -> None:
        """One line of its standard output; libraries may write there too."""
        try:
            said = json.loads(text)
            event = said.pop("event")
        except (ValueError, TypeError, KeyError, AttributeError):
            return
        if event == "step":
            self._listener.on_step(said["epoch"], said["step"])
        elif event == "epoch":
            self._epoch(said.pop("epoch"), said)

    def _epoch(self, epoch: int, measured: dict[str, float]) -> None:
        plan = self._plan
        steps = min(plan.steps, (epoch + 1) * plan.steps_per_epoch)
        ledger = self._book.after(steps)
        self._keep(ledger)
        epsilon = ledger.epsilon(plan.delta, accountant=plan.budget.accountant)
        logs = {"epsilon": epsilon, **measured}
        self.rows.append({"epoch": epoch + 1, **logs})
        self._listener.on_epoch(epoch, logs)


def _run(folder: Path, heard: _Heard) -> None:
    try:
        run_child(["-P", str(_PROCESS), str(folder)], _ENVIRONMENT, heard.line)
    except ChildFailed as error:
        raise InvalidState(
            f"The process of tensorflow-privacy ended with code {error.code}. It wrote last:\n"
            f"{error.last_lines}\n",
            fix="Lower training.micro_batch_size if memory ran out",
        ) from error


def _request(
    plan: TrainingPlan, norm: float, loss: keras.losses.Loss, config: RunConfig
) -> dict[str, Any]:
    training, serialize = config.training, keras.saving.serialize_keras_object
    factors = [plan.factor_in(epoch) for epoch in range(training.epochs)]
    return {
        "sampling": plan.budget.sampling,
        "batch_size": plan.expected_batch_size,
        "micro_batch_size": training.micro_batch_size,
        "capacity": plan.capacity.rows,
        "epochs": training.epochs,
        "steps": plan.steps,
        "clip_norm": norm,
        "stddevs": [norm * plan.noise_multiplier * factor for factor in factors],
        "seed": plan.budget.seed,
        "loss": serialize(loss),
        "optimizer": serialize(_optimizer(config, plan.steps_per_epoch * training.epochs)),
    }


def _optimizer(config: RunConfig, steps: int) -> keras.optimizers.Optimizer:
    rate = config.dp_sgd.learning_rate
    if rate is None:
        return build_optimizer(config, steps)
    options = {**config.optimizer.options, "learning_rate": rate}
    changed = Component(name=config.optimizer.name, **options)
    return build_optimizer(config.model_copy(update={"optimizer": changed}), steps)


def _save_arrays(folder: Path, rows: Rows, dtype: str) -> None:
    _save_rows(folder / "x_train.npy", rows.x_train, dtype)
    _save_rows(folder / "x_test.npy", rows.x_test, dtype)
    np.save(folder / "y_train.npy", rows.y_train)
    np.save(folder / "y_test.npy", rows.y_test)


def _save_rows(path: Path, rows: Any, dtype: str) -> None:
    """A few rows at a time: they may be encoded as they are read."""
    shape = (len(rows), *np.asarray(rows[:1]).shape[1:])
    out = np.lib.format.open_memmap(path, "w+", dtype=dtype, shape=shape)
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        out[start : start + _ROWS_AT_A_TIME] = rows[start : start + _ROWS_AT_A_TIME]
    out.flush()
