"""Options that the accounting commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from lipdp.privacy import Phase

Decorator = Callable[[Any], Any]
_STEP_OPTIONS = ("--sampling-rate", "--noise-multiplier", "--steps")


class PhaseType(click.ParamType):
    """Text ``Q,Z,T`` as the triple (sampling rate, noise multiplier, steps)."""

    name = "Q,Z,T"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float, int]:
        """Splits and reads the three numbers."""
        try:
            rate, multiplier, steps = str(value).split(",")
            return float(rate), float(multiplier), int(steps)
        except ValueError:
            self.fail(
                f"{value!r} is not sampling rate, noise multiplier and whole number of steps; "
                "write them as in 0.01,1.1,1000",
                param,
                ctx,
            )


def sampling_rate(required: bool) -> Decorator:
    """The option ``--sampling-rate``."""
    return click.option(
        "--sampling-rate",
        type=float,
        metavar="Q",
        required=required,
        help="Probability of a row to be in a batch: expected batch size over rows.",
    )


def steps(required: bool) -> Decorator:
    """The option ``--steps``."""
    return click.option("--steps", type=int, metavar="T", required=required, help="Batches drawn.")


def phases(function: Any) -> Any:
    """Options that say which steps are taken."""
    options = [
        sampling_rate(required=False),
        click.option(
            "--noise-multiplier",
            type=float,
            metavar="Z",
            help="Standard deviation of the noise over the sensitivity of the sum.",
        ),
        steps(required=False),
        click.option(
            "--phase",
            "more",
            type=PhaseType(),
            multiple=True,
            help="Further steps at another rate or noise; may be repeated.",
        ),
    ]
    return _apply(options, function)


def guarantee(function: Any) -> Any:
    """Options that say which guarantee is computed, and how it is written."""
    options = [
        click.option(
            "--delta",
            type=float,
            metavar="D",
            required=True,
            help="Failure probability of the guarantee; well below one over the number of rows.",
        ),
        click.option("--accountant", default="pld", show_default=True, help="pld or rdp."),
        click.option(
            "--adjacency",
            default="add-remove",
            show_default=True,
            help="Which data sets are neighbours: add-remove, zero-out or replace-one.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Write JSON."),
    ]
    return _apply(options, function)


def read_phases(
    rate: float | None,
    multiplier: float | None,
    count: int | None,
    more: tuple[tuple[float, float, int], ...],
) -> list[Phase]:
    """The phases in the order given; the three plain options make the first one.

    Raises:
        click.UsageError: If only a part of the three is given, or nothing at all.
    """
    from lipdp.privacy import Phase

    given = dict(zip(_STEP_OPTIONS, (rate, multiplier, count), strict=True))
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == 3 and more:
        return [Phase(*triple) for triple in more]
    if rate is None or multiplier is None or count is None:
        raise click.UsageError(
            f"Missing {', '.join(missing)}. Give all of {', '.join(_STEP_OPTIONS)}, "
            "or --phase Q,Z,T."
        )
    return [Phase(rate, multiplier, count), *(Phase(*triple) for triple in more)]


def describe(phases: list[Phase]) -> dict[str, Any]:
    """The inputs for JSON: the list of phases, and flat keys where there is only one."""
    listed = [
        {
            "sampling_rate": p.sampling_rate,
            "noise_multiplier": p.noise_multiplier,
            "steps": p.steps,
        }
        for p in phases
    ]
    return {**(listed[0] if len(listed) == 1 else {}), "phases": listed}


def _apply(options: list[Decorator], function: Any) -> Any:
    return functools.reduce(lambda inner, option: option(inner), reversed(options), function)
