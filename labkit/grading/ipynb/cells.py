"""Code cells of a notebook as Python: what IPython itself makes of magics, prompts and question marks."""

from __future__ import annotations

import ast
import warnings
from typing import Any

from labkit.errors import DataError, MachineError

__all__ = ["parsed", "python_of"]

#: characters of a cell with magics: IPython reads it anew for each of them
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
        raise DataError(f"{name}{line}: not Python: {what}") from error


def python_of(cell: str, name: str = "the cell") -> str:
    """Return a cell as Python that does what the cell does in a notebook.

    Magics become calls of ``get_ipython()``, as IPython makes them, but ``%time``, ``%%time``, ``%%capture``
    and others that run their code in the notebook's own names: these become their code.
    """
    try:
        cell.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{name}: not Python: half a character") from error
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
            "a notebook with magics is read by IPython, which is not installed: pip install 'labkit[lab]'"
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
    inner = [part for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)
             for part in ast.walk(node)]  # fmt: skip
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
