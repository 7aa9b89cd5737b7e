"""Train a private model on a data set or a file of your own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from lipdp.cli import _runs
from lipdp.errors import InvalidValue

if TYPE_CHECKING:
    from lipdp.config import RunConfig

#: The options that --resume leaves open.
_WITH_RESUME = ("resume", "ledger_lost", "quiet", "as_json")

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("train")
@click.argument("config", type=_FILE, required=False)
@click.option("--epsilon", type=float, metavar="E", help="Privacy budget of the whole run.")
@click.option("--delta", type=float, metavar="D", help="Failure probability of the guarantee.")
@click.option(
    "--noise-multiplier",
    type=float,
    metavar="Z",
    help="Noise instead of a budget; with a budget too, the budget only stops the training.",
)
@click.option(
    "--sampling",
    type=click.Choice(["poisson", "truncated-poisson", "shuffled", "fixed-size", "full-batch"]),
    help="How batches are drawn, and so accounted.  [default: poisson]",
)
@click.option(
    "--adjacency",
    type=click.Choice(["add-remove", "zero-out", "replace-one"]),
    help="How neighbouring data sets differ.  [default: add-remove]",
)
@click.option(
    "--method",
    type=click.Choice(["clipless", "dp-sgd", "none"]),
    help="dp-sgd clips by tensorflow-privacy; none has no privacy.  [default: clipless]",
)
@click.option("--secure-noise", is_flag=True, help="Exact noise from a cryptographic generator.")
@click.option(
    "--preprocess",
    type=click.Choice(["none", "private-standardize", "private-whiten", "private-whiten-maps"]),
    help="First layers from private statistics of the rows, inside the budget.  [default: none]",
)
@click.option(
    "--preprocess-share",
    type=float,
    metavar="S",
    help="Part of epsilon for these statistics, between 0 and 1.  [default: 0.1]",
)
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    help="Train on this table (with --target), .npz, .npy or folder of images; needs --schema.",
)
@click.option("--schema", type=_FILE, help="Its schema, begun with: lipdp schema.")
@click.option("--target", metavar="NAME", help="The column of a table to predict.")
@_runs.data_options
@_runs.overrides_option
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the run.  [default: runs/<data>-<time>]",
)
@click.option("--overwrite", is_flag=True, help="Replace a run that is already there.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Go on with an interrupted run, by its own settings; with --quiet or --json alone.",
)
@click.option(
    "--ledger-lost",
    is_flag=True,
    help="Begin anew where the ledger of an interrupted run was lost; the statement says for good"
    " that an earlier run of unknown cost read the rows.",
)
@click.option(
    "--tensorboard",
    metavar="DIR",
    help="Write TensorBoard files to this folder, outside --output.",
)
@click.option("--quiet", is_flag=True, help="Write nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Write the result as JSON, nothing else.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    config: Path | None,
    epsilon: float | None,
    delta: float | None,
    noise_multiplier: float | None,
    sampling: str | None,
    adjacency: str | None,
    method: str | None,
    secure_noise: bool,
    preprocess: str | None,
    preprocess_share: float | None,
    data: Path | None,
    schema: Path | None,
    target: str | None,
    data_dir: Path | None,
    limit_rows: int | None,
    overrides: tuple[str, ...],
    output: Path | None,
    overwrite: bool,
    resume: Path | None,
    ledger_lost: bool,
    tensorboard: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train a private model, with the file CONFIG or the packaged default.

    Control-C ends the training after the present step: the folder of the run then holds the run so
    far, and --resume goes on with it.

    \b
    Examples:
      lipdp train --epsilon 8
      lipdp train --data my.csv --schema my.toml --target income --epsilon 3 --output out
      lipdp train configs/adult.toml --set training.epochs=30
      lipdp train --resume out
    """  # noqa: D301
    from lipdp.cli import _training
    from lipdp.config import load_config

    if resume is not None:
        _refuse_others(ctx)
        _training.go_on(resume, quiet, as_json, ledger_lost=ledger_lost)
        return
    numbers = {"epsilon": epsilon, "delta": delta, "noise_multiplier": noise_multiplier}
    chosen = {
        **_data_values(data, schema, target),
        **_privacy_values(config, numbers),
        **_runs.data_values(data_dir, limit_rows),
        **_runs.given(
            {
                "privacy.sampling": sampling,
                "privacy.adjacency": adjacency,
                "privacy.secure_noise": secure_noise or None,
                "preprocess.kind": preprocess,
                "preprocess.share": preprocess_share,
                "training.method": method,
                "training.tensorboard": tensorboard,
            }
        ),
    }
    run = load_config(config, overrides, values=chosen)
    place = output or _default_output(run)
    _training.begin(run, place, quiet, as_json, overwrite=overwrite, ledger_lost=ledger_lost)


def _refuse_others(ctx: click.Context) -> None:
    """Refuses options that a run which goes on has settled already."""
    given = [
        parameter.opts[0]
        for parameter in ctx.command.params
        if parameter.name not in _WITH_RESUME
        and ctx.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise InvalidValue(
            "A run goes on with its own settings",
            received=given,
            fix="Leave them out beside --resume",
        )


def _data_values(data: Path | None, schema: Path | None, target: str | None) -> dict[str, object]:
    if data is None:
        if schema is None and target is None:
            return {}
        raise InvalidValue(
            "--schema and --target describe a file",
            received={"schema": str(schema), "target": target},
            fix="Add --data FILE, or leave both out",
        )
    from lipdp.datasets import is_table

    needs_target = is_table(data)
    if schema is None or (needs_target and target is None):
        naming = f" --target {target or 'NAME'}" if needs_target else ""
        raise InvalidValue(
            f"Data need --schema{' and --target' if needs_target else ''}: ranges and categories "
            "learned from the private rows themselves would leak",
            received=str(data),
            fix=f"Begin a schema with `lipdp schema {data}{naming} > my.toml`, complete it from "
            f"what is public, then add --schema my.toml{naming}",
        )
    files = {"data.path": data, "data.schema_path": schema, "data.target": target}
    return {"data.name": None, **_runs.given(files)}


def _privacy_values(config: Path | None, numbers: Mapping[str, float | None]) -> dict[str, object]:
    chosen = _runs.given({f"privacy.{key}": value for key, value in numbers.items()})
    if config is None and set(chosen) - {"privacy.delta"} == {"privacy.noise_multiplier"}:
        # Nobody asked for the packaged default's budget, so it must not stop the run.
        return {"privacy.epsilon": None, **chosen}
    return chosen


def _default_output(run: RunConfig) -> Path:
    name = run.data.name or Path(run.data.path or "data").stem
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
