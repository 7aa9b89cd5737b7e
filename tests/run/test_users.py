"""A table with a column of users: the unit of privacy is a user."""

import numpy as np
import pandas as pd
import pytest

from lipdp.config import load_config
from lipdp.errors import InvalidConfig, InvalidData
from lipdp.run import train
from lipdp.run.data import prepare_rows
from tests import small_table

SCHEMA = small_table.SCHEMA + '[columns.user]\nkind = "{kind}"\n'


@pytest.fixture
def make_config(tmp_path):
    def make(*overrides, kind="ignore"):
        rng = np.random.default_rng(0)
        a = rng.random(600)
        table = pd.DataFrame(
            {"a": a, "user": rng.integers(0, 120, 600), "y": np.where(a > 0.5, "yes", "no")}
        )
        table.to_csv(tmp_path / "t.csv", index=False)
        extra = "range = [0.0, 200.0]\n" if kind == "number" else ""
        (tmp_path / "t.toml").write_text(SCHEMA.format(kind=kind) + extra)
        return load_config(
            None,
            [
                "data.name=",
                f"data.path={tmp_path / 't.csv'}",
                f"data.schema_path={tmp_path / 't.toml'}",
                "data.target=y",
                "data.group=user",
                "data.max_examples_per_user=3",
                "training.batch_size=20",
                "training.epochs=3",
                "privacy.delta=1e-4",
                *overrides,
            ],
        )

    return make


def with_users(folder, change, form="csv"):
    """Writes the table again, with other users; returns the override that reads it."""
    table = pd.read_csv(folder / "t.csv", float_precision="round_trip")
    table["user"] = change(table["user"])
    path = folder / f"users.{form}"
    if form == "csv":
        table.to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow", exc_type=ImportError)
        table.to_parquet(path)
    return f"data.path={path}"


def test_users_are_on_one_side_and_give_at_most_m_rows(make_config):
    rows = prepare_rows(make_config())
    counts = pd.Series(rows.groups).value_counts()
    assert counts.max() == 3
    assert rows.num_units == len(counts) < 120
    assert len(rows.groups) == len(rows.x_train) == len(rows.y_train)


def test_a_run_states_the_user_as_its_unit(make_config, tmp_path):
    result = train(make_config("training.micro_batch_size=32"), tmp_path / "run").result
    words = " ".join(result.statement.split())
    assert "all rows of one user, of which at most 3 take part" in words
    assert result.plan["num_examples"] < 120
    assert result.spent.epsilon <= 8.0


def test_bad_columns_of_users_are_refused(make_config):
    with pytest.raises(InvalidData, match="no such column"):
        prepare_rows(make_config("data.group=person"))
    with pytest.raises(InvalidConfig, match="feature"):
        prepare_rows(make_config(kind="number"))
    with pytest.raises(InvalidConfig, match="together"):
        make_config("data.max_examples_per_user=")


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("blank", ["", "  ", None, np.nan])
def test_rows_of_nobody_are_refused(make_config, tmp_path, form, blank):
    make_config()
    gaps = np.isin(np.arange(600), (5, 77, 599))
    path = with_users(tmp_path, lambda users: users.astype(str).mask(gaps, blank), form)
    with pytest.raises(InvalidData, match=r"users\.\w+ \(schema .*3 of 600 rows") as found:
        prepare_rows(make_config(path))
    assert "'user'" in str(found.value)


@pytest.mark.parametrize(
    "change",
    [lambda u: u.astype(str) + np.where(np.arange(600) % 2, " ", ""), lambda u: u.astype(float)],
    ids=["spaces", "fractions"],
)
def test_one_text_is_one_user(make_config, tmp_path, change):
    seeded = ["privacy.seed=1"]
    wanted = prepare_rows(make_config(*seeded))
    found = prepare_rows(make_config(*seeded, with_users(tmp_path, change, "parquet")))
    assert found.groups.tolist() == wanted.groups.tolist()
    np.testing.assert_array_equal(found.x_train, wanted.x_train)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda u: u + 0.5, "float with a fraction at position 0"),
        (lambda u: u.astype(float) + 2.0**53, "beyond"),
        (lambda u: u > 60, "bool at position 0"),
    ],
    ids=["fractions", "rounded", "bool"],
)
def test_users_whose_ids_may_have_merged_are_refused(make_config, tmp_path, change, words):
    make_config()
    path = with_users(tmp_path, change, "parquet")
    with pytest.raises(InvalidData, match=words):
        prepare_rows(make_config(path))
