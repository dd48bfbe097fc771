"""State that the ranks of a simulated window share: memory, transfers under way, locks, epochs."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit import _kernels
from labkit.comm.buffers import Simple
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.place import Place, here
from labkit.comm.rma.races import MOST_SAID, Access, Accesses, Footprint
from labkit.comm.typed import address_of
from labkit.text.units import ranks_text

__all__ = ["Epoch", "Origin", "Origins", "Pending", "Stores", "WindowPart", "WindowState"]


# Locks of simulated ranks: first come, first served, without messages.


def _wait(hub: _kernels.Hub, gate: int, name: str) -> None:
    hub.wait_for([gate], name)
    hub.release_handles([gate])


class Mutex:
    """One rank at a time; the caller's engine has caught up with it."""

    __slots__ = ("_queue", "is_held")

    def __init__(self) -> None:
        self.is_held = False
        self._queue: deque[int] = deque()

    def acquire(self, hub: _kernels.Hub, name: str) -> None:
        """Wait for the ranks that came before."""
        if not self.is_held:
            self.is_held = True
            return
        gate = hub.gate()
        self._queue.append(gate)
        _wait(hub, gate, name)

    def release(self, hub: _kernels.Hub) -> None:
        """Let the next one in."""
        if self._queue:
            hub.open_gate(self._queue.popleft())
        else:
            self.is_held = False


class WindowLocks:
    """The passive-target locks of a window: at each rank one that writes, or several that read.

    Who locks all ranks together is counted once, not at each rank.
    """

    def __init__(self, size: int) -> None:
        #: by rank: who holds it
        self.writer: list[int | None] = [None] * size
        self.readers: list[set[int]] = [set() for _ in range(size)]
        self.all_readers: set[int] = set()
        #: (origin, target or None for all, is exclusive, gate)
        self._queue: deque[tuple[int, int | None, bool, int]] = deque()

    def lock(self, hub: _kernels.Hub, origin: int, target: int | None, is_exclusive: bool, name: str) -> None:
        """Wait until the lock can be had; target None: a shared one of every rank."""
        if not self._is_waited_for(target) and self._is_free(target, is_exclusive):
            self._take(origin, target, is_exclusive)
            return
        gate = hub.gate()
        self._queue.append((origin, target, is_exclusive, gate))
        _wait(hub, gate, name)

    def unlock(self, hub: _kernels.Hub, origin: int, target: int | None) -> None:
        """Give it back, and let in who can come in."""
        if target is None:
            self.all_readers.discard(origin)
        elif self.writer[target] == origin:
            self.writer[target] = None
        else:
            self.readers[target].discard(origin)
        if not self._queue:
            return
        kept: deque[tuple[int, int | None, bool, int]] = deque()
        before: set[int | None] = set()  # targets that somebody before in the queue waits for
        for entry in self._queue:
            who, where, is_exclusive, gate = entry
            is_behind = bool(before) if where is None else where in before or None in before
            if not is_behind and self._is_free(where, is_exclusive):
                self._take(who, where, is_exclusive)
                hub.open_gate(gate)
            else:
                before.add(where)
                kept.append(entry)
        self._queue = kept

    def holders(self, target: int) -> set[int]:
        """Return who holds the lock of a rank."""
        writer = self.writer[target]
        return {writer} if writer is not None else self.readers[target] | self.all_readers

    def _is_waited_for(self, target: int | None) -> bool:
        return any(target is None or where is None or where == target for _, where, _, _ in self._queue)

    def _is_free(self, target: int | None, is_exclusive: bool) -> bool:
        if target is None:
            return all(writer is None for writer in self.writer)
        if self.writer[target] is not None:
            return False
        return not is_exclusive or not (self.readers[target] or self.all_readers)

    def _take(self, origin: int, target: int | None, is_exclusive: bool) -> None:
        if target is None:
            self.all_readers.add(origin)
        elif is_exclusive:
            self.writer[target] = origin
        else:
            self.readers[target].add(origin)


_ERR_RMA_RANGE, _ERR_RMA_ATTACH = 68, 69
_NOTHING = np.empty(0, np.uint8)


class Pending(NamedTuple):
    """A transfer under way that a rank has to wait for.

    Attributes
    ----------
    handle : int
        The engine's.
    peer : int
        The other rank, in the window.
    origin : int
        Who began it.
    is_owned : bool
        Whether a request of the program's gives it back.
    """

    handle: int
    peer: int
    origin: int
    is_owned: bool = False


@dataclass(slots=True)
class Epoch:
    """What a rank may do on a window at present."""

    is_fenced: bool = False
    targets: tuple[int, ...] | None = None  #: of Start
    origins: tuple[int, ...] | None = None  #: of Post
    arriving: list[Any] | None = None  #: requests of a Test
    locked: dict[int, Place] = field(default_factory=dict)
    is_all: Place | None = None

    def allows(self, target: int) -> bool:
        """Whether a rank may be accessed."""
        if self.is_fenced or self.is_all is not None or target in self.locked:
            return True
        return self.targets is not None and target in self.targets

    @property
    def is_passive(self) -> bool:
        """Whether it holds locks."""
        return self.is_all is not None or bool(self.locked)


