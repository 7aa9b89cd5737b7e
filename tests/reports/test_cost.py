"""What runs cost together, with reference values."""

from __future__ import annotations

import pytest

from lipdp.privacy import PrivacyLedger, composed
from lipdp.reports import cost as cost_module
from lipdp.reports.cost import section_cost, together
from lipdp.reports.sections import sections


def reference(fields):
    fields["config"]["privacy"] |= {"epsilon": 1.83}
    fields["spent"]["epsilon"] = 1.8282


def without_ledger(fields):
    fields["spent"]["ledger"] = ""


def with_noise(noise):
    def edit(fields):
        book = PrivacyLedger()
        book.record(0.01, noise, 100)
        fields["spent"]["ledger"] = book.to_json()

    return edit


def test_ten_runs_cost_their_composition(make_run):
    (section,) = sections([make_run(seed=s, edit=reference) for s in range(10)])
    cost = section_cost(section)
    assert cost.alone == pytest.approx(1.83)
    assert 6.1876 <= cost.together.epsilon <= 6.1977
    assert (cost.together.runs, cost.together.delta) == (10, 1e-5)
    assert [level.together.epsilon for level in cost.levels] == [cost.together.epsilon]


def test_one_run_costs_what_its_ledger_says(make_run):
    run = make_run()
    found = together([run], 1e-5)
    assert found.epsilon == PrivacyLedger.from_json(run.result.spent.ledger).epsilon(1e-5)


def test_early_runs_without_a_ledger_are_added_up(make_run):
    early = [make_run(seed=s, edit=without_ledger) for s in range(2)]
    found = together(early, 1e-5)
    assert found.epsilon == pytest.approx(2 * 0.999)
    assert found.delta == pytest.approx(2e-5)
    mixed = together([*early, make_run(seed=3)], 1e-5)
    alone = together([make_run(seed=3)], 1e-5)
    assert mixed.epsilon == pytest.approx(alone.epsilon + 2 * 0.999)
    assert mixed.delta == pytest.approx(3e-5)
    assert (mixed.without_ledger, mixed.runs) == (2, 3)
    assert "simple addition" in mixed.method


def test_many_different_noises_are_composed_quickly_and_from_above(make_run, monkeypatch):
    monkeypatch.setattr(cost_module, "_MOST_PHASES", 2)
    runs = [make_run(epsilon=1 + i / 10, edit=with_noise(2 + i / 10)) for i in range(9)]
    (section,) = sections(runs)
    cost = section_cost(section)
    assert cost.levels == ()
    assert "Renyi" in cost.together.method
    few = together(runs[:2], 1e-5)
    assert "Renyi" not in few.method
    exact = composed([PrivacyLedger.from_json(r.result.spent.ledger) for r in runs[:3]], 1e-5)
    assert exact.epsilon <= together(runs[:3], 1e-5).epsilon


def test_no_private_run_has_no_cost(make_run):
    (section,) = sections([make_run(method="none")])
    assert section_cost(section) is None


def test_a_run_and_its_copy_cost_once(make_run):
    """Wherever the copy lies; a run with the same settings is another one."""
    run, other = make_run(seed=1, edit=reference), make_run(seed=2, edit=reference)
    assert together([run, run], 1e-5).epsilon == together([run], 1e-5).epsilon
    assert together([run, other, run], 1e-5).epsilon == together([run, other], 1e-5).epsilon
    assert together([run, other], 1e-5).epsilon > together([run], 1e-5).epsilon
