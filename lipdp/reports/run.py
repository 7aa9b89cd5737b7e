"""The report of one run: one HTML file that needs no network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipdp.reports.figures import (
    certificate_figure,
    certified_by_radius,
    monitored_radius,
    noise_figure,
    training_figure,
)
from lipdp.reports.page import (
    environment,
    held_out,
    meaning,
    method_steps,
    method_title,
    plain,
    protects_users,
    statement_blocks,
)
from lipdp.results import RunResult

if TYPE_CHECKING:
    import pandas as pd

_PLAN_LABELS = {
    "num_examples": "training rows (public)",
    "expected_batch_size": "expected batch size",
    "sampling_rate": "sampling rate a step",
    "steps": "steps planned",
    "affordable_steps": "steps that the budget allows",
    "capacity": "largest batch before rows are dropped",
    "noise_multiplier": "noise multiplier (standard deviation over sensitivity)",
    "clip_norm": "norm that gradients are clipped to",
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
    html = environment().get_template("run.html.j2").render(_context(result, history))
    path.write_text(html, encoding="utf-8")


def not_private_reason(result: RunResult) -> str:
    """Why the run protects nobody; empty if it is private."""
    return "; ".join(result.not_private)


def _context(result: RunResult, history: pd.DataFrame) -> dict[str, Any]:
    variables = [v for v in result.plan.get("variables") or [] if isinstance(v, dict)]
    return {
        "result": result,
        "certified": certified_by_radius(result),
        "monitored": monitored_radius(result),
        "not_private": not_private_reason(result),
        "title": method_title(result.method),
        "steps": method_steps(result.method),
        "held_out": held_out(result),
        "users": protects_users(result),
        "statement": statement_blocks(result.statement),
        "meaning": meaning(result.spent.epsilon, result.spent.delta),
        "unit": result.certified[0].unit if result.certified else "",
        "plan": _plan_rows(result.plan),
        "variables": variables,
        "config": _sections(result.config),
        "figures": {
            "training": training_figure(history, "training", monitored_radius(result)),
            "certificates": certificate_figure(result, "certificates"),
            "noise": noise_figure(variables, "noise"),
        },
    }


def _plan_rows(plan: dict[str, Any]) -> list[tuple[str, Any]]:
    known = [(label, plan[key]) for key, label in _PLAN_LABELS.items() if key in plan]
    more = [(k, v) for k, v in plan.items() if k not in _PLAN_LABELS and k != "variables"]
    return known + more


def _sections(config: dict[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The configuration as (section, [(key, value as JSON)]), without the keys left empty."""
    found = []
    for section, body in config.items():
        entries = body if isinstance(body, dict) else {"": body}
        rows = [(str(key), plain(value)) for key, value in entries.items() if value is not None]
        found.append((section, rows))
    return found
