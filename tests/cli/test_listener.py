"""Progress in a terminal: a bar over the whole training, and a line for each finished epoch."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from lipdp.cli._progress import (
    PlainListener,
    TerminalListener,
    bar_columns,
    duration,
    listener,
)


class Clock:
    """Ten seconds later at each look."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 10.0
        return self.now


def speak(ears: PlainListener, first: int = 0) -> None:
    ears.on_message("[red]hello[/red]")
    ears.on_start({"noise_multiplier": 1.25}, 3, 3)
    for epoch in range(first, 3):
        for step in range(3):
            ears.on_step(epoch, step)
        logs = {"epsilon": 1.5 * epoch, "val_accuracy": 0.8, "val_certified_accuracy": 0.7}
        ears.on_epoch(epoch, logs)


def terminal(stream=None):
    return Console(
        file=stream or io.StringIO(), force_terminal=True, width=120, markup=False, highlight=False
    )


def test_terminal_leaves_one_line_an_epoch():
    stream = io.StringIO()
    with Progress(console=terminal(stream), transient=True, auto_refresh=False) as progress:
        ears = TerminalListener(progress)
        speak(ears)
        ears.on_message("certifying")
        assert progress.tasks[0].description == "certifying"
    text = stream.getvalue()
    assert "[red]hello[/red]" in text
    assert text.count("epoch 1/3  epsilon 0.0000  held-out accuracy 0.8000") == 1
    assert text.count("epoch 3/3  epsilon 3.0000") == 1


def test_the_bar_runs_over_all_epochs():
    with Progress(console=terminal(), auto_refresh=False) as progress:
        ears = TerminalListener(progress)
        ears.on_start({}, 2, 3)
        ears.on_step(0, 0)
        ears.on_step(0, 1)
        assert (progress.tasks[0].completed, progress.tasks[0].total) == (2, 6)
        ears.on_epoch(0, {})
        ears.on_step(1, 0)
        assert progress.tasks[0].completed == 4
        assert progress.tasks[0].description == "epoch 2/2"


def test_the_bar_of_a_run_that_goes_on_begins_where_it_was():
    with Progress(console=terminal(), auto_refresh=False) as progress:
        ears = TerminalListener(progress)
        ears.on_start({}, 10, 3)
        ears.on_step(8, 0)
        assert progress.tasks[0].completed == 25
        # What another process did says nothing about the speed of this one.
        assert progress.tasks[0].speed is None


def test_plain_lines_say_the_time_left(capsys):
    speak(PlainListener(Clock()))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "[red]hello[/red]",
        "3 epochs of 3 steps, noise multiplier 1.25",
        "epoch 1/3  epsilon 0.0000  held-out accuracy 0.8000  certified 0.7000  0:20 left",
        "epoch 2/3  epsilon 1.5000  held-out accuracy 0.8000  certified 0.7000  0:10 left",
        "epoch 3/3  epsilon 3.0000  held-out accuracy 0.8000  certified 0.7000",
    ]


def test_plain_lines_of_a_run_that_goes_on(capsys):
    speak(PlainListener(Clock()), first=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("epoch 2/3") and lines[2].endswith("0:10 left")


def test_exact_numbers_are_not_shown(capsys):
    ears = PlainListener()
    ears.on_start({}, 1, 1)
    ears.on_epoch(0, {"loss": 0.123456, "accuracy": 0.654321, "epsilon": 1.0})
    text = capsys.readouterr().out
    assert "0.12" not in text and "0.65" not in text


@pytest.mark.parametrize(("seconds", "text"), [(41.2, "0:41"), (59.9, "1:00"), (3723, "1:02:03")])
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_silence_has_no_listener():
    with listener(silent=True) as ears:
        assert ears is None


def test_the_bar_is_taken_down_when_training_fails(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with pytest.raises(RuntimeError), listener(silent=False) as ears:
        assert isinstance(ears, TerminalListener)
        raise RuntimeError
    assert not ears._progress.live.is_started


def bar(width, message, *, steps):
    """The line of the bar after some seconds: a step a second, or none yet."""
    now = [0.0]
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    columns = bar_columns(width)
    progress = Progress(*columns, console=console, auto_refresh=False, get_time=lambda: now[0])
    ears = TerminalListener(progress)
    if steps:
        ears.on_start({}, 30, 14)
    for step in range(steps):
        now[0] += 1.0
        ears.on_step(0, step)
    ears.on_message(message)
    shown = Console(file=io.StringIO(), width=width, color_system=None)
    shown.print(progress.get_renderable())
    return shown.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_time_taken_and_time_left_are_told_apart(width):
    line = bar(width, "certifying the held-out rows", steps=14)
    assert " 14/420 0:00:13, 0:06:46 left\n" in line
    assert line.count("\n") == 1


def test_nothing_is_called_left_while_that_is_unknown():
    assert bar(60, "calibrating the noise for 2400 training rows", steps=0).endswith("0:00:00\n")
