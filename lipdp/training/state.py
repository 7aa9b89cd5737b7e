"""What a private model remembers beside its weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from lipdp.certificates import CertifiedAccuracy
from lipdp.errors import InvalidState, UnsafeSetting
from lipdp.losses.base import Reading
from lipdp.privacy import PrivacyBudget, PrivacyLedger
from lipdp.training.gate import StepGate
from lipdp.training.plan import TrainingPlan

#: Name of the first layer that private statistics make.
STATISTICS_LAYER = "private_statistics"

_KEY = "lipdp_ledger"
#: Where a variable keeps the ledger of the last private training that moved it.
_LEDGER = "_lipdp_ledger"
_PUBLIC = "the weights before private training came from public data only, as the user declares"
_LOST = (
    "an earlier run read these rows, and its ledger was lost: what that run cost is unknown and not"
    " inside epsilon, so that whatever it showed anyone comes on top"
)


@dataclass
class PrivateState:
    """Budget, plan and ledger of one model.

    Attributes:
        ledger: All private steps so far.
        budget: The budget of ``compile``, or None for training without privacy.
        plan: The plan of the last ``fit``.
        gate: Lets the steps of the last ``fit`` run.
        certified: The metric that needs the present Lipschitz constant.
        compile_arguments: What the user passed to ``compile``.
        task: What the outputs mean, as the file says that the weights were loaded from.
    """

    ledger: PrivacyLedger = field(default_factory=PrivacyLedger)
    budget: PrivacyBudget | None = None
    plan: TrainingPlan | None = None
    gate: StepGate | None = None
    certified: CertifiedAccuracy | None = None
    compile_arguments: dict[str, Any] = field(default_factory=dict)
    task: Reading | None = None

    def set_budget(self, budget: PrivacyBudget | None) -> None:
        """Takes a new budget; the ledger keeps counting under its adjacency.

        Raises:
            UnsafeSetting: If the budget counts under another adjacency than the ledger.
        """
        if budget is not None and budget.adjacency != self.ledger.adjacency:
            if self.ledger.phases or self.ledger.unknown_history:
                raise UnsafeSetting(
                    f"The steps so far were counted under {self.ledger.adjacency!r}",
                    received=budget.adjacency,
                    fix="Continue with that adjacency",
                )
            remarks, self.ledger = self.ledger.remarks, PrivacyLedger(budget.adjacency)
            self.ledger.remarks.merge(remarks)
        self.budget = budget

    @contextlib.contextmanager
    def rehearsing(self, plan: TrainingPlan, gate: StepGate) -> Iterator[None]:
        """Takes what was prepared for a ``fit``; inside, the gate compares nothing.

        A rehearsal leaves constraints out, so that its model is not the planned one.
        """
        self.plan, self.gate = plan, None
        try:
            yield
        finally:
            self.gate = gate

    def remember_callbacks(self, words: Iterable[str]) -> None:
        """Adds what callbacks of one more ``fit`` are to what statements name."""
        for one in words:
            self.ledger.remarks.add("not_covered", one)

    def gather(self, model: keras.Model) -> None:
        """Adds what weights of this model have cost in other models, and what nested models cost.

        From now on they remember this ledger. Sessions that both know are counted once.

        Raises:
            InvalidData: If another ledger counts under another adjacency.
        """
        nested = [state.ledger for _, state in _nested(model)]
        for other in (*nested, *_remembered(model)):
            if other is not self.ledger:
                _take_over(self.ledger, other)
        self.mark(model)

    def mark(self, model: keras.Model) -> None:
        """Lets the variables remember this ledger alone."""
        for variable in model.variables:
            setattr(variable, _LEDGER, self.ledger)

    @contextlib.contextmanager
    def without_privacy(self, model: keras.Model) -> Iterator[None]:
        """While weights train without privacy; they remember it wherever they go afterwards."""
        self.gather(model)
        self.ledger.mark_unknown()
        try:
            yield
        finally:
            # A model that was not built has its variables now.
            self.mark(model)

    def declare_public(self, model: keras.Model) -> None:
        """A new ledger for weights whose history is public, those of nested models included.

        Raises:
            InvalidState: If private accesses were recorded, which a new ledger would forget.
        """
        for nested, state in _nested(model):
            state.declare_public(nested)
        self.gather(model)
        if self.ledger.phases:
            raise InvalidState(
                "The ledger holds private accesses, so that the history is not public",
                received=self.ledger.steps,
                fix="Load the public weights into a new model, and declare that one",
            )
        remarks, self.ledger = self.ledger.remarks, PrivacyLedger(self.ledger.adjacency)
        self.ledger.remarks.merge(remarks)
        self.ledger.remarks.add("other_accesses", _PUBLIC)
        self.mark(model)

    def declare_lost_run(self, model: keras.Model) -> None:
        """Lets statements say that an earlier run of unknown cost read the rows."""
        self.gather(model)
        self.ledger.remarks.add("other_accesses", _LOST)

    def check_statistics(self, names: Iterable[str]) -> None:
        """Refuses layers of private statistics whose releases the ledger does not hold.

        A layer does not say which release it comes from: each needs an access of its own.

        Args:
            names: Of all layers, those of nested models too, each layer once.

        Raises:
            InvalidState: If there are more such layers than recorded accesses.
        """
        used = sum(name == STATISTICS_LAYER for name in names)
        known = sum(phase.steps for phase in self.ledger.phases) - self.ledger.steps
        if used > known:
            raise InvalidState(
                "Layers of the model hold private statistics that its ledger does not know",
                received=f"{STATISTICS_LAYER} {used} times, and {known} recorded",
                fix="Call statistics.record_in(model) after compile, once for each call of"
                " statistics.layers()",
            )


def _nested(model: keras.Model) -> Iterator[tuple[keras.Model, PrivateState]]:
    for layer in model._flatten_layers(include_self=False):
        state = vars(layer).get("_private_state")
        if isinstance(state, PrivateState):
            yield layer, state


def _remembered(model: keras.Model) -> Iterator[PrivacyLedger]:
    """Each ledger that a variable was trained under, once."""
    found = {id(one): one for v in model.variables if (one := getattr(v, _LEDGER, None))}
    yield from found.values()


def write_ledger(ledger: PrivacyLedger, store: Any) -> None:
    """Puts the ledger into a Keras weight store as bytes."""
    store[_KEY] = np.frombuffer(ledger.to_json().encode("utf-8"), dtype=np.uint8)


def read_ledger(present: PrivacyLedger, store: Any) -> PrivacyLedger:
    """The ledger of a Keras weight store, merged with the present one: the larger count wins.

    Raises:
        InvalidData: If it was truncated or edited, or counts under another adjacency. Keras may
            load the weights all the same, so the present history then is unknown.
    """
    try:
        return _merged(present, store)
    except Exception:
        present.mark_unknown()
        raise


def _merged(present: PrivacyLedger, store: Any) -> PrivacyLedger:
    # A Keras store is no mapping: `in` would index it.
    if _KEY not in set(store.keys()):
        merged = PrivacyLedger(present.adjacency)
        merged.mark_unknown()
    else:
        text = np.asarray(store[_KEY]).tobytes().decode("utf-8", errors="replace")
        merged = PrivacyLedger.from_json(text)
    _take_over(merged, present)
    return merged


def _take_over(ledger: PrivacyLedger, other: PrivacyLedger) -> None:
    """Merges another record; one of nothing may count under any adjacency."""
    if other.phases or other.unknown_history:
        ledger.merge(other)
    else:
        ledger.remarks.merge(other.remarks)
