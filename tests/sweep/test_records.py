"""What is known here of trials that run, or ran, elsewhere."""

import math
import shutil

import pytest
from optuna.trial import TrialState

from lipdp.privacy import PrivacyLedger
from lipdp.sweep.claims import claim
from lipdp.sweep.costs import cost_notes, cost_of_choosing
from lipdp.sweep.records import trial_records
from lipdp.sweep.worker import run_name, work


@pytest.fixture
def shared(make_settings, begin, training, tmp_path):
    """Of two trials the first is held by another machine, and the second has ended here."""
    settings, train = make_settings(), training()
    study, place = begin(settings, trials=2)
    theirs = claim(study, 2, tmp_path / "other", run_name)
    work(study, settings, place, train)
    assert train.folders == ["001"]
    return study, place, settings, theirs


def cost_here(study, place, settings):
    return cost_of_choosing(settings, trial_records(study, place.folder), complete=False)


def test_a_trial_that_runs_elsewhere_counts_as_infinite(shared, tmp_path):
    study, place, settings, _ = shared
    cost = cost_here(study, place, settings)
    assert cost.together == cost.epsilon == math.inf and math.isfinite(cost.alone)
    assert cost.unknown_trials == [0] and cost.counted_trials == 2 and not cost.final
    words = " ".join(cost_notes(cost))
    assert "What trial 0 spent is not known here" in words and "gone for good" in words
    # The machine that runs it knows that it has spent nothing yet.
    known = trial_records(study, tmp_path / "other")
    assert [bool(t.ledger) for t in known] == [False, True]


def test_the_files_of_a_machine_that_is_gone_let_its_trial_go_on(shared, training, tmp_path):
    study, place, settings, theirs = shared
    theirs.release()
    work(study, settings, place, training())
    assert cost_here(study, place, settings).together == math.inf
    shutil.copytree(tmp_path / "other", place.folder, dirs_exist_ok=True)
    train = training()
    work(study, settings, place, train)
    cost = cost_here(study, place, settings)
    assert train.folders == ["000"] and cost.final and not cost.unknown_trials
    both = PrivacyLedger()
    both.record(0.01, 1.0, 2000)
    assert cost.together == pytest.approx(both.epsilon(1e-5), rel=1e-9)


def test_a_trial_that_somebody_ended_by_hand_did_not_spend_nothing(shared):
    study, place, settings, _ = shared
    study.tell(0, state=TrialState.FAIL)
    cost = cost_here(study, place, settings)
    assert cost.final and cost.together == math.inf and cost.unknown_trials == [0]
    assert any("lost or damaged" in note for note in cost_notes(cost))


def test_a_trial_that_nobody_claimed_has_spent_nothing(make_settings, begin):
    study, place = begin(make_settings())
    study.ask()
    (trial,) = trial_records(study, place.folder)
    assert (trial.state, trial.ledger) == ("running", "")
