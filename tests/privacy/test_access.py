"""Each kind of access has a block, and each sentence stands where it is true, and only there."""

from dataclasses import replace

import pytest

from lipdp.privacy import (
    SAMPLERS,
    STREAM,
    TRAINING,
    Access,
    Draw,
    Phase,
    PrivacyLedger,
    Terms,
)
from lipdp.privacy.access import kinds_of

MECHANISM = "Gaussian noise on a sum"
#: Numbers that an access of each sampler has; N = 100, b = 10.
PHASES = {
    "poisson": Phase(0.1, 1.0, 5),
    "truncated-poisson": Phase(0.1, 1.0, 5, Draw("truncated-poisson", 100, 12)),
    "fixed-size": Phase(0.1, 1.0, 5, Draw("fixed-size", 100, 10)),
    "shuffled": Phase(1.0, 1.0, 5),
    "full-batch": Phase(1.0, 1.0, 5),
    STREAM: Phase(1.0, 1.0, 5),
}


def access(sampler="poisson", *, price=0.0, purpose=TRAINING, phase=None, **terms):
    given = {"num_units": 100, "batch_size": 10, "rows_per_unit": 1, **terms}
    made = Terms(sampler=sampler, mechanism=MECHANISM, **given)
    return Access(purpose, phase or PHASES[sampler], price, made)


def told(one):
    (kind,) = kinds_of([one])
    return kind.facts, " | ".join(kind.sentences)


def test_every_sampler_is_known_here():
    assert set(PHASES) == {*SAMPLERS, STREAM}


@pytest.mark.parametrize("unit", ["row", "user"])
@pytest.mark.parametrize("sampler", PHASES)
class TestSamplers:
    def test_numbers(self, sampler, unit):
        facts, _ = told(access(sampler, unit=unit, capacity=12))
        assert facts[f"{unit}s"] == "100" and facts["expected batch"] == f"10 {unit}s"
        assert facts["sampling"].endswith(f"rate {PHASES[sampler].sampling_rate:g}")
        assert facts["capacity"] == f"12 {unit}s" and facts["noise multiplier"] == "1"
        counted = "epochs" if sampler in ("shuffled", STREAM) else "steps"
        assert facts[counted] == "5"

    def test_how_they_are_drawn_is_said_of_the_unit_alone(self, sampler, unit):
        _, said = told(access(sampler, unit=unit))
        other = {"row": "user", "user": "row"}[unit]
        sentence = {
            "poisson": f"draws each {unit} independently of all others |",
            "truncated-poisson": "keeps a uniformly random part of a draw that is too large",
            "fixed-size": f"a uniformly random set of exactly the batch size of {unit}s",
            "shuffled": f"each {unit} is in at most one batch of an epoch",
            "full-batch": f"each step uses every {unit} once",
            STREAM: "must not mix rows",
        }
        assert [name for name, words in sentence.items() if words in said] == [sampler]
        if sampler != STREAM:
            assert f"each {other}" not in said
        assert ("must bring each row at most once a pass" in said) == (sampler == STREAM)

    def test_secrecy_is_assumed_where_epsilon_relies_on_it(self, sampler, unit):
        amplified = PHASES[sampler].sampling_rate < 1.0
        _, said = told(access(sampler, unit=unit))
        assert (f"which {unit}s are drawn" in said and "must stay secret" in said) == amplified
        facts, said = told(access(sampler, unit=unit, seeded=True))
        assert "secret" not in said and "operating system" not in said
        assert "come from a seed" in said and facts["randomness"] == "a seed (not private)"

    def test_rows_of_a_user_come_together(self, sampler, unit):
        for most in (1, 3):
            _, said = told(access(sampler, unit=unit, rows_per_unit=most))
            words = f"the rows of a user come together into a batch, at most {most} of them"
            assert (words in said) == (unit == "user")

    def test_overflow(self, sampler, unit):
        for price in (0.0, 1e-9):
            facts, said = told(access(sampler, unit=unit, price=price, capacity=12))
            assert ("of a batch above capacity" in said) == (price > 0.0)
            assert ("overflow at most 1e-09" in facts["capacity"]) == (price > 0.0)


class TestOthers:
    def test_a_statistic(self):
        facts, said = told(
            access("full-batch", purpose="private mean", unit="user", rows_per_unit=0)
        )
        assert facts["accesses"] == "5" and "each access uses every user once" in said
        assert "at most" not in said

    @pytest.mark.parametrize("phase", PHASES.values())
    def test_what_was_not_recorded(self, phase):
        (kind,) = kinds_of([Access(TRAINING, phase, 1e-9, Terms())])
        said = " ".join(kind.sentences)
        assert kind.facts["rows"] == "not recorded" and kind.facts["accesses"] == "5"
        assert "expected batch" not in kind.facts and "capacity" not in kind.facts
        assert said.startswith("how the rows were chosen was not recorded; epsilon holds if it was")
        expected = {"fixed-size": "set", "truncated-poisson": "at most 12 are kept"}
        words = expected.get(phase.draw.name, "" if phase.sampling_rate < 1 else "at most once")
        assert words in said

    def test_a_sampler_of_another_version(self):
        facts, said = told(access("by-weight", phase=PHASES["poisson"]))
        assert facts["sampling"] == "by-weight, accounted as poisson, rate 0.1"
        assert "was not recorded" in said

    def test_secure_noise(self):
        for secure in (False, True):
            assert ("exact Gaussian" in told(access(secure=secure))[1]) == secure
        assert "exact Gaussian" not in told(access(secure=True, phase=Phase(0.1, 0.0, 1)))[1]


class TestKinds:
    CHANGES = (
        {"sampler": "full-batch"},
        {"num_units": 99},
        {"batch_size": 11},
        {"unit": "user"},
        {"rows_per_unit": 2},
        {"seeded": True},
        {"secure": True},
        {"capacity": 13},
        {"purpose": "a pilot run"},
        {"price": 1e-9},
        {"phase": Phase(0.2, 1.0, 5)},
        {"phase": PHASES["fixed-size"]},
    )

    def test_any_difference_but_noise_is_another_kind(self):
        base = access()
        others = [access(**{"phase": base.phase, **change}) for change in self.CHANGES]
        assert len(kinds_of([base, *others, base])) == 1 + len(self.CHANGES)

    def test_accesses_that_differ_in_noise_alone_are_one(self):
        other = replace(access(), phase=Phase(0.1, 2.5, 1))
        (kind,) = kinds_of([access(), other])
        assert kind.count == 6
        assert kind.facts["noise multiplier"] == "1 (5 steps), 2.5 (1 step)"

    def test_the_ledger_tells_them_without_its_sessions(self):
        ledger = PrivacyLedger()
        terms = [Terms(num_units=100), Terms(num_units=99)]
        for one in terms:
            ledger.record(0.1, 1.0, 3, terms=one)
        ledger.begin_session()
        ledger.record(0.1, 1.0, 4, terms=terms[0])
        read = PrivacyLedger.from_json(ledger.to_json())
        for one in (ledger, read):
            assert [(a.terms, a.phase.steps) for a in one.accesses] == [
                (terms[0], 7),
                (terms[1], 3),
            ]
        assert ledger.phases == (Phase(0.1, 1.0, 10),)
