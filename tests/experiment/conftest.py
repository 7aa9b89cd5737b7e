"""A person's own small table with its schema."""

import numpy as np
import pandas as pd
import pytest

SCHEMA = """
target = "income"
classes = ["low", "high"]

[columns.age]
kind = "number"
range = [18, 90]

[columns.job]
kind = "category"
categories = ["clerk", "smith", "none"]
"""


@pytest.fixture
def own_data(tmp_path):
    """Folder with my.csv (600 rows) and my.toml."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 600)
    job = rng.choice(["clerk", "smith", "none"], 600)
    income = np.where((age > 45) & (job != "none"), "high", "low")
    frame = pd.DataFrame({"age": age, "job": job, "income": income})
    frame.to_csv(tmp_path / "my.csv", index=False)
    (tmp_path / "my.toml").write_text(SCHEMA)
    return tmp_path
