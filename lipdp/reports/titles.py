"""What tells the sections of a report apart, and the runs of a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from lipdp.reports.cells import Section
from lipdp.reports.grouping import part
from lipdp.reports.loading import LoadedRun
from lipdp.reports.methods import held_out
from lipdp.reports.page import number
from lipdp.reports.words import neighbours

#: A sweep writes it into the folder of the run that it chose.
_CLAIM_FILE = "guarantee.txt"
_TRIALS = "trials"


def names(found: Sequence[Section]) -> list[str]:
    """The data of each section, with what tells it from others of the same data and rows."""
    plain = [(one.data, _held_out(one)) for one in found]
    count = Counter(plain)
    return [
        f"{one.data} ({_details(one, found)})" if count[key] > 1 else one.data
        for key, one in zip(plain, found, strict=True)
    ]


def titles(found: Sequence[Section]) -> list[str]:
    """Names that say too whether the rows are validation rows; no two are equal."""
    texts = [
        f"{name}, validation rows" if _held_out(one) == "validation" else name
        for name, one in zip(names(found), found, strict=True)
    ]
    count = Counter(texts)
    return [
        f"{text}, part {texts[: i + 1].count(text)}" if count[text] > 1 else text
        for i, text in enumerate(texts)
    ]


def settings_trials(section: Section) -> dict[int, str]:
    """By setting, the numbers of its trials in a sweep, the chosen one marked; else empty."""
    found: dict[int, list[str]] = {}
    for cell in section.everything:
        for run in cell.runs:
            if run.folder.parent.name == _TRIALS and run.folder.name.isdecimal():
                found.setdefault(cell.setting, []).append(_trial(run))
    return {setting: ", ".join(trials) for setting, trials in found.items()}


def _trial(run: LoadedRun) -> str:
    chosen = " (chosen)" if (run.folder / _CLAIM_FILE).is_file() else ""
    return f"{int(run.folder.name)}{chosen}"


def _held_out(section: Section) -> str:
    return held_out(section.everything[0].results[0])


def _details(section: Section, found: Sequence[Section]) -> str:
    """What differs among the sections of this data and these rows."""
    same = [
        one for one in found if (one.data, _held_out(one)) == (section.data, _held_out(section))
    ]
    told = [detail for detail in _DETAILS if len({detail(one) for one in same}) > 1]
    return ", ".join(detail(section) for detail in told) or _promise(section)


def _promise(section: Section) -> str:
    if section.delta is None:
        return "without privacy"
    return f"δ = {number(section.delta)}, {neighbours(section)}"


def _rows(section: Section) -> str:
    first = section.everything[0].results[0]
    return f"{number(first.training_rows + first.test.rows)} rows"


def _target(section: Section) -> str:
    return f"target {part(section.everything[0].results[0], 'data').get('target')}"


_DETAILS: tuple[Callable[[Section], str], ...] = (_promise, _rows, _target)
