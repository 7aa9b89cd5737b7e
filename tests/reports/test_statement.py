"""No word of a statement is lost on its way to the page."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.reports.page import Block, statement_blocks


def words(blocks: list[Block]) -> list[str]:
    found = []
    for block in blocks:
        found += block.text.split()
        for name, value in block.facts:
            found += [*f"{name}:".split(), *value.split()]
        for point in block.points:
            found += ["-", *point.split()]
    return found


def test_the_statement_of_a_run(result):
    blocks = statement_blocks(result.statement)
    assert words(blocks) == result.statement.split()
    assert blocks[0].text.startswith("The trained model is (1.987")
    assert dict(blocks[1].facts)["epsilon"] == "1.9870"
    assert dict(blocks[2].facts)["steps"] == "200"
    headings = [block.text for block in blocks[2:]]
    assert headings[:2] == ["Accesses for training", "Assumptions"]
    assert headings[-1] == "Not covered by epsilon"
    assert all(block.points for block in blocks[2:])


def test_a_warning_is_a_heading_with_its_reasons():
    text = "NOT PRIVATE\n  - no noise\n  - a seed was\n    given"
    assert statement_blocks(text) == [Block("NOT PRIVATE", (), ("no noise", "a seed was given"))]


@pytest.mark.parametrize("text", ["", "  ", "\n\n"])
def test_nothing_gives_nothing(text):
    assert statement_blocks(text) == []


LINES = st.sampled_from(
    [
        "",
        "word",
        "two words",
        "  name: value",
        "  - point",
        "    more",
        "  odd",
        "a: b",
        "  x:",
        "-",
    ]
)


@given(st.lists(LINES, max_size=8))
@example(["  - point", "text"])
@example(["  name: value", "text"])
@example(["  name: value", "  - point"])
@example(["    more"])
def test_every_word_stays_in_its_place(lines):
    text = "\n".join(lines)
    assert words(statement_blocks(text)) == text.split()
