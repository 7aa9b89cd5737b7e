"""Each fault of the catalogue can be inserted, and the tests that must notice it are there."""

import ast
from collections import Counter

import pytest

from tests.faults.__main__ import ROOT, first_failure, insert
from tests.faults.catalogue import FAULTS, LEAST, Fault, places_of

LIBRARY = ROOT / "lipdp"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_one_place_and_leaves_a_program(fault):
    (path,) = places_of(fault.was, LIBRARY)
    text = path.read_text(encoding="utf-8")
    changed = text.replace(fault.was, fault.becomes)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))


def test_names_are_unique():
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)


def test_every_area_has_enough_faults():
    count = Counter(fault.area for fault in FAULTS)
    assert len(FAULTS) >= 40 and set(count) == set(LEAST)
    assert all(count[area] >= least for area, least in LEAST.items())


@pytest.mark.parametrize("test", sorted({test for fault in FAULTS for test in fault.tests}))
def test_the_tests_are_there(test):
    name, *inside = test.split("::")
    found = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    for part in inside:
        bare = part.split("[")[0]
        (found,) = [one for one in found.body if getattr(one, "name", None) == bare]


@pytest.mark.parametrize("text", ["a = 1\n", "a = 2\na = 2\n"])
def test_a_snippet_that_is_not_there_once_is_not_replaced(text, tmp_path):
    (tmp_path / "one.py").write_text(text)
    fault = Fault("a", "bounds", "a = 2", "a = 3", ())
    with pytest.raises(LookupError, match="times"):
        insert(fault, tmp_path)
    assert (tmp_path / "one.py").read_text() == text


def test_a_fault_is_put_in_wherever_its_file_lies(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.py").write_text("a = 1\nb = 2\n")
    insert(Fault("a", "bounds", "b = 2", "b = 3", ()), tmp_path)
    assert (tmp_path / "deep" / "one.py").read_text() == "a = 1\nb = 3\n"


@pytest.mark.parametrize(
    ("printed", "first"),
    [
        ("F\nFAILED tests/a.py::test_b[1] - assert 0\nFAILED tests/a.py::test_c\n", "test_b[1]"),
        ("E\nERROR tests/a.py::test_b - OSError\n", "test_b"),
        ("F\nFAILED tests/a.py::test_b[x and y]\n1 failed\n", "test_b[x and y]"),
        ("no tests ran\n", "no tests ran"),
    ],
)
def test_the_test_that_noticed_it_is_named(printed, first):
    assert first_failure(printed).endswith(first)
