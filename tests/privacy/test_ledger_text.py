"""Texts of a ledger that were cut, flipped, edited or forged: refused, never a smaller ledger."""

import copy
import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.errors import InvalidData
from lipdp.privacy import Draw, Phase, PrivacyLedger, Terms
from lipdp.privacy.access import kinds_of
from lipdp.privacy.entries import _checksum


def _ledger():
    ledger = PrivacyLedger("replace-one")
    ledger.record(0.01, 1.0, 500, overflow_probability=1e-12)
    ledger.record(0.1, 2.0, 300, draw=Draw("fixed-size", 1000, 100))
    ledger.record(1.0, 20.0, purpose="a private mean")
    ledger.calibrate(1.0)
    return ledger


TEXT = _ledger().to_json()


#: Written by the version that recorded neither sampler nor numbers of rows.
EARLIER = {
    "poisson": (
        '{"format": "lipdp privacy ledger", "version": 4, "adjacency": "add-remove", "unknown_his'
        'tory": false, "calibrated": null, "remarks": [], "entries": [{"purpose": "training", "dr'
        'aw": ["poisson", 0, 0], "sampling_rate": 0.25, "noise_multiplier": 1.0, "overflow_probab'
        'ility": 1.9313225207747325e-12, "steps": 4, "terms": {"unit": "row", "seeded": false, "s'
        'ecure": false}, "session": "d305e24adc35774e"}], "sha256": "2c1127227a192e04a933e7e3eeba'
        'ef3622f663709c333973dd2af500587ef9df"}'
    ),
    "users, seeded": (
        '{"format": "lipdp privacy ledger", "version": 4, "adjacency": "add-remove", "unknown_his'
        'tory": false, "calibrated": null, "remarks": [], "entries": [{"purpose": "training", "dr'
        'aw": ["poisson", 0, 0], "sampling_rate": 0.5, "noise_multiplier": 1.0, "overflow_probabi'
        'lity": 1.1333167968530233e-12, "steps": 2, "terms": {"unit": "user", "seeded": true, "se'
        'cure": false}, "session": "35b2047aae214eec"}], "sha256": "914e34dfac86005312c03aea20685'
        'd974b6256ae6450258b0acc9be7c89b2bf3"}'
    ),
    "shuffled, secure": (
        '{"format": "lipdp privacy ledger", "version": 4, "adjacency": "zero-out", "unknown_histo'
        'ry": false, "calibrated": null, "remarks": [], "entries": [{"purpose": "training", "draw'
        '": ["poisson", 0, 0], "sampling_rate": 1.0, "noise_multiplier": 1.0, "overflow_probabili'
        'ty": 0.0, "steps": 2, "terms": {"unit": "row", "seeded": false, "secure": true}, "sessio'
        'n": "e5dd2becd4b2ee37"}], "sha256": "abd90297338e525fb67784760d873a005c392786bbd6dd879c4'
        'dfc164a3da430"}'
    ),
    "statistics": (
        '{"format": "lipdp privacy ledger", "version": 4, "adjacency": "add-remove", "unknown_his'
        'tory": false, "calibrated": null, "remarks": [], "entries": [{"purpose": "private mean a'
        'nd scale of the features", "draw": ["poisson", 0, 0], "sampling_rate": 1.0, "noise_multi'
        'plier": 5.0, "overflow_probability": 0.0, "steps": 1, "terms": {"unit": "row", "seeded":'
        ' false, "secure": false}, "session": "cc9645de7c097414"}], "sha256": "26f8988c3b51507d1f'
        '7be6bac73bbdd6c956a458a9aff10012e071934c6f7d32"}'
    ),
    "fixed": (
        '{"format": "lipdp privacy ledger", "version": 4, "adjacency": "replace-one", "unknown_hi'
        'story": false, "calibrated": null, "remarks": [], "entries": [{"purpose": "training", "d'
        'raw": ["fixed-size", 200, 50], "sampling_rate": 0.25, "noise_multiplier": 1.0, "overflow'
        '_probability": 0.0, "steps": 4, "terms": {"unit": "row", "seeded": false, "secure": fals'
        'e}, "session": "5df3c73e940901d3"}], "sha256": "97eeeac0b497697250cef7487911c1bdee5c6f1c'
        '22bed5bfb074d239852d9a49"}'
    ),
}


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


