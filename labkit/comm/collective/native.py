"""The start of a collective call in the engine: its algorithm, its program, its buffers."""

from __future__ import annotations

from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit import _kernels
from labkit.comm.buffers import Simple, Vector, letter_of, warn_of_count
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.exceptions import make_outside
from labkit.comm.handles.packing import address_of
from labkit.errors import UnsupportedError
from labkit.program import context
from labkit.program.sized import Sized
from labkit.registry import program
from labkit.schedule.problem import PROBLEMS

__all__ = [
    "ANYTHING",
    "BoundBuffer",
    "Call",
    "arrive",
    "arrive_shared",
    "block",
    "blocks_kept",
    "call_under_way",
    "filled",
    "leave",
    "own_block",
    "perform",
    "refuse_in_recordings",
    "restoring",
    "shared_calls",
    "single",
    "start",
    "table",
    "with_algorithm",
]


class BoundBuffer(NamedTuple):
    """A buffer as the engine takes it: bytes, element size, and block sizes in elements."""

    memory: NDArray[np.uint8] | None
    element_bytes: int
    elements: int
    counts: NDArray[np.int64] | list[int] | None = None
    displs: NDArray[np.int64] | list[int] | None = None


#: a buffer that this rank does not have
ANYTHING = BoundBuffer(None, 1, 0)


@dataclass(slots=True)
class Call:
    """A collective call of one rank.

    Attributes
    ----------
    problem : str
        The collective, as the registry calls it.
    name : str
        The method, as the program calls it.
    root : int
    facts : dict
        What must be the same at all ranks.
    bytes : int
        What the choice of the algorithm depends on.
    reduction : object
        The kernels' operator.
    is_commutative : bool
    is_cuttable : bool
        Whether the operator works element by element: MPI's own do, the program's may not.
    buffers : tuple of BoundBuffer
    is_known : bool
        Whether the operator, if there is one, is a constant of the module, which never goes away.
    is_split : bool
        Whether the first rank's element size decides how the message is cut.
    homes : list of Home
        Where what has arrived is to be put at the end: of datatypes with gaps.
    gathered : Home, optional
        Where what is sent comes from, of a datatype with gaps.
    elements : str
        The kinds of elements that this rank gives, a letter each, as `letter_of`; none of bytes.
    """

    problem: str
    name: str
    root: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    bytes: int = 0
    reduction: Any = None
    is_commutative: bool = True
    is_cuttable: bool = True
    buffers: tuple[BoundBuffer, ...] = ()
    is_split: bool = False
    is_known: bool = True
    homes: list[Any] = field(default_factory=list)
    gathered: Any = None
    elements: str = ""

    def moves(self, sent: Any, received: Any) -> Call:
        """Note what is sent and where is received: kinds of elements, and gaps; the call itself."""
        kinds = (letter_of(one.datatype) for one in (sent, received) if one is not None)
        self.elements = "".join(dict.fromkeys(kinds))
        self.homes = [received.home] if received is not None and received.home else []
        if sent is not None and sent.home and sent.home not in self.homes:  # else it is IN_PLACE
            self.gathered = sent.home
        return self


def shared_calls(name: str) -> Any:
    """Return what the ranks of the run under way share about communicators and collective calls."""
    running = context.simulated()
    if running is None:
        raise make_outside(name)
    return running.calls


def call_under_way(handle: Any, kind: str, name: str, null: tuple[int, str]) -> tuple[Any, Any, int]:
    """Return what a call on a window or file begins with: the run's calls, its state, this rank in it."""
    state = handle._state
    if state is None:
        raise MPIException(null[0], f"{name}: this is {null[1]}")
    return shared_calls(f"{kind}.{name}"), state, int(handle._comm.rank)


def arrive(comm: object, name: str, facts: dict[str, object]) -> int:
    """Note that the running rank reaches a collective made of messages; its number."""
    return int(shared_calls(name).arrive(comm, name, facts).number)


def arrive_shared(comm: object, name: str, facts: dict[str, object]) -> tuple[Any, Any]:
    """Do as `arrive`, and return the run's calls and what the ranks share about this one."""
    calls = shared_calls(name)
    return calls, calls.arrive(comm, name, facts)


