"""From a plan to what every rank does: a schedule.

A rank goes through its messages by their planned times. Before it sends it waits for what it sends, and for
what it has sent over the same links by then; a receive is posted when the messages that use its links before
are there. So ranks keep to the plan by waiting for messages only: there is no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.schedule import PROBLEMS, Column, Group, Kind, Schedule, Step, Temporary, build
from labkit.schedule.check import uncollected
from labkit.synthesis.fabric import Way

__all__ = ["Transfer", "TransferPlan", "schedule_of"]


class BlockRange(NamedTuple):
    """Consecutive blocks: number of the buffer, first block, how many."""

    buffer: int
    first: int
    length: int


#: one operation of a rank: kind, peer, label; target and source: buffer, first block and length
Entry = tuple[int, int, int, int, int, int, int, int, int]


@dataclass(frozen=True)
class Listed:
    """The operations of every rank, in order.

    `table` (array of int64, shape (operations, 9)): Kind, peer, label, target and source, rank by rank.
    `begins` (array of int64, shape (ranks + 1,)): Where each rank's operations begin.
    """

    table: NDArray[np.int64]
    begins: NDArray[np.int64]

    @staticmethod
    def of(programs: Sequence[Sequence[Entry]]) -> Listed:
        """Put programs into a table."""
        lengths = [len(program) for program in programs]
        table = np.concatenate([np.array(program, np.int64).reshape(-1, 9) for program in programs])
        return Listed(table, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64))

    def __call__(self, group: Group) -> Iterator[Step]:
        """Yield the operations of the group's ranks: the first ones of all, the second ones, ..."""
        ranks = group.ranks
        lengths = self.begins[ranks + 1] - self.begins[ranks]
        for turn in range(int(lengths.max(initial=0))):
            here = ranks[lengths > turn]
            rows = self.table[self.begins[here] + turn]
            keys = rows[:, [0, 2, 3, 6]]
            order = np.lexsort(keys.T[::-1])
            here, rows, keys = here[order], rows[order], keys[order]
            changes = (np.flatnonzero(np.any(keys[1:] != keys[:-1], axis=1)) + 1).tolist()
            bounds = zip([0, *changes], [*changes, len(order)], strict=True)
            yield Step(tuple(_column(here[begin:end], rows[begin:end].T.copy()) for begin, end in bounds))


def _column(ranks: NDArray[np.int64], columns: NDArray[np.int64]) -> Column:
    """Return entries that have kind, label and buffers in common."""
    kind, _, label, target, _, _, source, _, _ = columns[:, 0].tolist()
    return Column(
        Kind(kind),
        ranks,
        columns[1],
        (target, columns[4], columns[5], 0, 1),
        (source, columns[7], columns[8], 0, 1),
        label,
        0,
    )


#: first block, buffer and length of no section
_NOWHERE = (-1, 0, 0)
_ISEND, _IRECV, _WAIT = int(Kind.ISEND), int(Kind.IRECV), int(Kind.WAIT)
_COPY, _COMBINE = int(Kind.COPY), int(Kind.COMBINE)


@dataclass(eq=False, slots=True)
class _Open:
    """A request of a rank: its message, label, and where its pieces are put when it is there."""

    transfer: Transfer
    label: int
    is_receive: bool
    moves: list[tuple[int, BlockRange, BlockRange]] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    is_open: bool = True


