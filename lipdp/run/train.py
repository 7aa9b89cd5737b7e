"""The composition root: from a configuration to a finished run."""

from __future__ import annotations

import math
import warnings
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import keras
import pandas as pd

from lipdp._version import __version__
from lipdp.certificates import UncertifiedWarning
from lipdp.config import RunConfig, dump_config
from lipdp.reports import write_report
from lipdp.results import RunResult, Spent
from lipdp.results.run import peak_memory_bytes
from lipdp.run.build import (
    build_budget,
    build_loss,
    build_model,
    build_optimizer,
    check_loss,
    check_rates,
)
from lipdp.run.callbacks import (
    DivergenceCallback,
    ListenerCallback,
    StopCallback,
    Stopper,
    check_board,
    check_scores,
    check_weights,
    plan_record,
    public_boards,
)
from lipdp.run.data import Rows, prepare_rows
from lipdp.run.dp_sgd import check_dp_sgd, fit_dp_sgd
from lipdp.run.evaluate import certificates_of, certified_at, held_out_metrics, logistic_regression
from lipdp.run.features import (
    provable_part,
    radius_in_features,
    whole_model,
    with_features,
    with_whole_path,
    without_features,
)
from lipdp.run.folder import RunFolder, RunLog
from lipdp.run.outcome import Listener, Trained, TrainOutcome
from lipdp.run.preprocess import first_layers, private_statistics
from lipdp.run.unfinished import Unfinished, can_resume, unfinished_config
from lipdp.training import Model, Sequential, save_for_release, statement_of

_VERSIONED = ("keras", "tensorflow", "jax", "torch", "dp-accounting", "numpy")


def train(
    config: RunConfig,
    output: Path,
    *,
    overwrite: bool = False,
    ledger_lost: bool = False,
    listener: Listener | None = None,
    stopper: Stopper | None = None,
) -> TrainOutcome:
    """Trains privately, certifies the held-out rows and writes the run's folder.

    Args:
        config: What to train on what.
        output: The run's own folder; complete at the end, or not there.
        overwrite: Whether to replace a folder that holds files.
        ledger_lost: Whether to begin anew in the place of an unfinished run whose ledger is lost;
            the statement says for good that an earlier run of unknown cost read the rows.
        listener: Hears about the progress.
        stopper: May end the training after any step. What is written then is a run of the steps so
            far, and ``resume`` goes on with it.

    Raises:
        LipdpError: For bad input, before anything is written.
        InvalidState: If the weights or scores that came out are not finite; what was spent stays in
            the ledger of the unfinished run. Or if another process trains the run.
    """
    check_rates(config)
    check_loss(config)
    check_board(config.training.tensorboard, output)
    if config.training.method == "dp-sgd":
        check_dp_sgd(config)
    log, stop = RunLog(listener, config.certificates.radii[0]), StopCallback(stopper)
    folder = RunFolder(output, overwrite=overwrite or can_resume(output))
    with Unfinished(output, config, overwrite=overwrite, ledger_lost=ledger_lost) as unfinished:
        with folder as staging:
            log.begin(output, _versions(), resumed=unfinished.exists)
            rows = with_features(config, prepare_rows(config))
            with unfinished.kept_if_begun():
                model = _compiled(config, rows, unfinished)
                log.keep_in(unfinished.log_path)
                trained = _trained(model, config, rows, unfinished, log, stop)
                log.on_message("certifying the held-out rows")
                result = _result(trained, config, rows, output.name, unfinished)
                result = result.model_copy(update={"interrupted": stop.stopped})
                log.end(result)
                _write(staging, trained, config, rows, result, output)
                (staging / "train.log").write_text(log.text(), encoding="utf-8")
                unfinished.clock.keep()
        if not stop.stopped:
            unfinished.remove()
    return TrainOutcome(result, output, lambda: logistic_regression(without_features(rows)))


def resume(
    output: Path,
    *,
    ledger_lost: bool = False,
    listener: Listener | None = None,
    stopper: Stopper | None = None,
) -> TrainOutcome:
    """Goes on with an interrupted run, by its own configuration.

    Its ledger counts every step that ran before, those whose result was lost too.

    Args:
        output: The run's own folder, as it was given to ``train``.
        ledger_lost: As in ``train``: begins anew.
        listener: As in ``train``.
        stopper: As in ``train``.

    Raises:
        LipdpError: If there is no such run, it is finished, another version began it, or its
            ledger is lost.
    """
    config = unfinished_config(output)
    return train(config, output, ledger_lost=ledger_lost, listener=listener, stopper=stopper)