def leave(name: str) -> None:
    """Note that the running rank is through such a collective."""
    shared_calls(name).leave()


def perform(comm: Any, call: Call) -> None:
    """Carry out the running rank's part of a collective call."""
    calls = shared_calls(call.name)
    shared, buffers, has_data, may_repeat = _agree(calls, comm, call)
    if call.gathered is not None:
        call.gathered.charge()
    if calls.keeps_calls:
        calls.note(comm, call)
    calls.hub.collective(comm, shared, buffers, call.reduction, call.name, has_data, may_repeat)
    for home in call.homes:
        home.restore()
        home.charge()
    if calls.keeps_calls:
        calls.hub.end_collective()


def start(comm: Any, call: Call) -> Any:
    """Begin the running rank's part of a collective call, which overlaps with what the rank does."""
    calls = shared_calls(call.name)
    refuse_in_recordings(calls, call.name)
    shared, buffers, has_data, may_repeat = _agree(calls, comm, call)
    if call.gathered is not None:
        call.gathered.charge()
    request = calls.hub.start_collective(
        comm, shared, buffers, call.reduction, call.name, has_data, may_repeat
    )
    return restoring(request, call.homes)


def restoring(request: Any, homes: list[Any]) -> Any:
    """Let a request put what has arrived where it belongs, once it is waited for."""

    def put(status: object) -> None:
        for home in homes:
            home.restore()
            home.charge()

    if homes:
        request._after(put)
    return request


def refuse_in_recordings(calls: Any, name: str) -> None:
    """Refuse what a time-independent trace cannot say, where the run is written down as one."""
    if calls.keeps_calls:
        raise UnsupportedError(
            f"{name} cannot be recorded: a time-independent trace has no nonblocking "
            "collectives; run without the recording, or record the blocking call",
            code="not-recordable",
        )


def _agree(calls: Any, comm: Any, call: Call) -> tuple[object, tuple[BoundBuffer, ...], bool, bool]:
    """Compare with the ranks that came before: the shared call, the buffers, whether they hold bytes."""
    has_data = call.facts["buffers with content"] = _has_data(call)
    if calls.hub.is_watching:
        _warn(calls.hub, comm, call)
        if len(call.elements) > 1:
            calls.hub.warn("elements of a collective", f"{call.name}:{call.elements[:2]}")
        elif call.elements:
            call.facts["elements"] = call.elements
    shared = calls.arrive(comm, call.name, call.facts)
    if shared.program is None:
        # in its own context: what a schedule takes is not memory of the rank that came first
        shared.program = Context().run(_program, calls, comm, call)
        shared.element_bytes = call.buffers[0].element_bytes if call.buffers else 1
    if calls.note_algorithm is not None:
        calls.note_algorithm(shared.program.name)
    buffers = call.buffers
    may_repeat = call.is_cuttable and call.is_known  # an operator of the program's own may change or go
    if call.is_split and shared.element_bytes != buffers[0].element_bytes:
        buffers = tuple(_recut(buffer, shared.element_bytes) for buffer in buffers)
        may_repeat = False
    return shared, buffers, has_data, may_repeat


def _program(calls: Any, comm: Any, call: Call) -> Any:
    name = calls.choose(
        *(call.problem, comm.size, call.bytes, call.is_commutative, call.is_cuttable),
        given=calls.forced.get((comm._context, call.problem)),
    )
    return program(call.problem, name, comm.size, call.root, call.is_commutative)


def _has_data(call: Call) -> bool:
    """Whether there are bytes to move: all of a rank's buffers are phantoms (`labkit.sized`), or none."""
    phantom = [type(buffer.memory) is Sized for buffer in call.buffers if buffer.memory is not None]
    if not any(phantom):
        return True
    if not all(phantom):
        raise TypeError(
            f"{call.name}: one buffer is a phantom (labkit.sized), another is not; give both alike"
        )
    return False


