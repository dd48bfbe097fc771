"""Call paths of cells: ``allreduce (Cell In[4]:3)`` instead of the name of a temporary file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from labkit.jupyter.failure import cell_name
from labkit.trace.report import Report

__all__ = ["with_cell_names"]

_PLACE = re.compile(r"\(([^()]+):(\d+)\)$")


def with_cell_names(report: Report) -> Report:
    """Return a report whose calls have the names of the notebook's cells, where they are in one.

    Parameters
    ----------
    report : Report

    Returns
    -------
    Report
        The same, if no notebook is running.
    """
    from IPython import get_ipython

    shell = get_ipython()
    files = getattr(getattr(shell, "compile", None), "_filename_map", {})
    names = {Path(file).name: cell_name(shell, file) for file in files}

    def renamed(found: re.Match[str]) -> str:
        return f"({names.get(found[1], found[1])}:{found[2]})"

    paths = [path._replace(label=_PLACE.sub(renamed, path.label)) for path in report.paths]
    return replace(report, paths=paths)
