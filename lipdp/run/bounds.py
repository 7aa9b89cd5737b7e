"""The table of bounds of a configuration, a run or a saved model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from lipdp.bounds import GradientBounds, gradient_bounds
from lipdp.config import RunConfig, load_config
from lipdp.errors import InvalidData, InvalidValue
from lipdp.losses.base import LipschitzLoss
from lipdp.privacy import PrivacyLedger
from lipdp.results import RunResult
from lipdp.run.build import build_budget, build_loss, build_model
from lipdp.run.data import prepare_rows
from lipdp.run.features import with_facts
from lipdp.run.preprocess import check_maps, planned_ledger
from lipdp.training import load_model
from lipdp.training.plan import Request, TrainingPlan, make_plan


def bounds_table(
    source: Path | None,
    overrides: Sequence[str] = (),
    *,
    values: Mapping[str, object] | None = None,
) -> pd.DataFrame:
    """Bounds layer by layer, with the noise that training adds or added.

    Of a configuration with private preprocessing the first layers are left out: they come from the
    rows. They change no bound behind them, and what they cost is set aside.

    Args:
        source: A configuration (``.toml``), a run's folder, a saved model (``.keras``), or None
            for the packaged configuration.
        overrides: ``key=value`` changes of a configuration.
        values: Changes by key, as in ``load_config``.

    Returns:
        Columns layer, variable, output_bound, lipschitz, bound, noise_stddev (NaN if unknown).

    Raises:
        InvalidValue: If changes are given for something that is no configuration.
        InvalidData: If the file or folder is none of the three.
    """
    if source is None or source.suffix == ".toml":
        return _of_config(load_config(source, overrides, values=values))
    if overrides or values:
        raise InvalidValue(
            "Only a configuration can be changed by --set", received=[*(values or ()), *overrides]
        )
    return _of_run(source) if source.is_dir() else _of_model(source)


def _of_config(config: RunConfig) -> pd.DataFrame:
    plan, _ = plan_of(config)
    return _with_noise(plan.bounds, list(plan.stddevs))


def plan_of(config: RunConfig) -> tuple[TrainingPlan, PrivacyLedger]:
    """The plan of a run that has not begun, and what its preprocessing is going to cost."""
    rows = with_facts(config, prepare_rows(config))
    check_maps(config, rows.encoding)
    ledger = planned_ledger(config, rows.num_units)
    request = Request(
        rows.num_units,
        config.training.batch_size,
        config.training.epochs,
        rows_per_unit=config.data.max_examples_per_user or 1,
        micro_batch_size=config.training.micro_batch_size,
    )
    model = build_model(
        config, rows.encoding.num_features, rows.num_outputs, shape=rows.encoding.shape
    )
    plan = make_plan(model, build_loss(config.loss), build_budget(config), ledger, request)
    return plan, ledger


def _of_run(folder: Path) -> pd.DataFrame:
    if not (folder / "result.json").is_file():
        raise InvalidData(
            "This folder holds no finished run",
            received=str(folder),
            fix="Give a folder that lipdp train wrote",
        )
    result = RunResult.load(folder / "result.json")
    if result.method == "dp-sgd":
        raise InvalidData(
            "This run clipped its gradients: its weights have no bounds that set the noise",
            received=str(folder),
            fix="Give a run of the method clipless",
        )
    plan = result.plan
    config = load_config(folder / "config.toml")
    model = load_model(folder / "model.keras", compile=False)
    bounds = gradient_bounds(model, build_loss(config.loss))
    return _with_noise(bounds, [variable["noise_stddev"] for variable in plan["variables"]])


def _of_model(path: Path) -> pd.DataFrame:
    if (path.parent / "result.json").is_file():
        # A released model holds no loss; the folder of its run does.
        return _of_run(path.parent)
    model = load_model(path)
    loss = getattr(model, "loss", None)
    if not isinstance(loss, LipschitzLoss):
        raise InvalidData(
            "The saved model holds no loss with a proved constant, so its gradients have no bound",
            received=str(path),
            fix="Pass the run's folder, or save the model compiled",
        )
    bounds = gradient_bounds(model, loss)
    return _with_noise(bounds, [math.nan] * len(bounds.parameters))


def _with_noise(bounds: GradientBounds, stddevs: list[float]) -> pd.DataFrame:
    table = bounds.to_frame()
    table["noise_stddev"] = math.nan
    table.loc[table["variable"] != "", "noise_stddev"] = stddevs
    return table
