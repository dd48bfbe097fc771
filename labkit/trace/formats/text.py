"""Text files, packed or not, in pieces; and what kind of trace a file is."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from labkit.errors import DataError
from labkit.text.files import require_file

__all__ = ["first_line", "list_of_files", "open_out", "pieces"]

PIECE_BYTES = 1 << 20
#: of a list of files, one a rank
_MOST_LIST_BYTES = 64 << 20
_GZIP = b"\x1f\x8b"


def pieces(path: Path, still: Callable[[], None] | None = None) -> Iterator[bytes]:
    """Yield a file's bytes, unpacked when it is gzip (recognized by its first two bytes)."""
    require_file(path, is_whole=False)
    try:
        with open(path, "rb") as raw:
            is_packed = raw.read(2) == _GZIP
            raw.seek(0)
            file: BinaryIO = gzip.GzipFile(fileobj=raw) if is_packed else raw  # type: ignore[assignment]
            while piece := file.read(PIECE_BYTES):
                if still is not None:
                    still()
                yield piece
    except (OSError, ValueError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        code = "missing-file" if isinstance(error, FileNotFoundError) else "unreadable-file"
        raise DataError(f"{path}: cannot be read: {reason}", code=code) from None


def first_line(path: Path, still: Callable[[], None] | None = None) -> tuple[str, int]:
    """Return the first line that is neither blank nor a comment, and its number, or ("", 0)."""
    rest = b""
    number = 0
    for piece in pieces(path, still):
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        for line in lines:
            number += 1
            if line.strip() and not line.lstrip().startswith(b"#"):
                return line.decode("utf-8", "replace").strip(), number
        if len(rest) > PIECE_BYTES:
            break
    if rest.strip() and not rest.lstrip().startswith(b"#"):
        return rest.decode("utf-8", "replace").strip(), number + 1
    return "", 0


def list_of_files(path: Path, still: Callable[[], None] | None = None) -> list[Path]:
    """Read a file that names one trace file a line, one for each rank.

    A name is looked up from the folder of the list, then from the current folder, as SimGrid does.
    """
    found = []
    read: list[bytes] = []
    for piece in pieces(path, still):
        read.append(piece)
        if len(read) * PIECE_BYTES > _MOST_LIST_BYTES:
            raise DataError(
                f"{path}: a list of more than {_MOST_LIST_BYTES >> 20} MiB of files' names", code="too-large"
            )
    text = b"".join(read).decode("utf-8", "replace")
    for number, line in enumerate(text.split("\n"), 1):
        if still is not None and number % 10_000 == 0:
            still()
        name = line.strip()
        if not name or name.startswith("#"):
            continue
        candidates = [path.parent / name, Path(name)]
        existing = [one for one in candidates if os.path.isfile(one)]
        if not existing:
            shown = name if len(name) <= 60 else name[:60] + "..."
            raise DataError(
                f"{path}, line {number}: neither an action (`rank action arguments`) nor the name of a file: "
                f"{shown!r}",
                code="malformed-line",
            )
        found.append(existing[0])
    return found


def open_out(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for writing, packed when its name ends in .gz (no date inside: same run, same bytes)."""
    path = Path(path)
    try:
        if path.suffix == ".gz":
            raw = open(path, "wb")  # noqa: SIM115 - closed with the packer
            return _Packed(raw)  # type: ignore[return-value]
        return open(path, "wb")
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}", code="unwritable-file") from None


class _Packed(gzip.GzipFile):
    """A gzip file that closes the file below it."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0)
        self._raw = raw

    def close(self) -> None:
        super().close()
        self._raw.close()
