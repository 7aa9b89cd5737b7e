"""Adult at two budgets over five splits, beside non-private logistic regression.

Run: python -m benchmarks.adult
"""

from __future__ import annotations

import json
import platform
import tempfile
from pathlib import Path

import click
import numpy as np

from lipdp.config import load_config
from lipdp.run import train

RESULTS = Path(__file__).parent / "results"
MEASURES = ("accuracy", "auroc", "baseline_accuracy", "baseline_auroc", "certified")


def one_run(epsilon: float, seed: int) -> dict[str, float]:
    """Trains the packaged configuration on one split."""
    config = load_config(None, [f"privacy.epsilon={epsilon}", f"data.split_seed={seed}"])
    with tempfile.TemporaryDirectory() as folder:
        outcome = train(config, Path(folder) / "run")
    result, baseline = outcome.result, outcome.baseline
    return {
        "epsilon": result.spent.epsilon,
        "accuracy": result.test.accuracy,
        "auroc": float(result.test.auroc or 0.0),
        "baseline_accuracy": float(baseline["accuracy"] or 0.0),
        "baseline_auroc": float(baseline["auroc"] or 0.0),
        "certified": result.certified[1].accuracy,
        "seconds": result.seconds,
        "seed": seed,
        "versions": result.versions,
    }


def table(runs: dict[str, list[dict[str, float]]]) -> str:
    """Means over the splits as a Markdown table."""
    lines = [
        "| epsilon | accuracy | AUROC | logistic regression | its AUROC | certified at 0.05 |",
        "|---|---|---|---|---|---|",
    ]
    for epsilon, found in runs.items():
        a, u, ba, bu, c = (float(np.mean([run[m] for run in found])) for m in MEASURES)
        lines.append(
            f"| {epsilon} | {100 * a:.2f} | {u:.4f} | {100 * ba:.2f} | {bu:.4f} | {100 * c:.1f} |"
        )
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--seeds", default=5, show_default=True)
def main(seeds: int) -> None:
    """Runs all and writes benchmarks/results/adult.json and adult.md."""
    runs = {}
    for epsilon in (8.0, 1.0):
        runs[f"{epsilon:g}"] = [one_run(epsilon, seed) for seed in range(seeds)]
        click.echo(table(runs))
    record = {
        "command": f"python -m benchmarks.adult --seeds {seeds}",
        "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        "configuration": load_config(None).model_dump(mode="json"),
        "runs": runs,
    }
    (RESULTS / "adult.json").write_text(json.dumps(record, indent=1) + "\n")
    (RESULTS / "adult.md").write_text(table(runs))


if __name__ == "__main__":
    main()
