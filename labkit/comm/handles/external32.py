"""external32: the form of data that is the same on every machine, for Pack_external and views of files.

The greatest byte comes first, and C's long has four bytes (MPI 4.1, section 14.5.2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labkit.comm.handles.typebody import TypeBody

__all__ = ["external_size", "from_external", "to_external"]

_Bytes = NDArray[np.uint8]

#: of numbers that are shorter there: their bytes
_SHORTER = {"LONG": 4, "UNSIGNED_LONG": 4, "LONG_INT": 4}


def _numbers_of(body: TypeBody) -> list[tuple[int, int, int, bool]]:
    """Return the numbers in an element: bytes here and there, how many in a row, whether they have a sign."""
    parts: list[tuple[int, int, int, bool]] = []
    for kind, times in body.basics():
        here, there = kind.dtype.itemsize, _SHORTER.get(kind.constant or "", 0)
        is_signed = kind.dtype.kind == "i"
        if kind.dtype.fields:
            first, second = (np.dtype(part).itemsize for part in kind.code.split("+"))
            parts += [(first, there or first, 1, True), (second, second, 1, True)] * times
        elif kind.dtype.kind == "c":
            parts.append((here // 2, here // 2, 2 * times, True))
        else:
            parts.append((here, there or here, times, is_signed))
    return parts


def external_size(body: TypeBody) -> int:
    """Bytes of an element's data in external32."""
    return sum(there * many for _, there, many, _ in _numbers_of(body))


def to_external(body: TypeBody, data: _Bytes) -> _Bytes:
    """Turn packed elements into external32."""
    return _converted(data, [(here, there, many, False) for here, there, many, _ in _numbers_of(body)])


def from_external(body: TypeBody, data: _Bytes) -> _Bytes:
    """Turn elements in external32 into packed ones of this machine."""
    parts = [(there, here, many, is_signed) for here, there, many, is_signed in _numbers_of(body)]
    return _converted(data, parts, is_external=True)


def _converted(data: _Bytes, parts: list[tuple[int, int, int, bool]], is_external: bool = False) -> _Bytes:
    """Turn every number round; a longer one gets its sign in front, of a shorter one the low bytes stay."""
    old = sum(before * many for before, _, many, _ in parts)
    new = sum(after * many for _, after, many, _ in parts)
    if not old or not len(data):
        return data
    rows = data.reshape(-1, old)
    made = np.zeros((len(rows), new), np.uint8)
    begin = there = 0
    for before, after, many, is_signed in parts:
        numbers = rows[:, begin : begin + before * many].reshape(-1, many, before)
        low_first = numbers[:, :, ::-1] if is_external else numbers
        wide = np.zeros((len(rows), many, after), np.uint8)
        if is_signed and after > before:
            wide[:] = np.where(low_first[:, :, -1:] >= 128, 255, 0)
        kept = min(before, after)
        wide[:, :, :kept] = low_first[:, :, :kept]
        made[:, there : there + after * many] = (wide if is_external else wide[:, :, ::-1]).reshape(
            len(rows), -1
        )
        begin, there = begin + before * many, there + after * many
    return made.reshape(-1)
