"""Progress on a terminal, and signals that stop a training."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from lipdp.results import epoch_line, opening_line

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_WORDS = b"\nStopping after this step. Once more stops at once.\n"


class SignalStopper:
    """Makes of the first SIGINT or SIGTERM during training a wish to stop after the present step.

    The second one, and any outside of ``watching``, raises KeyboardInterrupt. Outside of the
    ``with`` block, and in other threads than the first, signals act as usual.

    Attributes:
        number: Of the last signal; SIGINT if there was none.
    """

    def __init__(self) -> None:
        self.number: int = signal.SIGINT
        self._wanted = False
        self._watching = False
        self._before: dict[int, object] = {}

    @property
    def wanted(self) -> bool:
        """Whether the training shall stop after the present step."""
        return self._wanted

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Around the steps of a training."""
        self._watching = True
        try:
            yield
        finally:
            self._watching = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in _SIGNALS}
            for number in _SIGNALS:
                signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        if not self._watching or self._wanted:
            raise KeyboardInterrupt
        self._wanted = True
        # Printing is not safe here: the signal may have come in the middle of a print.
        os.write(2, _WORDS)


Clock = Callable[[], float]
#: Columns of a line for a short bar, the count and both times.
_BESIDE_TITLE = 42


class PlainListener:
    """Writes one line an epoch, with the time left.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._total = 0
        self._first: tuple[int, float] | None = None

    def on_start(self, plan: dict[str, Any], total_epochs: int, steps_per_epoch: int) -> None:
        """Says how long the training is and how much noise it adds."""
        self._total = total_epochs
        self._write(opening_line(plan, total_epochs, steps_per_epoch))

    def on_step(self, epoch: int, step: int) -> None:
        """Writes nothing, a line a step would flood a log; the first step starts the clock."""
        if self._first is None:
            self._first = (epoch, self._clock())

    def on_epoch(self, epoch: int, logs: dict[str, float]) -> None:
        """Writes what the epoch reached."""
        left = self._left(epoch)
        line = epoch_line(epoch + 1, self._total, logs)
        self._write(line if left is None else f"{line}  {duration(left)} left")

    def on_message(self, text: str) -> None:
        """Passes a message on."""
        self._write(text)

    def _left(self, epoch: int) -> float | None:
        """Seconds to the end of the training; the first step, which compiles, counts as none."""
        ahead = self._total - epoch - 1
        if self._first is None or ahead < 1:
            return None
        first, began = self._first
        return (self._clock() - began) / (epoch - first + 1) * ahead

    def _write(self, text: str) -> None:
        click.echo(text)


class TerminalListener(PlainListener):
    """A bar over all steps with the time left; each finished epoch stays as a line above it."""

    def __init__(self, progress: Progress, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._progress = progress
        self._steps = 0
        self._task = progress.add_task("preparing", total=None)

    def on_start(self, plan: dict[str, Any], total_epochs: int, steps_per_epoch: int) -> None:
        """Writes the opening line and sets the length of the bar."""
        super().on_start(plan, total_epochs, steps_per_epoch)
        self._steps = steps_per_epoch
        total = total_epochs * steps_per_epoch
        self._progress.update(self._task, total=total, description="first step")

    def on_step(self, epoch: int, step: int) -> None:
        """Moves the bar; the first step of a run that goes on puts it where that run was."""
        done = epoch * self._steps + step + 1
        if self._first is None:
            self._progress.reset(self._task, completed=done)
        super().on_step(epoch, step)
        title = f"epoch {epoch + 1}/{self._total}"
        self._progress.update(self._task, completed=done, description=title)

    def on_epoch(self, epoch: int, logs: dict[str, float]) -> None:
        """Leaves the epoch as a line."""
        self._write(epoch_line(epoch + 1, self._total, logs))

    def on_message(self, text: str) -> None:
        """Leaves the message as a line, and shows it in the place of the bar's title."""
        super().on_message(text)
        self._progress.update(self._task, description=text)

    def _write(self, text: str) -> None:
        self._progress.console.print(text)


@contextmanager
def listener(silent: bool) -> Iterator[PlainListener | None]:
    """The listener that fits where the output goes; None if nothing may be written."""
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    if silent or not console.is_terminal:
        yield None if silent else PlainListener()
        return
    from rich.progress import Progress

    with Progress(*bar_columns(console.width), console=console, transient=True) as progress:
        yield TerminalListener(progress)


def bar_columns(width: int) -> list[ProgressColumn]:
    """The title, the bar, the count and the times; on a narrow terminal the bar gives way.

    Args:
        width: Of the terminal, in characters.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn
    from rich.table import Column
    from rich.text import Text

    class Times(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(times(task), style="progress.remaining")

    # Only the bar may shrink: what rich crops otherwise is the time left, at the end of the line.
    title = Column(no_wrap=True, overflow="ellipsis", max_width=max(16, width - _BESIDE_TITLE))
    return [
        TextColumn("{task.description}", markup=False, table_column=title),
        BarColumn(),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        Times(table_column=Column(no_wrap=True)),
    ]


def times(task: Task) -> str:
    """How long it took so far, and, once that is known, how long it will take yet."""
    passed = task.finished_time if task.finished else task.elapsed
    text = str(timedelta(seconds=int(passed or 0)))
    left = None if task.finished or task.total is None else task.time_remaining
    return text if left is None else f"{text}, {timedelta(seconds=int(left))} left"


def duration(seconds: float) -> str:
    """Seconds as 0:41 or 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
