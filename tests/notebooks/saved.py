"""A pytest plugin for nbval: a notebook that was run and saved elsewhere is compared as it is, not run once more.

LABKIT_SAVED_NOTEBOOKS names the folder where the browser's tests leave what JupyterLab saved after "Run All
Cells". A notebook that lies there with the same code has run just now; any other is run here. What is compared,
and how, is nbval's own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
from nbval import plugin

FOLDER = os.environ.get("LABKIT_SAVED_NOTEBOOKS", "")
#: what is left of how a run went on, which only runs that take long show
PROGRESS = {"text/plain": ""}

_setup, _runtest = plugin.IPyNbFile.setup, plugin.IPyNbCell.runtest


def _saved_cells(notebook: Any) -> list[Any] | None:
    """Return the code cells of the notebook as it was saved, or None where it has to be run here."""
    path = Path(FOLDER, notebook.path.name)
    if not path.exists():
        return None
    saved, stored = (
        [cell for cell in book.cells if cell.cell_type == "code"]
        for book in (nbformat.read(path, 4), notebook.nb)
    )
    return saved if [cell.source for cell in saved] == [cell.source for cell in stored] else None


def setup(notebook: Any) -> None:
    """Start no kernel for what has run."""
    notebook.saved = _saved_cells(notebook)
    if notebook.saved is None:
        _setup(notebook)
    else:
        notebook.setup_sanitize_files()


def runtest(cell: Any) -> None:
    """Compare the outputs that were saved."""
    if cell.parent.saved is None:
        _runtest(cell)
        return
    saved = cell.parent.saved[cell.cell_num]
    if cell.cell.execution_count is None and cell.cell.outputs:
        cell.raise_cell_error("Unrun reference cell has outputs")
    shown = [output for output in saved.outputs if output.get("data") != PROGRESS]
    found, stored = plugin.coalesce_streams(shown), plugin.coalesce_streams(cell.cell.outputs)
    if cell.options["check"] and not cell.compare_outputs(found, stored):
        cell.raise_cell_error("Cell outputs differ", "\n".join(cell.comparison_traceback))


if FOLDER:
    plugin.IPyNbFile.setup, plugin.IPyNbCell.runtest = setup, runtest
