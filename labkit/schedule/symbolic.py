"""A machine whose blocks hold lists of contributions instead of numbers (see `labkit.schedule.check`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from labkit.schedule.count import Ports, Programs
from labkit.schedule.problem import Runs, Value
from labkit.schedule.schedule import Schedule
from labkit.schedule.step import ANY_LABEL, NO_BUFFER, Blocks, Kind, Op, block_indices

__all__ = ["Refuted", "Rounds", "Sent", "SymbolicMachine", "combined", "rounds", "value_text"]


Place = tuple[int, int]  # buffer number, block number


class Refuted(Exception):
    """A broken promise, with the place where it shows."""

    def __init__(
        self,
        kind: str,
        rank: int,
        position: int | None,
        op: Op | None,
        message: str,
        block: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind, self.rank, self.position, self.op = kind, rank, position, op
        self.message, self.block = message, block


@dataclass(eq=False, slots=True)
class Posted:
    """One posted send or receive."""

    rank: int
    position: int
    op: Op
    places: list[Place]
    values: list[Value] = field(default_factory=list)
    heard: int = 0  #: bit set of ranks the sender knows to have entered
    is_matched: bool = False


@dataclass(eq=False, slots=True)
class RankState:
    """Where one rank is in its program, and what it holds."""

    program: list[Op]
    n_blocks: list[int]
    values: dict[Place, Value]
    position: int = 0
    open: list[Posted] = field(default_factory=list)
    users: dict[Place, list[Posted]] = field(default_factory=dict)  #: open requests by block
    blocking: Posted | None = None
    heard: int = 0


# Symbolic values: which ranks' contributions a block is made of.


class Unordered(Exception):
    """Two values that must not be combined; `kind` is "twice", "order" or "wrong value"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def combined(left: Value, right: Value, commutative: bool) -> Value:
    """Return ``left op right``.

    Examples
    --------
    >>> combined((0, ((0, 2),)), (0, ((2, 3),)), commutative=False)
    (0, ((0, 3),))
    """
    if left[0] != right[0]:
        raise Unordered("wrong value", f"part {left[0]} of the message meets part {right[0]}")
    runs = _joined(sorted(left[1] + right[1]))
    if not commutative and (left[1][-1][1] != right[1][0][0]):
        text = f"operands out of order: {_ranks_text(left[1])} stands left of {_ranks_text(right[1])}"
        raise Unordered("order", text)
    return left[0], runs


def _joined(ordered: list[tuple[int, int]]) -> Runs:
    joined: list[tuple[int, int]] = []
    for begin, end in ordered:
        if joined and begin < joined[-1][1]:
            raise Unordered("twice", f"the contribution of rank {begin} is combined twice")
        if joined and begin == joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return tuple(joined)


def value_text(value: Value | None) -> str:
    """Return a value as text."""
    if value is None:
        return "nothing"
    block, runs = value
    if block < 0:
        return f"the size of rank {runs[0][0]}'s block"
    if len(runs) == 1 and runs[0][1] == runs[0][0] + 1:
        return f"rank {runs[0][0]}'s block {block}"
    return f"part {block} combined over {_ranks_text(runs)}"


def _ranks_text(runs: Runs) -> str:
    spans = [str(a) if b == a + 1 else f"{a}..{b - 1}" for a, b in runs]
    word = "rank" if len(spans) == 1 and runs[0][1] == runs[0][0] + 1 else "ranks"
    return f"{word} {', '.join(spans)}"


