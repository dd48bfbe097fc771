"""Limits of what is read from others: regular files only, and no zip that is small only when packed."""

from __future__ import annotations

import os
import stat
import zipfile

from labkit.errors import DataError

__all__ = ["MOST_CELLS", "MOST_TABLE_BYTES", "check_archive", "check_table", "require_file"]

#: of all files in a zip together, unpacked
MOST_TABLE_BYTES = 128 << 20
#: of a table: each takes some hundred bytes of memory while it is read
MOST_CELLS = 5_000_000


def require_file(path: str | os.PathLike[str]) -> None:
    """Refuse what is there and is neither a file nor a folder: a pipe waits for ever, a device never ends.

    Raises
    ------
    DataError
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # who opens it says why
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DataError(f"{os.fspath(path)!r} is a pipe, a socket or a device; give a file")


def check_archive(archive: zipfile.ZipFile, name: str, most: int = MOST_TABLE_BYTES) -> None:
    """Refuse a zip that would be large unpacked; no more is unpacked than its table of contents says.

    Raises
    ------
    DataError
    """
    total = sum(info.file_size for info in archive.infolist())
    if total > most:
        raise DataError(f"{name!r} is refused: unpacked it would have {total:,} B, over {most:,} B")


def check_table(content: bytes, name: str) -> None:
    """Refuse a table (CSV) that would take far more memory than its text.

    Raises
    ------
    DataError
    """
    cells = content.count(b",") + content.count(b"\n") + content.count(b"\r")
    if cells > MOST_CELLS:
        raise DataError(f"{name!r} is refused: its table has {cells:,} cells, over {MOST_CELLS:,}")
