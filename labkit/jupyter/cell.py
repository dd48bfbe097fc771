"""Compilation of a cell into the program that every rank runs.

The cell runs as though it stood at the top level of a script: its names are globals, in a rank's own copy of
the notebook's. The program is a function whose globals are the notebook's, so that what it uses is found
and copied (simulated ranks) or packed (real ones) as for any other program.
"""

from __future__ import annotations
import __future__

import ast
import linecache
import symtable
import traceback
import warnings
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from labkit.errors import ProgramError
from labkit.jupyter.ranks import SCOPE, Stage

__all__ = ["Cell", "read_cell"]

_COMM, _STAGE, _RANK, _VALUE, _NAMES = (
    f"_labkit_{name}" for name in ("comm", "stage", "rank", "value", "names")
)


@dataclass(frozen=True)
class Cell:
    """A cell as a program.

    Attributes
    ----------
    name : str
        What tracebacks call it, such as ``Cell In[3]``.
    program : function
        ``program(comm)``.
    names : tuple of str
        The names it assigns, that come back.
    is_quiet : bool
        Whether its last expression ends with a semicolon: then its value is not shown.
    """

    name: str
    program: FunctionType
    names: tuple[str, ...]
    is_quiet: bool


def read_cell(head: str, body: str, name: str, scope: dict[str, Any], flags: int = 0) -> Cell:
    """Compile a cell.

    Parameters
    ----------
    head : str
        Its first line, the magic; lines are counted from there, as the notebook does.
    body : str
        The rest.
    name : str
        What tracebacks shall call it.
    scope : dict
        The notebook's names.
    flags : int
        Of the compiler: what the notebook's cells have imported from ``__future__``.

    Raises
    ------
    ProgramError
        It is no Python, or nothing that a rank can run; the message points into the cell.
    """
    keep_source(name, f"{head}\n{body}")
    source = f"\n{body}"  # the magic's own line comes first
    try:
        with warnings.catch_warnings():  # they come when the program is compiled, below
            warnings.simplefilter("ignore")
            tree = ast.parse(source, name)
            _refuse(tree, name)
            compile(tree, name, "exec", flags, dont_inherit=True)
            table = symtable.symtable(source, name, "exec")
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        raise _no_python(error, name) from None
    symbols = [s for s in table.get_symbols() if s.is_assigned() or s.is_imported()]
    names = tuple(
        s.get_name()
        for s in symbols
        if not (s.get_name().startswith("_") or s.is_imported() or s.is_namespace() or s.get_name() in SCOPE)
    )
    is_quiet = _ends_with_semicolon(tree, source)
    code = _program(tree, name, [s.get_name() for s in symbols], names, flags)
    found: dict[str, Any] = {}
    exec(code, found)
    made = found["cell"]
    program = FunctionType(made.__code__, scope, "cell", (Stage,))
    program.__module__ = "__main__"
    return Cell(name, program, names, is_quiet)


def keep_source(name: str, text: str) -> None:
    """Let tracebacks find a text, here and on the ranks."""
    linecache.cache.pop(name, None)  # the newest stands last
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)


def _no_python(error: Exception, name: str) -> ProgramError:
    line = (getattr(error, "text", None) or "").strip()
    number = getattr(error, "lineno", None)
    if line.startswith(("%", "!")) or line.endswith("?") or "= !" in line or "= %" in line:
        return ProgramError(
            f"line {number} of the cell, {line!r}, is IPython's and not Python's: the ranks have no "
            "notebook; put it into a cell of its own"
        )
    text = "".join(traceback.format_exception_only(error)).rstrip()
    return ProgramError(f"the cell is not Python\n{text}")


