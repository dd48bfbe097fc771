"""Limits of what is read from others: no zip that is small only when packed, no table that fills memory."""

from __future__ import annotations

import zipfile

from labkit.errors import DataError

__all__ = ["MOST_CELLS", "MOST_TABLE_BYTES", "check_archive", "check_table"]

#: of all files in a zip together, unpacked
MOST_TABLE_BYTES = 128 << 20
#: of a table: each takes some hundred bytes of memory while it is read
MOST_CELLS = 5_000_000


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
