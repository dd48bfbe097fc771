"""Progress of a sweep: tqdm's bar, in a terminal or in a notebook's cell."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm

__all__ = ["BarView", "progress_bar"]


class _CellBar(tqdm):  # type: ignore[misc]  # it is untyped
    """The bar as a text in a cell's output: tqdm's own widget would stay in a saved notebook, dead."""

    handle: Any = None

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Write the bar anew; tqdm calls this, at last with nothing to show."""
        from IPython.display import display

        shown = {"text/plain": str(self) if msg is None else msg}
        if self.handle is None:
            self.handle = display(shown, raw=True, display_id=True)
        else:
            self.handle.update(shown, raw=True)


def progress_bar(total: int, progress: bool | None) -> Any:
    """Return a bar of tqdm's for so many points; by default it is seen in notebooks and terminals only."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    is_notebook = hasattr(shell, "kernel")
    if progress is None:
        progress = total > 1 and (is_notebook or sys.stderr.isatty())
    kind, every_s = (_CellBar, 0.1) if is_notebook else (tqdm, 0)
    return kind(
        total=total, disable=not progress, unit="point", leave=False, mininterval=every_s, file=sys.stderr
    )


class BarView:
    """Shows the point that runs in a sweep's bar: a view of `labkit.live`."""

    def __init__(self, bar: Any) -> None:
        self._bar, self._point = bar, ""

    def show(self, status: str, lines: list[str]) -> None:
        """Write how far the point is, and what it has printed last."""
        said = status.partition("; ")[2]
        self._bar.set_postfix_str(" | ".join([said, *lines[-1:]])[:160], refresh=True)

    def end(self, status: str) -> None:
        """Leave the bar to the next point."""
