import itertools

from benchmarks import accounting


def test_no_question_is_asked_twice(monkeypatch):
    import lipdp.privacy

    asked = []
    monkeypatch.setattr(lipdp.privacy, "epsilon", lambda rate, *_, **__: asked.append(rate))
    fresh = accounting.factors()
    for accountant in accounting.ACCOUNTANTS:
        ask = accounting.actions((0.1, 1.0, 10), accountant, fresh)["epsilon"]
        ask(), ask()
    assert len(set(asked)) == 4
    assert all(abs(rate - 0.1) < 1e-7 for rate in asked)


def test_factors_from_different_starts_do_not_meet():
    low, high = accounting.factors(1), accounting.factors(100)
    assert set(itertools.islice(low, 99)).isdisjoint(itertools.islice(high, 99))


def test_the_table_has_a_column_a_question():
    found = accounting.table({"small": {"epsilon": 0.5, "calibration": 2.0}})
    assert found.splitlines()[0] == "| seconds | epsilon | calibration |"
    assert "| small | 0.5 | 2 |" in found
