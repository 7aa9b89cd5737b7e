"""The registered data sets by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lipdp.datasets.adbench import ADBENCH
from lipdp.datasets.base import DATA, Dataset, TableDataset
from lipdp.datasets.cifar10 import CIFAR10
from lipdp.datasets.fashion_mnist import FASHION_MNIST
from lipdp.datasets.mnist import MNIST
from lipdp.errors import UnknownName

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


_ALL: Mapping[str, Dataset] = MappingProxyType(
    {d.name: d for d in (ADULT, CIFAR10, FASHION_MNIST, MNIST, *ADBENCH.values())}
)


class DatasetRegistry:
    """All sets; ``-`` and ``_`` in a name are the same."""

    def names(self) -> list[str]:
        """Sorted names of all sets."""
        return sorted(_ALL)

    def __getitem__(self, name: str) -> Dataset:
        """The set of that name.

        Raises:
            UnknownName: If there is none.
        """
        found = _ALL.get(name.replace("_", "-"))
        if found is None:
            raise UnknownName(
                "There is no data set of this name",
                received=name,
                fix=f"Use one of: {', '.join(self.names())}",
            )
        return found


DATASETS = DatasetRegistry()
