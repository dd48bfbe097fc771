"""Arguments of mpi4py's collective methods as schedules take them: contiguous arrays, tables of counts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.schedule import Problem

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["CallBuffers", "mpi_of", "read_call"]

_Array = NDArray[Any]


@dataclass
class CallBuffers:
    """One call, read.

    `buffers`: As the schedule calls them.
    `counts`: Tables of vector collectives.
    `restore`: Is called at the end.
    """

    buffers: dict[str, _Array] = field(default_factory=dict)
    counts: dict[str, Any] | None = None
    op: Any = None
    root: int = 0
    restore: Callable[[], None] = lambda: None

    def run_arguments(self) -> dict[str, Any]:
        """Return what `Prepared` takes."""
        return {"op": self.op, "counts": self.counts, **self.buffers}

    def take_bytes(self) -> None:
        """Where blocks of any sizes are only moved, count bytes: ranks may call elements differently."""
        scales = {name: array.itemsize for name, array in self.buffers.items()}
        self.buffers = {name: array.view(np.uint8) for name, array in self.buffers.items()}
        for name, scale in scales.items():
            table = (self.counts or {}).get(name)
            if table is not None and self.counts is not None:
                counts, displacements = _table(table)
                self.counts[name] = np.asarray(counts) * scale, np.asarray(displacements) * scale

    def take_one_type(self) -> None:
        """Where nothing is computed, take elements of one size for the same."""
        kinds = {array.dtype: None for array in self.buffers.values()}
        if len(kinds) > 1 and len({kind.itemsize for kind in kinds}) == 1:
            first = next(iter(kinds))
            self.buffers = {name: array.view(first) for name, array in self.buffers.items()}

    def fits(self, problem: Problem, ranks: int) -> bool:
        """Whether the buffers of a collective can be what they are called.

        Where they cannot, mpi4py knows best what to say. Blocks beyond their buffer are reported later.
        """
        if not all(array.flags.writeable for name, array in self.buffers.items() if name == "recv"):
            return False
        if problem.layout == "table":
            return self._fits_tables(problem, ranks)
        if len({array.dtype for array in self.buffers.values()}) > 1:
            return False
        sizes = {
            divmod(array.size, ranks if problem.shapes[name] == "all" else 1)
            for name, array in self.buffers.items()
        }
        return len(sizes) <= 1 and all(rest == 0 for _, rest in sizes)

    def _fits_tables(self, problem: Problem, ranks: int) -> bool:
        tables = {name: _table((self.counts or {})[name])[0] for name in self.buffers}
        blocks = {"one": 1, "all": ranks}
        if any(len(table) != blocks[problem.shapes[name]] for name, table in tables.items()):
            return False
        if not problem.is_reduction:
            return True
        sizes = {name: array.size for name, array in self.buffers.items()}
        return all(sizes[name] == int(np.sum(table)) for name, table in tables.items())

    @staticmethod
    def bytes_of(spec: Any, blocks: int = 1) -> int | None:
        """Return the bytes of one of `blocks` equal blocks; None for IN_PLACE and None."""
        if spec is None or _is_in_place(spec):
            return None
        buffer, *rest = spec if isinstance(spec, list | tuple) else [spec]
        array = _array_of(buffer)
        each = extent = array.itemsize
        if rest and not _is_counts(rest[-1]):
            datatype = rest.pop()
            if isinstance(datatype, str):
                each = extent = np.dtype(datatype).itemsize
            else:
                each, extent = datatype.Get_size(), datatype.Get_extent()[1]
        if not rest or rest[0] is None:
            return int(array.nbytes) // max(extent, 1) * each // blocks
        counts = rest[0][0] if isinstance(rest[0], tuple) else rest[0]  # (count, displacement)
        size = int(np.sum(counts) * each)
        return size if np.ndim(counts) == 0 else size // blocks  # a count is of one block


def mpi_of(comm: Intracomm) -> ModuleType:
    """Return the module that a communicator comes from: mpi4py's, or labkit's in simulation."""
    name = type(comm).__module__
    if name.partition(".")[0] == "mpi4py":
        return sys.modules["mpi4py.MPI"]
    from labkit import MPI

    return MPI


def read_call(comm: Intracomm, problem: Problem, args: Any, kwargs: Any) -> CallBuffers:
    """Read the arguments of a collective's method."""
    given = dict(zip(problem.arguments, args, strict=False)) | kwargs
    me, ranks = int(comm.Get_rank()), int(comm.Get_size())
    call = CallBuffers(root=int(given.get("root", 0) or 0))
    if problem.is_reduction:
        call.op = given.get("op") or mpi_of(comm).SUM
    specs = dict(zip(problem.shapes, (given.get(name) for name in problem.arguments), strict=False))
    if specs.get("send") is None and "send" in specs and "send" not in problem.at_root:
        specs["send"] = mpi_of(comm).IN_PLACE  # as mpi4py takes it
    tables: dict[str, Any] = {}
    for name, spec in specs.items():
        if spec is None or _is_in_place(spec) or (name in problem.at_root and me != call.root):
            continue
        call.buffers[name], counts = _elements(spec)
        if name == "data" and me == call.root and not call.buffers[name].flags.writeable:
            call.buffers[name] = call.buffers[
                name
            ].copy()  # there are algorithms that write what is there again
        if counts is not None and problem.layout != "table":
            blocks, first = ranks if problem.shapes[name] == "all" else 1, int(counts[1][0])
            call.buffers[name] = call.buffers[name][first : first + int(np.sum(counts[0])) * blocks]
        elif counts is not None:
            tables[name] = counts
    if problem.layout == "table":
        _complete_tables(comm, problem, given, call, tables)
        call.counts = tables
    if any(_is_in_place(spec) for spec in specs.values()):
        _take_in_place(problem, specs, call, me, ranks)
    if not problem.is_reduction:
        if problem.layout == "table":
            call.take_bytes()
        else:
            call.take_one_type()
    return call


