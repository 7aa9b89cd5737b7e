"""Privacy accounting without training: epsilon, noise, curve, runs."""

from lipdp.cli._group import LazyGroup

__all__ = ["command"]

command = LazyGroup(
    package=__name__,
    name="account",
    help="Privacy accounting without training: what a plan costs, and how much noise it needs.",
)
