"""What a sweep tries: the space of settings, and the measure that chooses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from lipdp.config.section import Section

_Whole = Annotated[int, Field(strict=True)]
_Real = Annotated[float, Field(strict=True, allow_inf_nan=False)]

#: Sections whose keys may vary among trials.
_SECTIONS = ("features", "model", "loss", "optimizer", "training", "privacy", "preprocess")
_REFUSED = {
    "training.method": "lipdp compare sets methods side by side",
    "training.tensorboard": "it changes nothing of a model",
    "privacy.seed": "a seed makes a run reproducible, and not private",
    "privacy.adjacency": "costs under several adjacencies do not add up",
}


class Range(Section):
    """Numbers from ``low`` to ``high``, both included; whole ones if both bounds are whole."""

    low: _Whole | _Real
    high: _Whole | _Real
    log: bool = False
    step: _Whole | _Real | None = None

    @property
    def is_whole(self) -> bool:
        """Whether its numbers are whole."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @model_validator(mode="after")
    def _bounds(self) -> Range:
        if not self.low < self.high:
            raise ValueError("low must be less than high")
        if self.log and self.low <= 0:
            raise ValueError("log = true needs low above 0")
        return self

    @model_validator(mode="after")
    def _steps(self) -> Range:
        if self.step is None:
            return self
        if self.log:
            raise ValueError("give log or step, not both")
        if not 0 < self.step <= self.high - self.low:
            raise ValueError("step must lie between 0 and high - low")
        if self.is_whole and not isinstance(self.step, int):
            raise ValueError("the step of whole numbers must be whole")
        return self


def _kind(given: Any) -> str:
    return "choices" if isinstance(given, (list, tuple)) else "range"


#: A range of numbers, or a list of values.
Domain = Annotated[
    Annotated[Range, Tag("range")]
    | Annotated[list[Any], Tag("choices"), Field(min_length=1, max_length=1000)],
    Discriminator(_kind),
]


class SweepSection(Section):
    """The settings that a sweep tries, and how it chooses.

    Trials train on the training rows without ``validation_fraction`` of them, and are compared by
    ``metric`` on that part; the test rows are read once, for the run that was chosen.
    ``certified_accuracy`` is that at the first of ``certificates.radii``. With ``pruning``,
    Hyperband stops trials whose held-out accuracy, clean or certified as ``metric`` says, falls
    behind; none by the AUROC, which is known only at the end of a trial.

    Each key of ``space`` is a key of the configuration, as in ``"optimizer.learning_rate"``; its
    value a range (``{ low = 0.01, high = 4.0, log = true }``) or a list of values.
    """

    metric: Literal["accuracy", "auroc", "certified_accuracy"] = "accuracy"
    validation_fraction: Annotated[_Real, Field(gt=0, lt=1)] = 0.2
    pruning: bool = True
    space: Annotated[dict[str, Domain], Field(min_length=1)]

    @field_validator("space")
    @classmethod
    def _keys_may_vary(cls, space: dict[str, Domain]) -> dict[str, Domain]:
        for path in space:
            section, dot, key = path.partition(".")
            if not dot or not key or section not in _SECTIONS:
                raise ValueError(
                    f"{path!r} cannot vary among trials; keys of these sections can: "
                    f"{', '.join(_SECTIONS)}"
                )
            if path in _REFUSED:
                raise ValueError(f"{path!r} cannot vary among trials: {_REFUSED[path]}")
        return space

    @field_validator("space")
    @classmethod
    def _choices_differ(cls, space: dict[str, Domain]) -> dict[str, Domain]:
        for path, domain in space.items():
            if isinstance(domain, list) and len(set(map(repr, domain))) < len(domain):
                raise ValueError(f"the list of {path!r} holds a value twice")
        return space
