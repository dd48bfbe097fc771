"""Progress of a sweep: a bar in a terminal, an HTML one in a notebook, nothing elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Protocol

__all__ = ["Bar", "progress_bar"]


class Bar(Protocol):
    """What a sweep does with its bar."""

    def __enter__(self) -> Bar:
        """Show it."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Take it away."""

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        """Say what is going on."""

    def update(self, n: float = 1) -> Any:
        """Count points that are done."""


def progress_bar(total: int, progress: bool | None) -> Bar:
    """Return a progress bar.

    Parameters
    ----------
    total : int
        Number of points.
    progress : bool, optional
        Whether to show it; by default when somebody watches: in notebooks and terminals.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    is_notebook = hasattr(shell, "kernel")
    if progress is None:
        progress = total > 1 and (is_notebook or sys.stderr.isatty())
    if progress and is_notebook:
        from labkit.jupyter.progress import NotebookBar

        return NotebookBar(total)
    from tqdm import tqdm

    bar: Bar = tqdm(
        total=total, disable=not progress, unit="point", leave=False, mininterval=0, file=sys.stderr
    )
    return bar