def _complete_tables(
    comm: Intracomm,
    problem: Problem,
    given: Mapping[str, Any],
    call: CallBuffers,
    tables: dict[str, Any],
) -> None:
    """Fill in what mpi4py takes as said: one block is the whole buffer, several differ by one at most."""
    ranks, me = int(comm.Get_size()), int(comm.Get_rank())
    if problem.is_reduction:  # reduce_scatter
        counts = given.get("recvcounts")
        if counts is None:
            counts = comm.allgather(int(call.buffers["recv"].size))
        tables["send"], tables["recv"] = list(counts), [int(counts[me])]
        return
    for name, array in call.buffers.items():
        blocks = ranks if problem.shapes[name] == "all" else 1
        if name not in tables:
            each, longer = divmod(int(array.size), blocks)
            tables[name] = [each + (block < longer) for block in range(blocks)]


def _take_in_place(
    problem: Problem, specs: dict[str, object], call: CallBuffers, me: int, ranks: int
) -> None:
    """Give the schedule a copy of what lies in the receive buffer, where the rank's own part is sent."""
    if "send" not in specs or not _is_in_place(specs["send"]):  # a root that scatters keeps its own block
        send = call.buffers["send"]
        sizes = (call.counts or {}).get("send")
        length = send.size // ranks if sizes is None else int(_counts(sizes)[me])
        call.buffers["recv"] = np.empty(length, send.dtype)
        if call.counts is not None:
            call.counts["recv"] = [length]
        return
    recv = call.buffers["recv"]
    if problem.shapes == {"send": "one", "recv": "all"}:
        if call.counts is None:
            length = recv.size // ranks
            call.buffers["send"] = recv[me * length : (me + 1) * length].copy()
        else:
            counts, displs = _table(call.counts["recv"])
            call.buffers["send"] = recv[displs[me] : displs[me] + counts[me]].copy()
            call.counts["send"] = [int(counts[me])]
        return
    call.buffers["send"] = recv.copy()
    if problem.shapes == {"send": "all", "recv": "one"}:  # the result is left at the beginning
        length = recv.size // ranks if call.counts is None else int(call.counts["recv"][0])
        call.buffers["recv"] = recv[:length]
    elif call.counts is not None:
        call.counts["send"] = call.counts["recv"]


def _counts(table: object) -> Any:
    return table[0] if isinstance(table, tuple) else table


def _table(table: object) -> tuple[Any, Any]:
    if isinstance(table, tuple):
        return table
    counts = np.asarray(table)
    return counts, np.cumsum(counts) - counts


def _is_in_place(spec: object) -> bool:
    return type(spec).__name__ == "InPlaceType"


def _elements(spec: object) -> tuple[_Array, Any]:
    """Return a message's elements, and its counts, or (counts, displacements), where it has some."""
    counts: object = None
    datatype: object = None
    buffer = spec
    if isinstance(spec, list | tuple):
        if not spec:
            raise DataError(
                "an empty list is no message; give a buffer, or [buffer, count, datatype]", code="missing-key"
            )
        buffer, *rest = spec
        if rest and not _is_counts(rest[-1]):
            datatype = rest.pop()
        if len(rest) == 2:
            counts = _placed(*rest)
        elif rest and isinstance(rest[0], tuple) and len(rest[0]) == 2:
            counts = _placed(*rest[0])
        elif rest and rest[0] is not None:
            counts = np.atleast_1d(rest[0])
    array = _array_of(buffer)
    if array.flags.f_contiguous:
        array = array.T  # as it lies in memory
    if not array.flags.c_contiguous:
        raise DataError(
            "labkit's algorithms over real messages take contiguous buffers; this one has gaps: copy it, or "
            "leave this collective to the library",
            code="not-contiguous",
        )
    array = array.reshape(-1)
    if datatype is not None:
        array = array.view(np.uint8).view(_dtype_of(datatype))
    if counts is None:
        return array, None
    if isinstance(counts, tuple):
        return array, counts
    return array, _placed(counts, None)


def _placed(counts: Any, displacements: Any) -> tuple[object, object]:
    """Return counts and displacements; where none are given, blocks lie one after another."""
    table = np.atleast_1d(counts)
    return table, np.cumsum(table) - table if displacements is None else np.atleast_1d(displacements)


def _array_of(buffer: object) -> _Array:
    return np.asarray(memoryview(buffer) if isinstance(buffer, bytes) else buffer)


def _is_counts(value: object) -> bool:
    return value is None or isinstance(value, int | np.integer | tuple | list | np.ndarray)


def _dtype_of(datatype: Any) -> np.dtype[np.generic]:
    """Return the elements of a predefined datatype."""
    if isinstance(datatype, str):
        return np.dtype(datatype)
    code = str(datatype.tocode() or "") if datatype.is_predefined else ""
    if not code:
        from labkit.comm.handles.typebody import type_words  # not needed by ranks without faults

        raise DataError(
            f"labkit's algorithms over real messages take predefined datatypes, got {type_words(datatype)}; "
            "leave this collective to the library, or give the elements",
            code="wrong-type",
        )
    return np.dtype(code)
