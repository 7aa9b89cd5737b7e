import tomllib
from pathlib import Path

import pytest

import lipdp.datasets
from lipdp.datasets import DATASETS, Dataset
from lipdp.datasets.registered import ADULT
from lipdp.errors import UnknownName

FACTS = tomllib.loads(ADULT.schema())


@pytest.fixture(scope="module")
def frame():
    return ADULT.load()


def test_rows_and_balance_are_the_published_ones(frame):
    assert frame.shape == (32561, 15)
    share = (frame["Salary"] == ">50K").mean()
    assert round(100 * share, 2) == 24.08


def test_the_schema_is_about_these_columns(frame):
    assert [*FACTS["columns"], FACTS["target"]] == list(frame.columns)
    assert set(frame[FACTS["target"]]) == set(FACTS["classes"])


@pytest.mark.parametrize(
    "name", [n for n, c in FACTS["columns"].items() if c["kind"] == "category"]
)
def test_every_category_is_known(frame, name):
    assert set(frame[name]) <= set(FACTS["columns"][name]["categories"])


@pytest.mark.parametrize("name", [n for n, c in FACTS["columns"].items() if c["kind"] == "number"])
def test_every_number_is_in_its_range(frame, name):
    low, high = FACTS["columns"][name]["range"]
    assert frame[name].astype(float).between(low, high).all()


def test_only_real_data_sets_are_registered():
    assert "adult" in DATASETS.names()
    for name in DATASETS.names():
        assert isinstance(DATASETS[name], Dataset)
        assert DATASETS[name].name == name
    with pytest.raises(UnknownName, match="adult"):
        DATASETS["tables"]


def test_the_licence_ships_with_the_rows():
    text = (Path(lipdp.datasets.__file__).parent / "data" / "ADULT-LICENSE.txt").read_text()
    for words in ("Becker", "Kohavi", "1996", "CC BY 4.0", "creativecommons.org/licenses/by/4.0"):
        assert words in text
