"""Who may inherit what is proved."""

from __future__ import annotations

import inspect
from typing import Any

from lipdp.errors import UnsupportedLayer


def check_final(thing: Any, base: type, kind: str) -> None:
    """Refuses a subclass of a concrete class, whose bounds its own code may break.

    Args:
        thing: A layer, a loss or a projection.
        base: The abstract class that says what must be proved; what is beside it in its module may
            be extended, and so may other abstract classes.
        kind: What the error calls it.

    Raises:
        UnsupportedLayer: If it inherits from a concrete class.
    """
    own = base.__module__.rpartition(".")[0]
    if type(thing).__module__.startswith(f"{own}."):
        return
    for ancestor in type(thing).__mro__[1:]:
        extendable = ancestor.__module__ == base.__module__ or inspect.isabstract(ancestor)
        if issubclass(ancestor, base) and not extendable:
            raise UnsupportedLayer(
                f"The {kind} {getattr(thing, 'name', type(thing).__name__)!r} inherits the bounds "
                f"of {ancestor.__name__}, which is final",
                received=type(thing).__name__,
                fix=f"Subclass {base.__module__}.{base.__name__} and state the bounds",
            )
