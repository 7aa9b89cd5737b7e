"""The best is chosen by means, not by the best seed."""

from __future__ import annotations

from lipdp.reports.sections import sections
from lipdp.reports.selection import best_by_epsilon, pareto_front, robust_pareto_front, spread_out


def wide(fields):
    fields["config"]["model"]["units"] = [128]


def test_a_lucky_seed_does_not_win(make_run):
    steady = [make_run(seed=s, accuracy=0.85) for s in range(3)]
    lucky = [make_run(seed=s, accuracy=a, edit=wide) for s, a in enumerate((0.99, 0.7, 0.7))]
    (section,) = sections([*lucky, *steady])
    for chosen in (pareto_front(section.cells), best_by_epsilon(section.cells)):
        assert [cell.runs for cell in chosen] == [tuple(steady)]


def test_the_front_never_falls_and_best_by_epsilon_has_every_epsilon(make_run):
    runs = [make_run(epsilon=e, accuracy=a) for e, a in ((1.0, 0.8), (3.0, 0.7), (8.0, 0.9))]
    (section,) = sections(runs)
    assert [cell.epsilon for cell in pareto_front(section.cells)] == [1.0, 8.0]
    assert [cell.epsilon for cell in best_by_epsilon(section.cells)] == [1.0, 3.0, 8.0]


def test_robustness_keeps_what_accuracy_alone_drops(make_run, fields):
    unit = fields["certified"][0]["unit"]

    def robust(fields):
        wide(fields)
        fields["certified"] = [{"radius": 0.2, "unit": unit, "accuracy": 0.8, "auroc": None}]

    runs = [make_run(accuracy=0.9), make_run(accuracy=0.82, edit=robust)]
    (section,) = sections(runs)
    assert [c.accuracy.mean for c in pareto_front(section.cells)] == [0.9]
    assert len(robust_pareto_front(section.cells, unit, 0.2)) == 2
    assert len(robust_pareto_front(section.cells, unit, 0.05)) == 1
    assert robust_pareto_front(section.cells, "another unit", 0.2) == []


def test_spread_out_keeps_both_ends():
    assert spread_out([1, 2], 6) == [1, 2]
    found = spread_out(list(range(60)), 6)
    assert (len(set(found)), found[0], found[-1]) == (6, 0, 59)
