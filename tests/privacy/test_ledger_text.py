"""Texts of a ledger that were cut, flipped, edited or forged: refused, never a smaller ledger."""

import copy
import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.errors import InvalidData
from lipdp.privacy import Draw, PrivacyLedger
from lipdp.privacy._entries import _checksum


def _ledger():
    ledger = PrivacyLedger("replace-one")
    ledger.record(0.01, 1.0, 500, overflow_probability=1e-12)
    ledger.record(0.1, 2.0, 300, draw=Draw("fixed-size", 1000, 100))
    ledger.record(1.0, 20.0, purpose="a private mean")
    ledger.calibrate(1.0)
    return ledger


TEXT = _ledger().to_json()


def _signed(content):
    content = {key: value for key, value in content.items() if key != "sha256"}
    return json.dumps({**content, "sha256": _checksum(content)})


def _forged(**changes):
    """A ledger with a right checksum and wrong content."""
    return _signed({**json.loads(TEXT), **changes})


def _with_entry(**changes):
    content = json.loads(TEXT)
    content["entries"][0].update(changes)
    return _signed(content)


def _refused_or_whole(text):
    try:
        read = PrivacyLedger.from_json(text)
    except InvalidData:
        return
    assert read.to_json() == TEXT


def test_the_whole_text_is_read():
    assert PrivacyLedger.from_json(TEXT).to_json() == TEXT
    assert PrivacyLedger.from_json(TEXT.encode()).to_json() == TEXT
    assert PrivacyLedger.from_json(_forged()).to_json() == TEXT


@given(end=st.integers(0, len(TEXT) - 1))
def test_cut_texts_are_refused(end):
    for text in (TEXT[:end], TEXT[:end].encode()):
        with pytest.raises(InvalidData):
            PrivacyLedger.from_json(text)


@given(flips=st.lists(st.integers(0, 8 * len(TEXT) - 1), min_size=1, max_size=3, unique=True))
def test_flipped_bits_are_refused(flips):
    data = bytearray(TEXT.encode())
    for flip in flips:
        data[flip // 8] ^= 1 << flip % 8
    _refused_or_whole(bytes(data))


@given(place=st.integers(0, len(TEXT) - 1), new=st.sampled_from('0917"x.,]}e- '))
def test_edited_texts_are_refused(place, new):
    _refused_or_whole(TEXT[:place] + new + TEXT[place + 1 :])


@given(start=st.integers(0, len(TEXT)), length=st.integers(1, 60))
def test_texts_with_a_part_missing_or_repeated_are_refused(start, length):
    _refused_or_whole(TEXT[:start] + TEXT[start + length :])
    _refused_or_whole(TEXT[: start + length] + TEXT[start:])


def _spots(content):
    """Every place of the content that holds a value, as a path of keys."""
    yield ()
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items if isinstance(content, (dict, list)) else ():
        if isinstance(value, (dict, list)):
            yield from ((key, *rest) for rest in _spots(value))
        else:
            yield (key,)


SPOTS = [spot for spot in _spots({k: v for k, v in json.loads(TEXT).items() if k != "sha256"})]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 10**400, -(10**400), 2**53 + 1, 1e308, -0.5, math.inf, -math.inf]),
    st.just(math.nan),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@given(spot=st.sampled_from(SPOTS), value=VALUES)
@example(spot=("entries", 0, "steps"), value=10**400)
@example(spot=("entries", 0, "sampling_rate"), value=10**400)
@example(spot=("calibrated",), value=10**400)
@example(spot=("entries", 1, "draw", 1), value=10**400)
@example(spot=("entries", 1, "draw", 0), value=["poisson"])
def test_other_values_with_a_right_checksum_are_refused_or_read(spot, value):
    """No other error, whatever stands anywhere; what is read says the same when it is written."""
    content = json.loads(TEXT)
    if not spot:
        return
    target = content
    for key in spot[:-1]:
        target = target[key]
    target[spot[-1]] = copy.deepcopy(value)
    try:
        read = PrivacyLedger.from_json(_signed(content))
    except InvalidData:
        return
    assert PrivacyLedger.from_json(read.to_json()).to_json() == read.to_json()
    assert read.epsilon(1e-5) >= 0.0


@given(key=st.sampled_from(["steps", "sampling_rate", "noise_multiplier", "overflow_probability"]))
def test_edited_numbers_need_the_checksum(key):
    content = json.loads(TEXT)
    content["entries"][0][key] = 1
    with pytest.raises(InvalidData, match="checksum"):
        PrivacyLedger.from_json(json.dumps(content))


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": -5},
        {"steps": 0},
        {"steps": 5.0},
        {"steps": True},
        {"steps": "5"},
        {"steps": 2**53 + 1},
        {"steps": 10**400},
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.nan},
        {"noise_multiplier": math.inf},
        {"noise_multiplier": 10**400},
        {"noise_multiplier": True},
        {"sampling_rate": 2.0},
        {"sampling_rate": "0.01"},
        {"overflow_probability": -1e-9},
        {"overflow_probability": None},
        {"purpose": ""},
        {"purpose": 3},
        {"draw": "poisson"},
        {"draw": ["poisson"]},
        {"draw": ["poisson", 0, 0, 0]},
        {"draw": ["other", 0, 0]},
        {"draw": ["poisson", 10, 1]},
        {"draw": ["poisson", 0, False]},
        {"draw": ["fixed-size", 1000, 100]},  # is not the sampling rate 0.01
        {"draw": ["fixed-size", 1, 100]},
        {"draw": ["truncated-poisson", 0, 5]},
        {"draw": ["truncated-poisson", 100, 5], "sampling_rate": 1.0},
        {"draw": ["truncated-poisson", 100, 2.5]},
        {"extra": 1},
    ],
)
def test_forged_entries_are_refused(changes):
    with pytest.raises(InvalidData):
        PrivacyLedger.from_json(_with_entry(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 1},
        {"version": 2},
        {"format": "other"},
        {"adjacency": "swap"},
        {"adjacency": 3},
        {"adjacency": "add-remove"},  # under which a fixed size is not accounted
        {"unknown_history": 0},
        {"calibrated": "1.0"},
        {"calibrated": -1.0},
        {"calibrated": True},
        {"extra": 1},
        {"entries": None},
        {"entries": {"a": 1}},
        {"entries": [5]},
        {"entries": [[0.01, 1.0, 0.0, 5]]},
        {"entries": ["text"]},
        {"entries": [None]},
        {"entries": [{}]},
    ],
)
def test_forged_headers_are_refused(changes):
    with pytest.raises(InvalidData):
        PrivacyLedger.from_json(_forged(**changes))


def test_a_doubled_entry_counts_twice():
    content = json.loads(TEXT)
    content["entries"].append({**content["entries"][0], "steps": 2**53 - 500})
    assert PrivacyLedger.from_json(_signed(content)).phases[0].steps == 2**53
    content["entries"].append(content["entries"][0])
    with pytest.raises(InvalidData):
        PrivacyLedger.from_json(_signed(content))


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", "3", "[" * 100000, None, 7, b"\xff\xfe", b"", "\ud800", [TEXT]]
)
def test_other_texts_are_refused(text):
    with pytest.raises(InvalidData):
        PrivacyLedger.from_json(text)
