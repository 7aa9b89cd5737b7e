"""From plain Keras models to Lipschitz ones, and back."""

from lipdp.conversion import convolutions as _convolutions  # noqa: F401  (registers its rules)
from lipdp.conversion.changes import Change
from lipdp.conversion.convert import convert
from lipdp.conversion.counterparts import counterpart
from lipdp.conversion.export import export
from lipdp.conversion.rules import plain

__all__ = ["Change", "convert", "counterpart", "export", "plain"]
