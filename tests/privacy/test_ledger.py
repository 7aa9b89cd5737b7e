import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipdp.errors import InvalidData, InvalidValue, UnknownName
from lipdp.privacy import Phase, PrivacyLedger, epsilon
from lipdp.privacy.ledger import _checksum


def _ledger():
    ledger = PrivacyLedger()
    ledger.record(0.01, 1.0, 500, overflow_probability=1e-12)
    ledger.record(0.02, 2.0, 300)
    return ledger


def _forged(**changes):
    """A ledger with a right checksum and wrong content."""
    content = {**json.loads(_ledger().to_json()), **changes}
    content.pop("sha256")
    return json.dumps({**content, "sha256": _checksum(content)})


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


@given(end=st.integers(0, len(_ledger().to_json()) - 1))
def test_cut_texts_are_refused(end):
    with pytest.raises(InvalidData):
        PrivacyLedger.from_json(_ledger().to_json()[:end])


@given(place=st.integers(0, len(_ledger().to_json()) - 1), new=st.sampled_from('0917"x.,]}'))
def test_edited_texts_are_refused(place, new):
    text = _ledger().to_json()
    edited = text[:place] + new + text[place + 1 :]
    if edited != text:
        with pytest.raises(InvalidData):
            PrivacyLedger.from_json(edited)


@pytest.mark.parametrize(
    "entries",
    [
        [[0.01, 1.0, 0.0, -5]],
        [[0.01, 1.0, 0.0, 0]],
        [[0.01, 1.0, 0.0, 5.0]],
        [[0.01, 1.0, 0.0, True]],
        [[0.01, -1.0, 0.0, 5]],
        [[0.01, math.nan, 0.0, 5]],
        [[2.0, 1.0, 0.0, 5]],
        [[0.01, 1.0, -1e-9, 5]],
        [["0.01", 1.0, 0.0, 5]],
        [[0.01, 1.0, 5]],
        [5],
        {"a": 1},
        None,
    ],
)
def test_forged_entries_are_refused(entries):
    with pytest.raises(InvalidData):
        PrivacyLedger.from_json(_forged(entries=entries))


@pytest.mark.parametrize(
    "change",
    [
        {"version": 1},
        {"format": "other"},
        {"adjacency": "swap"},
        {"adjacency": 3},
        {"unknown_history": 0},
        {"extra": 1},
    ],
)
def test_forged_headers_are_refused(change):
    with pytest.raises(InvalidData):
        PrivacyLedger.from_json(_forged(**change))


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "3", "[" * 100000, None, 7])
def test_other_texts_are_refused(text):
    with pytest.raises(InvalidData):
        PrivacyLedger.from_json(text)


def test_bad_steps_are_refused_and_leave_no_trace():
    ledger = PrivacyLedger()
    for arguments in [(0.0, 1.0), (0.1, -1.0), (0.1, math.nan), (0.1, 1.0, -1), (0.1, 1.0, 1.5)]:
        with pytest.raises(InvalidValue):
            ledger.record(*arguments)
    for price in (-1e-9, 1.5, math.nan):
        with pytest.raises(InvalidValue):
            ledger.record(0.1, 1.0, overflow_probability=price)
    assert ledger.steps == 0
