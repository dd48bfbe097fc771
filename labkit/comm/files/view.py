"""Views: which bytes of a file a rank sees, and in which order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.handles.datatypes import DATATYPES, Datatype
from labkit.comm.handles.packing import external_size, from_external, to_external
from labkit.comm.typed import blocks_of

__all__ = ["DATA_REPRESENTATIONS", "View"]

DATA_REPRESENTATIONS = ("native", "internal", "external32")


@dataclass(frozen=True)
class View:
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
        keep: dict[str, Any] = {
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
        """Bytes in the file of so many elements, which have `n_bytes` in memory."""
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
        """Return where data bytes from `position` on lie: (byte of the file, length), neighbours joined."""
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
        """Count the data bytes of the view in a file of so many bytes."""
        length = file_bytes - self.disp
        if length <= 0 or not self._data:
            return 0
        if self.is_plain:
            return length
        tiles, rest = divmod(length, self._extent)
        inside = np.clip(rest - self._offsets, 0, self._lengths)
        return tiles * self._data + int(inside.sum())
