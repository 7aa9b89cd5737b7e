"""Statistical tests of a sampler that calls itself Poisson."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from lipdp.errors import BoundViolation

_LEAST_DRAWS = 2000
_MOST_DRAWS = 200_000
_INCLUSIONS = 160_000


@dataclass(frozen=True)
class SamplerReport:
    """What the draws looked like.

    Attributes:
        draws: Number of batches drawn.
        scores: Deviation of each statistic from its value under Poisson sampling, in standard
            errors.
    """

    draws: int
    scores: dict[str, float]


def check_sampler(sampler: Any) -> SamplerReport:
    """Tests that each record joins each batch independently, with the reported probability.

    At 5 standard errors each: mean and variance of the batch sizes, inclusions of each record (the
    extreme ones by exact binomial tails, all by their spread), covariance of pairs, and overlap of
    successive batches, each with its exact null variance. Enough batches are drawn that a rate off
    by 2 % lies 8 standard errors away (unless it takes more than 200,000 of them). A sampler of
    fixed batch size, one that shuffles and cuts, one that prefers half of the records by 10 %, and
    one that draws blocks are caught.

    Args:
        sampler: Has ``draw()``, which returns distinct indices, ``sampling_rate`` and
            ``num_examples``.

    Returns:
        The deviations found.

    Raises:
        BoundViolation: If a statistic is off, or a draw is not a set of indices.
    """
    rate, count = float(sampler.sampling_rate), int(sampler.num_examples)
    if not 0 < rate <= 1:
        raise BoundViolation("The sampling rate is no probability above 0", received=rate)
    tally = _Tally(count)
    wanted = math.ceil(_INCLUSIONS * (1.0 - rate) / (rate * count))
    draws = min(max(_LEAST_DRAWS, wanted), _MOST_DRAWS)
    for _ in range(draws):
        tally.add(_distinct(sampler.draw(), count))
    scores = tally.scores(rate)
    for name, score in scores.items():
        if not abs(score) <= 5.0:
            raise BoundViolation(
                f"The {name} differs from that of Poisson sampling at the reported rate",
                received={"standard errors": score, "sampling_rate": rate, "draws": draws},
                fix="Account for the sampler that runs",
            )
    return SamplerReport(draws, scores)


def _distinct(drawn: Any, count: int) -> np.ndarray:
    indices = np.asarray(drawn)
    valid = indices.ndim == 1 and (indices.size == 0 or np.issubdtype(indices.dtype, np.integer))
    valid = valid and len(np.unique(indices)) == len(indices)
    if not valid or (indices.size and not 0 <= indices.min() <= indices.max() < count):
        raise BoundViolation("A draw is not a set of row numbers", received=drawn)
    return indices.astype("int64")


@dataclass
class _Tally:
    """Sums over the draws that the statistics need, in memory linear in the records."""

    count: int
    sizes: list[int] = field(default_factory=list)
    overlap: int = 0
    joint: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inclusions = np.zeros(self.count, dtype="int64")
        self.last = np.zeros(self.count, dtype=bool)
        last = self.count - 1
        pairs = {(0, 1), (0, last), (last // 2, last // 2 + 1), (last - 1, last)}
        self.joint = {(i, j): 0 for i, j in pairs if 0 <= i < j <= last}

    def add(self, indices: np.ndarray) -> None:
        """Counts one draw."""
        now = np.zeros(self.count, dtype=bool)
        now[indices] = True
        self.sizes.append(len(indices))
        self.inclusions[indices] += 1
        self.overlap += int(np.count_nonzero(self.last[indices]))
        for i, j in self.joint:
            self.joint[i, j] += int(now[i] and now[j])
        self.last = now

    def scores(self, rate: float) -> dict[str, float]:
        """All statistics in standard errors; at rate 1 each is 0 or infinite."""
        draws, sizes = len(self.sizes), np.asarray(self.sizes, dtype="float64")
        variance = self.count * rate * (1.0 - rate)
        kurtosis = (1.0 - 6.0 * rate * (1.0 - rate)) / variance if variance > 0 else 0.0
        spread = variance * math.sqrt(2.0 / (draws - 1) + kurtosis / draws)
        scores = {
            "mean of the batch sizes": _score(
                float(sizes.mean()) - self.count * rate, math.sqrt(variance / draws)
            ),
            "variance of the batch sizes": _score(float(sizes.var(ddof=1)) - variance, spread),
            "number of inclusions of a record": self._extreme_record(rate),
            "spread of the inclusions over records": self._record_spread(rate),
            "overlap of successive batches": self._overlap_score(rate),
        }
        for pair, together in self.joint.items():
            scores[f"joint inclusion of records {pair}"] = _binomial_score(together, draws, rate**2)
        return scores

    def _extreme_record(self, rate: float) -> float:
        """The worst record, its exact tail times the number of records, as a normal deviate."""
        ends = (int(self.inclusions.min()), int(self.inclusions.max()))
        return max((_binomial_score(e, len(self.sizes), rate, self.count) for e in ends), key=abs)

    def _record_spread(self, rate: float) -> float:
        """Pearson's statistic over the records, with its exact variance."""
        draws = len(self.sizes)
        variance = draws * rate * (1.0 - rate)
        if variance == 0:
            return _score(float(np.ptp(self.inclusions)), 0.0)
        pearson = float(np.sum((self.inclusions - draws * rate) ** 2)) / variance
        excess = (1.0 - 6.0 * rate * (1.0 - rate)) / variance
        return _score(pearson - self.count, math.sqrt(self.count * (2.0 + excess)))

    def _overlap_score(self, rate: float) -> float:
        """``sum_i x_{t,i} x_{t+1,i}``; neighbouring terms share a draw: covariance q^3 - q^4."""
        steps, twice = len(self.sizes) - 1, rate**2
        variance = steps * (twice - twice**2) + 2.0 * (steps - 1) * (rate**3 - twice**2)
        # One more standard error covers the heavier tail of counts near 0.
        error = math.sqrt(self.count * variance) + (1.0 if variance > 0 else 0.0)
        return _score(self.overlap - steps * self.count * twice, error)


def _score(deviation: float, error: float) -> float:
    if error > 0:
        return deviation / error
    return 0.0 if abs(deviation) < 1e-6 else math.inf


def _binomial_score(successes: int, draws: int, rate: float, tests: int = 1) -> float:
    """The exact two-sided tail of a binomial count, over several tests, as a normal deviate."""
    below = float(stats.binom.cdf(successes, draws, rate))
    above = float(stats.binom.sf(successes - 1, draws, rate))
    tail = min(1.0, 2.0 * tests * min(below, above))
    size = float(stats.norm.isf(tail / 2.0))
    return size if above < below else -size
