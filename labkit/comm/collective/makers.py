"""Collective calls out of the arguments that MPI gives them: messages are read, compared and described.

There is a maker a layout of blocks: which one a collective has follows from its contract. All take the
communicator, the contract, the method's name and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit import _kernels
from labkit.comm.arguments import check_root, numbers
from labkit.comm.buffers import Simple, Vector, check_counts, parse_simple, parse_vector, parse_vector_w
from labkit.comm.collective.native import ANYTHING, Call, block, blocks_kept, filled, own_block, single, table
from labkit.comm.handles.base import is_in_place
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.operators import OPERATORS, Op, no_operator
from labkit.comm.handles.packing import address_of
from labkit.comm.handles.typebody import type_words
from labkit.comm.surface import Method
from labkit.errors import ScheduleError
from labkit.program.sized import Sized
from labkit.schedule.problem import PROBLEMS, Problem

__all__ = ["Maker", "counts_of", "maker_of"]

#: ``maker(comm, problem, name, *arguments)``
Maker = Callable[..., Call]
_Parse = Callable[..., Vector]

_ERR_BUFFER, _ERR_ROOT, _ERR_OP, _ERR_ARG, _ERR_TRUNCATE = 1, 8, 10, 13, 15


def maker_of(method: Method) -> Maker:
    """Return what makes the calls of a collective method on buffers."""
    problem = PROBLEMS[method.problem]
    if not problem.shapes:
        return _nothing
    if method.base == "Alltoallw":
        return _alltoallw
    if problem.layout == "table":
        form = (*(problem.shapes.get(buffer) for buffer in ("send", "recv")), problem.is_rooted)
        make = (_COMBINED_TABLES if problem.is_reduction else _TABLES).get(form)
        if make is None:
            known = "; ".join(f"send {a}, recv {b}{', rooted' * c}" for a, b, c in _TABLES)
            raise ScheduleError(
                f"{problem.name}: no reader of tables of sizes for its buffers; there are those of: {known}; "
                "and for reductions: send all, recv one"
            )
        return make
    if problem.layout == "uniform":
        return _reduced_blocks if problem.is_reduction else _blocks_of(problem)
    return _reduced if problem.is_reduction else _message


def _nothing(comm: object, problem: Problem, name: str) -> Call:
    return Call(problem.name, name)


def _message(comm: _kernels.CommBase, problem: Problem, name: str, buf: object, root: int) -> Call:
    """A message of the root's, cut into parts: bcast."""
    root = check_root(root, comm.size)
    message = parse_simple(buf, comm.rank != root)
    call = Call(problem.name, name, root, {"root": root, "bytes": message.bytes}, message.bytes)
    call.buffers = (block(message),)
    call.is_split = True
    return call.moves(message, None) if comm.rank == root else call.moves(None, message)


def _blocks_of(problem: Problem) -> Maker:
    """Equal blocks: gather, scatter, allgather, alltoall."""
    sends_all, receives_all = (problem.shapes[buffer] == "all" for buffer in ("send", "recv"))
    from_root, to_root = "send" in problem.at_root, "recv" in problem.at_root

    def make(
        comm: _kernels.CommBase,
        problem: Problem,
        name: str,
        sendbuf: object,
        recvbuf: object,
        root: int | None = None,
    ) -> Call:
        root = check_root(root, comm.size) if problem.is_rooted else None
        is_root = root is None or comm.rank == root
        sends, receives = comm.size if sends_all else 0, comm.size if receives_all else 0
        sent = received = None
        if from_root:
            if is_root:
                sent = parse_simple(sendbuf, False, sends)
            if sent is not None and is_in_place(recvbuf):
                received = Simple(np.empty(sent.bytes, np.uint8), 0, sent.count, sent.datatype)
            else:
                received = parse_simple(recvbuf, True, receives)
        else:
            if is_root or not to_root:
                received = parse_simple(recvbuf, True, receives)
            if received is not None and is_in_place(sendbuf):
                sent = blocks_kept(received, comm.rank if receives > sends else 0, sends or 1)
            else:
                sent = parse_simple(sendbuf, False, sends)
        if sent is not None and received is not None and sent.bytes != received.bytes:
            if root is not None or (sends_all and receives_all):
                raise ValueError(
                    f"rank {comm.rank} sends blocks of {sent.bytes} bytes and receives {received.bytes}"
                )
            sent = filled(sent, blocks_kept(received, comm.rank), comm.rank, name)
        mine: Any = received if sent is None else sent
        n_bytes = mine.bytes
        facts = {"bytes": n_bytes} if root is None else {"root": root, "bytes": n_bytes}
        call = Call(problem.name, name, root or 0, facts, n_bytes)
        call.buffers = (
            ANYTHING if sent is None else block(sent),
            ANYTHING if received is None else block(received),
        )
        return call.moves(sent, received)

    return make


