"""Affine maps of a row that were released privately, as the first layers of a model."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any, ClassVar

import keras
import numpy as np

from lipdp.errors import InvalidState, InvalidValue, UnsafeSetting
from lipdp.layers import ActivationClip, BoundedInput
from lipdp.privacy import PrivacyBudget, Terms, calibrate_noise_multiplier
from lipdp.privacy.phase import is_number
from lipdp.privacy.statistics import unit_rows
from lipdp.training.model import PrivateTraining
from lipdp.training.state import STATISTICS_LAYER

_OF_ROWS = "Gaussian noise on sums over all rows, each clipped to a ball of a public radius"
_OF_USERS = f"{_OF_ROWS}; the rows of a user count as one, their mean, however many they are"


@dataclass(frozen=True, eq=False)
class PrivatePreprocessing(abc.ABC):
    """An affine map of a row that was released privately, as the first layers of a model.

    The layers clip a row to the ball in which the statistics were taken, map it, divide by a public
    radius and clip to the unit ball: what follows sees rows of norm at most 1, whatever the
    statistics are. They are part of the saved model; certified radii are in units of the row in
    front of them.

    Release, use and record belong together::

        whitening = PrivateWhitening.release(x, radius=5.0, budget=budget)
        model = lipdp.Sequential([*whitening.layers(), SpectralDense(10)])
        model.compile(..., privacy=budget)
        whitening.record_in(model)  # before fit, which then keeps within what is left
        model.fit(x, y)

    Attributes:
        mean: Noisy mean of each feature, shape (d,); 0 at constants.
        radius: Public radius of the ball that rows are clipped to.
        typical_norm: Root mean square of the norm of a mapped row, from the noisy numbers.
        noise_multiplier: Standard deviation over sensitivity of the whole release.
        budget: The budget that it is part of.
        unit: Whose records the noise is for, ``"row"`` or ``"user"``.
        num_units: How many of them there are, public; 0 if that is not said.
    """

    purpose: ClassVar[str]

    mean: np.ndarray = field(repr=False)
    radius: float
    typical_norm: float
    noise_multiplier: float
    budget: PrivacyBudget
    unit: str = field(default="row", kw_only=True)
    num_units: int = field(default=0, kw_only=True)

    @abc.abstractmethod
    def _affine(self, divisor: float, dtype: str) -> list[keras.layers.Layer]:
        """Frozen layers of the affine map over a divisor, from a flat row to a flat one."""

    def layers(
        self, *, clip_radius: float | None = None, dtype: str | None = None
    ) -> list[keras.layers.Layer]:
        """New layers, to be the first ones of a model.

        Args:
            clip_radius: Public radius that mapped rows are divided by and clipped to. By default
                the typical norm: a larger one clips fewer rows and makes all of them smaller.
            dtype: Type of computation; by default Keras'.

        Raises:
            InvalidValue: If the radius is not positive.
        """
        divisor = self.typical_norm if clip_radius is None else clip_radius
        kind = keras.config.floatx() if dtype is None else dtype
        return [
            BoundedInput(self.mean.shape, radius=self.radius, dtype=kind, name=STATISTICS_LAYER),
            *self._affine(ActivationClip(divisor).radius, kind),
            ActivationClip(1.0, dtype=kind),
        ]

    def record_in(self, model: PrivateTraining) -> None:
        """Enters the release into the ledger of a model that uses it; once a model, before fit.

        Args:
            model: A model compiled with a budget.

        Raises:
            InvalidState: If its ledger counts under another adjacency.
            UnsafeSetting: If the release had a seed and the model's budget has none: nothing would
                say that it is not private.
        """
        if model.ledger.adjacency != self.budget.adjacency:
            raise InvalidState(
                f"The release was counted under {self.budget.adjacency!r}",
                received=model.ledger.adjacency,
                fix="Compile the model with privacy=, the budget of the release, first",
            )
        compiled = model._private.budget
        if self.budget.seed is not None and (compiled is None or compiled.seed is None):
            raise UnsafeSetting(
                "The noise of the statistics came from a seed, so they are not private",
                received=self.budget.seed,
                fix="Release them with a budget without a seed",
            )
        terms = Terms(
            unit=self.unit,
            seeded=self.budget.seed is not None,
            secure=self.budget.secure_noise,
            sampler="full-batch",
            num_units=self.num_units,
            batch_size=self.num_units,
            mechanism=_OF_USERS if self.unit == "user" else _OF_ROWS,
        )
        model.ledger.record(1.0, self.noise_multiplier, purpose=self.purpose, terms=terms)


def units_in(x: Any, groups: Any) -> int:
    """How many rows, or users of them, a release speaks of."""
    return int(unit_rows(x, groups).num_units)


def unit_of(groups: Any) -> str:
    """Whose records a release speaks of, given what it was told of users."""
    return "row" if groups is None else "user"


def release_options(
    x: Any, budget: PrivacyBudget, share: float, noise_multiplier: float | None, groups: Any
) -> dict[str, Any]:
    """How a release that is part of a budget adds its noise.

    Args:
        x: The rows that it is about.
        budget: Of the whole training.
        share: As in ``statistics_multiplier``.
        noise_multiplier: As there.
        groups: The user of each row, or None.

    Raises:
        InvalidValue: As ``statistics_multiplier``.
        InvalidData: If x is no matrix of numbers, or groups are not one id a row of one kind.
    """
    num_units = unit_rows(x, groups).num_units
    return {
        "noise_multiplier": statistics_multiplier(budget, num_units, share, noise_multiplier),
        "groups": groups,
        "secure_noise": budget.secure_noise,
        "seed": budget.seed,
    }


def statistics_multiplier(
    budget: PrivacyBudget,
    num_units: int,
    share: float = 0.1,
    noise_multiplier: float | None = None,
) -> float:
    """The noise of a release that alone costs at most a share of the budget's epsilon.

    Args:
        budget: Of the whole training.
        num_units: Rows of the training set, or users of them.
        share: Part of epsilon, between 0 and 1.
        noise_multiplier: The noise itself, if it was chosen.

    Raises:
        InvalidValue: If the share is outside (0, 1), or nothing sets the noise.
    """
    if noise_multiplier is not None:
        return float(noise_multiplier)
    if budget.epsilon is None:
        raise InvalidValue(
            "A budget without epsilon sets no noise of the statistics",
            received=budget.noise_multiplier,
            fix="Give epsilon, or a noise_multiplier for the statistics too",
        )
    if not is_number(share) or not 0.0 < share < 1.0:
        raise InvalidValue("The share of the statistics must lie between 0 and 1", received=share)
    return calibrate_noise_multiplier(
        share * budget.epsilon,
        budget.resolve_delta(num_units),
        1.0,
        1,
        accountant=budget.accountant,
        adjacency=budget.adjacency,
    )