@dataclass(slots=True)
class WindowPart:
    """One rank's part of a window."""

    memory: NDArray[np.uint8] = field(default_factory=lambda: _NOTHING)
    unit: int = 1
    #: of a dynamic window: what is attached, by address
    attached: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    #: transfers that end here, and those that this rank gets
    pending: list[Pending] = field(default_factory=list)
    mutex: Mutex = field(default_factory=Mutex)
    atomic: Mutex = field(default_factory=Mutex)
    epoch: Epoch = field(default_factory=Epoch)
    accesses: Accesses = field(default_factory=Accesses)
    stores: Stores | None = None  #: between two fences of a checked run
    origins: Origins | None = None  #: of a checked run: buffers of calls that go on
    #: ranks that this one has accessed since its last flush of them
    touched: dict[int, None] = field(default_factory=dict)
    #: name, hints, error handler, attributes
    own: dict[object, Any] = field(default_factory=dict)
    is_free: bool = False
    polls: tuple[float, int] = (-1.0, 0)

    def attach(self, memory: NDArray[np.uint8]) -> None:
        """Let memory be accessed by its address."""
        address = address_of(memory)
        if any(
            low < address + memory.size and address < low + held.size for low, held in self.attached.items()
        ):
            raise MPIException(_ERR_RMA_ATTACH, "this memory is attached already, all or a part of it")
        if memory.size:
            self.attached[address] = memory
            self.starts = sorted(self.attached)

    def detach(self, memory: NDArray[np.uint8]) -> None:
        """Let it be accessed no more."""
        address = address_of(memory)
        if memory.size and self.attached.pop(address, None) is None:
            raise MPIException(_ERR_RMA_ATTACH, "this memory is not attached to the window")
        self.starts = sorted(self.attached)

    def find(self, address: int) -> tuple[NDArray[np.uint8], int]:
        """Return the attached memory that an address lies in, and where in it."""
        index = bisect_right(self.starts, address) - 1
        if index < 0:
            return _NOTHING, address
        start = self.starts[index]
        return self.attached[start], address - start