class SymbolicMachine:
    """Executes a schedule symbolically; raises `Refuted` at the first broken promise."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.messages = 0
        self.blocks_sent = 0
        self.counts, self.told = schedule.number_of("counts"), schedule.number_of("told")
        self.sizes: dict[tuple[int, Place], Hashable] = {}
        self.in_flight: dict[tuple[int, int], tuple[deque[Posted], deque[Posted]]] = {}
        self.ranks = [self._rank_state() for _ in range(schedule.size)]
        for step in schedule.steps():
            for rank, op in step.entries():
                self.ranks[rank].program.append(op)
        counts = schedule.n_blocks_of(range(schedule.size))
        for rank, state in enumerate(self.ranks):
            state.n_blocks = [int(count[rank]) for count in counts]
            state.heard = 1 << rank
            self._fill(rank, state)

    def _rank_state(self) -> RankState:
        return RankState([], [], {})

    def _fill(self, rank: int, state: RankState) -> None:
        for number, buffer in enumerate(self.schedule.buffers):
            for block in range(0 if buffer.is_temporary else state.n_blocks[number]):
                value = self.schedule.problem.initial(buffer.name, rank, block, self.schedule.root)
                if value is not None:
                    state.values[number, block] = value
        if self.counts is not None:
            known = self._callers_sizes(rank, state)
            for block in range(state.n_blocks[self.counts]):
                owner = (rank + block) % self.schedule.size
                if owner in known:
                    state.values[self.counts, block] = _count_of(owner)

    def _callers_sizes(self, rank: int, state: RankState) -> set[Hashable]:
        """Return what a rank's caller knows of sizes: those of the blocks in its own buffers."""
        return {
            self.schedule.size_class(number, rank, block)
            for number, buffer in enumerate(self.schedule.buffers)
            for block in range(0 if buffer.is_temporary else state.n_blocks[number])
        }

    # -- running -----------------------------------------------------------------------------------
    def run(self) -> None:
        """Run all ranks to their ends and check what they leave."""
        ready = deque(range(self.schedule.size))
        while ready:
            rank = ready.popleft()
            self._run_rank(rank, ready)
        for rank, state in enumerate(self.ranks):
            if state.position < len(state.program):
                self._refute_deadlock(rank)
        for rank in range(self.schedule.size):
            self._check_end(rank)

    def _run_rank(self, rank: int, ready: deque[int]) -> None:
        state = self.ranks[rank]
        while state.position < len(state.program):
            op = state.program[state.position]
            if not self._execute(rank, state, op, ready):
                return
            state.position += 1

    def _execute(self, rank: int, state: RankState, op: Op, ready: deque[int]) -> bool:
        """Carry out one operation; False if the rank must wait (it will be tried again)."""
        if op.kind is Kind.WAIT:
            return self._complete(state, [r for r in state.open if op.label in (ANY_LABEL, r.op.label)])
        if op.kind is Kind.COPY:
            self._copy(rank, op)
            return True
        if op.kind is Kind.COMBINE:
            self._combine(rank, op)
            return True
        request = state.blocking
        if request is None:
            request = self._post(rank, state, op, ready)
        if not op.kind.is_blocking:
            return True
        state.blocking = request
        if not self._complete(state, [request]):
            return False
        state.blocking = None
        return True

    def _post(self, rank: int, state: RankState, op: Op, ready: deque[int]) -> Posted:
        if not 0 <= op.peer < self.schedule.size:
            raise self._refuted("no rank", rank, op, f"there is no rank {op.peer}")
        request = Posted(rank, state.position, op, self._places(rank, op, op.section))
        pair = (rank, op.peer) if op.kind.is_send else (op.peer, rank)
        queues = self.in_flight.get(pair)
        if queues is None:
            queues = self.in_flight[pair] = deque(), deque()
        sends, receives = queues
        if op.kind.is_send:
            request.values = [self._read(rank, op, place) for place in request.places]
            request.heard = state.heard
            sends.append(request)
            self.messages += 1
            self.blocks_sent += len(request.places)
        else:
            for place in request.places:
                self._claim(rank, op, place, is_write=True)
                state.values.pop(place, None)
            receives.append(request)
        state.open.append(request)
        for place in request.places:
            state.users.setdefault(place, []).append(request)
        if sends and receives:
            self._match(sends.popleft(), receives.popleft())
            ready.append(op.peer)
        return request

    def _match(self, send: Posted, receive: Posted) -> None:
        if len(send.places) != len(receive.places):
            raise self._refuted_at(
                "shape",
                receive,
                f"rank {send.rank} sends {len(send.places)} blocks, "
                f"the receive has room for {len(receive.places)}",
            )
        for source, target in zip(send.places, receive.places, strict=True):
            given, wanted = self._size(send.rank, source), self._size(receive.rank, target)
            if given != wanted:
                raise self._refuted_at(
                    "size",
                    receive,
                    f"{self._name(target)} need not have the size of rank {send.rank}'s {self._name(source)}",
                    self._name(target),
                )
        receive.values, receive.heard = send.values, send.heard
        send.is_matched = receive.is_matched = True

    def _complete(self, state: RankState, requests: list[Posted]) -> bool:
        for request in requests:
            if not request.is_matched:
                return False
        done = set(requests)
        state.open = [request for request in state.open if request not in done]
        for request in requests:
            for place in request.places:
                state.users[place].remove(request)
            if request.op.kind.is_receive:
                self._check_counts(request)
                state.heard |= request.heard
                state.values.update(zip(request.places, request.values, strict=True))
        return True

    def _check_counts(self, request: Posted) -> None:
        """Refuse a count that is not that of the block in whose place it arrives."""
        for place, value in zip(request.places, request.values, strict=True):
            wanted = _count_of((request.rank + place[1]) % self.schedule.size)
            if place[0] == self.counts and value != wanted:
                text = f"{self._name(place)} receives the count {value_text(value)}, not {value_text(wanted)}"
                raise self._refuted_at("wrong value", request, text, self._name(place))

    # -- local work --------------------------------------------------------------------------------
    def _copy(self, rank: int, op: Op) -> None:
        sources, targets = self._pairs(rank, op)
        values = [self._read(rank, op, place) for place in sources]
        for place, value in zip(targets, values, strict=True):
            self._claim(rank, op, place, is_write=True)
            self.ranks[rank].values[place] = value

    def _combine(self, rank: int, op: Op) -> None:
        state = self.ranks[rank]
        for source, target in zip(*self._pairs(rank, op), strict=True):
            given, present = self._read(rank, op, source), self._read(rank, op, target)
            self._claim(rank, op, target, is_write=True)
            left, right = (given, present) if op.is_source_first else (present, given)
            try:
                state.values[target] = combined(left, right, self.schedule.commutative)
            except Unordered as problem:
                raise self._refuted(problem.kind, rank, op, str(problem), self._name(target)) from None

    def _pairs(self, rank: int, op: Op) -> tuple[list[Place], list[Place]]:
        if self.counts is not None and self.counts in (op.source.buffer, op.section.buffer):
            raise self._refuted("shape", rank, op, "counts are sent and received, and nothing else")
        sources, targets = self._places(rank, op, op.source), self._places(rank, op, op.section)
        if len(sources) != len(targets):
            raise self._refuted("shape", rank, op, f"{len(sources)} blocks meet {len(targets)}")
        for source, target in zip(sources, targets, strict=True):
            if self._size(rank, source) != self._size(rank, target):
                text = f"{self._name(target)} need not have the size of {self._name(source)}"
                raise self._refuted("size", rank, op, text, self._name(target))
        return sources, targets

    # -- blocks ------------------------------------------------------------------------------------
    def _places(self, rank: int, op: Op, section: Blocks) -> list[Place]:
        if section.buffer == NO_BUFFER or section.length == 0:
            return []
        n_blocks = self.ranks[rank].n_blocks[section.buffer]
        if n_blocks == 0:
            name = self.schedule.buffers[section.buffer].name
            raise self._refuted("no buffer", rank, op, f"this rank has no buffer {name!r}")
        if section.buffer == self.told:
            self._check_told(rank, op, n_blocks)
        if section.length == 1:
            return [(section.buffer, section.first % n_blocks)]
        places = [(section.buffer, b) for b in block_indices(*section[1:], n_blocks).tolist()]
        if len(set(places)) != len(places):
            raise self._refuted(
                "shape", rank, op, f"a section names a block twice ({n_blocks} blocks in all)"
            )
        return places

    def _check_told(self, rank: int, op: Op, n_blocks: int) -> None:
        """Refuse blocks whose sizes the rank does not know yet."""
        assert self.counts is not None
        n_counts = self.ranks[rank].n_blocks[self.counts]
        if n_counts < n_blocks:
            text = f"there are counts of {n_counts} blocks, and {n_blocks} blocks"
            raise self._refuted("size", rank, op, text)
        for block in range(n_counts):
            self._read(rank, op, (self.counts, block))

    def _read(self, rank: int, op: Op, place: Place) -> Value:
        self._claim(rank, op, place, is_write=False)
        value = self.ranks[rank].values.get(place)
        if value is None:
            name = self._name(place)
            raise self._refuted("undefined", rank, op, f"{name} is used before it is set", name)
        return value

    def _claim(self, rank: int, op: Op, place: Place, is_write: bool) -> None:
        """Refuse to touch a block while an open request does, unless both only read."""
        if is_write and self.schedule.buffers[place[0]].name == "send":
            name = self._name(place)
            text = f"{name} is the caller's input, which must not change: copy it first, and change the copy"
            raise self._refuted("read only", rank, op, text, name)
        for request in self.ranks[rank].users.get(place, ()):
            if is_write or request.op.kind.is_receive:
                name = self._name(place)
                text = (
                    f"{name} is still in use by operation {request.position}, which has not been waited for"
                )
                raise self._refuted("race", rank, op, text, name)

    def _size(self, rank: int, place: Place) -> Hashable:
        size = self.sizes.get((rank, place))
        if size is None:
            size = self.sizes[rank, place] = self.schedule.size_class(place[0], rank, place[1])
        return size

    def _name(self, place: Place) -> str:
        return f"{self.schedule.buffers[place[0]].name}[{place[1]}]"

    # -- the end -----------------------------------------------------------------------------------
    def _check_end(self, rank: int) -> None:
        state, schedule = self.ranks[rank], self.schedule
        for request in state.open:
            text = "this request is never waited for"
            if not request.is_matched:
                verb = "receives it" if request.op.kind.is_send else "sends it"
                text += f", and rank {request.op.peer} never {verb}"
            raise self._refuted_at("not waited" if request.is_matched else "unmatched", request, text)
        if schedule.problem.name == "barrier" and state.heard != (1 << schedule.size) - 1:
            missing = next(r for r in range(schedule.size) if not state.heard >> r & 1)
            text = f"it may leave before rank {missing} has entered"
            raise Refuted("missing value", rank, None, None, text)
        for number, buffer in enumerate(schedule.buffers):
            for block in range(0 if buffer.is_temporary else state.n_blocks[number]):
                self._check_block(rank, number, block)

    def _check_block(self, rank: int, number: int, block: int) -> None:
        schedule, name = self.schedule, self._name((number, block))
        wanted = schedule.wanted(schedule.buffers[number].name, rank, block)
        found = self.ranks[rank].values.get((number, block))
        if wanted is None or found == wanted:
            return
        kind = "missing value" if found is None else "wrong value"
        text = f"{name} must hold {value_text(wanted)}, it holds {value_text(found)}"
        raise Refuted(kind, rank, None, None, text, name)

    def _refute_deadlock(self, rank: int) -> None:
        """Follow who waits for whom until a rank comes twice, or has ended."""
        seen: list[int] = []
        while rank not in seen:
            seen.append(rank)
            request = self._missing(rank)
            if self.ranks[request.op.peer].position >= len(self.ranks[request.op.peer].program):
                verb = "receives" if request.op.kind.is_send else "sends"
                text = f"it waits forever: rank {request.op.peer} ends and never {verb} this message"
                raise self._refuted_at("deadlock", request, text)
            rank = request.op.peer
        cycle = [*seen[seen.index(rank) :], rank]
        text = "deadlock: rank " + " waits for rank ".join(str(r) for r in cycle)
        raise self._refuted_at("deadlock", self._missing(rank), text)

    def _missing(self, rank: int) -> Posted:
        state = self.ranks[rank]
        op = state.program[state.position]
        if state.blocking is not None:
            return state.blocking
        waited = (r for r in state.open if op.label in (ANY_LABEL, r.op.label))
        return next(r for r in waited if not r.is_matched)

    def _refuted(self, kind: str, rank: int, op: Op, message: str, block: str | None = None) -> Refuted:
        return Refuted(kind, rank, self.ranks[rank].position, op, message, block)

    def _refuted_at(self, kind: str, request: Posted, message: str, block: str | None = None) -> Refuted:
        return Refuted(kind, request.rank, request.position, request.op, message, block)


