"""The report of one run: one HTML file that needs no network."""

from __future__ import annotations

import json
import math
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipdp.reports.figures import certificate_figure, noise_figure, training_figure
from lipdp.reports.statement import statement_blocks
from lipdp.results import RunResult

if TYPE_CHECKING:
    import jinja2
    import pandas as pd

_PLAN_LABELS = {
    "num_examples": "training rows (public)",
    "expected_batch_size": "expected batch size",
    "sampling_rate": "sampling rate a step",
    "steps": "steps planned",
    "affordable_steps": "steps that the budget allows",
    "capacity": "largest batch before rows are dropped",
    "noise_multiplier": "noise multiplier (standard deviation over sensitivity)",
    "delta": "delta",
    "accountant": "accountant",
    "allocation": "sharing of the noise among variables",
    "logit_bound": "largest norm of the logits",
    "loss_lipschitz": "largest gradient of the loss with respect to the logits",
    "dtype": "precision of the training",
}


def write_report(result: RunResult, history: pd.DataFrame, path: Path) -> None:
    """Writes the report of a run as one self-contained HTML file.

    Args:
        result: What the run left behind.
        history: One row an epoch with ``epoch`` and any of ``epsilon``, ``val_accuracy``,
            ``val_certified_accuracy``; further columns are ignored, so that metrics of training
            rows never reach the file.
        path: The file to write; its folder must exist.
    """
    html = _environment().get_template("run.html.j2").render(_context(result, history))
    path.write_text(html, encoding="utf-8")


def not_private_reason(result: RunResult) -> str:
    """Why the run protects nobody; empty if it is private."""
    if not math.isfinite(result.spent.epsilon):
        return "no finite epsilon bounds what the model reveals about a training row"
    privacy = result.config.get("privacy")
    if isinstance(privacy, dict) and privacy.get("seed") is not None:
        return "the noise comes from a seed in the configuration and can be recomputed"
    if result.statement.startswith("NOT PRIVATE"):
        return "the statement below says why"
    return ""


def _context(result: RunResult, history: pd.DataFrame) -> dict[str, Any]:
    variables = [v for v in result.plan.get("variables") or [] if isinstance(v, dict)]
    return {
        "result": result,
        "not_private": not_private_reason(result),
        "statement": statement_blocks(result.statement),
        "meaning": _meaning(result.spent.epsilon, result.spent.delta),
        "unit": result.certified[0].unit if result.certified else "",
        "plan": _plan_rows(result.plan),
        "variables": variables,
        "config": _sections(result.config),
        "figures": {
            "training": training_figure(history, "training"),
            "certificates": certificate_figure(result, "certificates"),
            "noise": noise_figure(variables, "noise"),
        },
    }


def _meaning(epsilon: float, delta: float, false_alarms: float = 0.01) -> dict[str, float]:
    """The factor e^epsilon, and the most true alarms that any membership test can raise.

    Source: the trade-off of (epsilon, delta)-privacy, Kairouz, Oh, Viswanath 2015, theorem 2.1:
    power <= min(delta + e^epsilon a, 1 - e^-epsilon (1 - delta - a)) at false alarm rate a.
    """
    factor = math.exp(epsilon) if epsilon < 700 else math.inf
    power = min(delta + factor * false_alarms, 1 - (1 - delta - false_alarms) / factor, 1.0)
    return {"factor": factor, "power": power}


def _plan_rows(plan: dict[str, Any]) -> list[tuple[str, Any]]:
    known = [(label, plan[key]) for key, label in _PLAN_LABELS.items() if key in plan]
    more = [(k, v) for k, v in plan.items() if k not in _PLAN_LABELS and k != "variables"]
    return known + more


def _sections(config: dict[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The configuration as (section, [(key, value as JSON)]), without the keys left empty."""
    found = []
    for section, body in config.items():
        entries = body if isinstance(body, dict) else {"": body}
        rows = [(str(key), _plain(value)) for key, value in entries.items() if value is not None]
        found.append((section, rows))
    return found


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f} %"


def _percent_up(value: float) -> str:
    """A bound from above: rounded up, so that it stays one."""
    return f"{min(math.ceil(1000 * value) / 10, 100):.1f} %"


def _number(value: Any) -> str:
    """Four significant digits; whole numbers in full."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "n/a" if value is None else _plain(value)
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    if not math.isfinite(value):
        return "∞" if value > 0 else str(value)
    return f"{value:.4g}"


def _number_up(value: float, digits: int = 4) -> str:
    """Significant digits of a bound from above, rounded up so that it stays one."""
    if not math.isfinite(value) or value <= 0:
        return _number(float(value))
    exact = Decimal(repr(value))  # what a reader of the JSON sees
    step = Decimal(1).scaleb(exact.adjusted() + 1 - digits)
    return f"{float(exact.quantize(step, ROUND_CEILING)):.{digits}g}"


def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = _percent
    environment.filters["number_up"] = _number_up
    environment.filters["percent_up"] = _percent_up
    environment.filters["number"] = _number
    return environment