class TestEarlierVersion:
    SPENT = {
        "poisson": (Phase(0.25, 1.0, 4), "row", False, False),
        "users, seeded": (Phase(0.5, 1.0, 2), "user", True, False),
        "shuffled, secure": (Phase(1.0, 1.0, 2), "row", False, True),
        "statistics": (Phase(1.0, 5.0, 1), "row", False, False),
        "fixed": (Phase(0.25, 1.0, 4, Draw("fixed-size", 200, 50)), "row", False, False),
    }

    @pytest.mark.parametrize("case", EARLIER)
    def test_it_is_read_and_says_what_it_lacks(self, case):
        ledger = PrivacyLedger.from_json(EARLIER[case])
        phase, unit, seeded, secure = self.SPENT[case]
        assert ledger.phases == (phase,)
        assert (ledger.units, ledger.seeded, ledger.secure) == ({unit}, seeded, secure)
        (access,) = ledger.accesses
        assert access.phase == phase and access.terms == Terms(unit, seeded, secure)
        (kind,) = kinds_of(ledger.accesses)
        assert kind.facts[f"{unit}s"] == "not recorded"
        assert kind.facts["sampling"].startswith("not recorded")
        assert any("was not recorded" in words for words in kind.sentences)
        assert "randomness of the operating system" not in " ".join(kind.sentences) or not seeded

    @pytest.mark.parametrize("case", EARLIER)
    def test_it_is_written_anew_and_merges_as_the_same_accesses(self, case):
        ledger = PrivacyLedger.from_json(EARLIER[case])
        again = PrivacyLedger.from_json(ledger.to_json())
        assert json.loads(again.to_json())["version"] == 5
        assert again.to_json() == ledger.to_json()
        again.merge(PrivacyLedger.from_json(EARLIER[case]))
        assert again.phases == ledger.phases and again.holds(ledger) and ledger.holds(again)

    @pytest.mark.parametrize("version", [1, 3, 6])
    def test_other_versions_are_refused_whatever_their_fields(self, version):
        for text in (EARLIER["poisson"], TEXT):
            with pytest.raises(InvalidData, match="another format"):
                PrivacyLedger.from_json(_signed({**json.loads(text), "version": version}))

    def test_each_version_has_its_own_terms(self):
        earlier, later = json.loads(EARLIER["poisson"]), json.loads(TEXT)
        terms = [content["entries"][0]["terms"] for content in (earlier, later)]
        terms[0].update(terms[1]), terms[1].pop("sampler")
        for content in (earlier, later):
            with pytest.raises(InvalidData):
                PrivacyLedger.from_json(_signed(content))

    @given(place=st.integers(0, len(EARLIER["poisson"]) - 1), new=st.sampled_from('0917"x.,]}e- '))
    def test_an_edited_text_is_refused(self, place, new):
        text = EARLIER["poisson"]
        edited = text[:place] + new + text[place + 1 :]
        try:
            read = PrivacyLedger.from_json(edited)
        except InvalidData:
            return
        assert read.to_json() == PrivacyLedger.from_json(text).to_json()


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": 1},
        {"seeded": 0},
        {"secure": None},
        {"sampler": None},
        {"num_units": -1},
        {"num_units": True},
        {"batch_size": 2.0},
        {"rows_per_unit": "2"},
        {"capacity": 10**400},
        {"mechanism": ["a"]},
        {"extra": ""},
    ],
)
def test_forged_terms_are_refused(changes):
    content = json.loads(TEXT)
    content["entries"][0]["terms"].update(changes)
    with pytest.raises(InvalidData):
        PrivacyLedger.from_json(_signed(content))


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
    ("spot", "value", "place"),
    [
        (("entries", 1, "steps"), True, "entries.1.steps: .*integer"),
        (("entries", 2, "terms", "num_units"), -1, "entries.2.terms: .*wrong type or number"),
        (("entries", 0, "terms", "seeded"), 0, "entries.0.terms: .*wrong type or number"),
        (("entries", 0, "extra"), 0, "entries.0.extra: Extra"),
        (("entries", 1, "draw"), ["other", 0, 0], "impossible at entries.1.*no such draw"),
        (("entries", 2, "noise_multiplier"), -1.0, "impossible at entries.2.*noise multiplier"),
        (("unknown_history",), 0, "unknown_history: .*boolean"),
        (("remarks",), [["other_accesses"]], "remarks.0: "),
        (("remarks",), [["elsewhere", "words"]], "impossible at remarks"),
        (("calibrated",), -1.0, "impossible at calibrated"),
        (("adjacency",), "swap", "impossible at adjacency"),
    ],
)
def test_a_sentence_names_the_place(spot, value, place):
    content = json.loads(TEXT)
    target = content
    for key in spot[:-1]:
        target = target[key]
    target[spot[-1]] = value
    with pytest.raises(InvalidData, match=place) as error:
        PrivacyLedger.from_json(_signed(content))
    assert "\n" not in str(error.value)


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
