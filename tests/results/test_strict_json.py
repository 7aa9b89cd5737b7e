import json
import math

from lipdp.results.run import strict_json


def test_floats_that_json_lacks_are_texts():
    data = {"a": [math.inf, -math.inf, math.nan, 1.5], "b": (1, {"c": math.inf}), "d": "é"}
    expected = {"a": ["inf", "-inf", "nan", 1.5], "b": [1, {"c": "inf"}], "d": "é"}
    assert json.loads(strict_json(data), parse_constant=str.upper) == expected


def test_no_escapes_of_letters():
    assert "é" in strict_json({"name": "é"})
