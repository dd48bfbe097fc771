"""The cost of a schedule, counted on the schedule itself.

The model: a message of n bytes takes ``alpha + n*beta`` from the moment both sides are ready; a rank sends
at most one message and receives at most one at a time; combining n bytes takes ``n*gamma``. Counting the
slowest path is an independent check of an algorithm's closed formula.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

from labkit.errors import ScheduleError
from labkit.schedule.schedule import COUNT_BYTES, Schedule
from labkit.schedule.step import ANY_LABEL, NO_BUFFER, Blocks, Kind, block_indices

__all__ = ["Ports", "Programs", "count", "predict"]

_WAIT, _COMBINE = Kind.WAIT, Kind.COMBINE  # looking them up takes as long as a comparison


def predict(
    schedule: Schedule, n_bytes: float, alpha_s: float, beta_s_per_byte: float, gamma_s_per_byte: float = 0.0
) -> float:
    """Return the time of the slowest rank when all enter at 0.

    Parameters
    ----------
    schedule : Schedule
    n_bytes : float
        The message of a bcast, reduction or scan; one block of the other collectives.
    alpha_s, beta_s_per_byte, gamma_s_per_byte : float
        Start-up, time per byte sent, time per byte combined.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    ScheduleError
        If the schedule deadlocks.
    """
    programs = Programs(schedule, n_bytes / schedule.parts)
    return Ports(programs, alpha_s, beta_s_per_byte, gamma_s_per_byte).run()


def count(schedule: Schedule, n_bytes: float) -> tuple[float, float, float]:
    """Return rounds, bytes sent and bytes combined, each on its own slowest path.

    Examples
    --------
    >>> from labkit import registry
    >>> count(registry.get("allreduce", "ring").build(4), 800)
    (6.0, 1200.0, 600.0)
    """
    programs = Programs(schedule, n_bytes / schedule.parts)
    combines = any(kind is _COMBINE for program in programs.entries for kind, _, _, _ in program)
    return (
        Ports(programs, 1.0, 0.0, 0.0).run(),
        Ports(programs, 0.0, 1.0, 0.0).run(),
        Ports(programs, 0.0, 0.0, 1.0).run() if combines else 0.0,
    )


class Programs:
    """What each rank does, with bytes in the place of sections: for several runs.

    `block_bytes`: Of one block.
    """

    def __init__(self, schedule: Schedule, block_bytes: float) -> None:
        self.schedule = schedule
        #: by rank: kind, peer, label, bytes
        self.entries: list[list[tuple[Kind, int, int, float]]] = [[] for _ in range(schedule.size)]
        holds = [buffer.holds for buffer in schedule.buffers]
        counts = [each.tolist() for each in schedule.n_blocks_of(range(schedule.size))]
        lengths: dict[tuple[Blocks, int], int] = {}
        for step in schedule.steps():
            for rank, (kind, peer, label, section, _, _) in step.entries():
                if kind is Kind.COPY:  # takes no time
                    continue
                n_bytes = 0.0
                if section.buffer != NO_BUFFER:
                    key = section, counts[section.buffer][rank]
                    length = lengths.get(key)
                    if length is None:
                        length = lengths[key] = len(block_indices(*section[1:], key[1]))
                    n_bytes = (COUNT_BYTES if holds[section.buffer] == "counts" else block_bytes) * length
                self.entries[rank].append((kind, peer, label, n_bytes))


@dataclass(eq=False, slots=True)
class _Request:
    rank: int
    label: int
    n_bytes: float
    number: int  #: how many the rank has posted before
    posted: float
    end: float | None = None


@dataclass(eq=False, slots=True)
class _Rank:
    program: list[tuple[Kind, int, int, float]]
    clock: float = 0.0
    position: int = 0
    posts: int = 0
    open: list[_Request] = field(default_factory=list)
    blocking: _Request | None = None  #: of the call it is in
    missing: _Request | None = None  #: one without which it cannot go on


class Ports:
    """Ranks with one port each way: run as far as they get; then the message that can start first; again."""

    def __init__(self, programs: Programs, alpha: float, beta: float, gamma: float) -> None:
        self.schedule = programs.schedule
        self.alpha, self.beta, self.gamma = alpha, beta, gamma
        self.ranks = [_Rank(program) for program in programs.entries]
        self.pairs: dict[tuple[int, int], tuple[deque[_Request], deque[_Request]]] = {}
        self.out_free = [0.0] * len(self.ranks)
        self.in_free = [0.0] * len(self.ranks)
        #: (possible start, which post of its sender and of its receiver, tie) of matched messages
        self.matched: list[tuple[float, tuple[int, int], int, _Request, _Request]] = []
        self.ties = 0

    def run(self) -> float:
        """Return the time of the slowest rank."""
        for rank in range(len(self.ranks)):
            self._advance(rank)
        while self.matched:
            start, number, tie, send, receive = self.matched[0]
            possible = max(start, self.out_free[send.rank], self.in_free[receive.rank])
            if possible > start:  # a port has become busy meanwhile: queue again
                heapq.heapreplace(self.matched, (possible, number, tie, send, receive))
                continue
            heapq.heappop(self.matched)
            end = start + self.alpha + self.beta * send.n_bytes
            self.out_free[send.rank] = self.in_free[receive.rank] = send.end = receive.end = end
            self.carried(send.rank, receive.rank, start)
            self._advance(send.rank)
            self._advance(receive.rank)
        for rank, state in enumerate(self.ranks):
            if state.position < len(state.program):
                raise ScheduleError(
                    f"{self.schedule!r} deadlocks: rank {rank} waits forever; check() shows why",
                    code="deadlock",
                )
        return max(state.clock for state in self.ranks)

    def carried(self, source: int, destination: int, start: float) -> None:
        """Take note of a message; here nobody does."""

    def _advance(self, rank: int) -> None:
        state = self.ranks[rank]
        if state.missing is not None and state.missing.end is None:
            return
        program = state.program
        while state.position < len(program):
            kind, peer, label, n_bytes = program[state.position]
            if kind is _COMBINE:
                state.clock += self.gamma * n_bytes
            elif kind is _WAIT:
                if not _are_over(state, label):
                    return
            else:
                request = state.blocking or self._post(rank, state, kind, peer, label, n_bytes)
                if kind.is_blocking:
                    state.blocking = state.missing = request
                    if request.end is None:
                        return
                    state.clock = max(state.clock, request.end)
                    state.open.remove(request)
                    state.blocking = None
            state.position += 1

    def _post(self, rank: int, state: _Rank, kind: Kind, peer: int, label: int, n_bytes: float) -> _Request:
        request = _Request(rank, label, n_bytes, state.posts, state.clock)
        state.posts += 1
        state.open.append(request)
        pair = (rank, peer) if kind.is_send else (peer, rank)
        queues = self.pairs.get(pair)
        if queues is None:
            queues = self.pairs[pair] = deque(), deque()
        sends, receives = queues
        (sends if kind.is_send else receives).append(request)
        if sends and receives:
            send, receive = sends.popleft(), receives.popleft()
            self.ties += 1
            ready = max(send.posted, receive.posted)
            heapq.heappush(self.matched, (ready, (send.number, receive.number), self.ties, send, receive))
        return request


def _are_over(state: _Rank, label: int) -> bool:
    """Let a rank wait for its open requests of a label, or for all of them; whether they are over."""
    clock, rest = state.clock, []
    for request in state.open:
        if label not in (ANY_LABEL, request.label):
            rest.append(request)
        elif request.end is None:
            state.missing = request
            return False
        else:
            clock = max(clock, request.end)
    state.clock, state.open = clock, rest
    return True