def _warn(hub: _kernels.Hub, comm: _kernels.CommBase, call: Call) -> None:
    """Report what fails on real MPI: buffers that overlap, and counts of more than 31 bits."""
    spans = []
    shapes = PROBLEMS[call.problem].shapes
    for what, buffer in zip(("send", "recv"), call.buffers, strict=False):
        if buffer.memory is None or not buffer.memory.nbytes:
            continue
        if buffer.counts is None:
            most, begin, end = buffer.elements, 0, buffer.elements
            end *= comm.size if shapes.get(what) == "all" else 1
        else:
            counts, displs = np.asarray(buffer.counts), np.asarray(buffer.displs)
            used = counts > 0
            if not used.any():
                continue
            most = int(counts.max())
            begin, end = int(displs[used].min()), int((displs + counts)[used].max())
            warn_of_count(int(displs[used].max()), "displacement")
        warn_of_count(most)
        address = 0 if type(buffer.memory) is Sized else address_of(buffer.memory)
        spans.append((address + begin * buffer.element_bytes, address + end * buffer.element_bytes))
    if len(spans) == 2 and spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1] and spans[0][0] > 0:
        hub.warn("overlap", call.name)


def _recut(buffer: BoundBuffer, element_bytes: int) -> BoundBuffer:
    """Describe a message in another rank's elements; its bytes are the same."""
    return BoundBuffer(buffer.memory, element_bytes, buffer.elements * buffer.element_bytes // element_bytes)


# Communicators on which one collective always takes one algorithm.


def with_algorithm(comm: Any, operation: str, name: str) -> Any:
    """Return a communicator of the same ranks whose calls of one collective run one algorithm.

    All ranks of the communicator call it together; it takes no time and no messages.
    """
    label = "labkit.tune"
    private = comm._own_context(label, {"operation": operation, "algorithm": name})
    shared_calls(label).forced[private._context, operation] = name
    return private


# Messages as the engine takes them: bytes, element size, and block sizes in elements.


_ERR_TRUNCATE = 15


def block(message: Simple) -> BoundBuffer:
    """One block, or equal blocks of `message.count` elements each."""
    memory = message.memory[message.offset :] if message.offset else message.memory
    return BoundBuffer(memory, message.element_bytes, message.count)


def table(message: Vector) -> BoundBuffer:
    """Blocks of any sizes."""
    return BoundBuffer(message.memory, message.element_bytes, 0, message.counts, message.displs)


def single(message: Simple) -> BoundBuffer:
    """One block of a vector collective."""
    return BoundBuffer(message.memory[message.offset :], message.element_bytes, 0, [message.count], [0])


def _copy(memory: NDArray[np.uint8], begin: int, length: int) -> NDArray[np.uint8]:
    return memory[begin : begin + length].copy()


def blocks_kept(message: Simple, first: int = 0, blocks: int = 1) -> Simple:
    """Return a copy of some of the equal blocks of a receive buffer (IN_PLACE)."""
    begin = message.offset + first * message.bytes
    kept = _copy(message.memory, begin, blocks * message.bytes)
    return Simple(kept, 0, message.count, message.datatype, message.home)


def own_block(message: Vector, rank: int) -> Simple:
    """Return a copy of a rank's own block of a vector message (IN_PLACE)."""
    extent = message.element_bytes
    count = int(message.counts[rank])
    kept = _copy(message.memory, int(message.displs[rank]) * extent, count * extent)
    return Simple(kept, 0, count, message.datatype, message.home)


def filled(sent: Simple, own: Simple, rank: int, name: str) -> Simple:
    """Return a shorter message within a copy of the block that has room for it.

    All ranks must expect as much of a rank, not as much as it sends: with less, the rest of its block is what
    the receive buffer of that rank had there, as with algorithms of real MPI that pass whole blocks on.
    """
    if sent.bytes > own.bytes:
        raise MPIException(
            _ERR_TRUNCATE, f"{name}: rank {rank} sends {sent.bytes} bytes, all expect {own.bytes} of it"
        )
    own.memory[: sent.bytes] = sent.memory[sent.offset : sent.offset + sent.bytes]
    return own
