"""Train a private model on a data set or a file of your own."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lipdp.cli import _runs
from lipdp.errors import InvalidValue

if TYPE_CHECKING:
    from lipdp.config import RunConfig

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
@click.option("--secure-noise", is_flag=True, help="Exact noise from a cryptographic generator.")
@click.option(
    "--preprocess",
    type=click.Choice(["none", "private-standardize", "private-whiten"]),
    help="First layers from private statistics of the rows, inside the budget.  [default: none]",
)
@click.option(
    "--preprocess-share",
    type=float,
    metavar="S",
    help="Part of epsilon for these statistics, between 0 and 1.  [default: 0.1]",
)
@click.option("--data", type=_FILE, help="Train on this file; needs --schema and --target.")
@click.option("--schema", type=_FILE, help="Its schema, begun with: lipdp schema.")
@click.option("--target", metavar="NAME", help="The column to predict.")
@_runs.overrides_option
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the run.  [default: runs/<data>-<time>]",
)
@click.option("--overwrite", is_flag=True, help="Replace a run that is already there.")
@click.option("--quiet", is_flag=True, help="Write nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Write the result as JSON, nothing else.")
def command(
    *,
    config: Path | None,
    epsilon: float | None,
    delta: float | None,
    noise_multiplier: float | None,
    sampling: str | None,
    adjacency: str | None,
    secure_noise: bool,
    preprocess: str | None,
    preprocess_share: float | None,
    data: Path | None,
    schema: Path | None,
    target: str | None,
    overrides: tuple[str, ...],
    output: Path | None,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train a private model, with the file CONFIG or the packaged default.

    Examples: lipdp train --epsilon 8; lipdp train --data my.csv --schema my.toml --target income
    """
    from lipdp.config import load_config

    chosen = [
        *_data_overrides(data, schema, target),
        *_privacy_overrides(config, epsilon, delta, noise_multiplier),
        *_mechanism_overrides(sampling, adjacency, secure_noise),
        *_preprocess_overrides(preprocess, preprocess_share),
        *overrides,
    ]
    run = load_config(config, chosen)
    _train(run, output or _default_output(run), overwrite, quiet, as_json)


def _train(run: RunConfig, output: Path, overwrite: bool, quiet: bool, as_json: bool) -> None:
    from lipdp.cli._listener import listener
    from lipdp.cli._summary import write_summary

    with _runs.quiet_start():
        from lipdp import experiment

    with listener(silent=quiet or as_json) as ears:
        outcome = experiment.train(run, output, overwrite=overwrite, listener=ears)
    if as_json:
        click.echo(outcome.result.model_dump_json(indent=2))
    elif not quiet:
        click.echo("")
        write_summary(outcome.result, outcome.output, outcome.baseline)


def _data_overrides(data: Path | None, schema: Path | None, target: str | None) -> list[str]:
    if data is None:
        if schema is None and target is None:
            return []
        raise InvalidValue(
            "--schema and --target describe a file",
            received={"schema": str(schema), "target": target},
            fix="Add --data FILE, or leave both out",
        )
    if schema is None or target is None:
        name = target or "NAME"
        raise InvalidValue(
            "A file needs --schema and --target: ranges and categories learned from the private "
            "rows themselves would leak",
            received=str(data),
            fix=f"Begin a schema with `lipdp schema {data} --target {name} > my.toml`, complete it "
            f"from what is public, then add --schema my.toml --target {name}",
        )
    files = {"data.path": str(data), "data.schema_path": str(schema), "data.target": target}
    return ["data.name=", *(_runs.override(key, value) for key, value in files.items())]


def _privacy_overrides(
    config: Path | None,
    epsilon: float | None,
    delta: float | None,
    noise_multiplier: float | None,
) -> list[str]:
    given = {"epsilon": epsilon, "delta": delta, "noise_multiplier": noise_multiplier}
    chosen = [f"privacy.{key}={value}" for key, value in given.items() if value is not None]
    if config is None and epsilon is None and noise_multiplier is not None:
        # Nobody asked for the packaged default's budget, so it must not stop the run.
        return ["privacy.epsilon=", *chosen]
    return chosen


def _mechanism_overrides(
    sampling: str | None, adjacency: str | None, secure_noise: bool
) -> list[str]:
    given = {"sampling": sampling, "adjacency": adjacency}
    chosen = [_runs.override(f"privacy.{k}", v) for k, v in given.items() if v is not None]
    return [*chosen, "privacy.secure_noise=true"] if secure_noise else chosen


def _preprocess_overrides(kind: str | None, share: float | None) -> list[str]:
    given = {"kind": kind, "share": share}
    return [_runs.override(f"preprocess.{k}", v) for k, v in given.items() if v is not None]


def _default_output(run: RunConfig) -> Path:
    name = run.data.name or Path(run.data.path or "data").stem
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
