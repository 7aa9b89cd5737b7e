"""The samplers by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lipdp.errors import InvalidValue, UnknownName
from lipdp.privacy.fixed_sampler import FixedSizeSampler, FullBatchSampler, ShuffledSampler
from lipdp.privacy.poisson_sampler import PoissonSampler, TruncatedPoissonSampler
from lipdp.privacy.sampler import Sampler

SAMPLERS: Mapping[str, type[Sampler]] = MappingProxyType(
    {
        "poisson": PoissonSampler,
        "truncated-poisson": TruncatedPoissonSampler,
        "shuffled": ShuffledSampler,
        "fixed-size": FixedSizeSampler,
        "full-batch": FullBatchSampler,
    }
)


def find_sampler(name: str) -> type[Sampler]:
    """The sampler of that name.

    Raises:
        UnknownName: If there is none.
    """
    if name not in SAMPLERS:
        raise UnknownName(
            "There is no sampling scheme of this name",
            received=name,
            fix=f"Use one of: {', '.join(SAMPLERS)}",
        )
    return SAMPLERS[name]


def check_sampling(name: str, adjacency: str) -> None:
    """Refuses a sampling scheme that has no accounting under the adjacency.

    Raises:
        UnknownName: If there is no such scheme.
        InvalidValue: If it is not accounted under the adjacency.
    """
    allowed = find_sampler(name).adjacencies
    if adjacency not in allowed:
        raise InvalidValue(
            f"Sampling {name!r} is not accounted under this adjacency",
            received=adjacency,
            fix=f"Use adjacency {' or '.join(repr(one) for one in allowed)}, or another sampling",
        )
