"""A submission's source: read from a Python file or a notebook, never run here."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from typing import Any

from labkit.errors import DataError

__all__ = ["notebook_source", "read_submission", "require_function", "source_of_cells"]

MOST_BYTES = 4 << 20
#: what a notebook imports to try things out and to show them: not there when it is graded
_SHOWS = ("IPython", "ipywidgets", "matplotlib", "bokeh", "labkit.grading", "labkit.plot", "labkit.jupyter")


def read_submission(path: str | os.PathLike[str], function: str | None = None) -> str:
    """Return the source of a submission.

    Parameters
    ----------
    path : path
        A ``.py`` file, or a notebook: of its code cells the imports, definitions and constants are taken, and
        what only tries things out or draws is left out.
    function : str, optional
        What it must define.

    Raises
    ------
    DataError
        It cannot be read, is no Python, or does not define the function.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path.name} has more than {MOST_BYTES >> 20} MiB")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path.name} cannot be read: {error}") from error
    if path.suffix == ".ipynb":
        text = notebook_source(text)
    if function is not None:
        require_function(text, function, path.name)
    return text


def require_function(source: str, function: str, name: str = "the submission") -> None:
    """Refuse a source that is no Python or does not define a function.

    Raises
    ------
    DataError
    """
    if function not in _defined(_parsed(source, name)):
        raise DataError(f"{name} does not define {function}: the task asks for a function of that name")


def notebook_source(text: str) -> str:
    """Return the imports, definitions and constants of a notebook's code cells.

    Raises
    ------
    DataError
        It is no notebook, or a cell is no Python.
    """
    try:
        cells = json.loads(text)["cells"]
        sources = [
            _joined(cell["source"])
            for cell in cells
            if cell["cell_type"] == "code" and not _is_test(cell.get("metadata", {}))
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"not a notebook: {error}") from error
    return source_of_cells(sources)


def _is_test(metadata: dict[str, Any]) -> bool:
    """Whether a cell is one of nbgrader's test cells."""
    marks = metadata.get("nbgrader", {})
    return bool(marks.get("grade")) and not marks.get("solution")


def source_of_cells(sources: list[str]) -> str:
    """Return the imports, definitions and constants of code cells.

    Raises
    ------
    DataError
        A cell is no Python.
    """
    kept: list[str] = []
    for number, source in enumerate(sources, 1):
        if source.lstrip().startswith("%%"):
            continue
        lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines()]
        tree = _parsed("\n".join(lines), f"code cell {number}")
        wanted = [ast.unparse(node) for node in tree.body if _is_wanted(node)]
        if wanted:
            kept.append("\n".join(wanted))
    return "\n\n\n".join(kept) + "\n"


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)


def _parsed(text: str, name: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise DataError(f"{name}{line}: not Python: {error.args[0] if error.args else error}") from error


def _is_wanted(node: ast.stmt) -> bool:
    """Whether a statement defines something without calling anything."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return not any(name.startswith(_SHOWS) for name in _imported(node))
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return True
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return not any(isinstance(part, ast.Call | ast.Await) for part in ast.walk(node))
    return False


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names]


def _defined(tree: ast.Module) -> set[str]:
    """Return the names that are bound anywhere at the top, also inside if, try and with."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found