def _compiled(config: RunConfig, rows: Rows, unfinished: Unfinished) -> Sequential:
    """The model before its first step: that of an interrupted run, or a new one."""
    earlier = unfinished.model()
    if earlier is not None:
        _compile(earlier, config, rows)
        return earlier
    statistics = private_statistics(config, rows)
    front = first_layers(config, statistics)
    encoding = rows.encoding
    model = build_model(
        config, encoding.num_features, rows.num_outputs, front, shape=encoding.shape
    )
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
        certified_radius=radius_in_features(config.certificates.radii[0], rows),
    )


def _trained(
    model: Sequential,
    config: RunConfig,
    rows: Rows,
    unfinished: Unfinished,
    log: RunLog,
    stop: StopCallback,
) -> Trained:
    if config.training.method == "dp-sgd":
        log.on_message(f"calibrating the noise for {len(rows.x_train)} training rows")
        unfinished.add_spent(model.ledger)
        with unfinished.ended_by_budget():
            return fit_dp_sgd(model, config, rows, log, unfinished.keep_ledger)
    history = _fit(model, config, rows, unfinished, log, stop)
    statement = statement_of(model.plan, model.ledger, not_covered=rows.not_covered)
    record = plan_record(model.plan, model)
    return Trained(model, history, record, statement, peak_memory_bytes())


def _fit(
    model: Sequential,
    config: RunConfig,
    rows: Rows,
    unfinished: Unfinished,
    log: RunLog,
    stop: StopCallback,
) -> pd.DataFrame:
    training = config.training
    log.on_message(f"calibrating the noise for {len(rows.x_train)} training rows")
    with unfinished.ended_by_budget(), stop.watching(), warnings.catch_warnings():
        # The result says it.
        warnings.simplefilter("ignore", UncertifiedWarning)
        model.fit(
            rows.x_train,
            rows.y_train,
            batch_size=training.batch_size,
            micro_batch_size=training.micro_batch_size,
            groups=rows.groups,
            max_examples_per_user=config.data.max_examples_per_user,
            epochs=training.epochs,
            verbose=0,
            callbacks=[
                stop,
                DivergenceCallback(unfinished.ledger_path),
                *unfinished.callbacks(stop),
                *public_boards(training.tensorboard),
                ListenerCallback(log),
            ],
            validation_data=(rows.x_test, rows.y_test),
        )
    return unfinished.history()


def _result(
    trained: Trained, config: RunConfig, rows: Rows, name: str, unfinished: Unfinished
) -> RunResult:
    model = trained.model
    check_weights(model, unfinished.ledger_path)
    part, x_test = provable_part(whole_model(model, rows), without_features(rows).x_test)
    certificates = certificates_of(part, x_test, rows.y_test)
    check_scores(certificates, model, unfinished.ledger_path)
    return RunResult(
        name=name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        config=config.model_dump(mode="json"),
        plan=trained.record,
        statement=str(trained.statement),
        not_private=list(trained.statement.reasons_not_private),
        spent=_spent(model),
        test=held_out_metrics(certificates, rows),
        certified=certified_at(part, certificates, rows, config.certificates.radii),
        lipschitz_constant=certificates.lipschitz,
        training_rows=len(rows.x_train),
        seconds=round(unfinished.clock.seconds, 1),
        versions=_versions(),
        method=config.training.method,
        peak_memory_bytes=trained.peak_memory_bytes,
        uncertified=certificates.reason,
    )


def _spent(model: Model | Sequential) -> Spent:
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
    trained: Trained,
    config: RunConfig,
    rows: Rows,
    result: RunResult,
    output: Path,
) -> None:
    save_for_release(whole_model(trained.model, rows), staging / "model.keras")
    (staging / "schema.toml").write_text(rows.encoding.to_toml(), encoding="utf-8")
    reproducible = _with_own_schema(with_whole_path(config), output)
    (staging / "config.toml").write_text(dump_config(reproducible), encoding="utf-8")
    trained.history.to_csv(staging / "history.csv", index=False)
    result.save(staging / "result.json")
    write_report(result, trained.history, staging / "report.html")


def _with_own_schema(config: RunConfig, output: Path) -> RunConfig:
    """The configuration that reproduces the run from its folder."""
    given = {name: getattr(config.data, name) for name in ("path", "dir", "labels")}
    changes = {name: str(Path(path).resolve()) for name, path in given.items() if path is not None}
    if config.data.path is not None:
        changes["schema_path"] = str(output.resolve() / "schema.toml")
    return config.model_copy(update={"data": config.data.model_copy(update=changes)})
