"""Execution of a schedule over point-to-point messages: on real MPI, or on any communicator like it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import ScheduleError
from labkit.schedule.schedule import Schedule
from labkit.schedule.step import ANY_LABEL, NO_BUFFER, Blocks, Kind, Op, block_indices

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from labkit import _kernels

__all__ = ["Counts", "Prepared", "as_combine", "as_reduction", "execute", "sizes_of", "type_code"]


_Array = NDArray[Any]


def execute(
    comm: Intracomm,
    schedule: Schedule,
    *,
    op: object = None,
    counts: Counts | None = None,
    tag: int = 0,
    **buffers: _Array,
) -> None:
    """Carry out this rank's part of a schedule over `comm`.

    Parameters
    ----------
    comm : communicator
        mpi4py's or the simulated one: ``Isend``, ``Irecv``, ``Send`` and ``Recv`` are used, and the
        requests' ``Waitall``.
    schedule : Schedule
        Bound to as many ranks as `comm` has.
    op : str or callable or MPI operator, optional
        For reductions.
    counts : dict, optional
        For vector collectives: buffer name to counts, or to (counts, displacements), in elements.
    tag : int
        Tag of all messages; take one that the program does not use.
    **buffers : array
        The caller's buffers by name (``send``, ``recv`` or ``data``): contiguous, filled in place.

    Raises
    ------
    ScheduleError
        Wrong number of ranks, or a buffer that is missing or does not fit.

    Examples
    --------
    Sum over the ranks of real MPI, by the ring::

        from mpi4py import MPI
        ring = registry.get("allreduce", "ring").build(MPI.COMM_WORLD.size)
        execute(MPI.COMM_WORLD, ring, op="sum", send=mine, recv=total)
    """
    Prepared(comm, schedule)(op=op, counts=counts, tag=tag, **buffers)


class Prepared:
    """One rank's part of a schedule over `comm`, to be carried out many times.

    `comm`, `schedule`, `tag`: As `execute` takes them.
    Raises ScheduleError: Wrong number of ranks.
    """

    def __init__(self, comm: Intracomm, schedule: Schedule, tag: int = 0) -> None:
        if comm.Get_size() != schedule.size:
            raise ScheduleError(f"{schedule!r} cannot run on a communicator of {comm.Get_size()} ranks")
        self._comm, self._schedule, self._tag = comm, schedule, tag
        self._rank = int(comm.Get_rank())
        self._ops = [op for step in schedule.steps([self._rank]) for _, op in step.entries()]

    def __call__(
        self, *, op: object = None, counts: Counts | None = None, tag: int | None = None, **buffers: _Array
    ) -> None:
        """Carry it out on these buffers; see `execute`."""
        self.begin(op=op, counts=counts, tag=tag, **buffers)()

    def begin(
        self, *, op: object = None, counts: Counts | None = None, tag: int | None = None, **buffers: _Array
    ) -> Callable[[], None]:
        """Carry out everything up to the first wait; the function returned does the rest.

        `tag` stands for that of the constructor: calls under way at the same time need their own.

        Raises ScheduleError: A buffer that is missing or does not fit.
        """
        memory = _Memory(self._schedule, self._rank, buffers, counts)
        combine = as_combine(op, memory.dtype) if op is not None and memory.dtype is not None else None
        runner = _Runner(self._comm, self._tag if tag is None else tag, memory, combine)
        rest = iter(self._ops)
        held: list[Op] = []
        for operation in rest:
            if operation.kind is Kind.WAIT or operation.kind.is_blocking:
                held.append(operation)
                break
            runner.do(operation)

        def finish() -> None:
            for operation in chain(held, rest):
                runner.do(operation)
            runner.wait(ANY_LABEL)

        return finish


class _Memory:
    """The buffers of one rank, temporaries included, and the blocks in them."""

    def __init__(
        self, schedule: Schedule, rank: int, buffers: dict[str, _Array], counts: Counts | None
    ) -> None:
        self.schedule, self.rank = schedule, rank
        self.n_blocks = schedule.n_blocks(rank)
        self.arrays: list[_Array | None] = []
        self.sizes: list[BlockSizes | None] = []
        self.dtype: np.dtype[np.generic] | None = None
        unknown = set(buffers) - set(schedule.problem.shapes)
        if unknown:
            known = ", ".join(schedule.problem.shapes) or "no buffers"
            raise ScheduleError(
                f"{schedule.problem.name} takes {known}, got {', '.join(sorted(unknown))}",
                code="wrong-arguments",
            )
        by_name: dict[str, tuple[_Array | None, BlockSizes | None]] = {}
        for buffer, n_blocks in zip(schedule.buffers, self.n_blocks, strict=True):
            if buffer.holds == "counts":
                self.arrays.append(self._counts_known(n_blocks))
                self.sizes.append(BlockSizes("uniform", 1))
                continue
            if buffer.is_temporary:
                model, sizes = by_name[buffer.like]
                has_any = model is not None and sizes is not None and n_blocks > 0 and buffer.holds != "told"
                array = np.empty(sizes.extent(n_blocks), model.dtype) if has_any else None  # type: ignore[union-attr]
                self.arrays.append(array)
                self.sizes.append(sizes)
                continue
            by_name[buffer.name] = self._callers(buffer.name, n_blocks, buffers.get(buffer.name), counts)
            self.arrays.append(by_name[buffer.name][0])
            self.sizes.append(by_name[buffer.name][1])

    def _callers(
        self, name: str, n_blocks: int, array: _Array | None, counts: Counts | None
    ) -> tuple[_Array | None, BlockSizes | None]:
        if n_blocks == 0:
            return None, None
        if array is None:
            raise ScheduleError(
                f"{self.schedule!r}: rank {self.rank} needs a buffer {name!r}", code="missing-key"
            )
        if not array.flags.c_contiguous:
            raise ScheduleError(
                f"buffer {name!r} of rank {self.rank} must be contiguous", code="not-contiguous"
            )
        self.dtype = array.dtype
        return array.reshape(-1), sizes_of(self.schedule, name, n_blocks, array.size, counts)

    def _counts_known(self, n_blocks: int) -> _Array:
        """Return the bytes of the blocks of the ranks from this one on; -1 where its caller does not know."""
        known: dict[Hashable, int] = {}
        for number, (array, sizes) in enumerate(zip(self.arrays, self.sizes, strict=True)):
            if array is None or sizes is None:
                continue
            for block in range(self.n_blocks[number]):
                begin, end = sizes.bounds(block, self.n_blocks[number])
                known[self.schedule.size_class(number, self.rank, block)] = (end - begin) * array.itemsize
        owners = (self.rank + np.arange(n_blocks)) % self.schedule.size
        return np.array([known.get(owner, -1) for owner in owners.tolist()], np.int64)

    def _make_told(self, number: int, n_blocks: int) -> None:
        """Allocate blocks whose sizes have been received."""
        teller = self.schedule.number_of("counts")
        known = None if teller is None else self.arrays[teller]
        assert known is not None
        counts = known[:n_blocks]
        if counts.min(initial=0) < 0:
            raise ScheduleError(
                f"{self.schedule!r}: rank {self.rank} uses sizes that it has not received",
                code="malformed-schedule",
            )
        self.arrays[number] = np.empty(int(counts.sum()), np.uint8)
        self.sizes[number] = BlockSizes("table", 0, counts, np.cumsum(counts) - counts)

    def pieces(self, section: Blocks) -> list[_Array]:
        """Return views of the section's stretches, in order."""
        if section.buffer == NO_BUFFER or section.length == 0:
            return []
        if self.arrays[section.buffer] is None and self.schedule.buffers[section.buffer].holds == "told":
            self._make_told(section.buffer, self.n_blocks[section.buffer])
        array, sizes = self.arrays[section.buffer], self.sizes[section.buffer]
        n_blocks = self.n_blocks[section.buffer]
        if array is None or sizes is None:
            name = self.schedule.buffers[section.buffer].name
            raise ScheduleError(
                f"{self.schedule!r}: rank {self.rank} has no buffer {name!r}", code="unknown-name"
            )
        spans: list[list[int]] = []
        for index in block_indices(*section[1:], n_blocks):
            begin, end = sizes.bounds(int(index), n_blocks)
            if spans and spans[-1][1] == begin:
                spans[-1][1] = end
            else:
                spans.append([begin, end])
        return [array[begin:end] for begin, end in spans if end > begin]

    def gathered(self, section: Blocks) -> _Array:
        """Return the section's elements: a view where they are contiguous, a copy where not."""
        pieces = self.pieces(section)
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces) if pieces else np.empty(0, self.dtype or np.uint8)

    def fill(self, section: Blocks, values: _Array) -> None:
        """Put values into the section, unless they are a view of it already."""
        begin, pieces = 0, self.pieces(section)
        if any(piece.dtype != values.dtype for piece in pieces):  # received sizes are in bytes
            pieces, values = [piece.view(np.uint8) for piece in pieces], values.view(np.uint8)
        for piece in pieces:
            part = values[begin : begin + len(piece)]
            if len(part) < len(piece):  # a caller may have more room than it is sent
                piece = piece[: len(part)]
            if part.ctypes.data != piece.ctypes.data:
                piece[...] = part
            begin += len(piece)
        if begin < len(values):
            raise ScheduleError(
                f"{self.schedule!r}: rank {self.rank} is sent {values.nbytes} bytes and has room for "
                f"{begin * values.itemsize}"
            )


