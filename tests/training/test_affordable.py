"""How many steps the budget still allows, whatever was spent, restored or planned."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipdp.errors import BudgetExhausted
from lipdp.privacy import Phase, PrivacyBudget, PrivacyLedger
from lipdp.training.plan import affordable, affordable_accesses

DELTA = 1e-5
#: Few, so that the accountants' tables are computed once.
RATES = st.sampled_from([0.05, 1.0])
NOISES = st.sampled_from([2.0, 4.0])
PHASES = st.lists(st.builds(Phase, RATES, NOISES, st.integers(1, 12)), min_size=1, max_size=3)


def spent(phases, overflow=0.0):
    ledger = PrivacyLedger()
    for phase in phases:
        ledger.record(
            phase.sampling_rate,
            phase.noise_multiplier,
            phase.steps,
            overflow_probability=overflow,
        )
    return ledger


def epsilon_after(ledger, ahead, steps, overflow, accountant):
    """Of a ledger that records step after step, as training does."""
    copy = PrivacyLedger.from_json(ledger.to_json())
    kinds = [phase for phase in ahead for _ in range(phase.steps)]
    for phase in kinds[:steps]:
        copy.record(phase.sampling_rate, phase.noise_multiplier, overflow_probability=overflow)
    return copy.epsilon(DELTA, accountant=accountant)


@settings(max_examples=8)
@given(
    before=PHASES,
    ahead=PHASES,
    epsilon=st.sampled_from([0.5, 1.5, 3.0, 6.0]),
    overflow=st.sampled_from([0.0, 1e-9, 2e-7]),
    accountant=st.sampled_from(["rdp", "rdp", "rdp", "pld"]),
)
def test_the_allowed_steps_keep_within_the_budget(before, ahead, epsilon, overflow, accountant):
    budget = PrivacyBudget(epsilon, DELTA, accountant=accountant)
    ledger = spent(before, overflow)
    found = affordable(budget, ledger, ahead, overflow, DELTA)
    wanted = sum(phase.steps for phase in ahead)
    assert 0 <= found <= wanted
    if found:
        assert epsilon_after(ledger, ahead, found, overflow, accountant) <= epsilon
    if found < wanted and overflow == 0.0:
        # One more is over, up to the rounding of delta: they are not refused without need.
        assert epsilon_after(ledger, ahead, found + 1, overflow, accountant) > epsilon * (1 - 1e-6)


@settings(max_examples=6)
@given(ahead=PHASES, done=st.integers(0, 40))
def test_a_recount_at_any_moment_allows_the_same(ahead, done):
    """After a restore in the middle of an epoch, with all that was done in the ledger."""
    budget = PrivacyBudget(3.0, DELTA, accountant="rdp")
    first = affordable(budget, spent([]), ahead, 0.0, DELTA)
    done = min(done, first - 1) if first else 0
    epoch, inside, kinds = 0, done, []
    for phase in ahead:
        kinds += [phase] * phase.steps
    while inside >= ahead[epoch].steps:
        inside -= ahead[epoch].steps
        epoch += 1
    ledger = spent([replace(kind, steps=1) for kind in kinds[:done]])
    plan = SimpleNamespace(
        budget=budget,
        phases=tuple(ahead),
        delta=DELTA,
        capacity=SimpleNamespace(overflow_probability_per_step=0.0),
    )
    if first == 0:
        with pytest.raises(BudgetExhausted, match="larger epsilon"):
            affordable_accesses(plan, ledger, epoch, inside)
        return
    assert done + affordable_accesses(plan, ledger, epoch, inside) == first


def test_nothing_is_allowed_after_an_unknown_history():
    ledger = spent([])
    ledger.mark_unknown()
    plan = SimpleNamespace(phases=(Phase(0.05, 4.0, 3),))
    with pytest.raises(BudgetExhausted, match="unknown"):
        affordable_accesses(plan, ledger, 0, 0)


def test_overflow_that_takes_all_of_delta():
    budget = PrivacyBudget(8.0, DELTA)
    ahead = [Phase(0.05, 4.0, 1)]
    assert affordable(budget, spent([Phase(0.05, 4.0, 2)], 6e-6), ahead, 0.0, DELTA) == 0
