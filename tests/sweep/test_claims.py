"""Trials that nobody claimed: dropped once they are old, and never under a worker's hands."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from optuna.trial import TrialState, create_trial

from lipdp.sweep import claims
from lipdp.sweep.claims import claim, counted_trials, drop_unclaimed
from lipdp.sweep.study import join_study
from lipdp.sweep.worker import run_name


@pytest.fixture
def pair(make_settings, begin):
    """One study as two workers see it, and the folder of the first."""
    mine, place = begin(make_settings(), trials=2)
    theirs, _ = join_study(place)
    return mine, theirs, place.folder


@pytest.fixture
def at_once(monkeypatch):
    """A trial is old as soon as it is there."""
    monkeypatch.setattr(claims, "_UNCLAIMED", timedelta(-1))


def add_unclaimed(study, started):
    trial = create_trial(state=TrialState.RUNNING)
    trial.datetime_start = started
    study.add_trial(trial)


def test_a_trial_whose_worker_died_before_it_claimed_it_is_replaced(pair):
    study, _, folder = pair
    add_unclaimed(study, datetime.now() - timedelta(minutes=2))
    add_unclaimed(study, datetime.now())
    assert claim(study, 2, folder, run_name).trial.number == 2
    assert [t.number for t in counted_trials(study)] == [1, 2]


@pytest.fixture
def spring(monkeypatch):
    """Ten seconds after clocks jumped from two to three."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            now = datetime(2026, 3, 29, 1, 0, 10, tzinfo=UTC).astimezone(tz)
            return now if tz else now.replace(tzinfo=None)

    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        patch.setattr(claims, "datetime", Clock)
        time.tzset()
        yield
    time.tzset()


def test_a_clock_that_jumps_makes_no_trial_old(pair, spring):
    study, _, folder = pair
    add_unclaimed(study, datetime(2026, 3, 29, 1, 59, 50))
    assert claim(study, 1, folder, run_name) is None
    assert [t.state.name for t in counted_trials(study)] == ["RUNNING"]


def test_a_trial_that_was_dropped_before_its_claim_is_not_run(pair, at_once, monkeypatch):
    mine, theirs, folder = pair
    ask = mine.ask

    def dropped():
        trial = ask()
        if trial.number == 0:
            drop_unclaimed(theirs)
        return trial

    monkeypatch.setattr(mine, "ask", dropped)
    assert claim(mine, 2, folder, run_name).trial.number == 1
    assert [t.number for t in counted_trials(mine)] == [1]


def test_a_trial_that_was_marked_before_its_worker_looked_is_not_run(pair, monkeypatch):
    mine, theirs, folder = pair
    now = claims._now

    def marked(study, trial_id):
        if study is mine and now(study, trial_id).number == 0:
            claims._mark(theirs, trial_id)
        return now(study, trial_id)

    monkeypatch.setattr(claims, "_now", marked)
    assert claim(mine, 2, folder, run_name).trial.number == 1
    assert [t.number for t in counted_trials(theirs)] == [1]


@pytest.mark.parametrize("moment", ["look", "mark"])
def test_a_trial_that_is_claimed_meanwhile_is_left_alone(pair, at_once, monkeypatch, moment):
    mine, theirs, folder = pair
    trial = mine.ask()
    seen, mark, held = counted_trials(theirs), claims._mark, []

    def take():
        held.append(claims._claimed(mine, trial, folder, run_name))

    def late(study, trial_id):
        take()
        mark(study, trial_id)

    if moment == "look":
        take()
    else:
        monkeypatch.setattr(claims, "_mark", late)
    monkeypatch.setattr(claims, "counted_trials", lambda study: seen)
    drop_unclaimed(theirs)
    assert held[0].attempts == 1
    assert [(t.number, t.state.name) for t in counted_trials(mine)] == [(0, "RUNNING")]


def test_a_trial_whose_worker_gave_way_and_died_is_not_run(pair, monkeypatch):
    mine, theirs, folder = pair
    dead = claim(mine, 1, folder, run_name)
    dead.release()
    monkeypatch.setattr(claims, "_ATTEMPTS", "begun")
    claims._mark(theirs, dead.trial._trial_id)
    assert claim(theirs, 1, folder, run_name).trial.number == 1
    assert [t.number for t in counted_trials(theirs)] == [1]
