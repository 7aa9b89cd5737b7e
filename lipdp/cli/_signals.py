"""Control-C and SIGTERM while a command runs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

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
