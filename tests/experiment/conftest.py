"""A small table with its schema, and a configuration of 5 epochs of 6 steps on it."""

import numpy as np
import pandas as pd
import pytest

from lipdp.config import load_config

SCHEMA = """
target = "y"
classes = ["no", "yes"]
[columns.a]
kind = "number"
range = [0.0, 1.0]
"""


@pytest.fixture
def make_config(tmp_path):
    rng = np.random.default_rng(0)
    a = rng.random(600)
    frame = pd.DataFrame({"a": a, "y": np.where(a > 0.5, "yes", "no")})
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "t.toml").write_text(SCHEMA)

    def make(*overrides):
        path, schema = tmp_path / "t.csv", tmp_path / "t.toml"
        sources = ["data.name=", f"data.path={path}", f"data.schema_path={schema}", "data.target=y"]
        sizes = ["training.batch_size=80", "training.epochs=5", "privacy.delta=1e-4"]
        return load_config(None, [*sources, *sizes, *overrides])

    return make
