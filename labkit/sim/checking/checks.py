"""One checked run's knowledge of its messages: who sent what, buffers in use, what was wrong.

A buffer of a nonblocking call belongs to MPI until its Wait: it may not change if it is sent from, and
nothing else may use it if it is received into. Both ends of a message name the same kind of elements. Every
request is waited for, and every message is received.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from labkit.sim.checking.memory import Elements, Region, agree
from labkit.units import format_bytes, ranks_text

__all__ = ["Checks", "Pending", "Sent"]

#: kinds of faults that are told in full; more of a kind are counted
_SHOWN = 20
_PROC_NULL = -2


@dataclass(frozen=True)
class Sent:
    """One message as its sender gave it."""

    kind: Elements
    name: str
    what: str  #: the call and its place
    owner: int  #: in the world


@dataclass
class Pending:
    """A nonblocking call that has not been waited for."""

    request: Any
    what: str
    regions: list[Region]
    sums: list[int | None]  #: of buffers that are sent from, and of those of a receive
    receives: tuple[int, int, Elements, str] | None  #: context, rank, elements and name of a receive's type

    found: list[int | None] = field(default_factory=list)  #: sums of a receive's, before it is waited for

    @classmethod
    def of(cls, request: Any, what: str, regions: list[Region], receives: Any = None) -> Pending:
        """Note what is in the buffers that are read, and where a message is received into."""
        is_watched = [receives is not None or not region.is_written for region in regions]
        sums = [region.sum() if is_it else None for region, is_it in zip(regions, is_watched, strict=True)]
        return cls(request, what, regions, sums, receives)

    def was_written_over(self) -> bool:
        """Whether what has come has overwritten something that was not there when the receive was posted.

        What had come before its Wait is the same afterwards: then nothing is said.
        """
        return any(
            region.is_written and None not in (posted, before) and posted != before != region.sum()
            for region, posted, before in zip(self.regions, self.sums, self.found, strict=False)
        )


class Checks:
    """What is known of one run's messages, and what was wrong with them."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.more = 0
        #: by communicator, sender, receiver and tag: what has been sent and not yet received
        self._sent: dict[tuple[int, int, int, int], deque[Sent]] = {}
        self._pending: dict[int, dict[int, Pending]] = {}
        #: a call whose messages are not followed has been made: types are compared no more
        self.is_blind = False
        #: ranks inside a call that is watched: what it calls in turn is not
        self.inside: set[int] = set()

    def tell(self, text: str) -> None:
        """Note that something is wrong, once."""
        if text in self.told:
            return
        if len(self.told) < _SHOWN:
            self.told.append(text)
        else:
            self.more += 1

    # --- messages ---------------------------------------------------------------------------------

    def sent(self, context: int, source: int, dest: int, tag: int, message: Sent) -> None:
        """Note a message on its way."""
        if dest != _PROC_NULL:
            self._sent.setdefault((context, source, dest, tag), deque()).append(message)

    def received(self, context: int, me: int, status: Any, kind: Elements, name: str, who: str) -> None:
        """Compare what has come with what its receiver takes it for."""
        source, tag = status.source, status.tag
        queue = self._sent.get((context, source, me, tag))
        if source == _PROC_NULL or not queue:
            return
        message = queue.popleft()
        if self.is_blind or agree(message.kind, kind):
            return
        self.tell(f"{who} takes {name}, but {message.what} gives {message.name}: other elements")

    def unreceived(self, context: int, owner: int, tag: int) -> str:
        """Say which call sent a message that is left over; empty where that is not known."""
        for (one, _, _, number), queue in self._sent.items():
            if (one, number) == (context, tag) and queue and queue[-1].owner == owner:
                return queue.pop().what
        return ""

    def waiting(self, owner: int, context: int) -> str:
        """Say which call posted a receive that nothing has come to; empty where that is not known."""
        for one in self._pending.get(owner, {}).values():
            if one.receives is not None and one.receives[0] == context:
                return one.what
        return ""

    # --- buffers ----------------------------------------------------------------------------------

    def use(self, rank: int, what: str, regions: Iterable[Region]) -> None:
        """Compare buffers that a call is about to use with those of calls that have not been waited for."""
        for region in regions:
            for other in self._pending.get(rank, {}).values():
                if any(region.overlaps(its) for its in other.regions):
                    bytes_ = format_bytes(region.nbytes)
                    doing = "writes" if region.is_written else "reads"
                    self.tell(
                        f"{what} {doing} {bytes_} that {other.what} still uses: Wait for that one first"
                    )

    def begin(self, rank: int, pending: Pending) -> None:
        """Note a nonblocking call."""
        self._pending.setdefault(rank, {})[id(pending.request)] = pending

    def look(self, rank: int, requests: Iterable[Any], where: str) -> None:
        """Before requests are waited for: tell of buffers that have changed while being sent from.

        What lies where they receive is noted: `end` compares.
        """
        for request in requests:
            found = self._pending.get(rank, {}).get(id(request))
            if found is None:
                continue
            if found.receives is not None:
                found.found = [region.sum() if region.is_written else None for region in found.regions]
            for number, (region, before) in enumerate(zip(found.regions, found.sums, strict=True)):
                if not region.is_written and before is not None and region.sum() != before:
                    found.sums[number] = None
                    self.tell(
                        f"{found.what}: its buffer was changed before {where}; what arrives "
                        "may be the old data or the new. Change it after the Wait, or send a copy"
                    )

    def end(self, rank: int, request: Any, status: Any) -> None:
        """Note that a request is over."""
        found = self._pending.get(rank, {}).pop(id(request), None)
        if found is not None and found.was_written_over():
            self.tell(
                f"{found.what}: its buffer was written into before its Wait; what has come has overwritten "
                "that, or the other way round. Write into it after the Wait"
            )
        if found is not None and found.receives is not None and status is not None:
            context, me, kind, name = found.receives
            self.received(context, me, status, kind, name, found.what)

    # --- the end ----------------------------------------------------------------------------------

    def left(self) -> list[str]:
        """Say which requests were never waited for."""
        by_call: dict[str, list[int]] = {}
        for rank, pending in sorted(self._pending.items()):
            for call in dict.fromkeys(one.what.partition(": ")[2] for one in pending.values() if one.request):
                by_call.setdefault(call, []).append(rank)
        for call, ranks in by_call.items():
            self.tell(f"{ranks_text(ranks)}: {call}: its request was never waited for")
        return self.seen()

    def seen(self) -> list[str]:
        """Return what has been told."""
        hidden = [f"... and {self.more} more"] if self.more else []
        return [f"check: {text}" for text in [*self.told, *hidden]]
