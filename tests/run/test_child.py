"""A process that is heard and never outlives the one that started it."""

import os
import time
from pathlib import Path

import pytest

from lipdp.run.child import ChildFailed, run_child


def test_lines_are_heard_in_order():
    heard = []
    run_child(["-c", "print('a'); print('é b')"], {"PYTHONIOENCODING": "utf-8"}, heard.append)
    assert [line.strip() for line in heard] == ["a", "é b"]


def test_the_package_is_on_the_path_and_the_environment_arrives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    heard = []
    script = "import lipdp, os; print(lipdp.__version__, os.environ['ADDED'])"
    run_child(["-P", "-c", script], {"ADDED": "x"}, heard.append)
    assert heard[0].endswith(" x\n")


def test_a_failure_carries_the_last_lines():
    script = "import sys; [print(i, file=sys.stderr) for i in range(99)]; sys.exit(3)"
    with pytest.raises(ChildFailed) as caught:
        run_child(["-c", script], {}, lambda line: None)
    assert caught.value.code == 3
    assert caught.value.last_lines.splitlines()[-1] == "98"
    assert len(caught.value.last_lines.splitlines()) < 20


@pytest.mark.parametrize("ignores", [False, True])
def test_what_is_raised_here_ends_the_child(ignores, monkeypatch):
    monkeypatch.setattr("lipdp.run.child._PATIENCE_S", 0.5)
    deaf = "signal.signal(signal.SIGINT, signal.SIG_IGN);" if ignores else ""
    script = f"import os, signal, time; {deaf} print(os.getpid(), flush=True); time.sleep(60)"
    pids = []

    def hear(line):
        pids.append(int(line))
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_child(["-c", script], {}, hear)
    assert time.monotonic() - started < 30
    assert not Path(f"/proc/{pids[0]}").exists() or os.waitpid(-1, os.WNOHANG)
