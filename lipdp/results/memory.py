"""How much memory this process has used."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path


def peak_memory_bytes() -> int | None:
    """The largest resident memory of this process so far, or None where nobody counts it.

    Linux' own count of the process is asked first: what ``getrusage`` returns there may be that of
    the process which started this one.
    """
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
        if found:
            return 1024 * int(found[1])
    try:
        import resource
    except ImportError:  # Windows
        return None
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest
