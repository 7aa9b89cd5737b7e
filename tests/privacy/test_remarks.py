import json

import pytest

from lipdp.errors import InvalidData, InvalidValue
from lipdp.privacy import PrivacyLedger
from lipdp.privacy.entries import _checksum
from lipdp.privacy.ledger import Remarks


def test_each_is_kept_once_and_in_its_place():
    remarks = Remarks()
    for words in ("b", "a", "b"):
        remarks.add("not_covered", words)
    assert remarks.of("not_covered") == ("b", "a") and remarks.of("other_accesses") == ()


def test_another_place_is_refused():
    with pytest.raises(InvalidValue, match="not_covered"):
        Remarks([("epsilon", "0.1")])


def test_a_ledger_keeps_them_in_its_text_and_takes_over_those_of_others():
    one, other = PrivacyLedger(), PrivacyLedger()
    one.remarks.add("not_covered", "a")
    other.remarks.add("other_accesses", "b")
    one.merge(PrivacyLedger.from_json(other.to_json()))
    assert one.remarks.of("not_covered") == ("a",) and one.remarks.of("other_accesses") == ("b",)
    assert other.remarks.of("not_covered") == ()


@pytest.mark.parametrize(
    "remarks", [[["epsilon", "a"]], [["not_covered"]], [["not_covered", 1]], 3]
)
def test_a_text_with_impossible_ones_is_refused(remarks):
    content = {**json.loads(PrivacyLedger().to_json()), "remarks": remarks}
    del content["sha256"]
    with pytest.raises(InvalidData):
        PrivacyLedger.from_json(json.dumps({**content, "sha256": _checksum(content)}))
