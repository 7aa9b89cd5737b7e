"""What the commands around a run share."""

from __future__ import annotations

import os

import pytest

from lipdp.cli._runs import quiet_start


def test_quiet_start_keeps_native_chatter_off_and_gives_stderr_back(monkeypatch, capfd):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    with quiet_start():
        os.write(2, b"chatter")
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"


def test_quiet_start_lets_a_user_see_the_chatter(monkeypatch, capfd):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    with quiet_start():
        os.write(2, b"chatter")
    assert capfd.readouterr().err == "chatter"


def test_quiet_start_passes_errors_and_gives_stderr_back(monkeypatch, capfd):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    with pytest.raises(ImportError), quiet_start():
        raise ImportError
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"
