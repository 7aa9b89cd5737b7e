"""Progress in a terminal: a bar, and one line that stays for each finished epoch."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from lipdp.cli._listener import PlainListener, TerminalListener, listener


def speak(ears: PlainListener) -> None:
    ears.on_message("[red]hello[/red]")
    ears.on_start({"noise_multiplier": 1.25}, 2, 3)
    for epoch in (1, 2):
        for step in range(3):
            ears.on_step(epoch, step)
        logs = {"epsilon": 1.5 * epoch, "val_accuracy": 0.8, "val_certified_accuracy": 0.7}
        ears.on_epoch(epoch, logs)


def test_terminal_leaves_one_line_an_epoch_and_no_bar():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120, markup=False, highlight=False)
    with Progress(console=console, transient=True, auto_refresh=False) as progress:
        speak(TerminalListener(progress))
        assert progress.tasks[0].description == "evaluating"
    text = stream.getvalue()
    assert "[red]hello[/red]" in text
    assert text.count("epoch 1/2  epsilon 1.5000  validation accuracy 0.8000") == 1
    assert text.count("epoch 2/2  epsilon 3.0000") == 1


def test_the_bar_follows_the_steps_of_an_epoch():
    console = Console(file=io.StringIO(), force_terminal=True)
    with Progress(console=console, auto_refresh=False) as progress:
        ears = TerminalListener(progress)
        ears.on_start({}, 2, 3)
        ears.on_step(0, 0)
        ears.on_step(0, 1)
        assert (progress.tasks[0].completed, progress.tasks[0].total) == (2, 3)
        ears.on_epoch(0, {})
        assert (progress.tasks[0].completed, progress.tasks[0].total) == (0, 3)
        assert progress.tasks[0].description == "epoch 2/2"


def test_plain_lines(capsys):
    speak(PlainListener())
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "[red]hello[/red]",
        "2 epochs of 3 steps, noise multiplier 1.25",
        "epoch 1/2  epsilon 1.5000  validation accuracy 0.8000  certified 0.7000",
        "epoch 2/2  epsilon 3.0000  validation accuracy 0.8000  certified 0.7000",
    ]


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
