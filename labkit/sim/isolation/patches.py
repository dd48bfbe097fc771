"""Names of shared modules that are others' while simulated runs are under way in this process.

Runs in parallel threads begin and end in any order: the first one puts the names in place, the last one takes
them back, and what stands there asks which run, and which rank, the caller belongs to.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

__all__ = ["Patch", "Patches"]

#: an object, one of its attributes, and the value that it has meanwhile
Patch = tuple[Any, str, Any]

_ABSENT = object()


class Patches:
    """Context, entered from any thread, in which attributes have other values.

    `make`: Returns the patches; called when the first one enters.
    `undo`: Called when the last one has left.
    `upon`: Others of the same attributes, around whose values these lie, whichever are entered or left first.
    """

    def __init__(
        self,
        make: Callable[[], Iterable[Patch]],
        undo: Callable[[], None] | None = None,
        upon: Patches | None = None,
    ) -> None:
        self._make, self._undo = make, undo
        self._lock: Any = threading.RLock() if upon is None else upon._lock
        self._above: list[Patches] = []
        if upon is not None:
            upon._above.append(self)
        self._users = 0
        self._before: list[Patch] = []

    def __enter__(self) -> Patches:
        with self._lock:
            if self._users == 0:
                with self._bare():
                    self._put()
            self._users += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            with self._bare():
                self._take_back()
            if self._undo is not None:
                self._undo()

    @contextlib.contextmanager
    def _bare(self) -> Iterator[None]:
        """Take those that lie upon these away, and put them again around what is there then."""
        above = [one for one in self._above if one._users]
        for one in above:
            one._take_back()
        yield
        for one in above:
            one._put()

    def _put(self) -> None:
        for owner, name, value in self._make():
            own = vars(owner) if isinstance(owner, type) else None
            before = own.get(name, _ABSENT) if own is not None else getattr(owner, name, _ABSENT)
            self._before.append((owner, name, before))
            setattr(owner, name, value)

    def _take_back(self) -> None:
        for owner, name, value in reversed(self._before):
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        self._before.clear()
