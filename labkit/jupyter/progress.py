"""A progress bar that needs no widgets: one output of the cell, rewritten while the sweep goes on.

It works wherever HTML is shown, prints no warning where ipywidgets is missing, and leaves nothing behind.
"""

from __future__ import annotations

import time
from html import escape
from types import TracebackType
from typing import Any

__all__ = ["NotebookBar"]

#: the output is rewritten at most so often: messages to the browser are not free
_EVERY_S = 0.1


class NotebookBar:
    """A context that shows how many points of a sweep are done.

    Parameters
    ----------
    total : int
        Number of points.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0.0
        self._text = ""
        self._began = self._shown = time.monotonic()
        self._handle: Any = None

    def __enter__(self) -> NotebookBar:
        from IPython.display import display

        self._handle = display(self._bundle(), raw=True, display_id=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": ""}, raw=True)

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        """Say which point is being run."""
        self._text = s
        self._show()

    def update(self, n: float = 1) -> None:
        """Count points that are done."""
        self._done += n
        self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if self._handle is not None and now - self._shown >= _EVERY_S:
            self._shown = now
            self._handle.update(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, str]:
        done, total = int(self._done), self._total
        words = f"{done} of {total} points"
        if done:
            left = (time.monotonic() - self._began) / done * (total - done)
            words += f", some {left:.0f} s left" if left >= 1 else ""
        label = f"{words}: {self._text}" if self._text else words
        bar = f"<progress value='{done}' max='{total}' style='width:16em' aria-label='{words}'></progress>"
        return {"text/plain": label, "text/html": f"<div>{bar} {escape(label)}</div>"}
