"""Collectives on buffers of a real run, noted when they are over."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.comm.buffers import Simple
from labkit.comm.collective.native import ANYTHING, Call, block, single, table
from labkit.comm.surface import METHODS, NAMED, Method, made
from labkit.trace.recorder.ledger import Function, Known, Ledger, Sizes, noted_methods

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

__all__ = ["OF_BLOCKS", "PLAIN", "ROOTED", "Collectives", "sent_bytes"]


_COMBINED = ("Reduce", "Allreduce", "Scan", "Exscan", "Reduce_scatter_block")
#: collectives whose first buffer is what a rank gives, in whole or cut into blocks
OF_BLOCKS = ("alltoall", "reduce_scatter_block")
#: collectives whose blocks are of one size, that of the first buffer
PLAIN = ("bcast", "gather", "allgather", "reduce", "allreduce", "scan", "exscan", *OF_BLOCKS)
#: collectives whose sender says how much each rank gets
_UNEQUAL = frozenset(("alltoallv", "scatterv"))
#: collectives with a root
ROOTED = frozenset(("bcast", "gather", "gatherv", "scatter", "scatterv", "reduce"))


class Collectives:
    """Makes the calls that note collectives on buffers.

    What each notes is what the simulated communicator would run: see `labkit.comm.intracomm`.
    """

    def __init__(self, ledger: Ledger, sizes: Sizes) -> None:
        self.ledger, self.sizes = ledger, sizes

    def calls(self, own: dict[str, object]) -> dict[str, Any]:
        """Return recorded calls in place of those that a class of mpi4py defines."""
        methods = noted_methods(self.ledger, own, METHODS, self._note)
        name = "Reduce_scatter"
        if name in methods:
            space = {"SUM": self.ledger.sum, "call": methods[name], "completed": self._with_counts}
            methods[name] = made(NAMED[name], "call(self, *completed(self, {args}))", space)
        return methods

    def _note(self, row: Method, original: Function) -> Function | None:
        """Return what makes the call and notes what its description says."""
        name = row.name.lower()
        if row.kind != "collective" or row.form != "blocking" or not (row.is_buffer or name == "barrier"):
            return None
        described = getattr(self, f"_{name}", None)
        if row.name in _COMBINED:
            described = functools.partial(self._combined, name)
        if described is None:
            return None
        ledger, is_rooted = self.ledger, name in ROOTED
        is_plain, has_blocks = not ledger.has_lines and name in PLAIN, name in OF_BLOCKS

        def noted(comm: Comm, *arguments: Any) -> object:
            known = ledger.known(comm)
            if is_plain and type(arguments[0]) is np.ndarray:  # for the times its size says all, at once
                n_bytes = arguments[0].nbytes // (known.size if has_blocks else 1)
                ledger.joined(known, n_bytes, arguments[-1] if is_rooted else None)
                return original(comm, *arguments)
            call = described(known, *arguments)  # before: the buffers are as the program gave them
            number = ledger.joined(known, sent_bytes(call), call.root if call.problem in ROOTED else None)
            if call.problem in _UNEQUAL and ledger.has_times:
                counts = call.buffers[0].counts
                if counts is not None and len(counts) == known.size:
                    ledger.gave(number, (np.asarray(counts) * call.buffers[0].element_bytes).tolist())
            result = original(comm, *arguments)
            ledger.collective(known, call)
            return result

        return noted

    def _with_counts(
        self, comm: Comm, sendbuf: object, recvbuf: object, recvcounts: object, op: object
    ) -> tuple[object, ...]:
        """Complete the counts: mpi4py asks all ranks, too; asked here, the answer can be noted."""
        if recvcounts is None and not self.ledger.log.is_busy and not self.sizes.is_in_place(sendbuf):
            mine = np.array([self.sizes.simple(recvbuf).count], np.int64)
            counts = np.empty(len(self.ledger.known(comm).ranks), np.int64)
            comm.Allgather(mine, counts)
            recvcounts = counts.tolist()
        return sendbuf, recvbuf, recvcounts, op

    # -- what is noted --------------------------------------------------------------------------------------

    def _barrier(self, known: Known) -> Call:
        return Call("barrier", "Barrier")

    def _bcast(self, known: Known, buffer: object, root: int) -> Call:
        return Call("bcast", "Bcast", root, buffers=(block(self.sizes.simple(buffer)),))

    def _gather(self, known: Known, sendbuf: object, recvbuf: object, root: int) -> Call:
        is_kept = known.rank == root and self.sizes.is_in_place(sendbuf)
        sent = self.sizes.simple(recvbuf, known.size) if is_kept else self.sizes.simple(sendbuf)
        return self._blocks("gather", sent, root)

    def _scatter(self, known: Known, sendbuf: object, recvbuf: object, root: int) -> Call:
        is_kept = known.rank == root and self.sizes.is_in_place(recvbuf)
        received = self.sizes.simple(sendbuf, known.size) if is_kept else self.sizes.simple(recvbuf)
        return self._blocks("scatter", received, root)

    def _allgather(self, known: Known, sendbuf: object, recvbuf: object) -> Call:
        is_kept = self.sizes.is_in_place(sendbuf)
        return self._blocks(
            "allgather", self.sizes.simple(recvbuf, known.size) if is_kept else self.sizes.simple(sendbuf)
        )

    def _alltoall(self, known: Known, sendbuf: object, recvbuf: object) -> Call:
        buffer = recvbuf if self.sizes.is_in_place(sendbuf) else sendbuf
        return self._blocks("alltoall", self.sizes.simple(buffer, known.size))

    @staticmethod
    def _blocks(problem: str, message: Simple, root: int = 0) -> Call:
        return Call(problem, problem, root, {}, message.bytes, buffers=(block(message), block(message)))

    def _gatherv(self, known: Known, sendbuf: object, recvbuf: object, root: int) -> Call:
        received = self.sizes.vector(recvbuf, known.size) if known.rank == root else None
        if received is not None and self.sizes.is_in_place(sendbuf):
            sent = Simple(received.memory, 0, int(received.counts[known.rank]), received.datatype)
        else:
            sent = self.sizes.simple(sendbuf)
        if received is not None and sent.element_bytes == received.element_bytes:  # more room is no fault
            received.counts[known.rank] = min(int(received.counts[known.rank]), sent.count)
        buffers = (single(sent), ANYTHING if received is None else table(received))
        return Call("gatherv", "Gatherv", root, {}, sent.bytes, buffers=buffers)

    def _scatterv(self, known: Known, sendbuf: object, recvbuf: object, root: int) -> Call:
        sent = self.sizes.vector(sendbuf, known.size) if known.rank == root else None
        if sent is not None and self.sizes.is_in_place(recvbuf):
            received = Simple(sent.memory, 0, int(sent.counts[known.rank]), sent.datatype)
        else:
            received = self.sizes.simple(recvbuf)
            if sent is not None and sent.element_bytes == received.element_bytes:
                received.count = min(received.count, int(sent.counts[known.rank]))
        buffers = (ANYTHING if sent is None else table(sent), single(received))
        return Call("scatterv", "Scatterv", root, {}, received.bytes, buffers=buffers)

    def _allgatherv(self, known: Known, sendbuf: object, recvbuf: object) -> Call:
        received = self.sizes.vector(recvbuf, known.size)
        if self.sizes.is_in_place(sendbuf):
            sent = Simple(received.memory, 0, int(received.counts[known.rank]), received.datatype)
        else:
            sent = self.sizes.simple(sendbuf)
        return Call("allgatherv", "Allgatherv", 0, {}, 0, buffers=(single(sent), table(received)))

    def _alltoallv(self, known: Known, sendbuf: object, recvbuf: object) -> Call:
        received = self.sizes.vector(recvbuf, known.size)
        is_kept = self.sizes.is_in_place(sendbuf)
        sent = received if is_kept else self.sizes.vector(sendbuf, known.size)
        return Call("alltoallv", "Alltoallv", 0, {}, 0, buffers=(table(sent), table(received)))

    def _combined(
        self, problem: str, known: Known, sendbuf: object, recvbuf: object, op: object, root: int = 0
    ) -> Call:
        blocks = known.size if problem == "reduce_scatter_block" else 0
        buffer = recvbuf if self.sizes.is_in_place(sendbuf) else sendbuf
        return self._operated(Call(problem, problem, root), self.sizes.simple(buffer, blocks, True), op)

    def _reduce_scatter(
        self, known: Known, sendbuf: object, recvbuf: object, recvcounts: object, op: object
    ) -> Call:
        buffer = recvbuf if self.sizes.is_in_place(sendbuf) else sendbuf
        message = self.sizes.simple(buffer, is_operand=True)
        call = self._operated(Call("reduce_scatter", "Reduce_scatter"), message, op)
        first, second = call.buffers
        counts = np.asarray(recvcounts, np.int64)
        call.buffers = (first._replace(counts=counts, elements=0), second)
        return call

    @staticmethod
    def _operated(call: Call, message: Simple, op: Any) -> Call:
        """Complete a reduction: operators of the program's own are not cut into elements."""
        call.bytes = message.bytes
        call.buffers = (block(message), block(message))
        call.is_commutative, call.is_cuttable = bool(op.Is_commutative()), bool(op.is_predefined)
        return call


def sent_bytes(call: Call) -> int:
    """Return how much a rank gives to a collective: its block or blocks; to a scatter, what it gets."""
    if call.bytes or not call.buffers:
        return call.bytes
    buffer = next((one for one in call.buffers if one.elements or one.counts is not None), call.buffers[0])
    counts = 0 if buffer.counts is None else int(np.sum(buffer.counts))
    return (buffer.elements + counts) * buffer.element_bytes
