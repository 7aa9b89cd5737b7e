import sys

import optuna
import pytest
from sqlalchemy.exc import IntegrityError, OperationalError

from lipdp.errors import InvalidState, InvalidValue
from lipdp.sweep.study import Place, Settings, drawn_number, open_study
from tests.sweep.conftest import FakeTraining


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


def own_storage(folder):
    return place_in(folder, storage=f"sqlite:///{folder / 'out' / 'study.db'}")


@pytest.mark.parametrize("name", ["result.json", "thesis.txt", "none-seed0"])
def test_the_folder_of_something_else_is_refused(tmp_path, make_settings, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(InvalidValue, match=f"{name}.*Choose another --output"):
        open_study(own_storage(tmp_path), make_settings())
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]


def test_a_run_is_refused_though_a_sweep_was_written_into_it(tmp_path, make_settings):
    (tmp_path / "out").mkdir()
    place = own_storage(tmp_path)
    open_study(place, make_settings())
    config = make_settings().config
    run = FakeTraining().result(config, tmp_path / "out", 1, 0.5)
    run.save(tmp_path / "out" / "result.json")
    with pytest.raises(InvalidValue, match="the folder of a run"):
        open_study(place, make_settings())


@pytest.mark.parametrize(
    "left", ["study.db", "sweep.json", "logs/worker-1.log", "trials/.0.lock", "mine.db"]
)
def test_what_an_interruption_left_goes_on(tmp_path, make_settings, left):
    place = place_in(tmp_path, storage=f"sqlite:///{tmp_path / 'mine.db'}")
    open_study(place, make_settings())
    (tmp_path / "out" / left).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "out" / left).write_text("")
    if left == "mine.db":
        # A storage in the folder is no reason to refuse it.
        place = place_in(tmp_path, storage=f"sqlite:///{tmp_path / 'out' / left}")
    else:
        (tmp_path / "out" / "notes.txt").write_text("mine")
    open_study(place, make_settings())


@pytest.mark.parametrize("address", ["nonsense", "sqlite:////no/such/folder/s.db", "foo://a:b@c/d"])
def test_a_bad_storage_is_refused(tmp_path, make_settings, address):
    with pytest.raises(InvalidValue, match="storage cannot be opened"):
        open_study(place_in(tmp_path, storage=address), make_settings())


def test_a_storage_that_another_command_makes_at_once_is_opened(
    tmp_path, make_settings, monkeypatch
):
    kind = optuna.storages.RDBStorage
    real, errors = kind.__init__, ["table studies already exists", "UNIQUE failed"]
    kinds = [OperationalError, IntegrityError]

    def slower(*given, **options):
        if errors:
            raise kinds.pop(0)("CREATE", None, Exception(errors.pop(0)))
        return real(*given, **options)

    monkeypatch.setattr(kind, "__init__", slower)
    open_study(place_in(tmp_path), make_settings())
    assert not errors


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
