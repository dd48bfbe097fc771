"""A submission's source: read from a Python file or a notebook in a child process with limits, never run."""

from __future__ import annotations

import ast
import io
import json
import os
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labkit.errors import DataError
from labkit.grading.clean import clean_name
from labkit.grading.ipynb.cells import parsed, python_of
from labkit.grading.ipynb.large import read_notebook
from labkit.grading.needed import needed_source
from labkit.grading.sandbox.imports import compiled
from labkit.plain import notebook_text
from labkit.process.limited import limited

__all__ = [
    "notebook_source",
    "read_submission",
    "require_function",
    "source_of_cells",
    "submitted_text",
    "text_of_cells",
]

#: types of cells of formats 2 to 4
_CELLS = ("code", "markdown", "raw", "heading", "html")
MOST_BYTES, MOST_CODE_BYTES = 64 << 20, 1 << 20


def read_submission(path: str | os.PathLike[str], function: str | Sequence[str] | None = None) -> str:
    """Return the source of a submission.

    Parameters
    ----------
    path : path
        A ``.py`` file, or a notebook: of its code cells what the function needs is taken, and what only tries
        things out or draws is left out.
    function : str or sequence of str, optional
        What it must define; of several, the first is looked for now. Default: all that it defines.

    Raises
    ------
    DataError
        It cannot be read, is no Python, or does not define the function.
    """
    path = Path(path)
    text: str = limited(_read, path, function, what=clean_name(path.name))
    return text


def _read(path: Path, function: str | Sequence[str] | None) -> str:
    text = _submitted_text(path)
    if _is_notebook(path):
        text = _source_of_cells(_cells(text), function)
    if function is not None:
        _require_function(text, function if isinstance(function, str) else function[0], path.name)
    return text


def submitted_text(path: Path) -> str:
    """Return all of a submission's code as it was handed in, not looked at: of a notebook its code cells."""
    text: str = limited(_submitted_text, path, what=clean_name(path.name))
    return text


def _submitted_text(path: Path) -> str:
    name = clean_name(path.name)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{name} has more than {MOST_BYTES >> 20} MiB")
        text = _decoded(path)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} is not {error.encoding} (byte {error.start} cannot be read as such): save it as UTF-8"
        ) from error
    except (SyntaxError, LookupError) as error:
        raise DataError(
            f"{name} has a coding line that Python does not know ({error}): save it as UTF-8"
        ) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if _is_notebook(path):
        text = text_of_cells(_sources(text))
    if len(text) > MOST_CODE_BYTES:
        raise DataError(f"{name} has more than {MOST_CODE_BYTES >> 20} MiB of code")
    return text


def _is_notebook(path: Path) -> bool:
    """Whether it is one by its name, however that is spelt."""
    return path.suffix.lower() == ".ipynb"


def _decoded(path: Path) -> str:
    """Return the text of a file; of a program in the encoding of its coding line, as Python reads it."""
    if _is_notebook(path):
        return notebook_text(path.read_bytes())
    data = path.read_bytes()
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError:
        data.decode()  # bytes that are no UTF-8, and no line that says what they are
        raise
    return io.StringIO(data.decode(encoding), newline=None).read()


def text_of_cells(sources: list[str]) -> str:
    """Return code cells as one text, from which `submitted_text` of a notebook is made."""
    return json.dumps(sources)


def _cells(text: str) -> list[str]:
    cells: list[str] = json.loads(text)
    return cells


def require_function(source: str, function: str, name: str = "the submission") -> None:
    """Refuse a source that is no Python, is too much to compile, or never names a function.

    Whether it defines the function, its run shows.
    """
    limited(_require_compiled, source, function, name, what=clean_name(name))


def _require_compiled(source: str, function: str, name: str) -> None:
    _require_function(source, function, name)
    compiled(source)


def _require_function(source: str, function: str, name: str) -> None:
    if not _names(parsed(source, clean_name(name)), function):
        raise DataError(
            f"{clean_name(name)} does not define {function}: the task asks for a function of that name"
        )


def notebook_source(text: str, function: str | None = None) -> str:
    """Return what a function needs of a notebook's code cells; of all functions, if none is named.

    Raises
    ------
    DataError
        It is no notebook, or no cell that is Python defines the function.
    """
    source: str = limited(lambda: _source_of_cells(_sources(text), function), what="the notebook")
    return source


def _sources(text: str) -> list[str]:
    """Return the code cells of a notebook but nbgrader's tests."""
    try:
        found = read_notebook(text)
    except RecursionError:
        raise DataError("not a notebook: its JSON is nested too deeply") from None
    except ValueError as error:
        raise DataError(f"not a notebook: {str(error)[:200]}") from error
    cells = found.get("cells") if isinstance(found, dict) else None
    if not isinstance(cells, list):
        raise DataError("not a notebook of format 4: it has no list of cells; save it anew in Jupyter")
    version = found.get("nbformat", 4)
    if version not in (2, 3, 4):
        raise DataError(
            f"a notebook of format {str(version)[:40]!r}; formats 2 to 4 are read: save it as one of 4"
        )
    sources = []
    for number, cell in enumerate(cells, 1):
        try:
            if cell["cell_type"] not in _CELLS:
                raise DataError(
                    f"not a notebook of format 4: cell {number} is of type {str(cell['cell_type'])[:40]!r}; "
                    f"types are {', '.join(_CELLS)}"
                )
            if cell["cell_type"] == "code" and not _is_test(cell.get("metadata", {})):
                sources.append(_joined(cell["source"]))
        except (KeyError, TypeError, AttributeError):
            raise DataError(
                f"not a notebook of format 4: cell {number} is no cell with a type and a text"
            ) from None
    return sources


def _is_test(metadata: dict[str, Any]) -> bool:
    """Whether a cell is one of nbgrader's test cells."""
    marks = metadata.get("nbgrader", {})
    return bool(marks.get("grade")) and not marks.get("solution")


def source_of_cells(sources: list[str], function: str | Sequence[str] | None = None) -> str:
    """Return what a function needs of code cells, as Python.

    A cell that is no Python stops no other one in a notebook, and none here.
    """
    source: str = limited(_source_of_cells, sources, function, what="the notebook")
    return source


def _source_of_cells(sources: list[str], function: str | Sequence[str] | None) -> str:
    cells, wrong = [], []
    for number, source in enumerate(sources, 1):
        try:
            cells.append(python_of(source, f"code cell {number}"))
        except DataError as error:
            wrong.append(str(error))
    wanted = None if function is None else (function,) if isinstance(function, str) else tuple(function)
    try:
        found = needed_source(cells, wanted)
    except RecursionError:
        raise DataError("the cells' code is nested too deeply") from None
    if wrong and (wanted is None or not _names(parsed(found, "the cells"), wanted[0])):
        raise DataError("; ".join(wrong[:3]))
    return found


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)


def _names(tree: ast.Module, function: str) -> bool:
    """Whether a source names a function anywhere, or takes names that it does not name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            if node.name == "*" or function == (node.asname or node.name).partition(".")[0]:
                return True
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if function in node.value:
                return True
        elif function in {getattr(node, part, None) for part in ("id", "name", "attr")}:
            return True
    return False