class _Runner:
    """Carries out operations one by one; keeps the requests that are open."""

    def __init__(self, comm: Intracomm, tag: int, memory: _Memory, combine: Combine | None) -> None:
        self.comm, self.tag, self.memory, self.combine = comm, tag, memory, combine
        self.open: list[tuple[int, Any, Blocks | None, _Array]] = []

    def do(self, op: Op) -> None:
        if op.kind is Kind.WAIT:
            self.wait(op.label)
        elif op.kind is Kind.COPY:
            self.memory.fill(op.section, self.memory.gathered(op.source))
        elif op.kind is Kind.COMBINE:
            self._combine(op)
        elif op.kind.is_send:
            self._send(op)
        else:
            self._receive(op)

    def wait(self, label: int) -> None:
        """Wait for the open requests with this label, then put what came where it belongs."""
        chosen = [entry for entry in self.open if label in (ANY_LABEL, entry[0])]
        self.open = [entry for entry in self.open if label not in (ANY_LABEL, entry[0])]
        requests = [request for _, request, _, _ in chosen]
        if requests:
            type(requests[0]).Waitall(requests)
        for _, _, section, values in chosen:
            if section is not None:
                self.memory.fill(section, values)

    def _send(self, op: Op) -> None:
        values = self.memory.gathered(op.section)
        if op.kind is Kind.SEND:
            self.comm.Send(values.view(np.uint8), dest=op.peer, tag=self.tag)
            return
        request = self.comm.Isend(values.view(np.uint8), dest=op.peer, tag=self.tag)
        self.open.append((op.label, request, None, values))

    def _receive(self, op: Op) -> None:
        values = self.memory.gathered(op.section)
        if op.kind is Kind.RECV:
            self.comm.Recv(values.view(np.uint8), source=op.peer, tag=self.tag)
            self.memory.fill(op.section, values)
            return
        request = self.comm.Irecv(values.view(np.uint8), source=op.peer, tag=self.tag)
        self.open.append((op.label, request, op.section, values))

    def _combine(self, op: Op) -> None:
        if self.combine is None:
            raise ScheduleError(f"{self.memory.schedule!r} needs an operator: give op=", code="missing-key")
        source, target = self.memory.gathered(op.source), self.memory.gathered(op.section)
        if op.is_source_first:
            self.combine(source, target)
        else:
            right = source.copy()
            self.combine(target, right)
            target[...] = right
        self.memory.fill(op.section, target)


