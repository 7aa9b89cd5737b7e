"""Shows the way from a CSV file of your own to private, certified predictions.

What may be known of a row without looking at the rows (ranges, categories, classes) is written in a
schema. Prints epsilon, accuracy and the first predictions. At the command line the same is

    lipdp train --data people.csv --schema people.toml --target income --epsilon 4 --output run
    lipdp predict run --data people.csv -o predictions.csv
"""

from pathlib import Path

import numpy as np
import pandas as pd

from lipdp.config import load_config
from lipdp.run import predict, train

SCHEMA = """
target = "income"
classes = ["low", "high"]

[columns.age]
kind = "number"
range = [18, 90]          # a public fact, not the range of these rows

[columns.job]
kind = "category"
categories = ["clerk", "smith", "none"]
"""

folder = Path("own_csv")
folder.mkdir(exist_ok=True)
rng = np.random.default_rng(0)
age, job = rng.integers(18, 90, 2000), rng.choice(["clerk", "smith", "none"], 2000)
income = np.where((age > 45) & (job != "none"), "high", "low")
table = pd.DataFrame({"age": age, "job": job, "income": income})
table.to_csv(folder / "people.csv", index=False)
(folder / "people.toml").write_text(SCHEMA)

settings = [
    "data.name=",  # instead of the packaged data set:
    f"data.path={folder / 'people.csv'}",
    f"data.schema_path={folder / 'people.toml'}",
    "data.target=income",
    "training.batch_size=200",
    "training.epochs=8",
    "privacy.epsilon=4",
]
result = train(load_config(None, settings), folder / "run", overwrite=True).result
print(f"epsilon {result.spent.epsilon:.2f}, accuracy {result.test.accuracy:.3f}")
print(predict(folder / "run", folder / "people.csv").head())
