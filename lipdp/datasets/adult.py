"""Adult / Census Income."""

from __future__ import annotations

from lipdp.datasets.base import DATA, TableDataset

#: 32,561 persons; does one earn more than 50,000 dollars a year?
ADULT = TableDataset(
    name="adult",
    title="Adult (Census Income)",
    licence="CC BY 4.0",
    source="B. Becker and R. Kohavi (1996), UCI Machine Learning Repository, "
    "https://doi.org/10.24432/C5XW20",
    table_path=DATA / "adult.csv.gz",
    schema_path=DATA / "adult.schema.toml",
)