@dataclass(slots=True)
class WindowState:
    """A window as its ranks share it.

    Attributes
    ----------
    flavor : int
    world : list of int
        World ranks of its ranks.
    made_by : str
        The method that made it.
    place : Place
        Where.
    """

    flavor: int
    world: list[int]
    made_by: str
    place: Place
    parts: list[WindowPart] = field(init=False)
    locks: WindowLocks = field(init=False)
    block: NDArray[np.uint8] | None = None  #: of a shared window
    said: dict[tuple[object, ...], None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parts = [WindowPart() for _ in self.world]
        self.locks = WindowLocks(len(self.world))

    def text(self) -> str:
        """Return as text which window it is."""
        names = {part.own["name"] for part in self.parts if part.own.get("name")}
        name = f" {min(names)!r}" if names else ""
        return f"window{name} (Win.{self.made_by} at {self.place})"

    def note_access(self, note: Any, target: int, where: Footprint, access: Access) -> None:
        """Keep an access, and say what it is in conflict with."""

        def tell(other: Access, begin: int, end: int) -> None:
            key = (target, other.method, other.place, access.method, access.place)
            if key in self.said or len(self.said) >= MOST_SAID:
                return
            self.said[key] = None
            note(
                f"race on the {self.text()}: {access.method} by rank {access.origin} at {access.place} and "
                f"{other.method} by rank {other.origin} at {other.place} are both at bytes {begin} to "
                f"{end - 1} of rank {self.world[target]} in one epoch, and nothing orders them: what comes "
                "out is chance"
            )

        self.parts[target].accesses.add(where, access, tell)

    def note_stores(self, note: Any, me: int) -> None:
        """Report which accesses of an ending epoch are at bytes that their target has itself stored into."""
        part = self.parts[me]
        stores, part.stores = part.stores, None
        if stores is None:
            return
        for where, access in part.accesses.all():
            key = (me, access.method, access.place, "store")
            if key in self.said or len(self.said) >= MOST_SAID:
                continue
            at = next((one for one in where.pieces() if stores.are_at(*one)), None)
            if at is None:
                continue
            low, high = at
            self.said[key] = None
            note(
                f"race on the {self.text()}: rank {self.world[me]} itself has stored into bytes {low} to "
                f"{high - 1} of its part, or some of them, after the Fence at {stores.since}, and "
                f"{access.method} by rank {access.origin} at {access.place} is there in the same epoch, and "
                "nothing orders them: what comes out is chance"
            )

    def note_used(self, note: Any, over: list[Origin], until: str, me: int) -> None:
        """Report of which calls that are over now the program has changed or read the buffer before."""
        end = here()
        for one in over:
            done = "changed" if one.look() else one.read_until(end)
            key = (me, one.method, one.place, "origin")
            if not done or key in self.said or len(self.said) >= MOST_SAID:
                continue
            self.said[key] = None
            note(
                f"{one.method} by rank {me} at {one.place} on the {self.text()}: its buffer at the origin "
                f"was {done} before {until} had completed it; until then it is MPI's, and what comes out is "
                "chance"
            )

    def lock_text(self, target: int | None) -> tuple[str, tuple[int, ...]]:
        """Return as text which lock is waited for and who has it, and their world ranks."""
        held = [
            rank for rank in range(len(self.world)) if target in (None, rank) and self.locks.holders(rank)
        ]
        holders = sorted({self.world[holder] for rank in held for holder in self.locks.holders(rank)})
        whom = "all ranks" if target is None else f"rank {self.world[target]}"
        by = f"held by {ranks_text(holders)}" if holders else "waited for by others before"
        return f"of {whom} of the {self.text()}, {by}", tuple(holders)

    def left(self) -> str | None:
        """Return as text what has not been given back at the end of the run; None: all has."""
        kept = [rank for rank, part in zip(self.world, self.parts, strict=True) if not part.is_free]
        if not kept:
            return None
        text = f"the {self.text()} was not freed by {ranks_text(kept)}"
        for rank, part in zip(self.world, self.parts, strict=True):
            place = part.epoch.is_all or next(iter(part.epoch.locked.values()), None)
            if place is not None:
                return f"{text}; rank {rank} still holds a lock that it took at {place}"
        return text


# A rank's own stores into its part of a window, where others access the same bytes: seen in checked runs.
#
# A store is no call that could be noted. From one fence to the next a checked run keeps a copy of each part;
# what accesses write is kept there, too. Bytes that differ from it the rank has changed itself, and if an
# access of the same epoch is at them, nothing orders the two (MPI 4.1, section 12.7).


_Run = tuple[int, int]


class Stores:
    """What a part held, as far as accesses have not changed it.

    Parameters
    ----------
    memory : numpy.ndarray of uint8
        The part.
    since : Place
        The fence.
    """

    def __init__(self, memory: NDArray[np.uint8], since: Place) -> None:
        self._memory, self._kept, self.since = memory, memory.copy(), since
        self._seen: list[_Run] = []

    def around(self, runs: Iterable[_Run], do: Callable[[], object]) -> object:
        """Look for stores into bytes that an access is about to use; let it, and keep what is there then."""
        for low, high in runs:
            self._seen += [(low, high)] if self._differs(low, high) else []
        answer = do()
        for low, high in runs:
            self._kept[low:high] = self._memory[low:high]
        return answer

    def are_at(self, low: int, high: int) -> bool:
        """Whether there were any at these bytes."""
        return self._differs(low, high) or any(begin < high and low < end for begin, end in self._seen)

    def _differs(self, low: int, high: int) -> bool:
        return not np.array_equal(self._memory[low:high], self._kept[low:high])


# Buffers of puts and gets that go on: seen in checked runs, where the program changes one too early.
#
# From the call to the end of its epoch, or a flush, the buffer at the origin belongs to MPI (MPI 4.1, section
# 12.3). A checked run keeps a checksum of it: what an arriving get writes is taken into it, anything else is
# the program's own.


def _sum(buffer: Simple) -> int:
    if buffer.home is not None:
        return zlib.crc32(buffer.home.gathered())
    data: Any = buffer.memory[buffer.offset : buffer.offset + buffer.bytes]
    return zlib.crc32(data)


@dataclass(slots=True)
class Origin:
    """The buffer of one call."""

    buffer: Simple
    method: str
    peer: int
    place: Place
    sum: int
    is_changed: bool = False

    def arriving(self, write: Callable[[], None]) -> None:
        """Let what arrives be written, and look before it whether the program has been there."""
        self.look()
        write()
        self.sum = _sum(self.buffer)

    def read_until(self, end: Place) -> str:
        """Return as text at which line the program has read what a Get brings, before the line of its end."""
        from labkit.comm.early_reads import early_read  # only checked runs search the program

        line = early_read(self.place, end, self.method, "origin", 0) if self.method == "Get" else None
        return "" if line is None else f"read at line {line}"

    def look(self) -> bool:
        """Whether the program has changed it until now."""
        self.is_changed = self.is_changed or _sum(self.buffer) != self.sum
        return self.is_changed


class Origins:
    """Those of a rank's calls on a window."""

    def __init__(self) -> None:
        self._open: list[Origin] = []

    def keep(self, buffer: Simple, method: str, peer: int, place: Place) -> Origin:
        """Watch one."""
        self._open.append(Origin(buffer, method, peer, place, _sum(buffer)))
        return self._open[-1]

    def end(self, peer: int | None) -> list[Origin]:
        """Let go of those with a rank, or all, and return them."""
        over = [one for one in self._open if peer in (None, one.peer)]
        self._open = [one for one in self._open if peer not in (None, one.peer)]
        return over