def _count_of(owner: int) -> Value:
    """Return what a count holds: the size of a rank's block, which is no block of a message."""
    return (-1, ((owner, owner + 1),))


# A schedule round by round: who sends what to whom, and what every rank holds afterwards.
#
# Rounds are those of the one-port model: a rank sends at most one message and receives at most one in a
# round, every message goes as early as it can, and local work takes no time.


#: what one rank holds
State = dict[Place, Value]


@dataclass(frozen=True)
class Sent:
    """One message of a round.

    `places`: Where its blocks go, at the destination.
    `values`: What they hold.
    """

    source: int
    destination: int
    places: tuple[Place, ...]
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Rounds:
    """A schedule in rounds.

    `messages`: Of each round, by source.
    `states`: What every rank holds at the start and after each round: one more than there are rounds.
    `heard`: At the same times, for every rank a bit set of the ranks that it knows to have entered.
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


class _Paced(SymbolicMachine):
    """The checker's machine, in which a message arrives no sooner than in its round."""

    def __init__(self, schedule: Schedule, starts: dict[tuple[int, int], list[int]]) -> None:
        super().__init__(schedule)
        self._starts = {pair: deque(numbers) for pair, numbers in starts.items()}
        self._limit = -1
        self._round: dict[Posted, int] = {}
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

    def _post(self, rank: int, state: RankState, op: Op, ready: deque[int]) -> Posted:
        before = dict(state.values)
        request = super()._post(rank, state, op, ready)
        if op.kind.is_receive:
            self._before[rank].update((p, before[p]) for p in request.places if p in before)
        return request

    def _match(self, send: Posted, receive: Posted) -> None:
        super()._match(send, receive)
        number = self._starts[send.rank, receive.rank].popleft()
        self._round[send] = self._round[receive] = number
        sent = Sent(send.rank, receive.rank, tuple(receive.places), tuple(send.values))
        self.matched.append((number, sent))

    def _complete(self, state: RankState, requests: list[Posted]) -> bool:
        if any(self._round.get(request, self._limit + 1) > self._limit for request in requests):
            return False
        return super()._complete(state, requests)
