"""One error for every file that cannot be read."""

from __future__ import annotations

import tokenize
from pathlib import Path

from lipdp.errors import InvalidData


def damaged(path: Path | str, why: object, form: str) -> InvalidData:
    """The error for a file that is cut off, damaged or of another form.

    Args:
        path: The file.
        why: What the reader said.
        form: What the file should be.
    """
    # zipfile raises the first for a password, the second for what it cannot decrypt or unpack.
    locked = type(why) in (RuntimeError, NotImplementedError)
    return InvalidData(
        f"The file is damaged, or no {form}: {_words(why)}",
        received=str(path),
        fix="Write the archive without a password, and with the usual compression (deflate)"
        if locked
        else "Replace it by a whole file",
    )


def _words(why: object) -> str:
    """The first line: NumPy's next one advises to trust the file and to allow pickles."""
    if isinstance(why, KeyError | SyntaxError | tokenize.TokenError) and why.args:
        # As text they have quotes, or a place in a text that nobody sees.
        why = why.args[0]
    return str(why).strip().partition("\n")[0].rstrip(":") or type(why).__name__
