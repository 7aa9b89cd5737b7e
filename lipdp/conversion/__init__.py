"""From plain Keras models to Lipschitz ones, and back."""

from lipdp.conversion.convert import convert
from lipdp.conversion.counterparts import counterpart
from lipdp.conversion.export import export, plain
from lipdp.conversion.options import Change

__all__ = ["Change", "convert", "counterpart", "export", "plain"]
