import sys

import pytest

from lipdp.errors import InvalidState, InvalidValue
from lipdp.sweep.study import Place, Settings, drawn_number, open_study


def place_in(folder, **more):
    return Place(
        **{"storage": f"sqlite:///{folder / 's.db'}", "study": "s", **more},
        output=str(folder / "out"),
    )


def test_settings_survive_the_storage(make_settings):
    space = {"model.widths": [[], [3]], "training.epochs": {"low": 1, "high": 3}}
    settings = make_settings(space, mean=2.0, metric="auroc")
    assert Settings.from_json(settings.to_json()) == settings


def test_other_settings_are_no_part_of_the_study(tmp_path, make_settings):
    place = place_in(tmp_path)
    open_study(place, make_settings())
    open_study(place, make_settings())
    for other in (make_settings(metric="auroc"), make_settings(mean=3.0)):
        with pytest.raises(InvalidValue, match="other settings"):
            open_study(place, other)


def test_trials_without_their_study_are_not_forgotten(tmp_path, make_settings):
    (tmp_path / "out" / "trials" / ".000.unfinished").mkdir(parents=True)
    with pytest.raises(InvalidState, match="what they spent is spent"):
        open_study(place_in(tmp_path), make_settings())


@pytest.mark.parametrize("address", ["nonsense", "sqlite:////no/such/folder/s.db", "foo://a:b@c/d"])
def test_a_bad_storage_is_refused(tmp_path, make_settings, address):
    with pytest.raises(InvalidValue, match="storage cannot be opened"):
        open_study(place_in(tmp_path, storage=address), make_settings())


def test_a_password_is_not_shown(tmp_path, make_settings):
    with pytest.raises(InvalidValue) as caught:
        open_study(place_in(tmp_path, storage="foo://me:secret@host/db"), make_settings())
    assert "secret" not in str(caught.value) and "***" in str(caught.value)


def test_a_missing_optuna_is_named_with_the_way_out(tmp_path, make_settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InvalidState, match=r"pip install 'lipdp\[optuna\]'"):
        open_study(place_in(tmp_path), make_settings())


def test_the_number_of_trials_is_drawn_from_what_is_accounted(tmp_path, make_settings, monkeypatch):
    drawn = []
    monkeypatch.setattr("lipdp.sweep.study.draw_number_of_runs", lambda *a: drawn.append(a) or 7)
    settings = make_settings(mean=50.0)
    for _ in range(2):
        assert drawn_number(open_study(place_in(tmp_path), settings)) == 7
    # Once, geometric, and with no seed.
    assert drawn == [(50.0, 1.0)]