def _check_own(name: str, sent_bytes: int, room_bytes: int) -> None:
    """Refuse a rank's block for itself that has no room."""
    if sent_bytes > room_bytes:
        raise MPIException(
            _ERR_TRUNCATE, f"{name}: this rank sends {sent_bytes} bytes to itself, with room for {room_bytes}"
        )


# --- tables of sizes ----------------------------------------------------------------------------------


def _gatherv(
    comm: _kernels.CommBase, problem: Problem, name: str, sendbuf: object, recvbuf: object, root: int
) -> Call:
    root = check_root(root, comm.size)
    received = parse_vector(recvbuf, True, comm.size) if comm.rank == root else None
    if received is not None and is_in_place(sendbuf):
        sent = own_block(received, comm.rank)
    else:
        sent = parse_simple(sendbuf, False)
    if received is not None and sent.element_bytes == received.element_bytes:  # more room is no fault
        received.counts[comm.rank] = min(int(received.counts[comm.rank]), sent.count)
    if received is not None:
        _check_own(name, sent.bytes, int(received.counts[comm.rank]) * received.element_bytes)
    call = Call(problem.name, name, root, {"root": root}, sent.bytes)
    call.buffers = (single(sent), ANYTHING if received is None else table(received))
    return call.moves(sent, received)


def _scatterv(
    comm: _kernels.CommBase, problem: Problem, name: str, sendbuf: object, recvbuf: object, root: int
) -> Call:
    root = check_root(root, comm.size)
    sent = parse_vector(sendbuf, False, comm.size) if comm.rank == root else None
    if sent is not None and is_in_place(recvbuf):
        received = own_block(sent, comm.rank)
    else:
        received = parse_simple(recvbuf, True)
        if sent is not None and sent.element_bytes == received.element_bytes:  # more room is no fault
            received.count = min(received.count, int(sent.counts[comm.rank]))
    if sent is not None:
        _check_own(name, int(sent.counts[comm.rank]) * sent.element_bytes, received.bytes)
    call = Call(problem.name, name, root, {"root": root}, received.bytes)
    call.buffers = (ANYTHING if sent is None else table(sent), single(received))
    return call.moves(sent, received)


def _allgatherv(
    comm: _kernels.CommBase, problem: Problem, name: str, sendbuf: object, recvbuf: object
) -> Call:
    received = parse_vector(recvbuf, True, comm.size)
    sent = own_block(received, comm.rank) if is_in_place(sendbuf) else parse_simple(sendbuf, False)
    sizes = received.counts * received.element_bytes
    if sizes[comm.rank] != sent.bytes:
        sent = filled(sent, own_block(received, comm.rank), comm.rank, name)
    call = Call(problem.name, name, 0, {"bytes of each rank": sizes.tobytes()}, int(sizes.mean()))
    call.buffers = (single(sent), table(received))
    return call.moves(sent, received)


def _alltoallv(
    comm: _kernels.CommBase,
    problem: Problem,
    name: str,
    sendbuf: object,
    recvbuf: object,
    parse: _Parse = parse_vector,
) -> Call:
    received = parse(recvbuf, True, comm.size)
    if is_in_place(sendbuf):
        sent = Vector(
            received.memory.copy(), received.counts, received.displs, received.datatype, received.home
        )
    else:
        sent = parse(sendbuf, False, comm.size)
    me = comm.rank
    _check_own(
        name, int(sent.counts[me]) * sent.element_bytes, int(received.counts[me]) * received.element_bytes
    )
    mean = int(sent.counts.sum()) * sent.element_bytes // max(comm.size, 1)
    call = Call(problem.name, name, 0, {}, mean)
    call.buffers = (table(sent), table(received))
    return call.moves(sent, received)


def _alltoallw(
    comm: _kernels.CommBase, problem: Problem, name: str, sendbuf: object, recvbuf: object
) -> Call:
    return _alltoallv(comm, problem, name, sendbuf, recvbuf, parse_vector_w)


# --- reductions: operands in rank order unless the operator commutes ------------------------------------


def _reduced(
    comm: _kernels.CommBase,
    problem: Problem,
    name: str,
    sendbuf: object,
    recvbuf: object,
    op: Op,
    root: int | None = None,
) -> Call:
    """A message cut into parts: reduce, allreduce, scan, exscan."""
    root = check_root(root, comm.size) if problem.is_rooted else None
    received = parse_simple(recvbuf, True, 0, True) if root is None or comm.rank == root else None
    if received is not None and is_in_place(sendbuf):
        sent = blocks_kept(received)
    else:
        sent = parse_simple(sendbuf, False, 0, True)
    if received is not None:
        _agree(sent, received)
        if not is_in_place(sendbuf):
            _refuse_one_buffer(problem, name, sent, received)
    call = _operated(problem, name, sent, op, {"bytes": sent.bytes})
    if root is not None:
        call.root = call.facts["root"] = root
    call.is_split = True
    call.buffers = (block(sent), ANYTHING if received is None else block(received))
    return call.moves(sent, received)