# Block sizes at run time: where each block of a caller's buffer begins, in elements.


#: counts of a vector collective: buffer name to counts, or to (counts, displacements)
Counts = dict[str, Any]


@dataclass(frozen=True)
class BlockSizes:
    """The blocks of one buffer at one rank.

    `layout` ("uniform", "split" or "table")
    `count`: Elements of each block (uniform) or of all blocks (split).
    `parts`: Into how many blocks each uniform one is cut once more.
    `counts`, `displacements`: For tables.
    """

    layout: str
    count: int
    counts: NDArray[np.int64] | None = None
    displacements: NDArray[np.int64] | None = None
    parts: int = 1

    def bounds(self, block: int, n_blocks: int) -> tuple[int, int]:
        """Return begin and end of a block, in elements."""
        if self.layout == "uniform":
            whole, part = divmod(block, self.parts)
            begin, end = _part(self.count, part, self.parts)
            return whole * self.count + begin, whole * self.count + end
        if self.layout == "split":
            return _part(self.count, block, n_blocks)
        assert self.counts is not None
        assert self.displacements is not None
        begin = int(self.displacements[block])
        return begin, begin + int(self.counts[block])

    def extent(self, n_blocks: int) -> int:
        """Return the elements a buffer of `n_blocks` such blocks needs."""
        if self.layout == "split":
            return self.count
        return max((self.bounds(block, n_blocks)[1] for block in range(n_blocks)), default=0)


def _part(count: int, part: int, parts: int) -> tuple[int, int]:
    length, longer = divmod(count, parts)
    return part * length + min(part, longer), (part + 1) * length + min(part + 1, longer)


