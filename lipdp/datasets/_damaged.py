"""One error for every file that cannot be read."""

from __future__ import annotations

from pathlib import Path

from lipdp.errors import InvalidData


def damaged(path: Path | str, why: object, form: str) -> InvalidData:
    """The error for a file that is cut off, damaged or of another form.

    Args:
        path: The file.
        why: What the reader said.
        form: What the file should be.
    """
    return InvalidData(
        f"The file is damaged, or no {form}: {str(why) or type(why).__name__}",
        received=str(path),
        fix="Replace it by a whole file",
    )
