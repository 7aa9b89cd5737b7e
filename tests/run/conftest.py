"""A small table with its schema, and a configuration of 5 epochs of 6 steps on it."""

import pytest

from lipdp.config import load_config
from tests.small_table import write_table


@pytest.fixture
def make_config(tmp_path):
    write_table(tmp_path, 600)

    def make(*overrides):
        path, schema = tmp_path / "t.csv", tmp_path / "t.toml"
        sources = ["data.name=", f"data.path={path}", f"data.schema_path={schema}", "data.target=y"]
        sizes = ["training.batch_size=80", "training.epochs=5", "privacy.delta=1e-4"]
        return load_config(None, [*sources, *sizes, *overrides])

    return make
