"""The collective calls under way: who is in which, and whether they agree."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from labkit import _kernels
from labkit.comm.collective.native import BoundBuffer, Call
from labkit.comm.place import here, spelled, there
from labkit.comm.surface import METHODS
from labkit.errors import MismatchError, UnsupportedError
from labkit.schedule.problem import PROBLEMS, Problem
from labkit.selector import Choices

__all__ = ["CollectiveCalls", "action_of", "group_line", "phase_line"]


#: collectives on objects: they are made of those on buffers, which a program that errs has not called
_OF_OBJECTS = frozenset(row.name for row in METHODS if row.kind == "collective" and not row.is_buffer)


class CollectiveCalls:
    """Notes every rank's arrival at its next collective, and compares it with those before.

    Parameters
    ----------
    hub : labkit._kernels.Hub
    choose : Choices
        Chooses the algorithms.
    """

    def __init__(self, hub: _kernels.Hub, choose: Choices) -> None:
        self.hub = hub
        self.choose = choose
        #: whether the run is written down as a time-independent trace
        self.keeps_calls = False
        self._declared: set[tuple[int, int]] = set()
        #: algorithms that are not chosen: by context and collective (`labkit.comm.collective.native`)
        self.forced: dict[tuple[int, str], str] = {}
        #: what communicators carry in addition to their ranks: by context; by context and rank
        self.topologies: dict[int, object] = {}
        self.attributes: dict[tuple[int, int], dict[object, Any]] = {}
        #: communicators made by their members alone: by parent, members, tag and number of the call
        self.private: dict[tuple[Any, ...], Any] = {}
        #: collectives of two groups under way: by context and number the name, first rank, line, ranks so far
        self._between: dict[tuple[int, int], list[Any]] = {}
        #: every window, and who waits for which lock: by world rank the window and the rank in it (None: all)
        self.windows: list[Any] = []
        #: whether stores of ranks into their parts of windows are looked for (`labkit.comm.rma.state`)
        self.looks_at_stores = False
        #: called where ranks get memory that they share
        self.shares_memory: Callable[[], None] = lambda: None
        #: every file, and what they are on
        self.files: list[Any] = []
        self.storage: object = None
        self.server: Any = None
        #: starts ranks of scripts (`labkit.sim.isolation.rank_world`); None: this run has none
        self.spawn: Callable[[str, list[Any]], list[int]] | None = None
        #: of spawned ranks: what `Spawn` passed to them, their communicators to their parents
        self.spawned: dict[int, tuple[int, list[int], list[int], int]] = {}
        self.parents: dict[int, Any] = {}
        self.waiting_for_locks: dict[int, tuple[Any, int | None]] = {}
        #: receives, call by call, the algorithm of a rank's collective, while the run is traced
        self.note_algorithm: Callable[[str], None] | None = None
        #: says something about the run, once (set by the simulation)
        self.note_fault: Callable[[str], None] = _forget

    def spawner(self, rank: int) -> int:
        """Return the rank whose `Spawn` has begun a rank; -1 of those that were there from the beginning."""
        if rank not in self.spawned:
            return -1
        _, _, parents, root = self.spawned[rank]
        return parents[root]

    def arrive(self, comm: object, name: str, facts: dict[str, object]) -> _kernels.SharedCall:
        """Note that the running rank calls a collective.

        Parameters
        ----------
        comm : Intracomm
        name : str
            The collective as the program spells it.
        facts : dict
            What all ranks must give alike (root, bytes, operator).

        Returns
        -------
        SharedCall
            What the ranks share about it, with its number on this communicator.

        Raises
        ------
        MismatchError
            If a rank that came earlier called something else, or with other facts.
        """
        call: _kernels.SharedCall = self.hub.arrive(comm)
        if call.name is None:
            call.name, call.facts = name, facts
        elif call.name != name:
            raise self._other_call(call, *self._spelled(call, name))
        elif call.facts != facts:
            self._compare(call, facts)
        return call

    def arrive_between(self, comm: Any, name: str, number: int) -> None:
        """Note that the running rank calls a collective of two groups, and compare with the other group.

        Parameters
        ----------
        comm : Intercomm
        name : str
        number : int
            Of the call, on this communicator.

        Raises
        ------
        MismatchError
            If a rank of either group called something else.
        """
        key = comm._context, number
        first = self._between.setdefault(key, [name, self.hub.rank, here(), 0])
        if first[0] != name:
            raise MismatchError(
                f"rank {self.hub.rank} calls {name} where rank {first[1]} called {first[0]} (collective "
                f"number {number + 1} on this intercommunicator): both groups must call the same "
                f"collectives in the same order\n  rank {self.hub.rank}: at {here()}\n  rank {first[1]}: at "
                f"{first[2]}"
            )
        first[3] += 1
        if first[3] == comm.size + comm.remote_size:
            del self._between[key]

    def _compare(self, call: _kernels.SharedCall, facts: dict[str, object]) -> None:
        for fact, value in facts.items():
            before = call.facts.setdefault(fact, value)
            if before == value:
                continue
            if fact == "elements":
                self.hub.warn("elements of a collective", f"{call.name}:{value}{before}")
                continue
            mine, theirs = self._spelled(call, call.name)
            if mine != theirs:
                raise self._other_call(call, mine, theirs)
            raise MismatchError(
                f"{mine} with {fact}={value!r} at rank {self.hub.rank}, but {fact}={before!r} at "
                f"rank {call.first}: all ranks must give the same {fact}{_perhaps(mine, fact, before, value)}"
                f"{self._places(call)}",
                code="root-mismatch" if fact == "root" else None,
                parameter=fact,
                given=value,
            )

    def _other_call(self, call: _kernels.SharedCall, mine: str, theirs: str) -> MismatchError:
        return MismatchError(
            f"rank {self.hub.rank} calls {mine} where rank {call.first} called {theirs} (collective "
            f"number {call.number + 1} on this communicator): all ranks must call the same collectives "
            f"in the same order{self._places(call)}"
        )

    def _spelled(self, call: _kernels.SharedCall, name: str) -> tuple[str, str]:
        """Return what the running rank and the first one have called, as the program spells it."""
        mine = spelled(sys._getframe(), _OF_OBJECTS, name)
        if self._is_still_in(call):
            return mine, spelled(self._frame_of(call), _OF_OBJECTS, str(call.name))
        return mine, mine if call.name == name else str(call.name)

    def _is_still_in(self, call: _kernels.SharedCall) -> bool:
        """Whether the first rank of a call waits in it; it may be through with it, or be the running one."""
        other = self.hub.call_of(call.first)
        return (
            call.first != self.hub.rank
            and other is not None
            and bool(other.number == call.number and other.name == call.name)
        )

    def _frame_of(self, call: _kernels.SharedCall) -> Any:
        """Return where the first rank of a call waits, in it or behind it; None where it runs or is over."""
        return getattr(self.hub.greenlet(call.first), "gr_frame", None)

    def _places(self, call: _kernels.SharedCall) -> str:
        """Return as text where the running rank and the first one are."""
        text, frame = f"\n  rank {self.hub.rank}: at {here()}", self._frame_of(call)
        if frame is None or call.first == self.hub.rank:
            return text
        if self._is_still_in(call):
            return f"{text}\n  rank {call.first}: at {there(frame)}"
        now = self.hub.call_of(call.first)
        name = "" if now is None else f" {spelled(frame, _OF_OBJECTS, str(now.name))}"
        return f"{text}\n  rank {call.first}: by now in{name} at {there(frame)}"

    def note(self, comm: Any, call: Any) -> None:
        """Write a collective call of the running rank to the trace; the hub records its end."""
        size, context, rank = comm.size, comm._context, self.hub.rank
        if size == 1 and self.hub.ranks > 1:
            self.hub.begin_collective("")  # nothing moves
            return
        if context and size == self.hub.ranks and comm._world_ranks() == list(range(size)):
            context = 0  # a copy of the world: its collectives are the world's
        elif context and (context, rank) not in self._declared:
            self._declared.add((context, rank))
            self.hub.declare_group(group_line(context, comm._world_ranks()))
        self.hub.begin_collective(action_of(call, size, comm.rank, context))

    def leave(self) -> None:
        """Note that the running rank is through a collective made of messages."""
        self.hub.leave()

    def left(self) -> list[str]:
        """Return as sentences which windows and files were not given back; the files are closed."""
        texts = Counter(text for kept in (*self.windows, *self.files) if (text := kept.left()))
        return [text if times == 1 else f"{text} ({times} of them)" for text, times in texts.items()]

    def pending_collective(self, rank: int) -> tuple[str, tuple[int, ...]] | None:
        """Return the collective a rank is in and the ranks that have not reached it, None outside any."""
        call = self.hub.call_of(rank)
        return None if call is None else (call.name, call.absent())


def _perhaps(name: str, fact: str, *values: object) -> str:
    """Return as text what a broadcast of 8 bytes may be where others broadcast something else."""
    if (name, fact) != ("Bcast", "bytes") or 8 not in values:
        return ""
    return (
        " (8 may be the length of an object, which lower-case bcast sends first: call bcast or Bcast, the "
        "same one at all ranks)"
    )


def _forget(text: str) -> None:
    """Do nothing."""


# Collective calls as actions of a time-independent trace.


#: bytes of an element -> number of a datatype of that size (double, int, short, byte, complex)
_DATATYPES = {8: 0, 4: 1, 2: 3, 1: 6, 16: 26, 32: 27}


def action_of(call: Call, ranks: int, rank: int, context: int) -> str:
    """Write a collective call as the action of SimGrid's text, without the rank at its begin."""
    problem = PROBLEMS[call.problem]
    if problem.action is None:
        raise UnsupportedError(
            f"{call.name} cannot be recorded: a time-independent trace has no such collective; run without "
            "the recording"
        )
    words = [problem.action, *_sizes(problem, call, ranks, rank)]
    if problem.is_reduction and not call.is_commutative:
        words.append("order=fixed")
    if problem.is_reduction and not call.is_cuttable:
        words.append("cut=no")
    if context:
        words.append(f"comm={context}")
    return " ".join(map(str, words))


