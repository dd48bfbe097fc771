"""State that the ranks of an open file share: the host's file, the pointers, collective calls under way."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.files.storage import Server
from labkit.comm.files.view import View
from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.place import Place

__all__ = ["FileState", "Joint", "Own", "error_of"]

_CLASSES = {
    errno.ENOENT: "NO_SUCH_FILE", errno.EEXIST: "FILE_EXISTS", errno.EACCES: "ACCESS", errno.EPERM: "ACCESS",
    errno.ENOSPC: "NO_SPACE", errno.EDQUOT: "QUOTA", errno.EROFS: "READ_ONLY", errno.EISDIR: "BAD_FILE",
    errno.ENAMETOOLONG: "BAD_FILE", errno.ENOTDIR: "NO_SUCH_FILE",
}  # fmt: skip
_FLAGS = {
    CONSTANTS["MODE_RDONLY"]: os.O_RDONLY, CONSTANTS["MODE_WRONLY"]: os.O_WRONLY,
    CONSTANTS["MODE_RDWR"]: os.O_RDWR,
}  # fmt: skip


def error_of(error: OSError, name: str) -> MPIException:
    """Return MPI's error for one of the host's file system."""
    kind = _CLASSES.get(error.errno or 0, "IO")
    return MPIException(CONSTANTS[f"ERR_{kind}"], f"{name}: {error.strerror or error}")


@dataclass(slots=True)
class Joint:
    """A collective transfer: how much all ranks move, and when it is over."""

    sizes: dict[int, int] = field(default_factory=dict)
    total: int | None = None
    begin: int = 0  #: of an ordered one: where the first rank's data go
    end_s: float | None = None
    left: int = 0


@dataclass(slots=True)
class Own:
    """What each rank has of an open file."""

    view: View = field(default_factory=View)
    position: int = 0  #: in etypes
    calls: int = 0  #: collective transfers
    split: tuple[str, Any, Any, int] | None = None  #: a begin without its end: name, buffer, handle, bytes
    own: dict[Any, Any] = field(default_factory=dict)
    is_closed: bool = False


@dataclass(slots=True)
class FileState:
    """A file as its ranks share it.

    Attributes
    ----------
    path : str
    mode : int
    world : list of int
        World ranks of its ranks.
    place : Place
        Where it was opened.
    server : Server
    """

    path: str
    mode: int
    world: list[int]
    place: Place
    server: Server
    descriptor: int = -1
    failure: MPIException | None = None
    is_atomic: bool = False
    shared: int = 0  #: the shared pointer, in etypes
    joints: dict[int, Joint] = field(default_factory=dict)
    owns: list[Own] = field(init=False)

    def __post_init__(self) -> None:
        self.owns = [Own() for _ in self.world]

    def open(self) -> None:
        """Open the host's file; what goes wrong is kept for all ranks."""
        flags = next(flag for mode, flag in _FLAGS.items() if self.mode & mode)
        if self.mode & CONSTANTS["MODE_CREATE"]:
            flags |= os.O_CREAT
            if self.mode & CONSTANTS["MODE_EXCL"]:
                flags |= os.O_EXCL
        try:
            if os.path.isdir(self.path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self.descriptor = os.open(self.path, flags | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as error:
            self.failure = error_of(error, f"File.Open of {self.path!r}")
            return
        if self.mode & CONSTANTS["MODE_APPEND"]:
            self.shared = self.size()
            for own in self.owns:
                own.position = self.shared

    def close(self) -> None:
        """Close the host's file, and delete it where that was asked for."""
        if self.descriptor < 0:
            return
        os.close(self.descriptor)
        self.descriptor = -1
        if self.mode & CONSTANTS["MODE_DELETE_ON_CLOSE"]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    def size(self) -> int:
        """Length of the file, in bytes."""
        return os.fstat(self.descriptor).st_size

    def read(self, view: View, position: int, n_bytes: int) -> NDArray[np.uint8]:
        """Read data bytes of a view; fewer where the file ends."""
        parts = []
        for place, length in view.segments(position, n_bytes):
            data = self._read_at(place, length)
            parts.append(data)
            if len(data) < length:
                break
        return np.frombuffer(b"".join(parts), np.uint8)

    def _read_at(self, place: int, length: int) -> bytes:
        parts = []
        while length > 0 and (data := os.pread(self.descriptor, min(length, 1 << 30), place)):
            parts.append(data)
            place += len(data)
            length -= len(data)
        return b"".join(parts)

    def write(self, view: View, position: int, data: NDArray[np.uint8]) -> None:
        """Write data bytes of a view."""
        begin, memory = 0, np.ascontiguousarray(data).data.cast("B")
        for place, length in view.segments(position, len(data)):
            end = begin + length
            while begin < end:
                done = os.pwrite(self.descriptor, memory[begin:end], place)
                begin, place = begin + done, place + done

    def text(self) -> str:
        """Say which file it is."""
        return f"file {self.path!r} (File.Open at {self.place})"

    def left(self) -> str | None:
        """Say who has not closed it at the end of the run; None: all have. Then it is closed."""
        kept = [rank for rank, own in zip(self.world, self.owns, strict=True) if not own.is_closed]
        if not kept or self.failure is not None:
            return None
        self.close()
        from labkit.units import ranks_text

        return f"the {self.text()} was not closed by {ranks_text(kept)}"
