"""The collectives' contracts: which buffers a rank has, what is in them before, what must be after.

Everything that reads a schedule (the checker, the native reader, execution over messages) takes the
buffers from here, so that an algorithm file need not repeat them.

====================  =======================================  ==========================================
collective            buffers (number of blocks)               a block's size
====================  =======================================  ==========================================
barrier               none                                     -
bcast                 data (parts)                             the message, cut into parts
reduce, allreduce,    send (parts), recv (parts; reduce: at    the message, cut into parts
scan, exscan          the root only)
gather                send (1), recv (p, at the root)          uniform
scatter               send (p, at the root), recv (1)          uniform
allgather             send (1), recv (p)                       uniform
alltoall              send (p), recv (p)                       uniform
gatherv, ...          as without v                             a table of counts, as each rank knows them
reduce_scatter_block  send (p), recv (1)                       uniform
reduce_scatter        send (p), recv (1)                       a table of counts, which all ranks know
====================  =======================================  ==========================================

The number of parts is the algorithm's choice (1, or p for a ring); the first ``n mod parts`` parts of
``n`` elements hold one element more than the others. A schedule of more parts than one cuts uniform blocks
as well: part j of block b is then block ``b * parts + j``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Literal

from labkit.errors import ScheduleError

__all__ = ["PROBLEMS", "Problem", "Runs", "Value", "problem"]

Runs = tuple[tuple[int, int], ...]
#: a symbolic block: block number at its origin, and the ranks [begin, end) whose contributions it holds
Value = tuple[int, Runs]
Shape = Literal["one", "all", "parts"]
Final = Callable[[str, int, int, int, int], Value | None]
Layout = Literal["split", "uniform", "table"]


@dataclass(frozen=True)
class Problem:
    """A collective's contract.

    Attributes
    ----------
    name : str
    layout : "split", "uniform" or "table"
        Where block sizes come from at run time.
    shapes : dict
        Buffer name to its number of blocks: "one", "all" (p) or "parts".
    at_root : frozenset of str
        Buffers that only the root has.
    is_rooted, is_reduction : bool
    final : callable
        ``final(buffer, rank, block, size, root)``: the value that must be there, or None.
    doc : str
        What it does, as a sentence: the docstring of the communicators' method.
    action : str
        Its name in a time-independent trace; None: a trace cannot say it.
    """

    name: str
    layout: Layout
    shapes: dict[str, Shape]
    final: Final
    at_root: frozenset[str] = frozenset()
    is_rooted: bool = False
    is_reduction: bool = False
    doc: str = ""
    action: str | None = None

    @property
    def method(self) -> str:
        """The communicators' method on buffers: its name with a capital."""
        return self.name.capitalize()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The parameters of that method, in mpi4py's order and by its names."""
        names = ["buf"] if "data" in self.shapes else [f"{buffer}buf" for buffer in self.shapes]
        if self.is_reduction:
            names += ["recvcounts", "op"] if self.layout == "table" else ["op"]
        return (*names, "root") if self.is_rooted else tuple(names)

    def blocks(self, buffer: str, rank: int, size: int, root: int, parts: int) -> int:
        """Return the number of blocks of a buffer at a rank (0 where the rank does not have it)."""
        if buffer in self.at_root and rank != root:
            return 0
        if self.layout == "split":
            return parts
        return {"one": 1, "all": size}[self.shapes[buffer]] * parts

    def wanted(self, buffer: str, rank: int, block: int, size: int, root: int, parts: int) -> Value | None:
        """Return what a block must contain at the end, for a number of parts; None: anything."""
        if self.layout == "split" or parts == 1:
            return self.final(buffer, rank, block, size, root)
        value = self.final(buffer, rank, block // parts, size, root)
        return None if value is None else (value[0] * parts + block % parts, value[1])

    def initial(self, buffer: str, rank: int, block: int, root: int) -> Value | None:
        """Return what a block holds when the rank enters, None if nothing."""
        if buffer == "send" or (buffer == "data" and rank == root):
            return (block, ((rank, rank + 1),))
        return None

    def size_class(self, buffer: str, rank: int, block: int, root: int, parts: int = 1) -> Hashable:
        """Return a name for a block's size: blocks of equal names have equal sizes in every run."""
        if self.layout == "split":
            return ("part", block)
        if self.layout == "uniform":
            return ("part", block % parts)
        if self.shapes["send"] == self.shapes["recv"] == "all":
            return (rank, block) if buffer == "send" else (block, rank)
        return rank if self.shapes[buffer] == "one" else block


def _one(block: int, rank: int) -> Value:
    return (block, ((rank, rank + 1),))


def _bcast(buffer: str, rank: int, block: int, size: int, root: int) -> Value | None:
    return _one(block, root)


def _reduce(buffer: str, rank: int, block: int, size: int, root: int) -> Value | None:
    return (block, ((0, size),)) if buffer == "recv" else None


def _scan(buffer: str, rank: int, block: int, size: int, root: int) -> Value | None:
    return (block, ((0, rank + 1),)) if buffer == "recv" else None


def _exscan(buffer: str, rank: int, block: int, size: int, root: int) -> Value | None:
    return (block, ((0, rank),)) if buffer == "recv" and rank > 0 else None


def _gather(buffer: str, rank: int, block: int, size: int, root: int) -> Value | None:
    return _one(0, block) if buffer == "recv" else None


def _scatter(buffer: str, rank: int, block: int, size: int, root: int) -> Value | None:
    return _one(rank, root) if buffer == "recv" else None


def _reduce_scatter(buffer: str, rank: int, block: int, size: int, root: int) -> Value | None:
    return (rank, ((0, size),)) if buffer == "recv" else None


def _alltoall(buffer: str, rank: int, block: int, size: int, root: int) -> Value | None:
    return _one(rank, block) if buffer == "recv" else None


_PARTS: dict[str, Shape] = {"send": "parts", "recv": "parts"}
_ONE_ALL: dict[str, Shape] = {"send": "one", "recv": "all"}
_ALL_ONE: dict[str, Shape] = {"send": "all", "recv": "one"}
_ALL_ALL: dict[str, Shape] = {"send": "all", "recv": "all"}
_SEND, _RECV = frozenset({"send"}), frozenset({"recv"})


def _mpi(name: str, layout: Layout, shapes: dict[str, Shape], final: Final, doc: str, **more: Any) -> Problem:
    """Return one of MPI's own collectives: a trace knows their names."""
    return Problem(name, layout, shapes, final, doc=doc, **{"action": name, **more})


_AT_ROOT: dict[str, object] = {"at_root": _RECV, "is_rooted": True}
_FROM_ROOT: dict[str, object] = {"at_root": _SEND, "is_rooted": True}
_REDUCED: dict[str, object] = {"is_reduction": True}
_SCATTERED: dict[str, object] = {"is_reduction": True, "action": "reducescatter"}

#: name of a collective -> its contract; a new one is an entry here and a folder of algorithms
PROBLEMS: dict[str, Problem] = {
    contract.name: contract
    for contract in (
        _mpi("barrier", "uniform", {}, _bcast, "Wait until every rank has entered."),
        _mpi("bcast", "split", {"data": "parts"}, _bcast,
             "Send the root's buffer to all ranks.", is_rooted=True),
        _mpi("reduce", "split", _PARTS, _reduce,
             "Combine the buffers of all ranks at the root, in rank order.", **_REDUCED, **_AT_ROOT),
        _mpi("allreduce", "split", _PARTS, _reduce,
             "Combine the buffers of all ranks at every rank, in rank order.", **_REDUCED),
        _mpi("scan", "split", _PARTS, _scan, "Combine the buffers of ranks 0 to this one.", **_REDUCED),
        _mpi("exscan", "split", _PARTS, _exscan,
             "Combine the buffers of the ranks before this one; rank 0's buffer is unchanged.", **_REDUCED),
        _mpi("gather", "uniform", _ONE_ALL, _gather,
             "Collect a block of every rank at the root.", **_AT_ROOT),
        _mpi("gatherv", "table", _ONE_ALL, _gather,
             "Collect a block of every rank at the root, of any sizes.", **_AT_ROOT),
        _mpi("scatter", "uniform", _ALL_ONE, _scatter,
             "Send a block of the root's buffer to every rank.", **_FROM_ROOT),
        _mpi("scatterv", "table", _ALL_ONE, _scatter,
             "Send a block of the root's buffer to every rank, of any sizes.", **_FROM_ROOT),
        _mpi("allgather", "uniform", _ONE_ALL, _gather, "Collect a block of every rank at every rank."),
        _mpi("allgatherv", "table", _ONE_ALL, _gather,
             "Collect a block of every rank at every rank, of any sizes."),
        _mpi("alltoall", "uniform", _ALL_ALL, _alltoall,
             "Send a block to every rank and receive one from every rank."),
        _mpi("alltoallv", "table", _ALL_ALL, _alltoall,
             "Send a block to every rank and receive one from every rank, of any sizes."),
        _mpi("reduce_scatter_block", "uniform", _ALL_ONE, _reduce_scatter,
             "Combine the buffers of all ranks, in rank order; rank i gets the i-th of `size` equal blocks. "
             "With IN_PLACE all blocks lie in `recvbuf`; the result is left in its first block.",
             **_SCATTERED),
        _mpi("reduce_scatter", "table", _ALL_ONE, _reduce_scatter,
             "Combine the buffers of all ranks, in rank order; rank i gets the i-th block, of "
             "`recvcounts[i]` elements; without `recvcounts` the ranks send each other what their `recvbuf` "
             "holds, which blocks. With IN_PLACE all blocks lie in `recvbuf`; the result is left at its "
             "beginning.", **_SCATTERED),
    )
}  # fmt: skip


def problem(name: str) -> Problem:
    """Return the contract of a collective."""
    try:
        return PROBLEMS[name]
    except KeyError:
        raise ScheduleError(
            f"unknown collective {name!r}; known: {', '.join(PROBLEMS)}", code="unknown-name"
        ) from None