def _sizes(problem: Problem, call: Call, ranks: int, rank: int) -> list[object]:
    """Return the text between a collective's name and its options."""
    if not problem.shapes:
        return []
    root = [call.root] if problem.is_rooted else []
    if problem.layout == "split":
        return _split(problem, call, root)
    first = call.buffers[0]
    if problem.is_reduction:
        block = first.elements * first.element_bytes
        return [*(_table(first) if problem.layout == "table" else [block] * ranks), 0, 6]
    if problem.layout == "uniform":
        return [call.bytes, call.bytes, *root, 6, 6]
    sizes = [
        _table(buffer) if rank == call.root or name not in problem.at_root else [0] * ranks
        for name, buffer in zip(problem.shapes, call.buffers, strict=True)
    ]
    if set(problem.shapes.values()) == {"all"}:  # the format wants the sums, too
        sizes = [[sum(counts), *counts] for counts in sizes]
    return [*sizes[0], *sizes[1], *root, 6, 6]


def _split(problem: Problem, call: Call, root: list[int]) -> list[object]:
    """Write a message that the algorithm may cut between elements."""
    message = call.buffers[0]
    count, datatype, cut = message.elements, _DATATYPES.get(message.element_bytes), []
    if datatype is None:
        count, datatype, cut = count * message.element_bytes, 6, [f"element={message.element_bytes}"]
    flops = [0] if problem.is_reduction else []
    return [count, *flops, *root, datatype, *cut]