class _Refusals(ast.NodeVisitor):
    """Finds what cannot stand at the top level of a rank's cell; does not look into functions."""

    def __init__(self) -> None:
        self.found: tuple[int, str] | None = None

    def note(self, node: ast.AST, text: str) -> None:
        if self.found is None:
            self.found = getattr(node, "lineno", 0), text

    def visit_Await(self, node: ast.AST) -> None:
        self.note(node, "waits for a coroutine, and ranks have no event loop: use blocking calls")

    visit_AsyncFor = visit_AsyncWith = visit_Await  # noqa: N815

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if any(alias.name == "*" for alias in node.names):
            self.note(node, f"imports * from {node.module}: do that in a cell before, or import by name")

    def visit_FunctionDef(self, node: ast.AST) -> None:
        """Leave functions alone."""

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef  # noqa: N815


def _refuse(tree: ast.Module, name: str) -> None:
    finder = _Refusals()
    finder.visit(tree)
    if finder.found is not None:
        raise ProgramError(f"line {finder.found[0]} of the cell {finder.found[1]}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "get_ipython":
            raise ProgramError(
                f"line {node.lineno} of the cell asks for get_ipython(), and the ranks have no notebook; do "
                "that in a cell of its own"
            )


class _TopLevel(ast.NodeTransformer):
    """Rewrites what a function may not do with its global names; does not look into functions."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if not isinstance(node.target, ast.Name):
            return node
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_Global(self, node: ast.Global) -> Any:
        return ast.copy_location(ast.Pass(), node)

    def visit_FunctionDef(self, node: ast.AST) -> Any:
        """Leave functions alone."""
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef  # noqa: N815


class _AnyMpi(ast.NodeTransformer):
    """Lets ``from mpi4py import MPI`` mean the machine's own module: simulated ranks do not have mpi4py's."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.module == "mpi4py" and all(alias.name == "MPI" for alias in node.names):
            node.module = "labkit"
        return node


def _program(tree: ast.Module, name: str, assigned: list[str], returned: tuple[str, ...], flags: int) -> Any:
    """Compile the function around the cell."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    body: list[Any] = [
        n for n in tree.body if not (isinstance(n, ast.ImportFrom) and n.module == "__future__")
    ]
    last = body[-1] if body else None
    if isinstance(last, ast.Expr):
        body[-1] = ast.copy_location(ast.Assign([ast.Name(_VALUE, ast.Store())], last.value), last)
    module = ast.parse(_frame(assigned, returned), name)
    for part in ast.walk(module):  # its lines count as the first, which is the magic's
        if isinstance(part, ast.stmt | ast.expr | ast.excepthandler | ast.arg):
            part.lineno = part.end_lineno = 1
    function = module.body[0]
    assert isinstance(function, ast.FunctionDef)
    block = function.body[-1]
    assert isinstance(block, ast.With)
    block.body[2:2] = [_TopLevel().visit(_AnyMpi().visit(node)) for node in body]
    ast.fix_missing_locations(module)
    return compile(module, name, "exec", flags, dont_inherit=True)


def _frame(assigned: list[str], returned: tuple[str, ...]) -> str:
    """Write the function without the cell."""
    keep = "".join(
        f"\n  try: {_NAMES}[{name!r}] = {name}\n  except NameError: pass" for name in sorted(returned)
    )
    return (
        f"def cell({_COMM}, {_STAGE}):\n"
        f" global {', '.join(sorted({*SCOPE, *assigned}))}\n"
        f" with {_STAGE}({_COMM}) as {_RANK}:\n"
        f"  {', '.join(SCOPE)} = {_RANK}.scope()\n"
        f"  {_VALUE}, {_NAMES} = None, {{}}\n"
        f"  {keep}\n"
        f"  return {_RANK}.end({_VALUE}, {_NAMES})\n"
    )


def _ends_with_semicolon(tree: ast.Module, source: str) -> bool:
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or last.end_lineno is None or last.end_col_offset is None:
        return False
    line = source.splitlines()[last.end_lineno - 1].encode()
    return line[last.end_col_offset :].lstrip().startswith(b";")
