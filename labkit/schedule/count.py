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
from labkit.schedule.section import block_indices
from labkit.schedule.step import ANY_LABEL, NO_BUFFER, Blocks, Kind, Op

__all__ = ["Ports", "count", "predict"]


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
    return Ports(schedule, n_bytes / schedule.parts, alpha_s, beta_s_per_byte, gamma_s_per_byte).run()


def count(schedule: Schedule, n_bytes: float) -> tuple[float, float, float]:
    """Return rounds, bytes sent and bytes combined, each on its own slowest path.

    Examples
    --------
    >>> from labkit import registry
    >>> count(registry.get("allreduce", "ring").build(4), 800)
    (6.0, 1200.0, 600.0)
    """
    return (
        predict(schedule, n_bytes, 1.0, 0.0),
        predict(schedule, n_bytes, 0.0, 1.0),
        predict(schedule, n_bytes, 0.0, 0.0, 1.0),
    )


@dataclass(eq=False)
class _Request:
    rank: int
    op: Op
    number: int  #: how many the rank has posted before
    posted: float
    end: float | None = None


@dataclass(eq=False)
class _Rank:
    program: list[Op]
    n_blocks: list[int]
    clock: float = 0.0
    position: int = 0
    posts: int = 0
    open: list[_Request] = field(default_factory=list)
    blocking: _Request | None = None


class Ports:
    """Ranks with one port each way: run as far as they get; then the message that can start first; again."""

    def __init__(
        self, schedule: Schedule, block_bytes: float, alpha: float, beta: float, gamma: float
    ) -> None:
        self.schedule, self.block_bytes = schedule, block_bytes
        self.alpha, self.beta, self.gamma = alpha, beta, gamma
        counts = schedule.n_blocks_of(range(schedule.size))
        self.ranks = [_Rank([], [int(count[rank]) for count in counts]) for rank in range(schedule.size)]
        for step in schedule.steps():
            for rank, op in step.entries():
                self.ranks[rank].program.append(op)
        self.pairs: dict[tuple[int, int], tuple[deque[_Request], deque[_Request]]] = {}
        self.out_free = [0.0] * schedule.size
        self.in_free = [0.0] * schedule.size
        #: (possible start, which post of its sender and of its receiver, tie) of matched messages
        self.matched: list[tuple[float, tuple[int, int], int, _Request, _Request]] = []
        self.ties = 0

    def run(self) -> float:
        """Return the time of the slowest rank."""
        for rank in range(self.schedule.size):
            self._advance(rank)
        while self.matched:
            start, number, tie, send, receive = heapq.heappop(self.matched)
            possible = max(start, self.out_free[send.rank], self.in_free[receive.rank])
            if possible > start:  # a port has become busy meanwhile: queue again
                heapq.heappush(self.matched, (possible, number, tie, send, receive))
                continue
            end = start + self.alpha + self.beta * self._bytes(send.rank, send.op.section)
            self.out_free[send.rank] = self.in_free[receive.rank] = send.end = receive.end = end
            self.carried(send.rank, receive.rank, start)
            self._advance(send.rank)
            self._advance(receive.rank)
        for rank, state in enumerate(self.ranks):
            if state.position < len(state.program):
                raise ScheduleError(
                    f"{self.schedule!r} deadlocks: rank {rank} waits for ever; check() says why"
                )
        return max(state.clock for state in self.ranks)

    def carried(self, source: int, destination: int, start: float) -> None:
        """Take note of a message; here nobody does."""

    def _advance(self, rank: int) -> None:
        state = self.ranks[rank]
        while state.position < len(state.program):
            if not self._execute(rank, state, state.program[state.position]):
                return
            state.position += 1

    def _execute(self, rank: int, state: _Rank, op: Op) -> bool:
        if op.kind is Kind.COMBINE:
            state.clock += self.gamma * self._bytes(rank, op.section)
        elif op.kind is Kind.WAIT:
            return self._wait(state, [r for r in state.open if op.label in (ANY_LABEL, r.op.label)])
        elif op.kind is not Kind.COPY:
            request = state.blocking or self._post(rank, state, op)
            if op.kind.is_blocking:
                state.blocking = request
                if not self._wait(state, [request]):
                    return False
                state.blocking = None
        return True

    def _wait(self, state: _Rank, requests: list[_Request]) -> bool:
        ends = [request.end for request in requests if request.end is not None]
        if len(ends) < len(requests):
            return False
        state.clock = max([state.clock, *ends])
        done = set(requests)
        state.open = [request for request in state.open if request not in done]
        return True

    def _post(self, rank: int, state: _Rank, op: Op) -> _Request:
        request = _Request(rank, op, state.posts, state.clock)
        state.posts += 1
        state.open.append(request)
        pair = (rank, op.peer) if op.kind.is_send else (op.peer, rank)
        sends, receives = self.pairs.setdefault(pair, (deque(), deque()))
        (sends if op.kind.is_send else receives).append(request)
        if sends and receives:
            send, receive = sends.popleft(), receives.popleft()
            self.ties += 1
            ready = max(send.posted, receive.posted)
            heapq.heappush(self.matched, (ready, (send.number, receive.number), self.ties, send, receive))
        return request

    def _bytes(self, rank: int, section: Blocks) -> float:
        if section.buffer == NO_BUFFER:
            return 0.0
        is_count = self.schedule.buffers[section.buffer].holds == "counts"
        each = COUNT_BYTES if is_count else self.block_bytes
        return each * len(block_indices(*section[1:], self.ranks[rank].n_blocks[section.buffer]))
