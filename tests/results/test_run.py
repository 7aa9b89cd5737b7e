import json
import math

import pytest
from pydantic import ValidationError

from lipdp.errors import InvalidData
from lipdp.results import Certified, RunResult, Spent, TestMetrics


def result(**changes):
    spent = Spent(
        epsilon=changes.pop("epsilon", 8.0),
        delta=1e-5,
        steps=200,
        sampling_rate=0.1,
        noise_multiplier=1.0,
        accountant="pld",
        adjacency="add-remove",
    )
    whole = {
        "name": "a",
        "created": "2026-01-01",
        "config": {"model": {"name": "linear"}},
        "plan": {},
        "statement": "ε ≤ 8",
        "spent": spent,
        "test": TestMetrics(rows=10, accuracy=0.8, auroc=None, majority_accuracy=0.7),
        "certified": [Certified(radius=0.1, unit="encoded row", accuracy=0.5, auroc=0.6)],
        "lipschitz_constant": 1.0,
        "training_rows": 100,
        "seconds": 1.5,
        "versions": {"keras": "3"},
    }
    return RunResult(**{**whole, **changes})


def strict(path):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


@pytest.mark.parametrize("value", [0.0, 3.25, math.inf])
def test_what_is_saved_is_loaded(tmp_path, value):
    path = tmp_path / "result.json"
    before = result(epsilon=value, lipschitz_constant=value)
    before.save(path)
    assert RunResult.load(path) == before
    strict(path)


def test_an_infinity_in_free_form_parts_is_not_lost(tmp_path):
    path = tmp_path / "result.json"
    result(plan={"radius": math.inf}).save(path)
    assert strict(path)["plan"]["radius"] == "Infinity"


def test_other_files_are_refused(tmp_path):
    texts = {"broken": "{", "other": "{}", "list": "[]", "empty": ""}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in [*texts, "binary", "missing"]:
        with pytest.raises(InvalidData, match="result of a run"):
            RunResult.load(tmp_path / name)


def test_results_are_frozen_and_closed():
    with pytest.raises(ValidationError):
        result().name = "b"
    with pytest.raises(ValidationError):
        result(rows=[1, 2])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("test.accuracy", 1.85),
        ("test.accuracy", -0.1),
        ("test.accuracy", "NaN"),
        ("test.auroc", "Infinity"),
        ("test.majority_accuracy", 2),
        ("test.rows", 0),
        ("certified.0.accuracy", 1.0001),
        ("certified.0.auroc", -1e-9),
        ("certified.0.radius", -1.0),
        ("spent.epsilon", -0.5),
        ("spent.epsilon", "nan"),
        ("spent.delta", 0.0),
        ("spent.steps", -1),
        ("spent.noise_multiplier", "Infinity"),
        ("lipschitz_constant", "nan"),
        ("seconds", -1.0),
    ],
)
def test_a_number_that_no_run_has_is_refused(tmp_path, field, value):
    path = tmp_path / "result.json"
    result().save(path)
    whole = json.loads(path.read_text())
    *parents, last = [int(name) if name.isdigit() else name for name in field.split(".")]
    inner = whole
    for name in parents:
        inner = inner[name]
    inner[last] = value
    path.write_text(json.dumps(whole))
    with pytest.raises(InvalidData) as caught:
        RunResult.load(path)
    message = str(caught.value)
    assert field in message and str(path) in message
    assert repr(value) in message or repr(float(value)) in message


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, None),
        ({"epsilon": math.inf}, "no finite epsilon"),
        ({"config": {"privacy": {"seed": 0}}}, "can be recomputed"),
        ({"config": {"privacy": {"seed": None}}}, None),
        ({"statement": "NOT PRIVATE\n  - no noise"}, "statement"),
    ],
)
def test_results_of_early_versions_say_why_they_are_not_private(tmp_path, changes, word):
    path = tmp_path / "result.json"
    result(**changes).save(path)
    early = json.loads(path.read_text())
    said = early.pop("not_private")
    path.write_text(json.dumps(early))
    assert RunResult.load(path).not_private == said
    assert len(said) == (word is not None) and all(word in reason for reason in said)


def test_the_reasons_of_a_run_are_kept_as_it_gave_them(tmp_path):
    path = tmp_path / "result.json"
    result(statement="NOT PRIVATE", not_private=["no noise", "a seed"]).save(path)
    assert RunResult.load(path).not_private == ["no noise", "a seed"]
