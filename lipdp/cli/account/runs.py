"""What runs on the same rows cost together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lipdp.cli import _output

if TYPE_CHECKING:
    from lipdp.privacy import PrivacyLedger
    from lipdp.privacy.spent import SpentRun


@dataclass(frozen=True)
class _Counted:
    """A run of a folder, with what it spent."""

    folder: Path
    run: SpentRun
    ledger: PrivacyLedger

    @property
    def label(self) -> str:
        return f"{self.folder} ({self.run.state})" if self.is_partial else str(self.folder)

    @property
    def is_partial(self) -> bool:
        return self.run.state != "finished"

    @property
    def is_seeded(self) -> bool:
        return self.ledger.seeded or _part(self.run.config, "privacy").get("seed") is not None

    @property
    def group(self) -> str:
        """The column of users, or ``"None"``."""
        return str(_part(self.run.config, "data").get("group"))


@click.command("runs")
@click.argument("run_folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--delta",
    type=float,
    metavar="D",
    help="Failure probability of the whole guarantee; by default the largest of the runs.",
)
@click.option("--accountant", default="pld", show_default=True, help="pld or rdp.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(
    *, run_folders: tuple[Path, ...], delta: float | None, accountant: str, as_json: bool
) -> None:
    """What runs on the same rows cost together.

    Each RUN_FOLDER was given to lipdp train. Whoever chose among runs pays for all of them,
    however few are published. All epsilons are at one delta: any is sound, so by default it is the
    largest that a run was trained for. A run that was stopped or killed, or a trial that failed,
    counts as far as it came. What several of them hold counts once: a run and its copy, and the
    steps before two runs that went on from one.

    Example: lipdp account runs runs/first runs/second
    """
    from lipdp.privacy import composed, merged
    from lipdp.privacy.statement import SEEDED
    from lipdp.results.lines import digits_up

    runs = [one for folder in run_folders for one in _counted(folder)]
    _check_units(runs)
    at = _delta(runs) if delta is None else delta
    together = composed([one.ledger for one in runs], at, accountant=accountant)
    alone = [one.ledger.epsilon(at, accountant=accountant) for one in runs]
    adjacency = runs[0].ledger.adjacency
    whole = merged([one.ledger for one in runs], adjacency)
    shared = sum(_accesses(one.ledger) for one in runs) - _accesses(whole)
    if as_json:
        inputs = {"delta": at, "accountant": accountant, "adjacency": adjacency}
        found = {"epsilon": together.epsilon, "method": together.method, "shared": shared}
        _output.emit_json({**found, **inputs, "runs": list(map(_plain, runs, alone))})
        return
    costs = [float(digits_up(cost)) for cost in alone]
    rows = [(one.label, one.ledger.steps, cost) for one, cost in zip(runs, costs, strict=True)]
    _output.emit_table(f"Epsilon at delta {at:g}", ["run", "steps", "epsilon"], rows)
    click.echo(
        f"\nall together: epsilon {digits_up(together.epsilon)} at delta {at:g} "
        f"({accountant}, {adjacency}), if they used the same rows"
    )
    if shared:
        click.echo(
            f"Accesses that several of these runs have in common, as a run and its copy, were"
            f" counted once; {shared} were left out"
        )
    for one in runs:
        if one.is_seeded:
            click.echo(f"NOT PRIVATE: {one.label}: {SEEDED}")


def _accesses(ledger: PrivacyLedger) -> int:
    return sum(phase.steps for phase in ledger.phases)


def _plain(run: _Counted, epsilon: float) -> dict[str, Any]:
    return {
        "folder": str(run.folder),
        "epsilon": epsilon,
        "steps": run.ledger.steps,
        "seeded": run.is_seeded,
        "unfinished": run.is_partial,
    }


def _counted(folder: Path) -> list[_Counted]:
    """The runs of a folder that have spent: most often one."""
    from lipdp.errors import InvalidData
    from lipdp.privacy.spent import runs_of
    from lipdp.results import RunResult
    from lipdp.results.run import RESULT_FILE

    found = []
    for run in runs_of(folder):
        if run.ledger is None:
            raise InvalidData(
                "The result of this run holds no ledger",
                received=str(folder),
                fix="Train it again, or add its steps with lipdp account epsilon --phase",
            )
        found.append(_Counted(folder, run, run.ledger))
    if not found:
        # Which says what is missing.
        RunResult.load(folder / RESULT_FILE)
    return found


def _delta(runs: list[_Counted]) -> float:
    from lipdp.errors import InvalidValue

    known = [one.run.delta for one in runs if one.run.delta is not None]
    if not known:
        raise InvalidValue(
            "The unfinished runs were given no delta, and no finished run says one",
            received=[str(one.folder) for one in runs],
            fix="Add --delta, such as 1 over the number of rows or less",
        )
    return max(known)


def _check_units(runs: list[_Counted]) -> None:
    """Refuses to add runs that protect single rows to runs that protect all rows of a user."""
    from lipdp.errors import InvalidData

    units = {one.group for one in runs if one.run.config}
    # A failed trial left its ledger alone, which tells whether there are users, not their column.
    alone = {unit for one in runs if not one.run.config for unit in one.ledger.units}
    of_users = {"row": {"None"}, "user": units - {"None"}}
    units |= {unit for unit in alone if not of_users[unit] & units} if units else alone
    if len(units) > 1:
        raise InvalidData(
            "The runs protect different units: their groups of rows differ",
            received=sorted(units),
            fix="Put together the runs of one unit",
        )


def _part(config: dict[str, Any], name: str) -> dict[str, Any]:
    found = config.get(name)
    return found if isinstance(found, dict) else {}
