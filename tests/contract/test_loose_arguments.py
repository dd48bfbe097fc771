"""Floats as ranks and roots, objects that are None, unequal blocks: taken or refused as by mpi4py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI


def _tried(comm: Any) -> list[str]:
    rank, size = comm.rank, comm.size
    right, left = float((rank + 1) % size), float((rank - 1) % size)
    data, found, is_root = np.arange(4.0), [], rank == 0

    def note(call: Callable[[], Any]) -> None:
        try:
            found.append(str(call()))
        except Exception as error:
            found.append(type(error).__name__)

    room, table = np.zeros((size, 4)), np.zeros(2 * size)
    note(lambda: comm.Bcast(data, 0.0))
    note(lambda: comm.bcast(rank, 0.0))
    note(lambda: comm.gather(None, 0.0))
    note(lambda: comm.allgather(None))
    note(lambda: comm.scatter([None] * size if is_root else None))
    note(lambda: comm.reduce(1, MPI.SUM, 0.0))
    note(lambda: comm.Reduce(data.copy(), data if is_root else None, MPI.SUM, 0.0))
    note(lambda: comm.sendrecv(None, right, source=left))
    note(lambda: comm.Gather(data, room if is_root else None, 0.0))
    note(lambda: comm.Isendrecv(data, right, 0, data.copy(), left).Wait())
    sending, receiving = comm.Send_init(data, right), comm.Recv_init(data.copy(), left)
    note(lambda: (sending.Start(), receiving.Start(), sending.Wait(), receiving.Wait()))
    note(lambda: comm.Scatterv([data, [1] * size] if is_root else None, np.zeros(1), 0.0))
    note(lambda: comm.Allgather(np.ones(1 if rank == size - 1 else 2), [table, 2, MPI.DOUBLE]))
    note(lambda: comm.Bcast([data, 2.0, MPI.DOUBLE]))
    note(lambda: comm.Split(0.7, 1.2).size)
    return [*found, str(table[: 2 * size - 1])]


_DONE = "None"


@pytest.mark.parametrize("size", [2, 3, 4])
def test_simulated(size: int) -> None:
    for rank, found in enumerate(lk.run(_tried, ranks=size, on=f"star:{size}").results):
        nothing = str([None] * size)
        wanted = [_DONE, "0", nothing if rank == 0 else _DONE, nothing, _DONE]
        wanted += [str(size) if rank == 0 else _DONE, _DONE, _DONE, _DONE, "True"]
        wanted += ["(None, None, True, True)", _DONE, _DONE, "TypeError", str(size)]
        assert found == [*wanted, str(np.ones(2 * size - 1))]


@pytest.mark.mpi
def test_real_mpi_agrees() -> None:
    assert lk.run(_tried, ranks=3, on="mpi").results == lk.run(_tried, ranks=3, on="star:3").results
