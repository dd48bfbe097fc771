"""Sized buffers: message buffers with a size and no content.

``sized(n)`` is n bytes that can be sent, received, sliced and reshaped. In simulation no byte is moved and no
memory is used. Real MPI sends zeros.
"""

from __future__ import annotations

import functools
import mmap
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from labkit.errors import DataError

__all__ = ["Sized", "is_sized", "sized"]

#: tried in this order: how much address space all such buffers share
_SPANS = tuple(1 << bits for bits in (44, 40, 36, 32))
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


class Sized(NDArray[Any]):
    """A phantom array: see `sized`."""

    def __repr__(self) -> str:
        return f"sized({self.size}, {self.dtype.name})"

    __str__ = __repr__

    def __array_ufunc__(self, *args: object, **kwargs: object) -> NoReturn:
        """Refuse: there is nothing to compute with."""
        raise TypeError(f"{self!r} has a size and no content; compute with an array, or charge the work")

    def __array_function__(self, function: Any, types: object, args: object, kwargs: object) -> NoReturn:
        """Refuse: there is nothing to compute with."""
        raise TypeError(f"{self!r} has a size and no content; {function.__name__} needs an array")

    def copy(self, order: object = "C") -> Sized:
        """Return another buffer of this size."""
        return sized(self.size, self.dtype)

    def __deepcopy__(self, memo: object) -> Sized:
        return sized(self.size, self.dtype)

    def __copy__(self) -> Sized:
        return sized(self.size, self.dtype)

    def __reduce__(self) -> str | tuple[object, ...]:
        """Travel to another process as a size."""
        return sized, (self.size, self.dtype)


@functools.cache
def _memory() -> NDArray[np.uint8]:
    """Reserve addresses, not memory; all phantom buffers begin at its beginning."""
    for span in _SPANS:
        try:
            held = mmap.mmap(-1, span, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
        except (OSError, ValueError, OverflowError):
            continue
        memory = np.frombuffer(held, np.uint8)
        from labkit import _kernels

        _kernels.set_phantom(memory)
        return memory
    raise DataError("no address space for phantom buffers: raise the limit (ulimit -v)", code="out-of-memory")


def sized(n: int, dtype: DTypeLike = np.uint8) -> Sized:
    """Make a phantom buffer: it has a size and no content.

    Parameters
    ----------
    n : int
        Elements, >= 0.
    dtype : dtype_like
        Of the elements; bytes unless given.

    Returns
    -------
    Sized
        For upper-case calls only (`Send`, `Recv`, `Allreduce`, ...). In a collective call every rank must
        pass such buffers, or none.

    Raises
    ------
    DataError
        A negative number, or more than the address space holds.

    Examples
    --------
    >>> import labkit as lk
    >>> def program(comm):
    ...     comm.Alltoall(lk.sized(comm.size * 10**9), lk.sized(comm.size * 10**9))
    >>> lk.run(program, 4, "star:4").bytes
    12000000000
    """
    kind = np.dtype(dtype)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise DataError(f"a buffer has a whole number of elements from 0 on, got {n!r}", code="out-of-range")
    memory = _memory()
    if int(n) * kind.itemsize > len(memory):
        raise DataError(
            f"a phantom buffer has at most {len(memory):,} bytes here, got {int(n) * kind.itemsize:,}",
            code="out-of-range",
        )
    return memory[: int(n) * kind.itemsize].view(kind).view(Sized)


def is_sized(buffer: object) -> bool:
    """Return whether a buffer is a phantom."""
    return isinstance(buffer, Sized)
