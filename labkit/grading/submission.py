"""A submission's source: read from a Python file or a notebook in a child process with limits, never run."""

from __future__ import annotations

import ast
import io
import json
import os
import tokenize
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labkit.errors import DataError, MachineError
from labkit.grading.needed import needed_source
from labkit.grading.result import clean_name
from labkit.grading.sandbox.imports import compiled
from labkit.process.limited import limited
from labkit.text.files import notebook_text

__all__ = [
    "notebook_source",
    "python_of",
    "read_notebook",
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
            raise DataError(f"{name} has more than {MOST_BYTES >> 20} MiB", code="too-large")
        text = _decoded(path)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} is not {error.encoding} (byte {error.start} cannot be read as such): save it as UTF-8",
            code="unreadable-file",
        ) from error
    except (SyntaxError, LookupError) as error:
        raise DataError(
            f"{name} has a coding line that Python does not know ({error}): save it as UTF-8",
            code="not-python",
        ) from error
    except (OSError, ValueError) as error:
        raise DataError(
            f"{name} cannot be read: {getattr(error, 'strerror', None) or error}", code="unreadable-file"
        ) from error
    if _is_notebook(path):
        text = text_of_cells(_sources(text))
    if len(text) > MOST_CODE_BYTES:
        raise DataError(f"{name} has more than {MOST_CODE_BYTES >> 20} MiB of code", code="too-large")
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


def require_function(source: str, function: str) -> None:
    """Refuse a source that is no Python, is too much to compile, or never names a function.

    Whether it defines the function, its run shows.
    """
    limited(_require_compiled, source, function, what="the submission")


def _require_compiled(source: str, function: str) -> None:
    _require_function(source, function, "the submission")
    compiled(source)


