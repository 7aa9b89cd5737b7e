"""The worker's side of a race: trains for a turn when it is told to, and says what that cost.

No more than the standard library is imported, since workers run in environments of many kinds.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

#: Kibibytes on Linux.
_RSS_UNIT = 1024


class Turns:
    """Answers each line of standard input with the cost of one turn, as a line of JSON.

    Args:
        steps: Steps of a turn.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._started = (0.0, 0.0)

    def wait(self) -> bool:
        """Waits for the next turn; False if there is none."""
        print(json.dumps({"ready": True, "peak": peak_bytes()}), flush=True)
        if not sys.stdin.readline().strip():
            return False
        self._started = (time.perf_counter(), time.process_time())
        return True

    def done(self) -> None:
        """The turn is over."""
        wall, cpu = time.perf_counter() - self._started[0], time.process_time() - self._started[1]
        cost = {"wall": wall / self._steps, "cpu": cpu / self._steps, "peak": peak_bytes()}
        print(json.dumps(cost), flush=True)


def serve(make_turn: Callable[[dict[str, Any]], Callable[[], object]]) -> None:
    """The whole of a worker: trains for the cell on the command line until nobody asks for more.

    Args:
        make_turn: From the cell to a function that makes all steps of a turn.
    """
    cell = json.loads(sys.argv[1])
    turn, turns = make_turn(cell), Turns(cell["steps"])
    while turns.wait():
        turn()
        turns.done()


def peak_bytes() -> int:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
