"""Safe readers and writers of text, TOML and JSON: any input ends in a value or in one error message."""

from __future__ import annotations

import codecs
import contextlib
import errno
import json
import os
import select
import stat
import tempfile
import tomllib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labkit.errors import DataError, LabkitError

__all__ = [
    "DAMAGED",
    "json_of",
    "notebook_text",
    "remove_partial",
    "replace_file",
    "require_file",
    "text_of",
    "toml_of",
    "write_all",
    "writing",
]

#: what Python raises for a damaged zip, whichever way its files are compressed; a RuntimeError is a password
#: or an unknown compression
DAMAGED: tuple[type[Exception], ...] = (
    *(OSError, zipfile.BadZipFile, zlib.error, EOFError, LookupError, ValueError, RuntimeError, MemoryError),
    getattr(vars(zipfile)["lzma"], "LZMAError", EOFError),  # None in a Python without it
)
#: whole numbers that a table can hold; JSON's larger ones are read as floats, TOML has none
_MOST_WHOLE = 2**63
#: of a text that is read whole; in memory it becomes several times as much
_MOST_TEXT_BYTES = 1 << 30
#: errors of a write that has begun: the disk or a quota is full, the file too large, the device broken
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def require_file(
    path: str | os.PathLike[str], error: type[LabkitError] = DataError, *, is_whole: bool = True
) -> None:
    """Refuse what is there and is neither a file nor a folder: a pipe waits forever, a device never ends."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # who opens it says why
        return
    name = os.fspath(path)
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise error(f"{name!r} is a pipe, a socket or a device; give a file", code="wrong-kind-of-file")
    if is_whole and stat.S_ISREG(found.st_mode) and found.st_size > _MOST_TEXT_BYTES:
        raise error(
            f"{name!r} has {found.st_size:,} B; a text may have at most {_MOST_TEXT_BYTES:,} B",
            code="too-large",
        )


def text_of(path: Path, error: type[LabkitError] = DataError) -> str:
    """Return a file's text, which is UTF-8, or UTF-16 with its mark."""
    require_file(path, error)
    try:
        whole = path.read_bytes()
        marks = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # as Excel writes them
        text = whole.decode("utf-16" if whole.startswith(marks) else "utf-8-sig")
        if "\0" in text:
            raise ValueError("it contains zero bytes, as UTF-16 without its mark does; save it as UTF-8")
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as wrong:
        raise error(
            f"{path} cannot be read: no text in {wrong.encoding.upper()} (byte {wrong.start}); "
            "save it as UTF-8",
            code="unreadable-file",
        ) from None
    except (OSError, ValueError) as wrong:
        code = "missing-file" if isinstance(wrong, FileNotFoundError) else "unreadable-file"
        raise error(
            f"{path} cannot be read: {getattr(wrong, 'strerror', None) or wrong}", code=code
        ) from None


def replace_file(path: str | os.PathLike[str], content: bytes | str) -> Path:
    """Write a file next to its place and move it there: what was there stays until the new one is whole."""
    target, temporary = Path(path), None
    whole = content.encode("utf-8") if isinstance(content, str) else content
    place = Path(os.path.realpath(target))
    is_there = place.exists()
    if is_there and (not place.is_file() or not os.access(place.parent, os.W_OK)):
        place.write_bytes(whole)
        return target
    try:
        with tempfile.NamedTemporaryFile(
            dir=place.parent, prefix=f".{place.name}."[:100], suffix=".part", delete=False
        ) as stream:
            temporary = stream.name
            stream.write(whole)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, place)
    except BaseException:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise
    return target


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in the error when what is done here cannot write it: a `DataError`."""
    try:
        yield
    except OSError as error:
        remove_partial(path, error)
        raise DataError(
            f"cannot write {os.fspath(path)!r}: {error.strerror or error}", code="unwritable-file"
        ) from error


def remove_partial(path: str | os.PathLike[str], error: OSError) -> None:
    """Remove a file of which a part was written before the disk was full, which looks like a whole one."""
    if error.errno in _NO_ROOM and Path(path).is_file():
        with contextlib.suppress(OSError):
            os.unlink(path)


def notebook_text(content: bytes) -> str:
    """Return a notebook's text: UTF-8, as Jupyter writes it, or else Latin-1, as old tools did."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def toml_of(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text."""
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("tables or arrays are nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        raise tomllib.TOMLDecodeError("a whole number of thousands of digits; TOML has 64 bits") from None
    open_: list[object] = [tables]
    while open_:
        value = open_.pop()
        if isinstance(value, dict):
            open_ += value.values()
        elif isinstance(value, list):
            open_ += value
        elif isinstance(value, int) and not -_MOST_WHOLE <= value < _MOST_WHOLE:
            shown = f"{str(value)[:20]}..."
            raise tomllib.TOMLDecodeError(f"the whole number {shown} is too large; TOML has 64 bits")
    return tables


def json_of(text: str | bytes) -> Any:
    """Return the value of a JSON text; whole numbers that no table can hold become floats."""
    try:
        return json.loads(text, parse_int=_whole, object_pairs_hook=_once)
    except RecursionError:
        raise json.JSONDecodeError("objects or lists are nested too deeply", "", 0) from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise json.JSONDecodeError(f"the key {twice[:40]!r} stands twice in one object", "", 0)
    return found


def _whole(digits: str) -> int | float:
    if len(digits) < 19:
        return int(digits)
    value = float(digits)
    return int(digits) if -_MOST_WHOLE < value < _MOST_WHOLE else value


def write_all(descriptor: int, data: bytes) -> bool:
    """Write all of the data, waiting where the reader is slow; False where nobody reads any more."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except OSError:
            return False
    return True
