"""State that a process has once and each rank has for itself: exchanged when control goes from rank to rank.

The working directory, the mask of new files, the recursion limit and the environment belong to the whole
process. A rank that changes one of them gets a value of its own: from then on it is saved when the rank is
suspended and put back when it goes on. A run whose ranks change nothing pays nothing: the exchange hangs on
greenlet's tracing, which is off until the first change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import greenlet

__all__ = ["Swaps"]


class _Kind:
    def __init__(self, read: Callable[[], Any], write: Callable[[Any], None]) -> None:
        self.read, self.write = read, write
        self.base = read()
        self.values: dict[Any, Any] = {}


class Swaps:
    """The values that the ranks of one run have of what the process has once."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._before: Any = None
        #: what could not be put back
        self.failures: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._kinds

    def add(self, name: str, read: Callable[[], Any], write: Callable[[Any], None]) -> None:
        """Let each rank have its own value from now on; the present one is everybody's until it changes.

        Parameters
        ----------
        name : str
            What it is; added once, again it changes nothing.
        read, write : callable
            Of the process's value.
        """
        if name in self._kinds:
            return
        kind = _Kind(read, write)
        if not self._kinds:
            self._before = greenlet.settrace(self._trace)
        self._kinds = {**self._kinds, name: kind}

    def base(self, name: str) -> Any:
        """Return the value that a rank has which changed nothing."""
        return self._kinds[name].base

    def _trace(self, event: str, args: Any) -> None:
        if event in ("switch", "throw"):
            origin, target = args
            for name, kind in self._kinds.items():
                try:
                    now = kind.read()
                    if origin.dead:
                        kind.values.pop(origin, None)
                    elif origin in kind.values or (now is not kind.base and now != kind.base):
                        kind.values[origin] = now
                    wanted = kind.values.get(target, kind.base)
                    if wanted is not now and wanted != now:
                        kind.write(wanted)
                except Exception as error:  # a folder that is gone, a limit below the depth
                    text = f"the {name} of a rank could not be put back: {error}"
                    if text not in self.failures:
                        self.failures.append(text)
        if self._before is not None:
            self._before(event, args)

    def close(self) -> None:
        """Give the process its own values back."""
        if not self._kinds:
            return
        greenlet.settrace(self._before)
        for kind in self._kinds.values():
            with contextlib.suppress(Exception):
                kind.write(kind.base)
        self._kinds = {}
