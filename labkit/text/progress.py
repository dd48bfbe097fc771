"""Progress of a run: its clock, its messages and the last lines that its ranks have printed.

In a notebook or a terminal, a run that takes longer than `FIRST_S` shows this several times a second and
removes it at its end. A thread draws it, independent of the simulation and of real ranks.
``LABKIT_PROGRESS=off`` in the environment turns it off.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic  # of the host, also where ranks of a script later find simulated time in `time`
from types import TracebackType
from typing import Any, Protocol

__all__ = ["Lines", "Live", "LiveView", "finished_in", "told_to"]

#: how long a run is quiet, and how often it is looked at from then on
FIRST_S, EVERY_S = 1.0, 0.25
#: lines of output that are shown
MOST_LINES = 10


class LiveView(Protocol):
    """Where a run that goes on is shown."""

    def show(self, status: str, lines: list[str]) -> None:
        """Show it again."""

    def end(self, status: str) -> None:
        """Take it away: the run is over."""


class Lines:
    """The last lines that the ranks of a run have printed, as they come."""

    def __init__(self, most: int = MOST_LINES) -> None:
        self._last: deque[str] = deque(maxlen=most)
        self._open: dict[int, str] = {}

    def add(self, rank: int, text: str) -> None:
        """Take in what a rank has printed."""
        *whole, rest = (self._open.pop(rank, "") + text).split("\n")
        self._last.extend(f"rank {rank}: {line}" for line in whole)
        if rest:
            self._open[rank] = rest[-1000:]

    def texts(self) -> list[str]:
        """Return them, the newest last."""
        return list(self._last)


class Live:
    """Context in which a run is shown while it goes on.

    `title`: What runs, and where.
    `status`: Says how far it is; called in another thread.
    `lines`: Returns the last lines that were printed.
    `is_stream`: Whether all lines appear on standard output as they come: where that is a terminal, nothing
        may move its cursor.
    """

    def __init__(
        self, title: str, status: Callable[[], str], lines: Callable[[], list[str]], is_stream: bool = False
    ) -> None:
        self._title, self._status, self._lines = title, status, lines
        self._over = threading.Event()
        self._view = None if is_stream and os.isatty(1) else _view()
        self._thread = threading.Thread(target=self._watch, name="labkit-live", daemon=True)
        self._began_s = monotonic()

    @property
    def is_on(self) -> bool:
        """Whether anybody watches."""
        return self._view is not None

    def __enter__(self) -> Live:
        if self.is_on:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=2.0)

    def _watch(self) -> None:
        pause_s, said = FIRST_S, ""
        while not self._over.wait(pause_s):
            pause_s = EVERY_S
            with contextlib.suppress(Exception):  # a picture of the run must never end it
                said = self._said()
                self._view.show(said, self._lines())  # type: ignore[union-attr]
        if said:
            with contextlib.suppress(Exception):
                self._view.end(self._said())  # type: ignore[union-attr]

    def _said(self) -> str:
        return f"{self._title}: {monotonic() - self._began_s:.1f} s of host time; {self._status()}"


# -- views ---------------------------------------------------------------------------------------------------

_told: list[LiveView] = []
#: the display of the run that was shown last in a notebook, and the count of its cell; what comes out in the
#: same cell takes its place
_display: list[tuple[Any, int]] = []


@contextlib.contextmanager
def told_to(view: LiveView) -> Iterator[None]:
    """Show the runs of this context in a view of the caller's own."""
    _told.append(view)
    try:
        yield
    finally:
        _told.remove(view)


def finished_in() -> Any:
    """Return the display of a run that has ended in this cell, to be filled with what comes next; or None."""
    handle, cell = _display.pop() if _display else (None, -1)
    return handle if cell == _cell() else None


def _cell() -> int:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return int(getattr(shell, "execution_count", -1))


def _view() -> LiveView | None:
    if os.environ.get("LABKIT_PROGRESS", "").lower() in ("off", "0", "no"):
        return None
    if _told:
        return _told[-1]
    if threading.current_thread() is not threading.main_thread():
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):
        return _Cell()
    stream = sys.__stderr__
    return _Terminal(stream) if stream is not None and not stream.closed and stream.isatty() else None


class _Cell:
    """A text in the output of a notebook's cell."""

    def __init__(self) -> None:
        self._handle: Any = None

    def _put(self, text: str) -> None:
        from IPython.display import display

        shown = {"text/plain": text}
        if self._handle is None:
            self._handle = finished_in()  # one line for all runs of a cell
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def show(self, status: str, lines: list[str]) -> None:
        """Write it again."""
        self._put("\n".join([status, *lines]))

    def end(self, status: str) -> None:
        """Leave an empty place, also in the saved notebook; a result may take it."""
        # No message takes away one output: clear_output takes all, and nbconvert warns of empty bundles.
        self._put("")
        _display[:] = [(self._handle, _cell())]


class _Terminal:
    """Lines at the bottom of a terminal, written over and over."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._height = stream, 0

    def _clear(self) -> str:
        return f"\r\x1b[{self._height}A\x1b[J" if self._height else ""

    def show(self, status: str, lines: list[str]) -> None:
        """Write it again."""
        width = max(20, shutil.get_terminal_size().columns - 1)
        shown = [_plain(line)[:width] for line in (*lines, status)]
        self._stream.write(self._clear() + "".join(f"{line}\n" for line in shown))
        self._stream.flush()
        self._height = len(shown)

    def end(self, status: str) -> None:
        """Leave nothing."""
        self._stream.write(self._clear())
        self._stream.flush()
        self._height = 0


def _plain(line: str) -> str:
    return "".join(one if one.isprintable() else " " for one in line)