class _Rank:
    """The program of one rank, as written."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.open: dict[_Open, None] = {}
        self.sends_of: dict[int, list[_Open]] = {}  #: by chunk
        self.receives_of: dict[int, list[_Open]] = {}
        self.on_link: dict[tuple[bool, int], list[_Open]] = {}
        self.free_labels: list[int] = []
        self.labels = 0
        self.places: set[tuple[int, int]] = set()  #: blocks of work buffers that are received into
        self.packed_out = 0
        self.packed_in = 0
        self.relayed: dict[int, int] = {}  #: block -> its place in the work buffer of what is passed on

    def label(self) -> int:
        """Return a label that no open request has."""
        if self.free_labels:
            return heappop(self.free_labels)
        self.labels += 1
        return self.labels - 1

    def post(self, request: _Open, places: list[BlockRange]) -> None:
        """Post a request, a message for each place."""
        one, is_receive = request.transfer, request.is_receive
        kind, peer = (_IRECV, one.source) if is_receive else (_ISEND, one.destination)
        for place in places:
            self.entries.append((kind, peer, request.label, *place, *_NOWHERE))
        self.open[request] = None
        by_chunk = self.receives_of if is_receive else self.sends_of
        for chunk in one.chunks:
            by_chunk.setdefault(chunk, []).append(request)
        for link in one.links:
            self.on_link.setdefault((is_receive, link), []).append(request)
        self.places.update(request.places)

    def complete(self, request: _Open) -> None:
        """Wait for a request, and put where it belongs what it brought, when nothing reads there any more."""
        del self.open[request]
        request.is_open = False
        if request.moves:
            self.finish(self.sends_of, request.transfer)
        self.entries.append((_WAIT, -1, request.label, *_NOWHERE, *_NOWHERE))
        heappush(self.free_labels, request.label)
        self.places.difference_update(request.places)
        for kind, to, source in request.moves:
            self.entries.append((kind, -1, 0, *to, *source))

    def finish(self, by_chunk: dict[int, list[_Open]], one: Transfer, until: float = inf) -> None:
        """Wait for requests of the same chunks that are over by then."""
        for chunk in one.chunks:
            self._finish(by_chunk.get(chunk), until)

    def follow(self, one: Transfer, is_receive: bool, until: float) -> None:
        """Wait for requests over the same links that are over by then."""
        for link in one.links:
            self._finish(self.on_link.get((is_receive, link)), until)

    def _finish(self, requests: list[_Open] | None, until: float) -> None:
        if not requests:
            return
        for request in requests:
            if request.is_open and request.transfer.end_s <= until:
                self.complete(request)
        requests[:] = [request for request in requests if request.is_open]


class _Writer:
    """Writes the programs of a plan for one collective."""

    def __init__(
        self, problem: str, size: int, root: int, parts: int, plan: TransferPlan, is_paced: bool
    ) -> None:
        self.is_paced = is_paced
        self.problem, self.size, self.root, self.parts, self.plan = problem, size, root, parts, plan
        self.ranks = [_Rank() for _ in range(size)]
        self.caller = list(PROBLEMS[problem].shapes)
        self.temporaries: list[str] = []
        self.is_split = PROBLEMS[problem].layout == "split"
        scattered = problem in ("reduce_scatter", "reduce_scatter_block")
        #: where chunks are combined or collected, and what it is like
        self.home = (
            "data" if problem == "bcast" else "partial" if scattered or problem == "reduce" else "recv"
        )
        self.like = "send" if self.home == "partial" else self.home
        self.can_pack = parts == 1 and problem == "allgather"

    def number(self, buffer: str) -> int:
        """Return a buffer's number; a new name is a new work buffer."""
        if buffer in self.caller:
            return self.caller.index(buffer)
        if buffer not in self.temporaries:
            self.temporaries.append(buffer)
        return len(self.caller) + self.temporaries.index(buffer)

    def write(self) -> Schedule:
        """Return the schedule."""
        self._begin()
        for one in self.plan.transfers:
            self._receive(one.destination, one)
            self._send(one.source, one)
        for rank, state in enumerate(self.ranks):
            for request in [request for request in state.open if request.moves]:
                state.complete(request)
            if state.open:
                state.entries.append((_WAIT, -1, -1, *_NOWHERE, *_NOWHERE))
            self._end(rank)
        return build(
            self.problem,
            Listed.of([state.entries for state in self.ranks]),
            self.size,
            name="synthesized",
            root=self.root,
            parts=self.parts,
            temporaries=[self._temporary(name) for name in self.temporaries],
        )

    def _temporary(self, name: str) -> Temporary:
        counts = {
            "outbox": [state.packed_out for state in self.ranks],
            "inbox": [state.packed_in for state in self.ranks],
            "relay": [len(state.relayed) * self.parts for state in self.ranks],
        }.get(name)
        if counts is not None:
            return Temporary(name, self.like, lambda group: max(counts) + 0 * group.ranks)
        return Temporary(name, self.like)

    # -- beginning and end ---------------------------------------------------------------------------
    def _begin(self) -> None:
        p, parts = self.size, self.parts
        for me, state in enumerate(self.ranks):
            if self.problem == "allgather":
                self._copy(
                    state,
                    BlockRange(self.number("send"), 0, parts),
                    BlockRange(self.number("recv"), me * parts, parts),
                )
            elif self.problem == "alltoall":
                self._copy(
                    state,
                    BlockRange(self.number("send"), me * parts, parts),
                    BlockRange(self.number("recv"), me * parts, parts),
                )
            elif PROBLEMS[self.problem].is_reduction:
                blocks = parts if self.is_split else p * parts
                self._copy(
                    state,
                    BlockRange(self.number("send"), 0, blocks),
                    BlockRange(self.number(self.home), 0, blocks),
                )

    def _end(self, rank: int) -> None:
        parts, state = self.parts, self.ranks[rank]
        if self.home != "partial" or (self.problem == "reduce" and rank != self.root):
            return
        first = 0 if self.problem == "reduce" else rank * parts
        self._copy(
            state, BlockRange(self.number("partial"), first, parts), BlockRange(self.number("recv"), 0, parts)
        )

    @staticmethod
    def _copy(state: _Rank, source: BlockRange, target: BlockRange) -> None:
        state.entries.append((_COPY, -1, 0, *target, *source))

    # -- messages ------------------------------------------------------------------------------------
    def _pieces(self, chunks: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return chunks as stretches of consecutive ones: first and length."""
        found: list[list[int]] = []
        is_apart = self.problem == "alltoall"
        for chunk in chunks:
            if found and not is_apart and found[-1][0] + found[-1][1] == chunk:
                found[-1][1] += 1
            else:
                found.append([chunk, 1])
        return [(first, length) for first, length in found]

    def _place(self, rank: int, first: int, length: int, is_send: bool) -> BlockRange:
        """Return where consecutive chunks are at a rank that sends or receives them."""
        if self.problem != "alltoall":
            return BlockRange(self.number(self.home), first, length)
        block, part = divmod(first, self.parts)
        source, destination = divmod(block, self.size)
        if rank == (source if is_send else destination):
            index = destination if is_send else source
            return BlockRange(self.number("send" if is_send else "recv"), index * self.parts + part, length)
        slots = self.ranks[rank].relayed  # neither the first nor the last rank that has it
        slot = slots.setdefault(block, len(slots))
        return BlockRange(self.number("relay"), slot * self.parts + part, length)

    def _send(self, rank: int, one: Transfer) -> None:
        state = self.ranks[rank]
        state.finish(state.receives_of, one, _until(one))
        if self.is_paced:
            state.follow(one, False, _until(one))
        pieces = self._pieces(one.chunks)
        if len(pieces) > 1 and self.can_pack:
            box, at = self.number("outbox"), state.packed_out
            for first, length in pieces:
                self._copy(
                    state, BlockRange(self.number(self.home), first, length), BlockRange(box, at, length)
                )
                at += length
            places = [BlockRange(box, state.packed_out, at - state.packed_out)]
            state.packed_out = at
        else:
            places = [self._place(rank, first, n, True) for first, n in pieces]
        state.post(_Open(one, state.label(), False), places)

    def _receive(self, rank: int, one: Transfer) -> None:
        state = self.ranks[rank]
        if self.is_paced:
            state.follow(one, True, _until(one))
        if not one.is_combined and self.problem != "alltoall":
            state.finish(state.sends_of, one)
        pieces = self._pieces(one.chunks)
        request = _Open(one, state.label(), True)
        if one.is_combined:
            places = []
            for first, length in pieces:
                box = BlockRange(self._free_box(state, first, length), first, length)
                places.append(box)
                request.places += [(box.buffer, chunk) for chunk in range(first, first + length)]
                request.moves.append((_COMBINE, BlockRange(self.number(self.home), first, length), box))
        elif len(pieces) > 1 and self.can_pack:
            box_number, at = self.number("inbox"), state.packed_in
            for first, length in pieces:
                source = BlockRange(box_number, at, length)
                request.moves.append((_COPY, BlockRange(self.number(self.home), first, length), source))
                at += length
            places = [BlockRange(box_number, state.packed_in, at - state.packed_in)]
            state.packed_in = at
        else:
            places = [self._place(rank, first, n, False) for first, n in pieces]
        state.post(request, places)

    def _free_box(self, state: _Rank, first: int, length: int) -> int:
        """Return a work buffer in whose blocks nothing is being received."""
        box = 0
        while True:
            number = self.number(f"incoming{box or ''}")
            if all((number, chunk) not in state.places for chunk in range(first, first + length)):
                return number
            box += 1


def _until(one: Transfer) -> float:
    """Return when a message begins, and what differs from it by rounding only."""
    return one.begin_s * (1 + 1e-9) + 1e-12


def schedule_of(
    problem: str, size: int, root: int, parts: int, plan: TransferPlan, is_paced: bool = True
) -> Schedule:
    """Return the schedule that carries out a plan."""
    with uncollected():
        return _Writer(problem, size, root, parts, plan, is_paced).write()


# A plan: which message carries which chunks from where to where, and when.


@dataclass(frozen=True, slots=True)
class Transfer:
    """One message of a plan.

    `begin_s`, `end_s`: When it is sent and when it is received, by the plan.
    `chunks`: What it carries, ascending.
    `links`: The shared links that it crosses.
    `is_combined`: Whether the receiver combines it with what it has.
    """

    begin_s: float
    end_s: float
    source: int
    destination: int
    chunks: tuple[int, ...]
    links: tuple[int, ...]
    is_combined: bool = False


@dataclass(frozen=True)
class TransferPlan:
    """Messages in the order of their beginnings."""

    transfers: tuple[Transfer, ...]

    @staticmethod
    def of(transfers: Iterable[Transfer]) -> TransferPlan:
        """Return the plan of some messages, in order."""
        return TransferPlan(tuple(sorted(transfers, key=lambda one: (one.begin_s, one.end_s))))

    @property
    def end_s(self) -> float:
        """When the last message is received, by the plan."""
        return max((one.end_s for one in self.transfers), default=0.0)

    def reversed(self) -> TransferPlan:
        """Return the plan backwards: what spread now gathers, and is combined step by step.

        Every chunk went down a tree from its origin. Backwards each rank combines what its children send with
        its own and sends it to its parent, once.
        """
        last = self.end_s
        return TransferPlan.of(
            Transfer(
                last - one.end_s,
                last - one.begin_s,
                one.destination,
                one.source,
                one.chunks,
                one.links[::-1],
                True,
            )
            for one in self.transfers
        )

    def mirrored(self, ways: Sequence[Sequence[Way | None]]) -> TransferPlan:
        """Return the same plan with every message on the other one's way, source and destination unchanged.

        Where each link has a twin the other way, a plan for the machine is so one for the machine backwards.
        """
        return TransferPlan(
            tuple(replace(one, links=_back(ways, one.destination, one.source)) for one in self.transfers)
        )

    def then(self, other: TransferPlan) -> TransferPlan:
        """Return this plan followed by another one."""
        shift = self.end_s
        moved = (
            Transfer(
                shift + one.begin_s,
                shift + one.end_s,
                one.source,
                one.destination,
                one.chunks,
                one.links,
                one.is_combined,
            )
            for one in other.transfers
        )
        return TransferPlan((*self.transfers, *moved))


def _back(ways: Sequence[Sequence[Way | None]], source: int, destination: int) -> tuple[int, ...]:
    way = ways[source][destination]
    assert way is not None
    return way.links[::-1]
