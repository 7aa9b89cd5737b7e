"""Trials that fail: what they spent, and what is said of them where others read it."""

import math

import pytest

from lipdp.errors import InvalidData, InvalidState, UnboundedGradient
from lipdp.privacy import PrivacyLedger
from lipdp.privacy.phase import Draw
from lipdp.results.unfinished import LEDGER_FILE, unfinished_folder
from lipdp.sweep.costs import cost_of_choosing
from lipdp.sweep.records import trial_records
from lipdp.sweep.worker import work
from lipdp.training.ledger_file import LedgerFile

CELL = "4711 Main Street"


def records(settings, begin, train):
    study, place = begin(settings, trials=1)
    work(study, settings, place, train)
    return trial_records(study, place.folder)


@pytest.mark.parametrize(
    "error",
    [
        InvalidData("Column 'x', row 812: no finite number", received=CELL, fix="Drop row 812"),
        ValueError(f"could not convert string to float: '{CELL}' in row 812"),
    ],
    ids=["of this package", "of another"],
)
def test_what_may_quote_a_row_stays_in_the_log(make_settings, begin, training, capsys, error):
    (trial,) = records(make_settings(), begin, training(error=error))
    assert trial.state == "failed" and "logs" in trial.reason
    # The settings that were drawn may hold any digits.
    assert CELL not in trial.model_dump_json() and "812" not in trial.reason
    said = capsys.readouterr().err
    assert "Trial 0 failed" in said and CELL in said and "812" in said


def test_a_reason_says_what_happened_and_the_way_out(make_settings, begin, training):
    error = UnboundedGradient("No finite bound", received=CELL, fix="Add a clip")
    (trial,) = records(make_settings(), begin, training(error=error))
    assert trial.reason == "No finite bound. Add a clip."


def spends_and_fails(ledger, delta=None):
    def train(config, output, *, listener, stopper):
        LedgerFile(unfinished_folder(output) / LEDGER_FILE).write(ledger)
        if delta is not None:
            listener.on_start({"delta": delta}, 1, 1)
        raise InvalidState("It diverged")

    return train


@pytest.mark.parametrize(("begun", "said"), [(1e-6, 1e-6), (None, 1e-5)])
def test_failures_alone_have_a_cost(make_settings, begin, ledger, begun, said):
    """Statistics of the rows are paid for before delta is known."""
    settings = make_settings(overrides=["privacy.delta="])
    trials = records(settings, begin, spends_and_fails(ledger(), begun))
    cost = cost_of_choosing(settings, trials, complete=True)
    assert (trials[0].state, trials[0].delta, cost.delta) == ("failed", begun, said)
    assert cost.together == ledger().epsilon(said) and cost.alone is None


def test_a_ledger_that_cannot_be_read_stands_for_everything(make_settings, begin):
    settings = make_settings(
        overrides=["privacy.adjacency=replace-one", "privacy.sampling=fixed-size"]
    )

    def damaged(config, output, **_):
        path = unfinished_folder(output) / LEDGER_FILE
        path.parent.mkdir(parents=True)
        path.write_text("{")
        raise InvalidState("It diverged")

    trials = records(settings, begin, damaged)
    # A run of the sweep's adjacency beside it.
    whole = PrivacyLedger("replace-one")
    whole.record(0.01, 1.0, 10, draw=Draw("fixed-size", 1000, 10))
    good = trials[0].model_copy(update={"number": 1, "ledger": whole.to_json()})
    cost = cost_of_choosing(settings, [*trials, good], complete=True)
    assert cost.together == math.inf and cost.adjacency == "replace-one"
    assert cost.unknown_trials == [0]
