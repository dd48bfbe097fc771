"""Locks of simulated ranks: first come, first served, without messages."""

from __future__ import annotations

from collections import deque
from typing import Any

__all__ = ["Mutex", "WindowLocks"]


def _wait(hub: Any, gate: int, name: str) -> None:
    hub.wait_for([gate], name)
    hub.release_handles([gate])


class Mutex:
    """One rank at a time; the caller's engine has caught up with it."""

    __slots__ = ("_queue", "is_held")

    def __init__(self) -> None:
        self.is_held = False
        self._queue: deque[int] = deque()

    def acquire(self, hub: Any, name: str) -> None:
        """Wait for the ranks that came before."""
        if not self.is_held:
            self.is_held = True
            return
        gate = hub.gate()
        self._queue.append(gate)
        _wait(hub, gate, name)

    def release(self, hub: Any) -> None:
        """Let the next one in."""
        if self._queue:
            hub.open_gate(self._queue.popleft())
        else:
            self.is_held = False


class WindowLocks:
    """The passive-target locks of a window: at each rank one that writes, or several that read.

    Who locks all ranks at once is counted once, not at each rank.
    """

    def __init__(self, size: int) -> None:
        #: by rank: who holds it
        self.writer: list[int | None] = [None] * size
        self.readers: list[set[int]] = [set() for _ in range(size)]
        self.all_readers: set[int] = set()
        #: (origin, target or None for all, is exclusive, gate)
        self._queue: deque[tuple[int, int | None, bool, int]] = deque()

    def lock(self, hub: Any, origin: int, target: int | None, is_exclusive: bool, name: str) -> None:
        """Wait until the lock can be had; target None: a shared one of every rank."""
        if not self._is_waited_for(target) and self._is_free(target, is_exclusive):
            self._take(origin, target, is_exclusive)
            return
        gate = hub.gate()
        self._queue.append((origin, target, is_exclusive, gate))
        _wait(hub, gate, name)

    def unlock(self, hub: Any, origin: int, target: int | None) -> None:
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
