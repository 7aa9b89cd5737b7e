"""The accounting commands: reference values, JSON shapes, and refusals that name the value."""

from __future__ import annotations

import json

import pytest

PLAN = ("--sampling-rate", "0.01", "--noise-multiplier", "1", "--steps", "1000")
DELTA = ("--delta", "1e-5")


def read(run, *arguments: object) -> dict:
    result = run("account", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_epsilon_of_a_published_plan(run):
    found = read(run, "epsilon", *PLAN, *DELTA)
    assert 1.8282 - 1e-4 <= found["epsilon"] <= 1.8282 + 0.01
    expected = {"sampling_rate": 0.01, "noise_multiplier": 1.0, "steps": 1000}
    assert found["phases"] == [expected]
    inputs = {**expected, "delta": 1e-5, "accountant": "pld", "adjacency": "add-remove"}
    assert inputs.items() <= found.items()


def test_rdp_is_looser(run):
    found = read(run, "epsilon", *PLAN, *DELTA, "--accountant", "rdp")
    assert 2.1014 - 0.02 <= found["epsilon"] <= 2.1014 + 0.02
    assert found["accountant"] == "rdp"


def test_adjacency_is_passed_on(run):
    full = ("--sampling-rate", "1", "--noise-multiplier", "2", "--steps", "1")
    found = read(run, "epsilon", *full, *DELTA, "--adjacency", "replace-one")
    assert 4.3772 - 1e-4 <= found["epsilon"] <= 4.3872


def test_phases_compose(run):
    mixed = read(run, "epsilon", "--phase", "0.01,1,500", "--phase", "0.02,2,500", *DELTA)
    assert 1.6151 - 1e-4 <= mixed["epsilon"] <= 1.6251
    assert len(mixed["phases"]) == 2
    assert "steps" not in mixed
    plain = ("--sampling-rate", "0.01", "--noise-multiplier", "1", "--steps", "500")
    assert read(run, "epsilon", *plain, "--phase", "0.02,2,500", *DELTA) == mixed


def test_infinity_is_text_in_json(run):
    plan = ("--sampling-rate", "0.1", "--noise-multiplier", "0", "--steps", "1")
    assert read(run, "epsilon", *plan, *DELTA)["epsilon"] == "inf"


def test_no_steps_cost_nothing(run):
    plan = ("--sampling-rate", "0.1", "--noise-multiplier", "1", "--steps", "0")
    assert read(run, "epsilon", *plan, *DELTA)["epsilon"] == 0


def test_epsilon_in_words(run):
    text = run("account", "epsilon", *PLAN, *DELTA).stdout
    assert "epsilon 1.82" in text
    assert "at delta 1e-05 (pld, add-remove)" in text
    assert "computed by: privacy loss distribution" in text


def test_noise_keeps_its_target(run):
    plan = ("--sampling-rate", "0.01", "--steps", "1000")
    found = read(run, "noise", "--epsilon", "1.8282", *plan, *DELTA)
    assert 0.99 * 1.8282 <= found["epsilon"] <= 1.8282
    assert found["noise_multiplier"] == pytest.approx(1.0, abs=0.01)
    expected = {"target_epsilon": 1.8282, "sampling_rate": 0.01, "steps": 1000, "delta": 1e-5}
    assert expected.items() <= found.items()
    text = run("account", "noise", "--epsilon", "1.8282", *plan, *DELTA).stdout
    assert f"noise multiplier {found['noise_multiplier']:.6g}" in text


def test_curve_ends_at_the_epsilon_of_the_plan(run):
    found = read(run, "curve", *PLAN, *DELTA, "--points", "4")
    curve = found["curve"]
    assert [point["steps"] for point in curve] == [250, 500, 750, 1000]
    values = [point["epsilon"] for point in curve]
    assert values == sorted(values)
    assert values[-1] == found["epsilon"] == read(run, "epsilon", *PLAN, *DELTA)["epsilon"]
    assert 1.3261 - 1e-4 <= values[1] <= 1.3361


def test_curve_takes_phases_in_their_order(run):
    # Full batch first: nearly the whole cost lies in the first step.
    phases = ("--phase", "1,5,1", "--phase", "0.01,1,3")
    curve = read(run, "curve", *phases, *DELTA)["curve"]
    assert [point["steps"] for point in curve] == [1, 2, 3, 4]
    alone = read(run, "epsilon", "--phase", "1,5,1", *DELTA)["epsilon"]
    assert curve[0]["epsilon"] == alone


def test_curve_as_a_table(run):
    lines = run("account", "curve", *PLAN, *DELTA, "--points", "2").stdout.splitlines()
    assert lines[0].split() == ["steps", "epsilon"]
    assert [line.split()[0] for line in lines[1:]] == ["500", "1000"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["epsilon", *PLAN], ["--delta"]),
        (["epsilon", *DELTA], ["--sampling-rate", "--phase Q,Z,T"]),
        (["epsilon", *DELTA, "--steps", "3"], ["--noise-multiplier", "--sampling-rate"]),
        (["epsilon", *DELTA, "--phase", "1,1,1", "--steps", "3"], ["--noise-multiplier"]),
        (["epsilon", *DELTA, "--phase", "0.1,1"], ["'0.1,1'", "0.01,1.1,1000"]),
        (["epsilon", *DELTA, "--phase", "0.1,1,1.5"], ["'0.1,1,1.5'", "whole number"]),
        (["epsilon", *DELTA, "--phase", "2,1,1"], ["sampling rate", "2"]),
        (["epsilon", *PLAN, "--delta", "0"], ["delta", "Received: 0"]),
        (["epsilon", *PLAN, "--delta", "1"], ["delta", "Received: 1"]),
        (["epsilon", *PLAN, "--delta", "nan"], ["delta", "nan"]),
        (["epsilon", *PLAN, *DELTA, "--steps", "-1"], ["steps", "-1"]),
        (["epsilon", *PLAN, *DELTA, "--steps", "1.5"], ["--steps", "'1.5'"]),
        (["epsilon", *PLAN, *DELTA, "--noise-multiplier", "-1"], ["noise multiplier", "-1"]),
        (["epsilon", *PLAN, *DELTA, "--noise-multiplier", "inf"], ["noise multiplier", "inf"]),
        (["epsilon", *PLAN, *DELTA, "--accountant", "prv"], ["'prv'", "pld", "rdp"]),
        (["epsilon", *PLAN, *DELTA, "--adjacency", "near"], ["'near'", "add-remove"]),
        (["noise", "--sampling-rate", "0.1", "--steps", "1", *DELTA], ["--epsilon"]),
        (
            ["noise", "--epsilon", "0", "--sampling-rate", "0.1", "--steps", "1", *DELTA],
            ["epsilon", "0"],
        ),
        (["curve", *PLAN, *DELTA, "--points", "0"], ["--points", "0"]),
        (["curve", *DELTA], ["--phase Q,Z,T"]),
    ],
)
def test_bad_input(refused, arguments, words):
    text = refused("account", *arguments)
    assert all(word in text for word in words), text


def test_points_are_different_whole_numbers():
    from lipdp.cli.account.curve import _spaced

    assert _spaced(3, 20) == [1, 2, 3]
    assert _spaced(0, 20) == [0]
    assert _spaced(1000, 1) == [1000]
    assert len(_spaced(10**9, 20)) == 20


def test_help_lists_the_three(run):
    text = run("account", "--help").stdout
    assert [name for name in ("curve", "epsilon", "noise") if f"  {name} " in text] == [
        "curve",
        "epsilon",
        "noise",
    ]
