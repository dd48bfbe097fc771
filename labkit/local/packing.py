"""The cost of gathering data with gaps into a message, and of scattering them: a grid that is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from labkit import _kernels

__all__ = ["Job", "jobs"]

#: bytes in a row, and bytes of data in a call
_RUNS = (8, 32, 128, 1024, 8192)
_SIZES = (1 << 10, 1 << 14, 1 << 18, 1 << 20)


@dataclass(frozen=True)
class Job:
    """A call: so many bytes in so many pieces, once gathered and once scattered."""

    items: int
    entries: int
    call: Callable[[], object]
    log_of: int = 1


def jobs() -> Iterator[Job]:
    """Yield the calls of the grid: columns of a matrix, every second piece of which is sent."""
    for size in _SIZES:
        for run in _RUNS:
            if run <= size:
                yield _job(size, run)


def _job(size: int, run: int) -> Job:
    count = size // run
    memory = np.zeros(2 * size, np.uint8)
    layout = _kernels.Layout(np.arange(count, dtype=np.int64) * (2 * run), np.full(count, run), 2 * size)
    address = int(memory.__array_interface__["data"][0])

    def call() -> object:
        layout.unpack(address, layout.pack(address, 1))
        return memory  # must live as long as its address is used

    return Job(size, count, call)