def sizes_of(
    schedule: Schedule, buffer: str, n_blocks: int, n_elements: int, counts: Counts | None = None
) -> BlockSizes:
    """Return the block sizes of a caller's buffer of `n_elements` elements."""
    label = f"{schedule.problem.name}/{schedule.name}: buffer {buffer!r}"
    if schedule.problem.layout == "split":
        return BlockSizes("split", n_elements)
    if schedule.problem.layout == "uniform":
        whole = n_blocks // schedule.parts
        if whole and n_elements % whole:
            raise ScheduleError(
                f"{label} has {n_elements} elements, which is no multiple of its {whole} blocks",
                code="count-mismatch",
            )
        return BlockSizes("uniform", n_elements // whole if whole else 0, parts=schedule.parts)
    table, displacements = _table(counts, buffer, n_blocks, n_elements)
    if len(table) != n_blocks or len(displacements) != n_blocks:
        raise ScheduleError(f"{label} has {n_blocks} blocks, got {len(table)} counts", code="count-mismatch")
    if n_blocks and (
        table.min() < 0 or displacements.min() < 0 or (displacements + table).max() > n_elements
    ):
        raise ScheduleError(
            f"{label} has {n_elements} elements; its counts reach outside", code="count-mismatch"
        )
    return BlockSizes("table", 0, table, displacements)


def _table(
    counts: Counts | None, buffer: str, n_blocks: int, n_elements: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    given = (counts or {}).get(buffer)
    if given is None:
        given = [n_elements] if n_blocks == 1 else []
    if isinstance(given, tuple):
        return np.asarray(given[0], np.int64), np.asarray(given[1], np.int64)
    table = np.asarray(given if isinstance(given, Sequence | np.ndarray) else [given], np.int64)
    return table, np.cumsum(table) - table


# Operators for reductions: by name, by function, or an MPI operator.


#: MPI's predefined operations by name
OPERATIONS = (
    *("sum", "prod", "min", "max", "land", "lor", "lxor", "band", "bor", "bxor"),
    *("minloc", "maxloc", "replace", "no_op"),
)

#: ``combine(left, right)`` leaves ``left op right`` in ``right``
Combine = Callable[[NDArray[Any], NDArray[Any]], None]


def type_code(dtype: np.dtype[np.generic]) -> str:
    """Return the kernels' name of a type: kind and size, as ``f8``; ``f8+i4`` for a value and an index.

    Examples
    --------
    >>> type_code(np.dtype("float32")), type_code(np.dtype([("value", "f8"), ("index", "i4")], align=True))
    ('f4', 'f8+i4')
    """
    if dtype.names is not None and dtype.fields is not None:
        return "+".join(type_code(dtype.fields[name][0]) for name in dtype.names)
    return f"{dtype.kind}{dtype.itemsize}"


def as_reduction(op: object, dtype: np.dtype[np.generic]) -> _kernels.PythonReduction | _kernels.Reduction:
    """Return the kernels' reduction for an operator on a type.

    `op`: A name of `OPERATIONS`; a function ``f(left, right)`` of two arrays that returns the result; or an
        object with MPI's ``Reduce_local(inbuf, inoutbuf)``.
    Raises ScheduleError: If MPI defines no such operation on the type, or `op` is none of these.
    """
    from labkit import _kernels

    if isinstance(op, str):
        found = _kernels.native_reduction(op, type_code(dtype)) if op in OPERATIONS else None
        if found is None:
            raise ScheduleError(
                f"no operation {op!r} on {dtype}; operations: {', '.join(OPERATIONS)}, or a function"
            )
        return found
    combine = as_combine(op, dtype)

    def on_bytes(left: memoryview, right: memoryview) -> None:
        combine(np.frombuffer(left, dtype), np.frombuffer(right, dtype))

    return _kernels.PythonReduction(on_bytes)


def as_combine(op: object, dtype: np.dtype[np.generic]) -> Combine:
    """Return an operator (see `as_reduction`) as a function that works in place, as MPI's do."""
    if isinstance(op, str):
        reduction = as_reduction(op, dtype)
        return lambda left, right: reduction.apply(left, right, True)
    if hasattr(op, "Reduce_local"):
        return lambda left, right: op.Reduce_local(left, right)
    if callable(op):

        def by_function(left: NDArray[Any], right: NDArray[Any]) -> None:
            right[...] = op(left, right)

        return by_function
    raise ScheduleError(
        f"an operator must be a name, a function or an MPI operator, got {op!r}", code="wrong-type"
    )
