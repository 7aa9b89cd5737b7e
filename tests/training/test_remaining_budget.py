"""How many steps the budget still allows, whatever was spent, restored or planned."""

import collections
import functools
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipdp.errors import BudgetExhausted
from lipdp.privacy import Phase, PrivacyBudget, PrivacyLedger, Terms
from lipdp.training.plan import TrainingPlan, affordable
from lipdp.training.remaining_budget import RemainingBudget

DELTA = 1e-5
#: Few, so that the accountants' tables are computed once.
RATES = st.sampled_from([0.05, 1.0])
NOISES = st.sampled_from([2.0, 4.0])
EPOCHS = st.lists(st.tuples(NOISES, st.integers(1, 12)), min_size=1, max_size=3)
ACCOUNTANTS = st.sampled_from(["rdp", "rdp", "rdp", "pld"])
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
    accountant=ACCOUNTANTS,
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


def planned(phases, budget, overflow=0.0, first=0):
    """A plan of one phase an epoch, whose noise is that of the first times a factor."""
    z = phases[0].noise_multiplier
    plan = SimpleNamespace(
        budget=budget,
        phases=tuple(phases),
        delta=DELTA,
        noise_multiplier=z,
        capacity=SimpleNamespace(overflow_probability_per_step=overflow),
        sampler=SimpleNamespace(
            sampling_rate=phases[0].sampling_rate, kind=phases[0].draw, steps_per_access=1
        ),
        terms=Terms(),
        covers_summation=True,
        request=SimpleNamespace(devices=SimpleNamespace(processes=1)),
        place_of=lambda epoch: epoch - first,
        factor_in=lambda epoch: phases[epoch - first].noise_multiplier / z,
    )
    plan.record_in = functools.partial(TrainingPlan.record_in, plan)
    return plan


def of_one_rate(rate, epochs):
    return [Phase(rate, noise, steps) for noise, steps in epochs]


def run(remaining, ledger, phases, first=0):
    """Asks before each planned access, as training does; returns those that ran."""
    ran = []
    for place, phase in enumerate(phases):
        remaining.begin_epoch(first + place)
        for _ in range(phase.steps):
            try:
                remaining.check(ledger)
            except BudgetExhausted:
                return ran
            remaining.record(ledger)
            ran.append(place)
            if remaining.is_spent:
                return ran
    return ran


@settings(max_examples=8)
@given(
    rate=RATES,
    epochs=EPOCHS,
    before=PHASES,
    epsilon=st.sampled_from([0.5, 1.5, 3.0]),
    overflow=st.sampled_from([0.0, 1e-9, 2e-7]),
    accountant=ACCOUNTANTS,
)
def test_no_access_passes_the_budget(rate, epochs, before, epsilon, overflow, accountant):
    """And all run that it affords, the last of which is known to be the last."""
    phases = of_one_rate(rate, epochs)
    budget = PrivacyBudget(epsilon, DELTA, accountant=accountant)
    ledger, plan = spent(before, overflow), planned(phases, budget, overflow)
    start = ledger.epsilon(DELTA, accountant=accountant)
    allowed = affordable(budget, ledger, phases, overflow, DELTA)
    ran = run(RemainingBudget(plan), ledger, phases)
    assert len(ran) == allowed
    assert ledger.epsilon(DELTA, accountant=accountant) <= (epsilon if ran else start)


@settings(max_examples=6)
@given(rate=RATES, epochs=EPOCHS, first=st.integers(0, 3))
def test_each_access_has_the_noise_of_its_epoch(rate, epochs, first):
    phases = of_one_rate(rate, epochs)
    ledger = spent([])
    plan = planned(phases, PrivacyBudget(noise_multiplier=1.0, delta=DELTA), first=first)
    ran = run(RemainingBudget(plan), ledger, phases, first)
    assert len(ran) == sum(phase.steps for phase in phases)
    counted = collections.Counter()
    for phase in phases:
        counted[phase.sampling_rate, phase.noise_multiplier] += phase.steps
    assert {(p.sampling_rate, p.noise_multiplier): p.steps for p in ledger.phases} == counted


@settings(max_examples=6)
@given(rate=RATES, epochs=EPOCHS, done=st.integers(0, 40))
def test_a_recount_allows_the_same(rate, epochs, done):
    """After a restore in the middle of an epoch, with all that was done in the ledger."""
    phases, budget = of_one_rate(rate, epochs), PrivacyBudget(3.0, DELTA, accountant="rdp")
    plan = planned(phases, budget)
    first = affordable(budget, spent([]), phases, 0.0, DELTA)
    ledger, remaining = spent([]), RemainingBudget(plan)
    if first == 0:
        with pytest.raises(BudgetExhausted, match="larger epsilon"):
            remaining.check(ledger)
        return
    ran = 0
    for place, phase in enumerate(phases):
        remaining.begin_epoch(place)
        for _ in range(phase.steps):
            if ran == done:
                # The same contents in another object, which is how a restore brings them.
                ledger = PrivacyLedger.from_json(ledger.to_json())
                remaining._known = None
            if ran < first:
                remaining.record(ledger)
                ran += 1
    assert ran == first and (first == sum(p.steps for p in phases) or remaining.is_spent)


def test_what_another_process_spent_counts_before_the_next_access():
    phase = Phase(0.05, 4.0, 12)
    budget = PrivacyBudget(noise_multiplier=4.0, epsilon=0.5, delta=DELTA)
    ledger, remaining = spent([]), RemainingBudget(planned([phase], budget))
    remaining.record(ledger)
    ledger.merge(spent([Phase(0.05, 0.5, 50)]))
    steps = ledger.steps
    for ask in (remaining.check, remaining.record):
        with pytest.raises(BudgetExhausted, match="not one more step"):
            ask(ledger)
    assert ledger.steps == steps


def test_nothing_is_allowed_after_an_unknown_history():
    ledger = spent([])
    ledger.mark_unknown()
    remaining = RemainingBudget(planned([Phase(0.05, 4.0, 3)], PrivacyBudget(3.0, DELTA)))
    for ask in (remaining.check, remaining.record):
        with pytest.raises(BudgetExhausted, match="unknown"):
            ask(ledger)
    assert ledger.steps == 0


def test_overflow_that_takes_all_of_delta():
    budget = PrivacyBudget(8.0, DELTA)
    ahead = [Phase(0.05, 4.0, 1)]
    assert affordable(budget, spent([Phase(0.05, 4.0, 2)], 6e-6), ahead, 0.0, DELTA) == 0
