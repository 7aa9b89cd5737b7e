"""The registered data sets by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lipdp.datasets.adbench import ADBENCH
from lipdp.datasets.adult import ADULT
from lipdp.datasets.base import Dataset
from lipdp.datasets.cifar10 import CIFAR10
from lipdp.datasets.fashion_mnist import FASHION_MNIST
from lipdp.datasets.mnist import MNIST
from lipdp.errors import UnknownName

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
