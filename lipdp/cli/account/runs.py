"""What finished runs on the same rows cost together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lipdp.cli import _output

if TYPE_CHECKING:
    from lipdp.privacy import PrivacyLedger
    from lipdp.results import RunResult

_SEEDED = "a seed was given: whoever knows it can recompute the noise"


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
    """What finished runs on the same rows cost together.

    Each RUN_FOLDER was written by lipdp train. Whoever chose among runs pays for all of them,
    however few are published. All epsilons are at one delta: any is sound, so by default it is the
    largest that a run was trained for. Runs that were stopped spent too, and are not counted here.

    Example: lipdp account runs runs/first runs/second
    """
    from lipdp.privacy import composed

    results = [_result(folder) for folder in run_folders]
    _check_units(results)
    ledgers = [_ledger(folder, one) for folder, one in zip(run_folders, results, strict=True)]
    at = max(one.spent.delta for one in results) if delta is None else delta
    together = composed(ledgers, at, accountant=accountant)
    alone = [ledger.epsilon(at, accountant=accountant) for ledger in ledgers]
    seeded = [_is_seeded(one) for one in results]
    if as_json:
        runs = [
            {"folder": str(folder), "epsilon": cost, "steps": ledger.steps, "seeded": known}
            for folder, cost, ledger, known in zip(run_folders, alone, ledgers, seeded, strict=True)
        ]
        inputs = {"delta": at, "accountant": accountant, "adjacency": ledgers[0].adjacency}
        found = {"epsilon": together.epsilon, "method": together.method}
        _output.emit_json({**found, **inputs, "runs": runs})
        return
    rows = [
        (str(folder), ledger.steps, cost)
        for folder, ledger, cost in zip(run_folders, ledgers, alone, strict=True)
    ]
    _output.emit_table(f"Epsilon at delta {at:g}", ["run", "steps", "epsilon"], rows)
    click.echo(
        f"\nall together: epsilon {together.epsilon:.6g} at delta {at:g} "
        f"({accountant}, {ledgers[0].adjacency}), if they used the same rows"
    )
    for folder, known in zip(run_folders, seeded, strict=True):
        if known:
            click.echo(f"NOT PRIVATE: {folder}: {_SEEDED}")


def _result(folder: Path) -> RunResult:
    from lipdp.results import RunResult

    return RunResult.load(folder / "result.json")


def _check_units(results: list[RunResult]) -> None:
    """Refuses to add runs that protect single rows to runs that protect all rows of a user."""
    from lipdp.errors import InvalidData

    units = sorted({str(_part(one, "data").get("group")) for one in results})
    if len(units) > 1:
        raise InvalidData(
            "The runs protect different units: their groups of rows differ",
            received=units,
            fix="Put together the runs of one unit",
        )


def _part(result: RunResult, name: str) -> dict[str, Any]:
    found = result.config.get(name)
    return found if isinstance(found, dict) else {}


def _ledger(folder: Path, result: RunResult) -> PrivacyLedger:
    from lipdp.errors import InvalidData
    from lipdp.privacy import PrivacyLedger

    if not result.spent.ledger:
        raise InvalidData(
            "The result of this run holds no ledger",
            received=str(folder),
            fix="Train it again, or add its steps with lipdp account epsilon --phase",
        )
    return PrivacyLedger.from_json(result.spent.ledger)


def _is_seeded(result: RunResult) -> bool:
    return _part(result, "privacy").get("seed") is not None
