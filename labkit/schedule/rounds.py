"""A schedule round by round: who sends what to whom, and what every rank holds afterwards.

Rounds are those of the one-port model: a rank sends at most one message and receives at most one in a round,
every message goes as early as it can, and local work takes no time. What ranks hold is what the checker of
schedules (`labkit.schedule.check`) follows: contributions, not numbers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from labkit.schedule.count import Ports, Programs
from labkit.schedule.problem import Value
from labkit.schedule.schedule import Schedule
from labkit.schedule.step import Op
from labkit.schedule.symbolic import Machine, RankState, Request

__all__ = ["Place", "Rounds", "Sent", "State", "rounds"]

#: buffer number and block number
Place = tuple[int, int]
#: what one rank holds
State = dict[Place, Value]


@dataclass(frozen=True)
class Sent:
    """One message of a round.

    Attributes
    ----------
    source, destination : int
    places : tuple of (int, int)
        Where its blocks go, at the destination.
    values : tuple
        What they hold.
    """

    source: int
    destination: int
    places: tuple[Place, ...]
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Rounds:
    """A schedule in rounds.

    Attributes
    ----------
    schedule : Schedule
    messages : list of list of Sent
        Of each round, by source.
    states : list of list of State
        What every rank holds at the start and after each round: one more than there are rounds.
    heard : list of list of int
        At the same times, for every rank a bit set of the ranks that it knows to have entered.
    """

    schedule: Schedule
    messages: list[list[Sent]]
    states: list[list[State]]
    heard: list[list[int]]

    def __len__(self) -> int:
        return len(self.messages)


def rounds(schedule: Schedule) -> Rounds:
    """Take a schedule apart into rounds.

    Examples
    --------
    >>> from labkit import registry
    >>> found = rounds(registry.get("bcast", "binomial").build(4))
    >>> [[(m.source, m.destination) for m in one] for one in found.messages]
    [[(0, 2)], [(0, 1), (2, 3)]]
    >>> [len(held) for held in found.states[1]]
    [1, 0, 1, 0]
    """
    ports = _Starts(Programs(schedule, 0.0))
    ports.run()
    machine = _Paced(schedule, ports.starts)
    count = 1 + max((start for starts in ports.starts.values() for start in starts), default=-1)
    states, heard = [], []
    for limit in range(-1, count):
        machine.advance(limit)
        states.append([machine.held(rank) for rank in range(schedule.size)])
        heard.append([machine.known(rank) for rank in range(schedule.size)])
    messages: list[list[Sent]] = [[] for _ in range(count)]
    for number, sent in machine.matched:
        messages[number].append(sent)
    for one in messages:
        one.sort(key=lambda sent: (sent.source, sent.destination))
    return Rounds(schedule, messages, states, heard)


class _Starts(Ports):
    """Finds the round of every message; messages between two ranks are matched in order."""

    def __init__(self, programs: Programs) -> None:
        super().__init__(programs, 1.0, 0.0, 0.0)
        self.starts: dict[tuple[int, int], list[int]] = {}

    def carried(self, source: int, destination: int, start: float) -> None:
        self.starts.setdefault((source, destination), []).append(round(start))


class _Paced(Machine):
    """The checker's machine, in which a message arrives no sooner than in its round."""

    def __init__(self, schedule: Schedule, starts: dict[tuple[int, int], list[int]]) -> None:
        super().__init__(schedule)
        self._starts = {pair: deque(numbers) for pair, numbers in starts.items()}
        self._limit = -1
        self._round: dict[Request, int] = {}
        self._before: list[State] = [{} for _ in range(schedule.size)]
        self.matched: list[tuple[int, Sent]] = []

    def advance(self, limit: int) -> None:
        """Go on as far as the messages of the rounds up to `limit` allow."""
        self._limit = limit
        ready = deque(range(self.schedule.size))
        while ready:
            self._run_rank(ready.popleft(), ready)

    def held(self, rank: int) -> State:
        """What a rank holds now: also what has arrived but was not waited for, or is about to be replaced."""
        state = self.ranks[rank]
        held = {**state.values}
        for request in state.open:
            if not request.op.kind.is_receive:
                continue
            if self._round.get(request, self._limit + 1) <= self._limit:
                held.update(zip(request.places, request.values, strict=True))
            else:
                held.update((p, self._before[rank][p]) for p in request.places if p in self._before[rank])
        return held

    def known(self, rank: int) -> int:
        """Which ranks a rank knows to have entered, as a bit set."""
        state = self.ranks[rank]
        known = state.heard
        for request in state.open:
            if request.op.kind.is_receive and self._round.get(request, self._limit + 1) <= self._limit:
                known |= request.heard
        return known

    def _post(self, rank: int, state: RankState, op: Op, ready: deque[int]) -> Request:
        before = dict(state.values)
        request = super()._post(rank, state, op, ready)
        if op.kind.is_receive:
            self._before[rank].update((p, before[p]) for p in request.places if p in before)
        return request

    def _match(self, send: Request, receive: Request) -> None:
        super()._match(send, receive)
        number = self._starts[send.rank, receive.rank].popleft()
        self._round[send] = self._round[receive] = number
        sent = Sent(send.rank, receive.rank, tuple(receive.places), tuple(send.values))
        self.matched.append((number, sent))

    def _complete(self, state: RankState, requests: list[Request]) -> bool:
        if any(self._round.get(request, self._limit + 1) > self._limit for request in requests):
            return False
        return super()._complete(state, requests)
