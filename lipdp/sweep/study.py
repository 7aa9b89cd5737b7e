"""The study: what all trials of a sweep share, in one storage."""

from __future__ import annotations

import re
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipdp.config import Range, RunConfig, SweepSection
from lipdp.errors import InvalidState, InvalidValue
from lipdp.privacy import draw_number_of_runs
from lipdp.run.folder import check_folder_of

if TYPE_CHECKING:
    import optuna

#: Of the number of trials in a sweep of random length: geometric.
SHAPE = 1.0
_SETTINGS, _NUMBER = "settings", "number of trials"
#: Of a sweep's folder: one of them is there from its first trial on.
_MARKS = ("study.db", "sweep.json", "logs/worker-1.log")
_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Place:
    """Where a sweep lies; a worker needs no more.

    Attributes:
        storage: SQLAlchemy address.
        study: Name in the storage.
        output: Folder of the sweep on this machine.
        trials: How many trials in all, failed and pruned ones included.
    """

    storage: str
    study: str
    output: str
    trials: int = 0

    @property
    def folder(self) -> Path:
        """Where the runs of the trials lie."""
        return Path(self.output) / "trials"


@dataclass(frozen=True)
class Settings:
    """What every trial of a study shares.

    Attributes:
        config: The run that trials vary.
        sweep: The space, and how to choose.
        mean: Expected number of trials where it is drawn at random, or None.
    """

    config: RunConfig
    sweep: SweepSection
    mean: float | None = None

    @property
    def prunes(self) -> bool:
        """Whether trials are stopped by comparison with others."""
        return self.sweep.pruning and self.mean is None

    def to_json(self) -> dict[str, Any]:
        """Plain data for the storage."""
        parts = {"config": self.config, "sweep": self.sweep}
        plain = {name: part.model_dump(mode="json") for name, part in parts.items()}
        return {**plain, "mean": self.mean}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Settings:
        """What ``to_json`` made."""
        config, sweep = RunConfig(**plain["config"]), SweepSection(**plain["sweep"])
        return cls(config, sweep, plain["mean"])


def quiet_optuna() -> Any:
    """Optuna, without its log.

    Raises:
        InvalidState: If it is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise InvalidState(
            "A sweep needs Optuna, which is not installed", fix="Run: pip install 'lipdp[optuna]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def open_study(place: Place, settings: Settings) -> optuna.Study:
    """The study of that name; a new one if there is none.

    Raises:
        InvalidState: If Optuna is not installed, or the folder holds trials of another study.
        InvalidValue: If the storage cannot be opened, the study has other settings, or the folder
            holds a run or something else that is no sweep.
    """
    library = quiet_optuna()
    # Before the storage is opened, which may write a file into the folder.
    check_folder_of("a sweep", Path(place.output), lambda folder: _is_sweep(folder, place))
    storage = _storage(place.storage)
    if place.study not in library.get_all_study_names(storage):
        _check_unused(place)
        try:
            study = library.create_study(
                storage=storage, study_name=place.study, direction="maximize"
            )
        except library.exceptions.DuplicatedStudyError:
            pass  # Another machine was faster.
        else:
            if settings.mean is not None:
                study.set_user_attr(_NUMBER, draw_number_of_runs(settings.mean, SHAPE))
            study.set_user_attr(_SETTINGS, settings.to_json())
    study = library.load_study(storage=storage, study_name=place.study)
    if settings_in(study) != settings:
        raise InvalidValue(
            "The study holds trials of other settings",
            received=place.study,
            fix="Repeat the sweep with the settings that it began with, or choose another "
            "--output and --study",
        )
    return study


def join_study(place: Place) -> tuple[optuna.Study, Settings]:
    """The study with its sampler and pruner, for a worker."""
    library, storage = quiet_optuna(), _storage(place.storage)
    plain = library.load_study(storage=storage, study_name=place.study)
    settings = settings_in(plain)
    sampler = (
        library.samplers.RandomSampler()
        if settings.mean is not None
        else library.samplers.TPESampler(constant_liar=True)
    )
    pruner = (
        library.pruners.HyperbandPruner(min_resource=1, max_resource=_most_epochs(settings))
        if settings.prunes
        else library.pruners.NopPruner()
    )
    study = library.load_study(
        storage=storage, study_name=place.study, sampler=sampler, pruner=pruner
    )
    return study, settings


def settings_in(study: optuna.Study) -> Settings:
    """What the trials of a study share; waits for whoever makes the study.

    Raises:
        InvalidState: If nobody does.
    """
    until = time.monotonic() + _PATIENCE_S
    while _SETTINGS not in study.user_attrs:
        if time.monotonic() > until:
            raise InvalidState(
                f"The study {study.study_name!r} holds no settings: its first command was ended "
                "while it began, or something else made it",
                fix="Choose another --study",
            )
        time.sleep(0.2)
    return Settings.from_json(study.user_attrs[_SETTINGS])


def drawn_number(study: optuna.Study) -> int:
    """The secret number of trials of a sweep of random length."""
    return int(study.user_attrs[_NUMBER])


def place_to_json(place: Place) -> dict[str, Any]:
    """Plain data for a worker."""
    return asdict(place)


def _most_epochs(settings: Settings) -> int:
    domain = settings.sweep.space.get("training.epochs", [settings.config.training.epochs])
    return int(domain.high if isinstance(domain, Range) else max(domain))


def _is_sweep(folder: Path, place: Place) -> bool:
    # The names of locks and of unfinished trials begin with a dot.
    if any((folder / mark).is_file() for mark in _MARKS) or any(place.folder.glob(".*")):
        return True
    address, scheme = place.storage, "sqlite:///"
    kept = Path(address.removeprefix(scheme)).resolve() if address.startswith(scheme) else None
    return all(entry.resolve() == kept for entry in folder.iterdir())


def _check_unused(place: Place) -> None:
    if place.folder.is_dir() and any(place.folder.iterdir()):
        raise InvalidState(
            f"The folder {place.folder} holds trials, but the storage knows no study "
            f"{place.study!r}; what they spent is spent",
            fix="Give the --storage and --study that they belong to, or choose another --output",
        )


def _storage(address: str) -> optuna.storages.RDBStorage:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    is_sqlite = address.startswith("sqlite")
    # Several processes write one SQLite file: each waits for the others.
    options = {"connect_args": {"timeout": 60}} if is_sqlite else {"pool_pre_ping": True}
    try:
        return _with_tables(address, options)
    except (
        SQLAlchemyError,
        ImportError,
        RuntimeError,
        ValueError,
        optuna.exceptions.StorageInternalError,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidValue(
            f"The storage cannot be opened: {_masked(reason)}",
            received=_masked(address),
            fix="Give an SQLAlchemy address, such as sqlite:///sweep.db, whose folder exists",
        ) from error


def _with_tables(address: str, options: dict[str, Any]) -> optuna.storages.RDBStorage:
    """Commands that begin at once make the same tables: who comes second tries again."""
    import optuna
    from sqlalchemy.exc import DBAPIError, IntegrityError

    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return optuna.storages.RDBStorage(address, engine_kwargs=options)
        except DBAPIError as error:
            is_made = isinstance(error, IntegrityError) or "already exists" in str(error)
            if not is_made or time.monotonic() > until:
                raise
        time.sleep(0.2)


def _masked(address: str) -> str:
    """Without the password."""
    return re.sub(r"(://[^/:@\s]*):[^@\s]*@", r"\1:***@", address)
