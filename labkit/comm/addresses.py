"""Memory as MPI has it: buffers of bytes, addresses, and what is computed with them."""

from __future__ import annotations

import operator
from typing import Any

from labkit import _kernels
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.packing import address_of, bytes_of
from labkit.comm.handles.special import BOTTOM

__all__ = ["MEMORY", "Aint_add", "Aint_diff", "Get_address"]

_BITS, _ERR_ARG = 64, 13


def Get_address(location: Any) -> int:
    """Return where a buffer lies in memory; 0 for BOTTOM."""
    if location is BOTTOM or location is None:
        return 0
    memory = bytes_of(location)
    return address_of(memory) if memory.nbytes else int(_kernels.Buffer(location).address)


def Aint_add(base: int, disp: int) -> int:
    """Return the address so many bytes behind another."""
    return _address(operator.index(base) + operator.index(disp))


def Aint_diff(addr1: int, addr2: int) -> int:
    """Return how many bytes the first address is behind the second."""
    return _address(operator.index(addr1) - operator.index(addr2))


def _address(number: int) -> int:
    """Wrap around as the machine's addresses do."""
    half = 1 << (_BITS - 1)
    return (number + half) % (2 * half) - half


def Alloc_mem(size: int, info: Any = None) -> Any:
    """Return memory of so many bytes."""
    if size < 0:
        raise MPIException(_ERR_ARG, f"size={size}: memory has 0 bytes or more")
    return _kernels.Buffer.allocate(int(size))


def Free_mem(mem: Any) -> None:
    """Let go of memory."""
    mem.release()


#: name in the module -> object
MEMORY: dict[str, Any] = {
    "Get_address": Get_address, "Aint_add": Aint_add, "Aint_diff": Aint_diff, "buffer": _kernels.Buffer,
    "Alloc_mem": Alloc_mem, "Free_mem": Free_mem, "memory": _kernels.Buffer,
}  # fmt: skip
