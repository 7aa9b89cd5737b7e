"""From a space of settings to the settings of one trial."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lipdp.config import Range, RunConfig, SweepSection, override_config
from lipdp.errors import InvalidConfig, LipdpError
from lipdp.run.build import check_options

if TYPE_CHECKING:
    import optuna

#: What the storage knows of a trial's settings: numbers, and choices as JSON.
Parameters = Mapping[str, Any]


def suggest(trial: optuna.Trial, space: Mapping[str, Any]) -> dict[str, Any]:
    """Lets the study choose the settings of a trial; a trial that has them keeps them."""
    return {path: _suggest(trial, path, domain) for path, domain in space.items()}


def _suggest(trial: optuna.Trial, path: str, domain: Range | Sequence[Any]) -> Any:
    if not isinstance(domain, Range):
        # A storage keeps texts, not lists.
        return trial.suggest_categorical(path, [_text(choice) for choice in domain])
    low, high, step = domain.low, domain.high, domain.step
    if domain.is_whole:
        return trial.suggest_int(path, int(low), int(high), step=int(step or 1), log=domain.log)
    return trial.suggest_float(path, low, high, step=step, log=domain.log)


def values(parameters: Parameters) -> dict[str, Any]:
    """Settings as plain values."""
    return {path: _plain(value) for path, value in parameters.items()}


def _plain(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _text(choice: Any) -> str:
    try:
        return json.dumps(choice, ensure_ascii=False)
    except TypeError as error:
        raise InvalidConfig(
            f"A storage cannot keep this choice: {error}",
            received=choice,
            fix="Use text, numbers, booleans, lists and tables",
        ) from None


def trial_config(config: RunConfig, sweep: SweepSection, parameters: Parameters) -> RunConfig:
    """The configuration of one trial, which holds out rows to choose by.

    Raises:
        InvalidConfig: If the settings do not fit.
    """
    held_out = {"data.validation_fraction": sweep.validation_fraction}
    return override_config(config, values={**held_out, **values(parameters)})


def check_space(config: RunConfig, sweep: SweepSection) -> None:
    """Refuses keys that do not exist and values outside their domain, before any trial.

    Each key is tried by itself; settings that do not fit together fail as trials.

    Raises:
        InvalidConfig: Naming the key.
    """
    for path, domain in sweep.space.items():
        ends = [domain.low, domain.high] if isinstance(domain, Range) else domain
        for value in ends:
            try:
                _check(config, sweep, {path: _text(value)})
            except LipdpError as error:
                raise InvalidConfig(
                    f"sweep.space does not fit at {path}: {error.what}",
                    received=value,
                    fix=error.fix or f"Correct the values of {path}",
                ) from error


def _check(config: RunConfig, sweep: SweepSection, parameters: dict[str, str]) -> None:
    (path,) = parameters
    name = f"{path.partition('.')[0]}.name"
    names = sweep.space.get(name)
    if path == name or not isinstance(names, list):
        check_options(trial_config(config, sweep, parameters))
        return
    problems = []
    for one in names:
        try:
            check_options(trial_config(config, sweep, {name: _text(one), **parameters}))
        except LipdpError as error:
            problems.append(error)
    if len(problems) == len(names):
        raise problems[0]


def accounted_settings(sweep: SweepSection) -> list[dict[str, str]]:
    """Every combination of the settings on which the cost of a trial depends.

    Raises:
        InvalidConfig: If one of them is a range: then no list holds all.
    """
    found: list[dict[str, str]] = [{}]
    for path, domain in sweep.space.items():
        if path.partition(".")[0] not in ("training", "privacy", "preprocess"):
            continue
        if isinstance(domain, Range):
            raise InvalidConfig(
                f"The cost of a trial depends on {path}, and so the best of a random number of "
                "trials needs a list of all its values",
                received=domain.model_dump(exclude_defaults=True),
                fix=f"Give {path} as a list, as in [1, 2, 4], or use --trials",
            )
        found = [{**one, path: _text(value)} for one in found for value in domain]
    return found
