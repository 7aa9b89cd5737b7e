"""Numbers from elsewhere: (0.01, 1, 1000 steps) at delta 1e-5 costs 1.8282, ten of them 6.1877."""

import math

import pytest

from lipdp.privacy import PrivacyLedger, repeat_and_select
from lipdp.sweep.costs import claim_of_chosen, cost_notes, cost_of_choosing
from lipdp.sweep.records import TrialRecord

STEPS = 1000


def trial(number, state="finished", spent=None, value=0.5):
    text = "" if spent is None else spent.to_json()
    return TrialRecord(
        number=number,
        run=f"{number:03d}",
        state=state,
        parameters={},
        value=value,
        delta=1e-5,
        ledger=text,
    )


def test_ten_runs_alone_and_together(make_settings, ledger):
    trials = [trial(i, spent=ledger(), value=i / 10) for i in range(10)]
    cost = cost_of_choosing(make_settings(), trials, complete=True)
    assert 1.8282 <= cost.alone < 1.8286
    assert 6.1877 <= cost.together < 6.1885
    assert cost.epsilon == cost.together and cost.final
    assert not cost.repeat.applies and "Not a cost of this sweep" in cost.repeat.words
    assert "0.2 of the training rows" in cost.not_covered[0]


def test_pruned_failed_and_running_trials_are_counted(make_settings, ledger):
    half = STEPS // 2
    trials = [
        trial(0, spent=ledger()),
        trial(1, "pruned", ledger(half)),
        trial(2, "failed", ledger(half), value=None),
        trial(3, "running", ledger(half)),
        trial(4, "running", ledger(half)),
        trial(5, "failed", value=None),
    ]
    cost = cost_of_choosing(make_settings(), trials, complete=False)
    whole = PrivacyLedger()
    whole.record(0.01, 1.0, 3 * STEPS)
    assert cost.together == pytest.approx(whole.epsilon(1e-5), rel=1e-9)
    assert cost.counted_trials == 5 and not cost.final
    unknown = PrivacyLedger()
    unknown.mark_unknown()
    lost = cost_of_choosing(make_settings(), [*trials, trial(6, "failed", unknown)], complete=True)
    assert lost.together == lost.epsilon == math.inf


def test_a_random_number_of_trials_costs_what_its_plan_says(make_settings, ledger):
    settings = make_settings(mean=10.0)
    trials = [trial(i, spent=ledger()) for i in range(3)]
    planned = [ledger(), ledger(multiplier=0.9)]
    cost = cost_of_choosing(settings, trials, complete=True, planned=planned)
    # The setting that nobody drew counts too, and what ran together is no shortcut.
    wanted = repeat_and_select(planned, 1e-5, mean=10.0, shape=1.0).epsilon
    assert cost.repeat.applies and cost.epsilon == cost.repeat.epsilon == wanted
    assert repeat_and_select([ledger()], 1e-5, mean=10.0, shape=1.0).epsilon < wanted
    lucky = cost_of_choosing(settings, trials[:1], complete=True, planned=planned)
    assert lucky.together < lucky.epsilon == wanted


@pytest.mark.parametrize("state", ["running", "finished"])
def test_an_unfinished_random_number_of_trials_costs_all_of_them(make_settings, ledger, state):
    trials = [trial(0, spent=ledger()), trial(1, state, ledger())]
    complete = state == "running"
    cost = cost_of_choosing(make_settings(mean=10.0), trials, complete=complete, planned=[ledger()])
    assert not cost.repeat.applies and cost.epsilon == cost.together
    assert "Not yet" in cost.repeat.words


def test_nothing_spent_costs_nothing(make_settings):
    failed = trial(0, "failed", value=None)
    assert cost_of_choosing(make_settings(), [failed], complete=True) is None


def test_what_is_not_known_bounds_no_random_number_of_trials(make_settings, ledger):
    lost = PrivacyLedger()
    lost.mark_unknown()
    trials = [trial(0, spent=ledger()), trial(1, "failed", lost, value=None)]
    cost = cost_of_choosing(make_settings(mean=9.0), trials, complete=True, planned=[ledger()])
    assert not cost.repeat.applies and cost.epsilon == math.inf
    assert "not known" in cost.repeat.words and "epsilon inf" in claim_of_chosen(cost)


def test_nothing_is_claimed_while_trials_go_on(make_settings, ledger):
    trials = [trial(0, spent=ledger()), trial(1, "running", ledger())]
    words = " ".join(cost_notes(cost_of_choosing(make_settings(), trials, complete=False)))
    assert "Nothing may be claimed" in words and "What may be claimed" not in words


def test_what_goes_with_the_chosen_run(make_settings, ledger):
    trials = [trial(i, spent=ledger()) for i in range(10)]
    words = claim_of_chosen(cost_of_choosing(make_settings(), trials, complete=True))
    assert "among 10 trials" in words and "epsilon 6.188" in words
    assert "The validation rows" in words
    secret = make_settings(mean=7.0)
    cost = cost_of_choosing(secret, trials, complete=True, planned=[ledger()])
    words = claim_of_chosen(cost)
    # Whoever reads it must not learn how many there were.
    assert "10" not in words and "mean 7" in words and "6.18" not in words
    assert any("(10)" in note for note in cost_notes(cost))
