"""Preparing a fit returns what it needs, and leaves the model's own state to fit."""

import dataclasses

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import InvalidValue, LipdpError
from lipdp.layers import BoundedInput, SpectralDense
from lipdp.losses import MulticlassHinge
from lipdp.training.fit import FitRequest, prepare_fit
from lipdp.training.ledger_callback import LedgerCallback
from lipdp.training.ledger_file import RemoveLedgerFile

X = np.random.default_rng(0).normal(size=(60, 4))
Y = (X[:, 0] > 0).astype("int64")


@pytest.fixture(scope="module")
def model():
    made = lipdp.Sequential([BoundedInput((4,), radius=2.0), SpectralDense(2)])
    budget = lipdp.PrivacyBudget(epsilon=2.0, delta=1e-5)
    made.compile("sgd", MulticlassHinge(margin=0.5), privacy=budget)
    return made


def request(**changes):
    names = [field.name for field in dataclasses.fields(FitRequest)]
    usual = {"x": X, "y": Y, "batch_size": 20, "epochs": 2, "validation_split": 0.0}
    return FitRequest(**{**dict.fromkeys(names), "initial_epoch": 0, **usual, **changes})


def prepared(model, **changes):
    return prepare_fit(model, model._private, request(**changes))


def test_the_models_plan_and_gate_stay_as_they_were(model):
    state = model._private
    before = state.plan, state.gate, model.train_function, state.ledger.steps
    found = prepared(model)
    assert (state.plan, state.gate, model.train_function, state.ledger.steps) == before
    assert found.plan.steps == 6 and found.plan is not state.plan and found.gate is not state.gate


def test_what_is_prepared_cannot_be_changed(model):
    found = prepared(model)
    for name in ("plan", "gate", "batches"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(found, name, None)


def test_the_ledger_comes_first_and_its_removal_last(model, tmp_path):
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    own = [keras.callbacks.Callback(), backup]
    order = prepared(model, callbacks=own).options["callbacks"]
    assert type(order[0]) is LedgerCallback and type(order[-1]) is RemoveLedgerFile
    assert [one for one in order if one in own] == own


def test_options_are_those_of_the_request(model):
    held_out = (X + 1.0, Y.copy())
    options = prepared(model, epochs=5, initial_epoch=3, validation_data=held_out).options
    assert (options["epochs"], options["initial_epoch"]) == (5, 3)
    assert len(options["validation_data"]) == 2 and options["shuffle"] is False


@pytest.mark.parametrize(
    "wrong", [{"batch_size": 61}, {"groups": [0] * 60}, {"epochs": 0}], ids=lambda w: next(iter(w))
)
def test_a_refusal_leaves_no_way_around_the_earlier_gate(wrong):
    made = lipdp.Sequential([BoundedInput((4,), radius=2.0), SpectralDense(2)])
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
    made.compile("sgd", MulticlassHinge(margin=0.5), privacy=budget)
    made.fit(X, Y, batch_size=20, verbose=0)
    plan, steps = made.plan, made.ledger.steps
    with pytest.raises(InvalidValue):
        made.fit(X, Y, verbose=0, **{"batch_size": 20, **wrong})
    assert made.plan is plan
    with pytest.raises(LipdpError, match=r"inside fit\(\) alone"):
        made.train_function(iter([(X, Y, np.ones(60, "float32"))]))
    assert made.ledger.steps == steps