def _refuse_one_buffer(problem: Problem, name: str, sent: Simple, received: Simple) -> None:
    """Refuse one buffer for what is sent and received, where Open MPI does: other reductions do not look."""
    error = {"allreduce": _ERR_BUFFER, "reduce": _ERR_ARG}.get(problem.name)
    least = 2 if error == _ERR_BUFFER else 1
    if error is None or sent.count < least or isinstance(sent.memory, Sized) or sent.home or received.home:
        return
    if address_of(sent.memory) + sent.offset == address_of(received.memory) + received.offset:
        raise MPIException(
            error,
            f"{name}: sendbuf and recvbuf are the same memory; pass MPI.IN_PLACE as sendbuf, or two arrays",
        )


def _reduced_blocks(
    comm: _kernels.CommBase, problem: Problem, name: str, sendbuf: object, recvbuf: object, op: Op
) -> Call:
    """Equal blocks: reduce_scatter_block."""
    if is_in_place(sendbuf):
        received = parse_simple(recvbuf, True, comm.size, True)
        sent = blocks_kept(received, 0, comm.size)
    else:
        received = parse_simple(recvbuf, True, 0, True)
        sent = parse_simple(sendbuf, False, comm.size, True)
        _agree(sent, received)
    call = _operated(problem, name, sent, op, {"bytes": sent.bytes})
    call.buffers = (block(sent), block(received))
    return call.moves(sent, received)


def _reduce_scatter(
    comm: _kernels.CommBase,
    problem: Problem,
    name: str,
    sendbuf: object,
    recvbuf: object,
    recvcounts: Any,
    op: Op,
) -> Call:
    received = parse_simple(recvbuf, True, 0, True)
    has_own = not is_in_place(sendbuf)
    sent = parse_simple(sendbuf, False, 0, True) if has_own else blocks_kept(received)
    counts = counts_of(comm, recvcounts, received.count, has_own)
    if has_own:
        _agree_counts(sent, received, counts, comm.rank)
    elif received.count != counts.sum():
        raise ValueError(f"mismatch in receive count {received.count} and sum(counts) {counts.sum()}")
    check_counts(counts)
    call = _operated(problem, name, sent, op, {"counts": counts.tobytes()})
    call.bytes = sent.bytes // comm.size
    blocks = Vector(sent.memory[sent.offset :], counts, np.cumsum(counts) - counts, sent.datatype, sent.home)
    mine = Simple(received.memory, received.offset, int(counts[comm.rank]), received.datatype, received.home)
    call.buffers = (table(blocks), single(mine))
    return call.moves(sent, received)


def counts_of(comm: Any, given: Sequence[int] | None, mine: int, may_ask: bool) -> NDArray[np.int64]:
    """Return every rank's number of elements: as given, or as the ranks exchange it."""
    if given is None and may_ask:
        everybodys = np.empty(comm.size, np.int64)
        comm.Allgather(np.array([mine], np.int64), everybodys)
        return everybodys
    if given is None:
        raise TypeError("Reduce_scatter with IN_PLACE needs recvcounts")
    counts = np.fromiter(numbers(given), np.int64)
    if len(counts) != comm.size:
        raise ValueError(f"expecting {comm.size} items, got {len(counts)}")
    return counts


def _agree(sent: Simple, received: Simple) -> None:
    if sent.datatype.code != received.datatype.code:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if sent.count != received.count:
        raise ValueError(f"mismatch in send count {sent.count} and receive count {received.count}")


def _agree_counts(sent: Simple, received: Simple, counts: NDArray[np.int64], rank: int) -> None:
    if sent.datatype.code != received.datatype.code:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if sent.count != counts.sum():
        raise ValueError(f"mismatch in send count {sent.count} and sum(counts) {counts.sum()}")
    if received.count != counts[rank]:
        raise ValueError(f"mismatch in receive count {received.count} and counts[{rank}] {counts[rank]}")


def _operated(problem: Problem, name: str, sent: Simple, op: Op, facts: dict[str, object]) -> Call:
    """Return the call of a reduction: operator and datatype must be the same everywhere."""
    if not isinstance(op, Op):
        raise no_operator(op, " (MPI.Op.Create makes one of a function)")
    reduction = op._reduction(sent.datatype) if op else None
    if reduction is None:
        raise MPIException(_ERR_OP, f"{op!r} is not defined on {type_words(sent.datatype)}")
    constant = op._constant
    facts["datatype"], facts["op"] = sent.datatype.name, constant or "the program's own"
    call = Call(problem.name, name, 0, facts, sent.bytes, reduction, op._is_commutative, constant is not None)
    call.is_known = constant is not None and op is OPERATORS[constant]
    return call


#: by the blocks of the two buffers, and whether there is a root
_TABLES: dict[tuple[Any, ...], Maker] = {
    ("one", "all", True): _gatherv,
    ("all", "one", True): _scatterv,
    ("one", "all", False): _allgatherv,
    ("all", "all", False): _alltoallv,
}
_COMBINED_TABLES: dict[tuple[object, ...], Maker] = {("all", "one", False): _reduce_scatter}
