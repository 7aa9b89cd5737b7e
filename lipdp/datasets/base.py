"""What a data set is: rows, and public facts about them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lipdp.datasets.tables import read_table

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Dataset:
    """A table in the package.

    Attributes:
        name: The registered name.
        title: The name in words.
        licence: Under which licence the rows are shared.
        source: Who made it and where it is from.
        table_path: The file of the rows.
        schema_path: The TOML of its public schema; ``lipdp.preprocessing.load_schema`` reads it.
    """

    name: str
    title: str
    licence: str
    source: str
    table_path: Path
    schema_path: Path

    def load(self) -> pd.DataFrame:
        """All rows, a column each as text.

        Raises:
            InvalidData: If the file is missing or broken.
        """
        return read_table(self.table_path)

    def schema(self) -> str:
        """The public schema as TOML; ``lipdp.preprocessing.Schema.from_toml`` reads it."""
        return self.schema_path.read_text(encoding="utf-8")
