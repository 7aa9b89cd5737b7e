import math
import subprocess
import sys

import pytest

from lipdp.errors import InvalidData, InvalidValue, UnknownName
from lipdp.privacy import TRAINING, Draw, Phase, PrivacyLedger, epsilon, epsilon_of


def _ledger():
    ledger = PrivacyLedger()
    ledger.record(0.01, 1.0, 500, overflow_probability=1e-12)
    ledger.record(0.02, 2.0, 300)
    return ledger


def test_starts_empty():
    ledger = PrivacyLedger()
    assert (ledger.steps, ledger.phases, ledger.overflow_delta) == (0, (), 0.0)
    assert ledger.epsilon(1e-5) == 0.0


def test_steps_taken_one_by_one_are_steps_taken_together():
    ledger = PrivacyLedger()
    for _ in range(500):
        ledger.record(0.01, 1.0)
    assert ledger.steps == 500
    assert ledger.phases == (Phase(0.01, 1.0, 500),)
    assert ledger.epsilon(1e-5) == epsilon(0.01, 1.0, 500, 1e-5)


def test_resumed_in_another_process():
    ledger = PrivacyLedger()
    ledger.record(0.01, 1.0, 500)
    assert 1.3260 <= ledger.epsilon(1e-5) <= 1.3361
    code = (
        "import sys; from lipdp.privacy import PrivacyLedger;"
        "ledger = PrivacyLedger.from_json(sys.stdin.read());"
        "ledger.record(0.01, 1.0, 500); print(ledger.epsilon(1e-5))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        input=ledger.to_json(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert 1.8281 <= float(answer.stdout) <= 1.8382


def test_overflow_is_paid_from_delta_and_grows():
    ledger = PrivacyLedger()
    ledger.record(0.01, 1.0, 1000, overflow_probability=2e-9)
    assert ledger.overflow_delta == pytest.approx(2e-6)
    assert ledger.epsilon(1e-5) == pytest.approx(epsilon(0.01, 1.0, 1000, 8e-6))
    assert ledger.epsilon(2e-6) == math.inf
    ledger.record(0.01, 1.0, 4000, overflow_probability=2e-9)
    assert ledger.epsilon(1e-5) == math.inf


def test_reading_changes_nothing():
    ledger = _ledger()
    before = ledger.to_json()
    first = ledger.epsilon(1e-5), ledger.epsilon(1e-5, accountant="rdp")
    assert (ledger.epsilon(1e-5), ledger.epsilon(1e-5, accountant="rdp")) == first
    assert ledger.phases and ledger.to_json() == before


def test_unknown_history_is_infinite_for_good():
    ledger = _ledger()
    ledger.mark_unknown()
    assert ledger.epsilon(1e-5) == math.inf
    again = PrivacyLedger.from_json(ledger.to_json())
    again.merge(_ledger())
    assert again.unknown_history and again.epsilon(1e-5) == math.inf
    known = _ledger()
    known.merge(ledger)
    assert known.unknown_history


def test_a_step_without_noise_is_infinite():
    ledger = _ledger()
    ledger.record(0.01, 0.0)
    assert ledger.epsilon(1e-5) == math.inf


def test_an_older_checkpoint_never_rolls_back():
    ledger = _ledger()
    old = PrivacyLedger.from_json(ledger.to_json())
    ledger.record(0.01, 1.0, 100, overflow_probability=1e-12)
    ledger.record(0.3, 1.0, 1)
    newest = ledger.to_json()
    ledger.merge(old)
    assert ledger.to_json() == newest
    old.merge(ledger)
    assert old.to_json() == newest


def test_other_adjacencies_do_not_mix():
    with pytest.raises(InvalidData, match="adjacenc"):
        PrivacyLedger().merge(PrivacyLedger("replace-one"))
    with pytest.raises(UnknownName):
        PrivacyLedger("swap")
    ledger = PrivacyLedger("replace-one")
    ledger.record(1.0, 2.0)
    assert 4.3771 <= ledger.epsilon(1e-5) <= 4.3782


def test_round_trip():
    ledger = _ledger()
    again = PrivacyLedger.from_json(ledger.to_json())
    assert again.to_json() == ledger.to_json()
    assert again.phases == ledger.phases
    assert again.overflow_delta == ledger.overflow_delta


def test_bad_steps_are_refused_and_leave_no_trace():
    ledger = PrivacyLedger()
    for arguments in [(0.0, 1.0), (0.1, -1.0), (0.1, math.nan), (0.1, 1.0, -1), (0.1, 1.0, 1.5)]:
        with pytest.raises(InvalidValue):
            ledger.record(*arguments)
    for price in (-1e-9, 1.5, math.nan):
        with pytest.raises(InvalidValue):
            ledger.record(0.1, 1.0, overflow_probability=price)
    for purpose in ("", " ", None, 3, ["training"]):
        with pytest.raises(InvalidValue, match="purpose"):
            ledger.record(0.1, 1.0, purpose=purpose)
    for draw in (None, "poisson", Draw("fixed-size", 100, 10)):
        with pytest.raises(InvalidValue):
            ledger.record(0.1, 1.0, draw=draw)
    assert ledger.phases == () and ledger.steps == 0


def test_more_steps_than_can_be_counted_are_refused():
    ledger = PrivacyLedger()
    ledger.record(0.1, 1.0, 2**53)
    for steps in (1, 2**53, 2**53 + 1, 10**400):
        with pytest.raises(InvalidValue):
            ledger.record(0.1, 1.0, steps)
    assert ledger.steps == 2**53
    assert PrivacyLedger.from_json(ledger.to_json()).steps == 2**53


def test_every_purpose_counts_and_is_named():
    ledger = PrivacyLedger()
    ledger.record(0.01, 1.0, 500)
    ledger.record(1.0, 20.0, purpose="private mean of 3 columns")
    ledger.record(1.0, 30.0, 2, purpose="private quantiles", overflow_probability=1e-9)
    ledger.record(0.01, 1.0, 100, purpose="a pilot run")
    assert ledger.steps == 500
    assert ledger.phases == (Phase(0.01, 1.0, 600), Phase(1.0, 20.0, 1), Phase(1.0, 30.0, 2))
    assert ledger.epsilon(1e-5) == epsilon_of(ledger.phases, 1e-5 - ledger.overflow_delta)
    assert ledger.epsilon(1e-5) > epsilon(0.01, 1.0, 600, 1e-5)
    assert ledger.other_accesses == (
        "private mean of 3 columns: 1 access at noise multiplier 20, inside epsilon",
        "private quantiles: 2 accesses at noise multiplier 30, inside epsilon",
        "a pilot run: 100 accesses at noise multiplier 1, inside epsilon",
    )
    again = PrivacyLedger.from_json(ledger.to_json())
    assert again.other_accesses == ledger.other_accesses
    assert again.to_json() == ledger.to_json()


def test_accesses_of_two_sessions_are_named_once():
    one, other = PrivacyLedger(), PrivacyLedger()
    for ledger in (one, other):
        ledger.record(1.0, 20.0, purpose="private mean")
    one.merge(other)
    (named,) = one.other_accesses
    assert named == "private mean: 2 accesses at noise multiplier 20, inside epsilon"


def test_merging_keeps_purposes_and_draws_apart():
    one, other = PrivacyLedger("replace-one"), PrivacyLedger("replace-one")
    one.begin_session("same")
    other.begin_session("same")
    fixed = Draw("fixed-size", 100, 10)
    one.record(0.1, 3.0, 10, draw=fixed)
    one.record(0.1, 3.0, 7, purpose="a pilot run")
    other.record(0.1, 3.0, 4, draw=fixed)
    other.record(0.1, 3.0, 5, purpose=TRAINING)
    one.merge(other)
    assert one.phases == (Phase(0.1, 3.0, 10, fixed), Phase(0.1, 3.0, 12))
    assert one.steps == 15
