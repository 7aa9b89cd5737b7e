"""Every error that lipdp raises on purpose: what happened, the value received, the way out."""

from __future__ import annotations


class _Nothing:
    """Marks an error that has no single received value."""


_NOTHING = _Nothing()


class LipdpError(Exception):
    """Base of all errors of this package.

    Args:
        what: What happened, one sentence without a final period.
        received: The offending value; shown with ``repr``.
        fix: How to get out, an imperative sentence.
    """

    def __init__(self, what: str, *, received: object = _NOTHING, fix: str = "") -> None:
        self.what = what
        self.fix = fix
        parts = [what.rstrip(".") + "."]
        if not isinstance(received, _Nothing):
            parts.append(f"Received: {_shorten(repr(received))}.")
        if fix:
            parts.append(fix.rstrip(".") + ".")
        self.message = " ".join(parts)
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


def _shorten(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


class InvalidValue(LipdpError, ValueError):
    """An argument outside its domain."""


class InvalidConfig(InvalidValue):
    """A configuration file or override that cannot be used."""


class InvalidData(InvalidValue):
    """Data that cannot be read or does not fit its schema."""


class UnknownName(LipdpError, LookupError):
    """A name that is in no registry."""


class InvalidState(LipdpError, RuntimeError):
    """A call that comes too early or too late, such as a report before training."""


class UnsupportedLayer(LipdpError, TypeError):
    """A layer without a proved bound, or one that mixes the samples of a batch."""


class UnboundedGradient(LipdpError, ValueError):
    """A parameter whose per-sample gradient has no finite bound."""


class UnsafeSetting(LipdpError, ValueError):
    """An option that would leak outside the mechanism, or that the proof does not cover."""


class BudgetExhausted(LipdpError, RuntimeError):
    """The next step would pass the privacy budget."""


class BoundViolation(LipdpError, AssertionError):
    """A measured norm above its bound: the proof or the code is wrong."""
