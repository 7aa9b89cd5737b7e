"""From Lipschitz models to plain Keras."""

from lipdp.conversion.export import export
from lipdp.conversion.rules import plain

__all__ = ["export", "plain"]
