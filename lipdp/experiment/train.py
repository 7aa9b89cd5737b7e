"""The composition root: from a configuration to a finished run."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import keras
import pandas as pd

from lipdp._version import __version__
from lipdp.bounds import numerical_error
from lipdp.certificates import (
    Certificates,
    auroc,
    certified_accuracy,
    certified_auroc,
    certify,
    macro_auroc,
)
from lipdp.config import RunConfig, dump_config
from lipdp.experiment.baseline import logistic_regression
from lipdp.experiment.build import build_budget, build_loss, build_model, build_optimizer
from lipdp.experiment.folder import RunFolder
from lipdp.experiment.outcome import Listener, TrainOutcome
from lipdp.experiment.preprocess import first_layers, private_statistics
from lipdp.experiment.progress import ListenerCallback, plan_record
from lipdp.experiment.rows import Rows, prepare_rows
from lipdp.experiment.unfinished import Unfinished
from lipdp.reports import write_report
from lipdp.results import Certified, RunResult, Spent, TestMetrics
from lipdp.training import Sequential, save_for_release, statement_of

UNIT = "L2 distance of encoded rows (an encoded row has norm at most 1)"
_SPLIT = "the split into training and held-out rows, which is stratified by label"
_VERSIONED = ("keras", "tensorflow", "jax", "torch", "dp-accounting", "numpy")


def train(
    config: RunConfig, output: Path, *, overwrite: bool = False, listener: Listener | None = None
) -> TrainOutcome:
    """Trains privately, certifies the held-out rows and writes the run's folder.

    Args:
        config: What to train on what.
        output: The run's own folder; complete at the end, or not there.
        overwrite: Whether to replace a folder that holds files.
        listener: Hears about the progress.

    Raises:
        LipdpError: For bad input, before anything is written.
    """
    started = time.monotonic()
    with RunFolder(output, overwrite=overwrite) as staging:
        unfinished = Unfinished(output, config, overwrite=overwrite)
        rows = prepare_rows(config)
        model = _compiled(config, rows, unfinished)
        history = _fit(model, config, rows, unfinished, listener)
        result = _result(model, config, rows, output.name, started)
        _write(staging, model, config, rows, result, history, output)
    unfinished.remove()
    return TrainOutcome(result, output, logistic_regression(rows))


def _compiled(config: RunConfig, rows: Rows, unfinished: Unfinished) -> Sequential:
    """The model before its first step: that of an interrupted run, or a new one."""
    earlier = unfinished.model()
    if earlier is not None:
        _compile(earlier, config, rows)
        return earlier
    statistics = private_statistics(config, rows)
    front = first_layers(config, statistics)
    model = build_model(config, rows.x_train.shape[1], rows.num_outputs, front)
    _compile(model, config, rows)
    if statistics is not None:
        statistics.record_in(model)
    unfinished.begin(model)
    return model


def _compile(model: Sequential, config: RunConfig, rows: Rows) -> None:
    training = config.training
    steps = training.epochs * math.ceil(rows.num_units / training.batch_size)
    model.compile(
        optimizer=build_optimizer(config, steps),
        loss=build_loss(config.loss),
        metrics=["accuracy"],
        privacy=build_budget(config),
        certified_radius=config.certificates.radii[0],
    )


def _fit(
    model: Sequential,
    config: RunConfig,
    rows: Rows,
    unfinished: Unfinished,
    listener: Listener | None,
) -> pd.DataFrame:
    training = config.training
    ears = [] if listener is None else [ListenerCallback(listener)]
    with unfinished.kept_if_begun(model):
        model.fit(
            rows.x_train,
            rows.y_train,
            batch_size=training.batch_size,
            micro_batch_size=training.micro_batch_size,
            groups=rows.groups,
            max_examples_per_user=config.data.max_examples_per_user,
            epochs=training.epochs,
            verbose=0,
            callbacks=[*unfinished.callbacks(), *ears],
            validation_data=(rows.x_test, rows.y_test),
        )
    return unfinished.history()


def _result(
    model: Sequential, config: RunConfig, rows: Rows, name: str, started: float
) -> RunResult:
    certificates = certify(model, rows.x_test, rows.y_test)
    error = numerical_error(model)
    return RunResult(
        name=name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        config=config.model_dump(mode="json"),
        plan=plan_record(model.plan, model),
        statement=_statement(model),
        spent=_spent(model),
        test=_test_metrics(certificates, rows),
        certified=[_certified(certificates, rows, r, error) for r in config.certificates.radii],
        lipschitz_constant=certificates.lipschitz,
        training_rows=len(rows.x_train),
        seconds=round(time.monotonic() - started, 1),
        versions=_versions(),
    )


def _statement(model: Sequential) -> str:
    accesses = model.ledger.other_accesses
    return str(
        statement_of(model.plan, model.ledger, other_accesses=accesses, not_covered=(_SPLIT,))
    )


def _spent(model: Sequential) -> Spent:
    plan, ledger = model.plan, model.ledger
    return Spent(
        epsilon=ledger.epsilon(plan.delta, accountant=plan.budget.accountant),
        delta=plan.delta,
        steps=ledger.steps,
        sampling_rate=plan.sampling_rate,
        noise_multiplier=plan.noise_multiplier,
        accountant=plan.budget.accountant,
        adjacency=plan.budget.adjacency,
        ledger=ledger.to_json(),
    )


def _test_metrics(certificates: Certificates, rows: Rows) -> TestMetrics:
    labels = rows.y_test
    counts = pd.Series(labels).value_counts(normalize=True)
    logits = certificates.logits
    binary = logits.shape[1] == 1
    return TestMetrics(
        rows=len(labels),
        accuracy=float((certificates.predictions == labels).mean()),
        auroc=auroc(logits[:, 0], labels) if binary else macro_auroc(logits, labels),
        majority_accuracy=float(counts.iloc[0]),
    )


def _certified(certificates: Certificates, rows: Rows, radius: float, error: float) -> Certified:
    binary = certificates.logits.shape[1] == 1
    scores = certificates.logits[:, 0]
    return Certified(
        radius=radius,
        unit=UNIT,
        accuracy=certified_accuracy(certificates.radii, radius),
        auroc=certified_auroc(
            scores, rows.y_test, lipschitz=certificates.lipschitz, radius=radius, error=error
        )
        if binary
        else None,
    )


def _versions() -> dict[str, str]:
    found = {"lipdp": __version__, "backend": keras.backend.backend()}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except ImportError:  # PackageNotFoundError
            continue
    return found


def _write(
    staging: Path,
    model: Sequential,
    config: RunConfig,
    rows: Rows,
    result: RunResult,
    history: pd.DataFrame,
    output: Path,
) -> None:
    save_for_release(model, staging / "model.keras")
    (staging / "schema.toml").write_text(rows.schema.to_toml(), encoding="utf-8")
    reproducible = _with_own_schema(config, output)
    (staging / "config.toml").write_text(dump_config(reproducible), encoding="utf-8")
    history.to_csv(staging / "history.csv", index=False)
    result.save(staging / "result.json")
    write_report(result, history, staging / "report.html")


def _with_own_schema(config: RunConfig, output: Path) -> RunConfig:
    """The configuration that reproduces the run from its folder."""
    if config.data.path is None:
        return config
    data = config.data.model_copy(
        update={
            "path": str(Path(config.data.path).resolve()),
            "schema_path": str(output.resolve() / "schema.toml"),
        }
    )
    return config.model_copy(update={"data": data})
