"""Random programs of derived datatypes: messages, collectives, windows and views of files."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from labkit import MPI

__all__ = ["datatype_program", "numbers"]

_CODES = ("u1", "i2", "i4", "i8", "f4", "f8")
#: bytes of data in an element, at most
_MOST = 2000


def numbers(seed: int, rank: int, code: str, n: int) -> np.ndarray:
    """Small whole numbers, so that sums do not depend on their order."""
    return np.random.RandomState([seed % 2**32, rank]).randint(0, 5, n).astype(code)


def datatype_program(comm: Any, dice: random.Random, seed: int, path: str, log: list[Any]) -> None:
    """Move data of some random datatypes, in random ways; what was received, and what lies beside it."""
    for turn in range(dice.randint(1, 4)):
        code = dice.choice(_CODES)
        kind, count, how = _random_type(dice, code), dice.randint(1, 3), dice.choice(sorted(_WAYS))
        move = _Move(comm, dice, seed + turn, code, kind, count, path)
        log.append((how, kind.Get_extent(), kind.Get_true_extent(), kind.size))
        log.append(_WAYS[how](move))
        kind.Free()
        comm.Barrier()


# --- datatypes: without overlaps, their bytes in rising order, from 0 on ------------------------------


def _random_type(dice: random.Random, code: str) -> Any:
    kind = MPI.Datatype.fromcode(np.dtype(code).char)
    for _ in range(dice.randint(1, 3)):
        grown = _grown(dice, kind, np.dtype(code).itemsize)
        if grown.size > _MOST:
            break
        kind = grown
    return kind.Dup().Commit()


def _grown(dice: random.Random, kind: Any, item: int) -> Any:
    way = dice.choice(_CONSTRUCTORS)
    n, length, gap = dice.randint(1, 3), dice.randint(1, 3), dice.randint(0, 2)
    lengths = [dice.randint(1, 3) for _ in range(n)]
    places = [0]  # else the buffers, made of extents, would end too early
    for before in lengths[:-1]:
        places.append(places[-1] + before + dice.randint(0, 2))
    if way == "contiguous":
        return kind.Create_contiguous(n)
    if way == "vector":
        return kind.Create_vector(n, length, length + gap)
    if way == "hvector":
        return kind.Create_hvector(n, length, (length + gap) * kind.extent)
    if way == "indexed":
        return kind.Create_indexed(lengths, places)
    if way == "hindexed":
        return kind.Create_hindexed(lengths, [place * kind.extent for place in places])
    if way == "block":
        return kind.Create_indexed_block(length, [i * (length + gap) for i in range(n)])
    if way == "resized":
        return kind.Create_resized(0, kind.extent + gap * item)
    if way == "struct":
        ends = [sum(lengths[:i]) * kind.extent + gap * item * i for i in range(n)]
        made = MPI.Datatype.Create_struct(lengths, ends, [kind] * n)
        return made.Create_resized(0, ends[-1] + lengths[-1] * kind.extent + gap * item)
    sizes = [dice.randint(1, 4) for _ in range(dice.randint(1, 3))]
    order = dice.choice((MPI.ORDER_C, MPI.ORDER_FORTRAN))
    if way == "subarray":
        parts = [dice.randint(1, size) for size in sizes]
        starts = [dice.randint(0, size - part) for size, part in zip(sizes, parts, strict=True)]
        return kind.Create_subarray(sizes, parts, starts, order)
    grid = [dice.randint(1, size) for size in sizes]
    ways = [dice.choice((MPI.DISTRIBUTE_BLOCK, MPI.DISTRIBUTE_CYCLIC)) for _ in sizes]
    even = [size * ranks for size, ranks in zip(sizes, grid, strict=True)]
    ranks = int(np.prod(grid))
    default = [MPI.DISTRIBUTE_DFLT_DARG] * len(grid)
    return kind.Create_darray(ranks, dice.randrange(ranks), even, ways, default, grid, order)


_CONSTRUCTORS = (
    "contiguous", "vector", "hvector", "indexed", "hindexed", "block", "resized", "struct", "subarray",
    "darray",
)  # fmt: skip


# --- ways to move them ------------------------------------------------------------------------------


class _Move:
    """So many elements of a datatype, between these ranks."""

    def __init__(
        self, comm: Any, dice: random.Random, seed: int, code: str, kind: Any, count: int, path: str
    ) -> None:
        self.comm, self.dice, self.seed, self.code = comm, dice, seed, code
        self.kind, self.count, self.path = kind, count, path
        self.item = np.dtype(code).itemsize
        self.right, self.left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size

    def memory(self, salt: int = 0, blocks: int = 1) -> np.ndarray:
        """Room for `blocks` times the elements, with numbers in it, and nothing behind."""
        extent = self.count * self.kind.extent * blocks
        return numbers(self.seed + 1000 * salt, self.comm.rank, self.code, extent // self.item)

    def message(self, memory: np.ndarray) -> list[Any]:
        """The elements as the argument of a call."""
        return [memory, self.count, self.kind]

    @property
    def basics(self) -> int:
        """Basic elements in all."""
        return self.count * self.kind.size // self.item


def _packed(move: _Move) -> Any:
    external = move.dice.random() < 0.3
    mine, there = move.memory(), move.memory(1)
    size = move.count * move.kind.size
    row = np.zeros(size + 3, np.uint8)
    if external:
        ends = [move.kind.Pack_external("external32", mine, row, 3)]
        ends.append(move.kind.Unpack_external("external32", row, 3, there))
    else:
        ends = [move.kind.Pack(mine, row, 3, move.comm), move.kind.Unpack(row, 3, there, move.comm)]
    return ends, row.tobytes(), there.tobytes(), move.kind.Pack_size(move.count, move.comm)


def _exchanged(move: _Move) -> Any:
    mine, there, row = move.memory(), move.memory(1), np.zeros(move.basics, move.code)
    status = MPI.Status()
    move.comm.Sendrecv(move.message(mine), move.right, 0, row, move.left, 0, status)
    counts = [status.Get_count(move.kind), status.Get_elements(move.kind)]
    requests = [move.comm.Irecv(move.message(there), move.left), move.comm.Isend(row, move.right)]
    MPI.Request.Waitall(requests)
    return counts, row.tobytes(), there.tobytes()


def _partly(move: _Move) -> Any:
    """A shorter message fills the first elements, and the last one perhaps in part."""
    there, n = move.memory(), move.dice.randint(0, move.basics)
    status = MPI.Status()
    requests = [move.comm.Isend(numbers(move.seed, move.comm.rank, move.code, n), move.right)]
    move.comm.Recv(move.message(there), move.left, status=status)
    requests[0].Wait()
    return there.tobytes(), status.Get_count(move.kind), status.Get_elements(move.kind)


def _replaced(move: _Move) -> Any:
    mine = move.memory()
    move.comm.Sendrecv_replace(move.message(mine), move.right, 0, move.left, 0)
    return mine.tobytes()


def _broadcast(move: _Move) -> Any:
    mine, root = move.memory(), move.dice.randrange(move.comm.size)
    if move.dice.random() < 0.5:
        move.comm.Bcast(move.message(mine), root)
    else:
        move.comm.Ibcast(move.message(mine), root).Wait()
    return mine.tobytes()


def _collected(move: _Move) -> Any:
    p, root = move.comm.size, move.dice.randrange(move.comm.size)
    one, every, more = move.memory(), move.memory(1, p), move.memory(2, p)
    how = move.dice.choice(("Allgather", "Alltoall", "Gather", "Scatter"))
    message, table = move.message(one), move.message(every)
    if how == "Allgather":
        move.comm.Allgather(message, table)
    elif how == "Alltoall":
        move.comm.Alltoall(move.message(more), table)
    elif how == "Gather":
        move.comm.Gather(message, table if move.comm.rank == root else None, root)
    else:
        move.comm.Scatter(table if move.comm.rank == root else None, message, root)
    return how, one.tobytes(), every.tobytes()


def _everywhere(move: _Move) -> Any:
    p = move.comm.size
    mine, there = move.memory(0, p), move.memory(1, p)
    counts = [move.count] * p
    places = [i * move.count * move.kind.extent for i in range(p)]
    move.comm.Alltoallw([mine, (counts, places), [move.kind] * p], [there, (counts, places), [move.kind] * p])
    return there.tobytes()


def _one_sided(move: _Move) -> Any:
    memory, mine, there, row = move.memory(), move.memory(1), move.memory(2), np.zeros(move.basics, move.code)
    window = MPI.Win.Create(memory, 1, comm=move.comm)
    target = [0, move.count, move.kind]
    how = move.dice.choice(("Put", "Accumulate", "Get_accumulate", "row"))
    window.Fence()
    if how == "Put":
        window.Put(move.message(mine), move.right, target)
    elif how == "Accumulate":
        window.Accumulate(move.message(mine), move.right, target, MPI.SUM)
    elif how == "Get_accumulate":
        window.Get_accumulate(move.message(mine), move.message(there), move.right, target, MPI.SUM)
    else:
        window.Put(numbers(move.seed, move.comm.rank, move.code, move.basics), move.right, target)
    window.Fence()
    window.Get(row, move.left, target)
    window.Fence()
    left = memory.tobytes()
    window.Free()
    return how, left, there.tobytes(), row.tobytes()


def _filed(move: _Move) -> Any:
    """Each rank sees every p-th element of the datatype, in its own place."""
    comm, item = move.comm, move.item
    mine, there = move.memory(), move.memory(1)
    view = move.kind.Create_resized(0, comm.size * move.kind.extent).Commit()
    etype = MPI.Datatype.fromcode(np.dtype(move.code).char)
    file = MPI.File.Open(comm, move.path, MPI.MODE_CREATE | MPI.MODE_RDWR)
    file.Set_view(move.dice.choice((0, 8, 16)) + comm.rank * move.kind.extent, etype, view)
    at = move.dice.randint(0, 3)
    first, second = (
        (file.Write_at_all, file.Read_at_all) if move.dice.random() < 0.5 else (file.Write_at, file.Read_at)
    )
    first(at, move.message(mine))
    file.Sync()
    comm.Barrier()
    file.Sync()
    second(at, move.message(there))
    size = file.Get_size()
    file.Close()
    view.Free()
    comm.Barrier()
    with open(move.path, "rb") as opened:
        left = opened.read()
    comm.Barrier()
    if comm.rank == 0:
        MPI.File.Delete(move.path)
    return size, item, left, there.tobytes()


_WAYS = {
    "packed": _packed, "exchanged": _exchanged, "partly": _partly, "replaced": _replaced,
    "broadcast": _broadcast, "collected": _collected, "everywhere": _everywhere, "one-sided": _one_sided,
    "filed": _filed,
}  # fmt: skip
