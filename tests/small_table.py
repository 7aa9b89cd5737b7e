"""A table of one number that tells the label, with its schema, as a person has them on disk."""

from pathlib import Path

import numpy as np
import pandas as pd

SCHEMA = """
target = "y"
classes = ["no", "yes"]
[columns.a]
kind = "number"
range = [0.0, 1.0]
"""


def write_table(folder: Path, rows: int = 300) -> Path:
    """Writes ``t.csv`` and ``t.toml``; returns the folder."""
    a = np.random.default_rng(0).random(rows)
    frame = pd.DataFrame({"a": a, "y": np.where(a > 0.5, "yes", "no")})
    frame.to_csv(folder / "t.csv", index=False)
    (folder / "t.toml").write_text(SCHEMA)
    return folder
