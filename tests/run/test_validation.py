"""Rows that are held out to choose by: part of the training rows, never test rows."""

import numpy as np
import pandas as pd
import pytest

from lipdp.config import load_config
from lipdp.run.data import prepare_rows
from tests import small_table

SCHEMA = small_table.SCHEMA + '[columns.user]\nkind = "ignore"\n'
ROWS = 400


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(1)
    a = np.arange(ROWS) / ROWS
    y = np.where(rng.random(ROWS) < 0.25, "yes", "no")
    pd.DataFrame({"a": a, "y": y, "user": np.arange(ROWS) // 4}).to_csv(
        tmp_path / "t.csv", index=False
    )
    (tmp_path / "t.toml").write_text(SCHEMA)

    def make(*overrides):
        files = [f"data.path={tmp_path / 't.csv'}", f"data.schema_path={tmp_path / 't.toml'}"]
        sizes = ["training.batch_size=8", "privacy.delta=1e-4"]
        return prepare_rows(load_config(None, ["data.name=", *files, *sizes, *overrides]))

    return make


def identity(x):
    return {tuple(row) for row in np.asarray(x)}


def test_validation_rows_are_training_rows(rows):
    plain, held = rows(), rows("data.validation_fraction=0.25")
    train, validation, test = map(identity, (held.x_train, held.x_test, plain.x_test))
    assert train | validation == identity(plain.x_train) and not train & validation
    assert not validation & test and not train & test
    assert len(validation) == pytest.approx(0.25 * len(plain.x_train), abs=1)
    # Stratified, and the same every time.
    assert held.y_test.mean() == pytest.approx(plain.y_train.mean(), abs=0.02)
    assert identity(rows("data.validation_fraction=0.25").x_test) == validation
    assert held.not_covered


def test_users_stay_whole(rows):
    users = ["data.group=user", "data.max_examples_per_user=3"]
    plain, held = (
        rows(*users, "privacy.seed=1"),
        rows(*users, "privacy.seed=1", "data.validation_fraction=0.3"),
    )
    owner = {tuple(r): u for r, u in zip(plain.x_train, plain.groups, strict=True)}
    validating = {owner[tuple(row)] for row in held.x_test}
    assert 5 < len(validating) < 60
    assert not validating & set(held.groups)
    assert len(held.groups) == len(held.x_train)
    assert identity(held.x_train) | identity(held.x_test) == identity(plain.x_train)