def _table(buffer: BoundBuffer) -> list[int]:
    counts: list[int] = (np.asarray(buffer.counts) * buffer.element_bytes).tolist()
    return counts


def group_line(context: int, members: list[int]) -> str:
    """Write the line that declares a communicator: its members' world ranks, evenly spaced ones as a range.

    Examples
    --------
    >>> group_line(4, [0, 2, 4, 6, 9])
    'comm 4 0-6:2,9'
    """
    parts = []
    begin = 0
    while begin < len(members):
        end = begin + 1
        stride = members[end] - members[begin] if end < len(members) else 0
        while stride > 0 and end + 1 < len(members) and members[end + 1] - members[end] == stride:
            end += 1
        if stride > 0 and end - begin >= 2:
            parts.append(f"{members[begin]}-{members[end]}" + (f":{stride}" if stride > 1 else ""))
            begin = end + 1
        else:
            parts.append(str(members[begin]))
            begin += 1
    return f"comm {context} {','.join(parts)}"


def phase_line(rank: int, name: str, is_begin: bool) -> str:
    """Write the line at which a rank enters or leaves a phase.

    Examples
    --------
    >>> phase_line(3, "local sort", True)
    '3 phase begin local sort'
    """
    return f"{rank} phase {'begin' if is_begin else 'end'} {' '.join(name.split()) or '?'}"
