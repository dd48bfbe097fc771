"""labkit's warnings as a notebook shows them: a sentence and the cell, not the path of a temporary file."""

from __future__ import annotations

import warnings
from typing import Any

from labkit.errors import StudyWarning

__all__ = ["name_cells_in_warnings"]


def name_cells_in_warnings() -> None:
    """Let labkit's own warnings name the cell that they belong to, in the running IPython."""
    from IPython import get_ipython

    before: Any = warnings.formatwarning
    if get_ipython() is None or getattr(before, "names_cells", False):
        return

    def written(
        message: Any, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if not issubclass(category, StudyWarning):
            return str(before(message, category, filename, lineno, line))
        from labkit.jupyter.failure import cell_name

        return f"{category.__name__}: {message} ({cell_name(get_ipython(), filename)}, line {lineno})\n"

    written.names_cells = True  # type: ignore[attr-defined]
    warnings.formatwarning = written
