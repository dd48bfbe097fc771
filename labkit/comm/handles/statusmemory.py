"""A status as numbers in memory: as C and Fortran programs see one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit.comm.handles.foreign import foreign_memory_at

__all__ = ["F_STATUS", "StatusMemory"]

#: where a status has what, as an array of Fortran's integers
F_STATUS = {"F_SOURCE": 0, "F_TAG": 1, "F_ERROR": 2, "F_STATUS_SIZE": 6}
_HALF = 1 << 32


class StatusMemory:
    """What a status is in memory."""

    source: int
    tag: int
    error: int
    _address: int
    _bytes: int
    _is_cancelled: bool

    def tomemory(self) -> memoryview:
        """Return the memory of source, tag and error, as integers."""
        return foreign_memory_at(self._address, 3, np.int32, self).data

    def py2f(self) -> list[int]:
        """Return it as Fortran's array of integers: MPI.F_SOURCE, F_TAG and F_ERROR say where is what."""
        low, high = int(self._bytes) % _HALF, int(self._bytes) // _HALF
        return [self.source, self.tag, self.error, low, high, int(self._is_cancelled)]

    @classmethod
    def f2py(cls, arg: Sequence[int]) -> Any:
        """Return a status of Fortran's array of integers."""
        source, tag, error, low, high, is_cancelled = arg
        made = cls()
        made.source, made.tag, made.error = source, tag, error
        made._bytes, made._is_cancelled = low + high * _HALF, bool(is_cancelled)
        return made
