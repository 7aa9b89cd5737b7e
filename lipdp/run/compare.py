"""The same training by several methods, at several epsilons, with several seeds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lipdp.config import RunConfig, dump_config
from lipdp.errors import InvalidValue, LipdpError
from lipdp.results import RunResult
from lipdp.run.callbacks import board_of_run, check_board
from lipdp.run.child import ChildFailed, run_child
from lipdp.run.dp_sgd import check_dp_sgd
from lipdp.run.folder import check_folder_of

METHODS = ("clipless", "dp-sgd", "none")
LOG_FILE = "compare.log"
#: A run's folder, or, with a dot in front, what lies beside it while it is unfinished.
_NAME_OF_RUN = re.compile(
    rf"(\.)?(?:{'|'.join(METHODS)})(?:-epsilon[0-9.e+-]+)?-seed[0-9]+(?(1)\..+)"
)


@dataclass(frozen=True)
class PlannedRun:
    """One run of a comparison.

    Attributes:
        name: Of its folder.
        config: What it trains.
    """

    name: str
    config: RunConfig

    @property
    def method(self) -> str:
        """What trains it."""
        return self.config.training.method


@dataclass(frozen=True)
class Comparison:
    """What a comparison left behind.

    Attributes:
        folders: Of the finished runs.
        failures: Name and reason of each run that failed.
    """

    folders: tuple[Path, ...]
    failures: tuple[tuple[str, str], ...]


def planned_runs(
    config: RunConfig, epsilons: Sequence[float], seeds: int, methods: Sequence[str] = METHODS
) -> list[PlannedRun]:
    """All runs of a comparison, one seed after the other.

    Seed i adds i to ``data.split_seed`` and ``training.initial_seed``, the same for all methods:
    they train and test on the same rows. The method "none" runs once a seed. Noise is never seeded
    by this.

    Args:
        config: What is trained on what.
        epsilons: Budgets of the private methods.
        seeds: How many seeds, at least 1.
        methods: Among ``METHODS``.

    Raises:
        InvalidValue: If a list is empty or has twice the same, or a number is outside its domain.
    """
    if seeds < 1:
        raise InvalidValue("The number of seeds must be at least 1", received=seeds)
    _check_distinct("epsilons", epsilons)
    _check_distinct("methods", methods)
    return [
        _planned(config, method, epsilon, seed)
        for seed in range(seeds)
        for method in methods
        for epsilon in ((None,) if method == "none" else epsilons)
    ]


def compare(
    runs: Sequence[PlannedRun], output: Path, say: Callable[[str], None] = lambda text: None
) -> Comparison:
    """Trains each run in a process of its own, so that one cannot disturb another.

    Runs that are finished already are not repeated; an interrupted one goes on.

    Args:
        runs: Made by ``planned_runs``.
        output: The folder of all runs, and of ``compare.log``.
        say: Hears about the progress, one line at a time.

    Raises:
        InvalidValue: If the folder holds runs of these names with other settings, or is that of
            a run or of something else that is no comparison; or TensorBoard files would lie in the
            folder of a run.
        InvalidState: If tensorflow-privacy is needed and not installed.
    """
    check_folder_of("a comparison", output, _is_comparison)
    for run in runs:
        check_board(run.config.training.tensorboard, output / run.name)
        if run.method == "dp-sgd":
            check_dp_sgd(run.config)
    waiting = [run for run in runs if not _is_finished(run, output / run.name)]
    if len(waiting) < len(runs):
        say(f"{len(runs) - len(waiting)} of {len(runs)} runs are finished already")
    _make(output)
    say = _written(say, output / LOG_FILE)
    clock, failures = _Clock(waiting), []
    for run in waiting:
        say(f"{run.name}: run {runs.index(run) + 1} of {len(runs)}{clock.left()}")
        reason = clock.time(run, lambda run=run: _train(run, output, say))
        if reason:
            failures.append((run.name, reason))
        say(f"{run.name}: {reason or _outcome(output / run.name)}")
    for run in runs:
        # A command that was killed left it, and the run may have ended without that command.
        _settings_file(run, output).unlink(missing_ok=True)
    finished = (output / run.name for run in runs if _is_finished(run, output / run.name))
    return Comparison(tuple(finished), tuple(failures))


def _check_distinct(name: str, values: Sequence[object]) -> None:
    if not values or len(set(values)) < len(values):
        raise InvalidValue(f"The {name} must be different ones, at least one", received=[*values])


def _planned(config: RunConfig, method: str, epsilon: float | None, seed: int) -> PlannedRun:
    tables = config.model_dump()
    tables["data"]["split_seed"] += seed
    tables["training"]["initial_seed"] += seed
    tables["training"]["method"] = method
    # Without privacy no budget is asked for; with it the noise follows from the budget.
    noise = 0.0 if epsilon is None else None
    tables["privacy"] |= {"epsilon": epsilon, "noise_multiplier": noise}
    budget = "" if epsilon is None else f"-epsilon{epsilon:g}"
    name = f"{method}{budget}-seed{seed}"
    # The process that clips writes none.
    board = None if method == "dp-sgd" else config.training.tensorboard
    tables["training"]["tensorboard"] = board_of_run(board, name)
    return PlannedRun(name, RunConfig(**tables))


def _is_finished(run: PlannedRun, folder: Path) -> bool:
    if not (folder / "result.json").is_file():
        return False
    result = RunResult.load(folder / "result.json")
    if result.config != run.config.model_dump(mode="json"):
        raise InvalidValue(
            "This folder holds a run with other settings",
            received=str(folder),
            fix="Choose another --output, or remove it",
        )
    return not result.interrupted


def _is_comparison(folder: Path) -> bool:
    names = [entry.name for entry in folder.iterdir()]
    return LOG_FILE in names or any(map(_NAME_OF_RUN.fullmatch, names))


def _make(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidValue(
            f"The output folder cannot be made: {error.strerror}",
            received=str(output),
            fix="Choose another --output, where you may write",
        ) from error


def _settings_file(run: PlannedRun, output: Path) -> Path:
    return output / f".{run.name}.toml"


def _written(say: Callable[[str], None], path: Path) -> Callable[[str], None]:
    """Says a line, and keeps it in a file with the time."""

    def both(line: str) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}\n")
        say(line)

    return both


def _train(run: PlannedRun, output: Path, say: Callable[[str], None]) -> str:
    """Why it failed; empty if it did not."""
    path = _settings_file(run, output)
    path.write_text(dump_config(run.config), encoding="utf-8")
    arguments = ["-m", "lipdp", "train", str(path), "--output", str(output / run.name)]
    try:
        run_child(arguments, {}, lambda line: _pass_on(line, say))
    except ChildFailed as error:
        last = error.last_lines.splitlines() or [f"it ended with code {error.code}"]
        return last[-1].removeprefix("Error: ")
    finally:
        path.unlink(missing_ok=True)
    return ""


def _pass_on(line: str, say: Callable[[str], None]) -> None:
    """Epochs alone: the rest of what a run says is in its folder."""
    if line.startswith("epoch "):
        say(f"  {line.rstrip()}")


def _outcome(folder: Path) -> str:
    try:
        result = RunResult.load(folder / "result.json")
    except LipdpError:
        return "it left no result"
    return f"accuracy {result.test.accuracy:.4f}, {result.seconds:.0f} s"


class _Clock:
    """Guesses how long the runs that are left take: as long as those of their method took."""

    def __init__(self, waiting: Sequence[PlannedRun]) -> None:
        self._waiting = list(waiting)
        self._taken: dict[str, list[float]] = {}

    def time(self, run: PlannedRun, work: Callable[[], str]) -> str:
        started = time.monotonic()
        result = work()
        self._taken.setdefault(run.method, []).append(time.monotonic() - started)
        self._waiting.remove(run)
        return result

    def left(self) -> str:
        if not self._taken:
            return ""
        everything = [seconds for taken in self._taken.values() for seconds in taken]
        guesses = (self._taken.get(run.method, everything) for run in self._waiting)
        minutes = sum(sum(one) / len(one) for one in guesses) / 60
        return f", about {max(1, round(minutes))} min left"
