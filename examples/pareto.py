"""Shows privacy against utility: the same configuration at three epsilons, in one report.

Uses the Adult rows of the package (a part of them, to be quick). Prints accuracy and certified
accuracy of each run, what choosing among them costs, and where the report lies.
"""

import logging
from pathlib import Path

from lipdp.config import load_config
from lipdp.privacy import PrivacyLedger, composed
from lipdp.reports import load_runs, write_pareto_report
from lipdp.run import train

logging.getLogger("tensorflow").setLevel("ERROR")  # it remarks on every new model
folder = Path("pareto")
small = ["data.limit_rows=4000", "training.batch_size=400", "training.epochs=4"]
runs = []
for epsilon in (0.5, 2.0, 8.0):
    config = load_config(None, [*small, f"privacy.epsilon={epsilon}"])
    runs.append(train(config, folder / f"epsilon-{epsilon}", overwrite=True).output)

loaded = load_runs(runs)
for run in loaded:
    result = run.result
    certified = result.certified[0]
    print(
        f"epsilon {result.spent.epsilon:.2f}: accuracy {result.test.accuracy:.3f}, "
        f"certified at {certified.radius} {certified.accuracy:.3f}"
    )
ledgers = [PrivacyLedger.from_json(run.result.spent.ledger) for run in loaded]
print(f"whoever chooses among them has spent epsilon {composed(ledgers, 1e-5).epsilon:.2f}")

write_pareto_report(loaded, folder / "pareto.html")
print("report:", folder / "pareto.html")
