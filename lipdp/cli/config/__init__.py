"""The configuration of a run: show."""

from lipdp.cli._group import LazyGroup

__all__ = ["command"]

command = LazyGroup(
    package=__name__,
    name="config",
    help="The configuration of a run: what it holds once defaults and --set are in.",
)
