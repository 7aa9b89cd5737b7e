"""Lines of a training: bounds rounded up, words that fit their numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.results.lines import counted, decimals_up, digits_up, epoch_line, opening_line


@given(st.floats(0, 1e20))
@example(5.0384077)
@example(1e-9)
@example(0.00010000000000000002)
@example(1e15)
def test_epsilon_is_never_shown_smaller_than_it_is(value):
    assert float(decimals_up(value)) >= value
    assert float(decimals_up(value)) - value <= max(1.0001e-4, 1e-15 * value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(5.0384077, "5.0385"), (1e-9, "0.0001"), (0.0, "0.0000"), (2.0, "2.0000"), (math.inf, "inf")],
)
def test_four_decimals(value, text):
    assert decimals_up(value) == text


@given(st.floats(1e-6, 1e9))
@example(1.00000009)
@example(7.9999999)
def test_significant_digits_of_a_bound_are_rounded_up(value):
    assert value <= float(digits_up(value)) <= value * (1 + 1.01e-5)


def test_a_bound_of_few_digits_stays_as_it_is():
    assert (digits_up(8.0), digits_up(1.5), digits_up(0.0)) == ("8", "1.5", "0")
    assert digits_up(math.inf) == "inf"


def test_an_epoch_names_the_radius_where_it_is_known():
    logs = {"epsilon": 1.0, "val_accuracy": 0.8, "val_certified_accuracy": 0.7875}
    assert epoch_line(3, 10, logs).endswith(
        "epoch  3/10  epsilon 1.0000  held-out accuracy 0.8000  certified 0.7875"
    )
    known = epoch_line(3, 10, {**logs, "certified_radius": 0.05})
    assert known.endswith("  certified at 0.05 0.7875")


def test_one_is_singular():
    assert opening_line({}, 1, 8) == "1 epoch of 8 steps"
    assert opening_line({}, 2, 1) == "2 epochs of 1 step"
    assert counted(0, "step") == "0 steps"
