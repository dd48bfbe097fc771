"""State that the ranks of an open file share: the host's file, the pointers, collective calls under way."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.datatypes import DATATYPES, Datatype
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.packing import external_size, from_external, to_external
from labkit.comm.place import Place
from labkit.comm.typed import blocks_of
from labkit.machines.quantities import Storage, storage_of
from labkit.text.units import ranks_text

__all__ = [
    "DATA_REPRESENTATIONS",
    "CollectiveTransfer",
    "FileState",
    "FileView",
    "Own",
    "error_of",
    "server_of",
]


# Views: which bytes of a file a rank sees, and in which order.


DATA_REPRESENTATIONS = ("native", "internal", "external32")


@dataclass(frozen=True)
class FileView:
    """A rank's view: from byte `disp` on the data of `filetype`, tiled, in units of `etype`."""

    disp: int = 0
    etype: Datatype = field(default_factory=lambda: DATATYPES["BYTE"])
    filetype: Datatype = field(default_factory=lambda: DATATYPES["BYTE"])
    datarep: str = "native"

    def __post_init__(self) -> None:
        offsets, lengths = blocks_of(self.filetype)
        extent = int(self.filetype.extent)
        if self.is_resized:  # without gaps: nothing else is allowed
            lengths = np.array([self.data_bytes(self.filetype)], np.int64)
            extent = int(lengths[0])
        keep: dict[str, object] = {
            "_offsets": offsets,
            "_starts": np.cumsum(lengths) - lengths,  # where each block's data begin among a tile's
            "_lengths": lengths,
            "_data": int(lengths.sum()),
            "_extent": extent,
            "unit": max(self.data_bytes(self.etype), 1),
        }
        for name, value in keep.items():
            object.__setattr__(self, name, value)

    unit: int = field(init=False, default=1)
    _offsets: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    _starts: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    _lengths: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    _data: int = field(init=False, repr=False, compare=False)
    _extent: int = field(init=False, repr=False, compare=False)

    # --- data in the file and in memory ---------------------------------------------------------------

    def data_bytes(self, datatype: Datatype) -> int:
        """Bytes of an element's data in the file."""
        body = datatype._body
        return external_size(body) if self.datarep == "external32" else int(body.map.size)

    @property
    def is_resized(self) -> bool:
        """Whether the filetype's data have another size in the file than in memory."""
        return self.data_bytes(self.filetype) != int(self.filetype.size)

    def file_bytes(self, datatype: Datatype, count: int, n_bytes: int) -> int:
        """Return the bytes in the file of elements that have `n_bytes` in memory."""
        return count * self.data_bytes(datatype) if self.datarep == "external32" else n_bytes

    def memory_bytes(self, datatype: Datatype, n_bytes: int) -> int:
        """Bytes in memory of data that have `n_bytes` in the file."""
        there, here = self.data_bytes(datatype), int(datatype._body.map.size)
        return n_bytes if there == here else n_bytes * here // there

    def to_file(self, datatype: Datatype, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Turn packed elements into the view's representation."""
        return to_external(datatype._body, data) if self.datarep == "external32" else data

    def from_file(self, datatype: Datatype, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Turn what has been read into packed elements; the last one may be cut off."""
        there = self.data_bytes(datatype)
        if self.datarep != "external32" or not there:
            return data
        whole = np.zeros(-(-len(data) // there) * there, np.uint8)
        whole[: len(data)] = data
        return from_external(datatype._body, whole)[: self.memory_bytes(datatype, len(data))]

    # --- places ---------------------------------------------------------------------------------------

    @property
    def is_plain(self) -> bool:
        """Whether it has no gaps."""
        return len(self._lengths) == 1 and self._data == self._extent

    def place(self, position: int) -> int:
        """Byte of the file at which the data byte number `position` of the view lies."""
        if self.is_plain or not self._data:
            return self.disp + position
        tile, rest = divmod(position, self._data)
        block = int(np.searchsorted(self._starts, rest, "right")) - 1
        return self.disp + tile * self._extent + int(self._offsets[block]) + rest - int(self._starts[block])

    def segments(self, position: int, n_bytes: int) -> list[tuple[int, int]]:
        """Return where data bytes from `position` on lie: (byte of the file, length), neighbors joined."""
        if n_bytes <= 0:
            return []
        if self.is_plain:
            return [(self.disp + position, n_bytes)]
        if not self._data:
            return []
        first, last = position // self._data, (position + n_bytes - 1) // self._data
        tiles = np.arange(first, last + 1, dtype=np.int64)[:, None]
        begins = (tiles * self._data + self._starts).ravel()
        places = (self.disp + tiles * self._extent + self._offsets).ravel()
        lengths = np.tile(self._lengths, len(tiles))
        skip = np.maximum(position - begins, 0)
        length = np.minimum(begins + lengths, position + n_bytes) - (begins + skip)
        kept = length > 0
        joined: list[tuple[int, int]] = []
        for place, size in zip((places + skip)[kept].tolist(), length[kept].tolist(), strict=True):
            if joined and joined[-1][0] + joined[-1][1] == place:
                joined[-1] = (joined[-1][0], joined[-1][1] + size)
            else:
                joined.append((place, size))
        return joined

    def seen(self, file_bytes: int) -> int:
        """Count the data bytes of the view in a file of a given length."""
        length = file_bytes - self.disp
        if length <= 0 or not self._data:
            return 0
        if self.is_plain:
            return length
        tiles, rest = divmod(length, self._extent)
        inside = np.clip(rest - self._offsets, 0, self._lengths)
        return tiles * self._data + int(inside.sum())


_CLASSES = {
    errno.ENOENT: "NO_SUCH_FILE",
    errno.EEXIST: "FILE_EXISTS",
    errno.EACCES: "ACCESS",
    errno.EPERM: "ACCESS",
    errno.ENOSPC: "NO_SPACE",
    errno.EDQUOT: "QUOTA",
    errno.EROFS: "READ_ONLY",
    errno.EISDIR: "BAD_FILE",
    errno.ENAMETOOLONG: "BAD_FILE",
    errno.ENOTDIR: "NO_SUCH_FILE",
}
_FLAGS = {
    CONSTANTS["MODE_RDONLY"]: os.O_RDONLY,
    CONSTANTS["MODE_WRONLY"]: os.O_WRONLY,
    CONSTANTS["MODE_RDWR"]: os.O_RDWR,
}


def error_of(error: OSError, name: str) -> MPIException:
    """Return MPI's error for one of the host's file system."""
    kind = _CLASSES.get(error.errno or 0, "IO")
    return MPIException(CONSTANTS[f"ERR_{kind}"], f"{name}: {error.strerror or error}")


@dataclass(slots=True)
class CollectiveTransfer:
    """A collective transfer: how much all ranks move, and when it is over."""

    sizes: dict[int, int] = field(default_factory=dict)
    total: int | None = None
    begin: int = 0  #: of an ordered one: where the first rank's data go
    end_s: float | None = None
    left: int = 0


@dataclass(slots=True)
class Own:
    """What each rank has of an open file."""

    view: FileView = field(default_factory=FileView)
    position: int = 0  #: in etypes
    calls: int = 0  #: collective transfers
    split: tuple[str, Any, Any, int] | None = None  #: a begin without its end: name, buffer, handle, bytes
    own: dict[object, Any] = field(default_factory=dict)
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
    joints: dict[int, CollectiveTransfer] = field(default_factory=dict)
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

    def read(self, view: FileView, position: int, n_bytes: int) -> NDArray[np.uint8]:
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

    def write(self, view: FileView, position: int, data: NDArray[np.uint8]) -> None:
        """Write data bytes of a view."""
        begin, memory = 0, np.ascontiguousarray(data).data.cast("B")
        for place, length in view.segments(position, len(data)):
            end = begin + length
            while begin < end:
                done = os.pwrite(self.descriptor, memory[begin:end], place)
                begin, place = begin + done, place + done

    def text(self) -> str:
        """Return as text which file it is."""
        return f"file {self.path!r} (File.Open at {self.place})"

    def left(self) -> str | None:
        """Return as text who has not closed it at the end of the run; None: all have. Then it is closed."""
        kept = [rank for rank, own in zip(self.world, self.owns, strict=True) if not own.is_closed]
        if not kept or self.failure is not None:
            return None
        self.close()
        return f"the {self.text()} was not closed by {ranks_text(kept)}"


# The simulated file server: how long requests take.


class Server:
    """The file server of one run.

    Parameters
    ----------
    storage : Storage
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._free_s = 0.0

    def end_of(self, begin_s: float, n_bytes: int, latencies: int = 1) -> float:
        """Take a request in: when it is over.

        Parameters
        ----------
        begin_s : float
            When it is made; not before those that were taken in before.
        n_bytes : int
        latencies : int
        """
        arrives = begin_s + latencies * self.storage.latency_s
        if not n_bytes:
            return arrives
        self._free_s = max(arrives, self._free_s) + n_bytes / self.storage.bandwidth
        return self._free_s


def server_of(calls: Any) -> Server:
    """Return the file server of a run."""
    if calls.server is None:
        calls.server = Server(storage_of(calls.storage))
    server: Server = calls.server
    return server
