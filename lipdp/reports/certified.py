"""The radii of a run, as a report shows them."""

from __future__ import annotations

from lipdp.results import Certified, RunResult


def certified_by_radius(result: RunResult) -> list[Certified]:
    """What was certified, each radius once, by radius; a configuration may repeat one."""
    found = {(c.unit, c.radius): c for c in result.certified}
    return sorted(found.values(), key=lambda c: c.radius)


def monitored_radius(result: RunResult) -> float | None:
    """The radius of the certified accuracy in the history: the first that was asked for."""
    section = result.config.get("certificates")
    radii = section.get("radii") if isinstance(section, dict) else None
    return float(radii[0]) if isinstance(radii, list) and radii else None
