"""Where unfinished runs lie, and which result goes on with which."""

import json

import pytest

from lipdp.errors import InvalidData
from lipdp.results import RunResult
from lipdp.results.unfinished import (
    is_begun_by,
    unfinished_folder,
    unfinished_inside,
    unfinished_settings,
)

SETTINGS = {"data": {"path": "t.csv"}, "optimizer": {"learning_rate": 0.1}}


def stopped(config, *, interrupted=True):
    return RunResult.model_construct(config=config, interrupted=interrupted)


def test_names_go_back_and_forth(tmp_path):
    for name in ("a", "b.c"):
        unfinished_folder(tmp_path / name).mkdir()
    (tmp_path / ".d.1.partial").mkdir()
    (tmp_path / ".e.unfinished").write_text("no folder")
    assert unfinished_inside(tmp_path) == [tmp_path / "a", tmp_path / "b.c"]


def test_only_a_stopped_run_of_the_same_settings_goes_on():
    whole = {**SETTINGS, "data": {"path": "/else/where/t.csv"}}
    other = {**SETTINGS, "optimizer": {"learning_rate": 0.2}}
    assert is_begun_by(stopped(SETTINGS), whole)
    assert not is_begun_by(stopped(SETTINGS), other)
    assert not is_begun_by(stopped(SETTINGS, interrupted=False), whole)
    assert not is_begun_by(stopped(SETTINGS), {**whole, "data": {"path": "/else/where/u.csv"}})


def test_an_extractor_is_the_same_from_every_folder():
    mine = {"features": {"name": "file", "path": "e.keras"}}
    for path, is_it in (("/else/where/e.keras", True), ("/else/where/f.keras", False)):
        assert is_begun_by(stopped(mine), {"features": {**mine["features"], "path": path}}) is is_it
    for other in ({"name": "none"}, {"name": "file", "path": None}, None):
        settings = {**SETTINGS, "features": other}
        assert is_begun_by(stopped(settings), settings)
        assert not is_begun_by(stopped(settings), mine)


@pytest.mark.parametrize("text", [None, "{", "[]", json.dumps({"config": 3})])
def test_damaged_settings_are_refused(tmp_path, text):
    folder = unfinished_folder(tmp_path / "a")
    folder.mkdir()
    if text is not None:
        (folder / "config.json").write_text(text)
    with pytest.raises(InvalidData, match="settings of an unfinished run"):
        unfinished_settings(tmp_path / "a")