def _require_function(source: str, function: str, name: str) -> None:
    if not _names(parsed(source, clean_name(name)), function):
        raise DataError(
            f"{clean_name(name)} does not define {function}: the task asks for a function of that name",
            code="missing-definition",
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
        raise DataError("not a notebook: its JSON is nested too deeply", code="too-large") from None
    except ValueError as error:
        raise DataError(f"not a notebook: {str(error)[:200]}", code="malformed-file") from error
    cells = found.get("cells") if isinstance(found, dict) else None
    if not isinstance(cells, list):
        raise DataError(
            "not a notebook of format 4: it has no list of cells; save it again in Jupyter",
            code="malformed-file",
        )
    version = found.get("nbformat", 4)
    if version not in (2, 3, 4):
        raise DataError(
            f"a notebook of format {str(version)[:40]!r}; formats 2 to 4 are read: save it as one of 4",
            code="unsupported-version",
        )
    sources = []
    for number, cell in enumerate(cells, 1):
        try:
            if cell["cell_type"] not in _CELLS:
                raise DataError(
                    f"not a notebook of format 4: cell {number} is of type {str(cell['cell_type'])[:40]!r}; "
                    f"types are {', '.join(_CELLS)}",
                    code="malformed-file",
                )
            if cell["cell_type"] == "code" and not _is_test(cell.get("metadata", {})):
                sources.append(_joined(cell["source"]))
        except (KeyError, TypeError, AttributeError):
            raise DataError(
                f"not a notebook of format 4: cell {number} is no cell with a type and a text",
                code="malformed-file",
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
        raise DataError("the cells' code is nested too deeply", code="too-large") from None
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


# Code cells of a notebook as Python: what IPython itself makes of magics, prompts and question marks.


#: characters of a cell with magics: IPython reads it again for each of them
_MOST_WITH_MAGICS = 60_000
#: cell magics that run the cell in the notebook's own names
_RUN_HERE = ("time", "capture", "prun", "debug")
_MOST_NESTED = 8


def parsed(text: str, name: str) -> ast.Module:
    """Return the tree of a Python source."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a student's "\d" is for the student
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        what = str(error.args[0] if error.args else error)[:200]
        if isinstance(error, MemoryError):
            what = "nested too deeply, or too large, for Python's parser"
        raise DataError(f"{name}{line}: not Python: {what}", code="not-python") from error


def python_of(cell: str, name: str = "the cell") -> str:
    """Return a cell as Python that does what the cell does in a notebook.

    Magics become calls of ``get_ipython()``, as IPython makes them, but ``%time``, ``%%time``, ``%%capture``
    and others that run their code in the notebook's own names: these become their code.
    """
    try:
        cell.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{name}: not Python: half a character", code="not-python") from error
    return _python_of("\n".join(cell.replace("\r\n", "\n").split("\r")), name, 0)


def _python_of(cell: str, name: str, depth: int) -> str:
    try:
        parsed(cell, name)
    except DataError as error:
        is_too_much = len(cell) > _MOST_WITH_MAGICS or depth > _MOST_NESTED
        if is_too_much or not any(mark in cell for mark in "%!?/,;>: \t"):
            raise
        try:
            text: str = _transformer().transform_cell(cell)
            tree = parsed(text, name)
        except (SyntaxError, ValueError, RuntimeError, LookupError, RecursionError):
            raise error from None
    else:
        return cell  # IPython leaves alone what is Python already
    if len(tree.body) == 1 and (found := _magic(tree.body[0], "run_cell_magic")) is not None:
        return _python_of(found[2], name, depth + 1) if found[0] in _RUN_HERE else ""
    return _with_timed_lines(text, tree)


def _transformer() -> Any:
    try:
        from IPython.core.inputtransformer2 import TransformerManager
    except ImportError as error:
        raise MachineError(
            "a notebook with magics is read by IPython, which is not installed: pip install 'labkit[lab]'",
            code="missing-package",
        ) from error
    return TransformerManager()


def _magic(node: ast.AST, method: str) -> list[str] | None:
    """Return the texts that a statement hands to IPython's magics, None if it is something else."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    of = call.func.value
    if call.func.attr != method or not isinstance(of, ast.Call) or not isinstance(of.func, ast.Name):
        return None
    texts = [part.value for part in call.args if isinstance(part, ast.Constant)]
    if of.func.id != "get_ipython" or not all(isinstance(part, str) for part in texts):
        return None
    return [str(part) for part in texts]


def _with_timed_lines(text: str, tree: ast.Module) -> str:
    """Put the statement of a ``%time`` line at its place."""
    lines = text.split("\n")
    inner = [
        part
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        for part in ast.walk(node)
    ]
    not_mine = {id(part) for part in inner}  # there it binds no name of the function's, in IPython neither
    for node in ast.walk(tree):
        found = None if id(node) in not_mine else _magic(node, "run_line_magic")
        if found is None or len(found) != 2 or found[0] != "time" or not found[1].strip():
            continue
        assert isinstance(node, ast.Expr)
        line = lines[node.lineno - 1].encode()
        begin, end = node.col_offset, node.end_col_offset
        if node.end_lineno == node.lineno:
            lines[node.lineno - 1] = (line[:begin] + found[1].strip().encode() + line[end:]).decode()
    timed = "\n".join(lines)
    try:
        parsed(timed, "")
    except DataError:
        return text
    return timed


def read_notebook(text: str) -> Any:
    """Return the value of a notebook's JSON; formats 2 and 3 become format 4, as Jupyter upgrades them."""
    return _upgraded(json.loads(text))


def _upgraded(book: object) -> object:
    """Return a notebook whose cells lie in worksheets, and whose code in `input`, as one of format 4."""
    if not isinstance(book, dict) or "cells" in book or not isinstance(book.get("worksheets"), list):
        return book
    cells = []
    for sheet in book["worksheets"]:
        for cell in sheet.get("cells", []) if isinstance(sheet, dict) else []:
            is_code = isinstance(cell, dict) and cell.get("cell_type") == "code" and "source" not in cell
            cells.append({**cell, "source": cell.get("input", "")} if is_code else cell)
    return {**book, "cells": cells, "nbformat": 4}
