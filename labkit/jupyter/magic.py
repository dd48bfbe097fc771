"""``%%spmd``: a cell on every rank of a machine; ``%spmd``: the session's machine."""

from __future__ import annotations
import __future__

import ast
import contextlib
import linecache
import symtable
import traceback
import warnings
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from labkit.errors import DeadlockError, LabkitError, MismatchError, ProgramError, RankError, TimeLimitError
from labkit.jupyter import options
from labkit.jupyter.failure import cell_name, failure_lines, first_sentence, has_colors, show_waits
from labkit.jupyter.options import Machines
from labkit.jupyter.ranks import SCOPE, Stage, rank_main
from labkit.jupyter.result import CellRun, Printed, cell_run, unmarked
from labkit.launch.options import check_options, run_keywords
from labkit.launch.run import checked_request, machine_of, run
from labkit.request import RunRequest
from labkit.text.progress import finished_in

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["Cell", "Spmd"]

#: what a program can do wrong while it runs; everything else is refused before
_OF_RANKS = (RankError, DeadlockError, TimeLimitError, MismatchError)


# Compilation of a cell into the program that every rank runs.
#
# The cell runs as though it stood at the top level of a script: its names are globals, in a rank's own
# copy of
# the notebook's. The program is a function whose globals are the notebook's, so that what it uses is found
# and copied (simulated ranks) or packed (real ones) as for any other program.

_COMM, _STAGE, _RANK, _VALUE, _NAMES = (
    f"_labkit_{name}" for name in ("comm", "stage", "rank", "value", "names")
)


@dataclass(frozen=True)
class Cell:
    """A cell as a program.

    `name`: What tracebacks call it, such as ``Cell In[3]``.
    `program`: ``program(comm)``.
    `names`: The names it assigns, that come back.
    `is_quiet`: Whether its last expression ends with a semicolon: then its value is not shown.
    """

    name: str
    program: FunctionType
    names: tuple[str, ...]
    is_quiet: bool


def read_cell(head: str, body: str, name: str, scope: dict[str, Any], flags: int = 0) -> Cell:
    """Compile a cell."""
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
            "notebook; put it into a separate cell",
            code="not-on-ranks",
        )
    text = "".join(traceback.format_exception_only(error)).rstrip()
    if "'return' outside function" in text:
        text += "\nend the cell with the expression itself: its value is shown for every rank"
    return ProgramError(f"the cell is not Python\n{text}", code="not-python")


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
        raise ProgramError(f"line {finder.found[0]} of the cell {finder.found[1]}", code="not-on-ranks")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "get_ipython":
            raise ProgramError(
                f"line {node.lineno} of the cell asks for get_ipython(), and the ranks have no notebook; do "
                "that in a separate cell",
                code="not-on-ranks",
            )


class _TopLevel(ast.NodeTransformer):
    """Rewrites what a function may not do with its global names; does not look into functions."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name):
            return node
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_Global(self, node: ast.Global) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    def visit_FunctionDef(self, node: ast.AST) -> ast.AST:
        """Leave functions alone."""
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef  # noqa: N815


class _AnyMpi(ast.NodeTransformer):
    """Lets ``from mpi4py import MPI`` mean the machine's own module: simulated ranks do not have mpi4py's."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
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


class Spmd:
    """The magic, and what it remembers of the session."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.session: dict[str, Any] = {}
        self.machines = Machines()

    def __call__(self, line: str, cell: str | None = None) -> None:
        """Run a cell (``%%spmd``), or set or show the session's options (``%spmd``)."""
        from IPython.core.error import UsageError

        try:
            if {"-h", "--help"} & set(line.split()):
                print(documentation())
                return
            if cell is None:
                self.set_session(line)
                return
            given = options.cell_options(line)
            chosen = self.check(given, self.session)
            program = self.read(line, cell)
        except ProgramError as error:
            raise UsageError(str(error)) from None
        except LabkitError as error:
            raise UsageError(first_sentence(error)) from None
        self.run(program, chosen)

    # --- the session --------------------------------------------------------------------------------

    def set_session(self, line: str) -> None:
        """Set the session's options, or show them."""
        given = options.session_options(line)
        kept = {} if given.pop("reset", False) else self.session
        merged = {**kept, **given}
        if given:
            chosen = self.check({"ranks": 1, **merged}, {})
            if machine_of(chosen.on).is_real:  # options of the session that it has not rest while it runs
                RunRequest(_nothing, chosen.ranks, timeout_s=chosen.keywords["timeout_s"])
            else:
                checked_request(
                    _nothing, chosen.ranks, on=chosen.on, **(chosen.keywords | {"trace_ti": None})
                )
        self.session = merged
        print(options.describe_options(merged))

    def check(self, given: dict[str, Any], session: dict[str, Any]) -> Namespace:
        """Refuse options that make no sense together, before anything runs."""
        word = given.get("on", session.get("on", "star"))
        machine = self.machines.named(word, self.shell.user_ns)
        chosen = options.effective(given, session, machine)
        chosen.on = machine
        check_options(chosen)
        chosen.keywords = run_keywords(chosen)
        return chosen

    # --- a cell -------------------------------------------------------------------------------------

    def read(self, line: str, body: str) -> Cell:
        """Turn the cell into a program."""
        head = f"%%spmd {line}".rstrip()
        name = first = f"Cell In[{self.number()}]"
        others = 1
        while name in linecache.cache and "".join(linecache.cache[name][2]) != f"{head}\n{body}":  # type: ignore[misc]
            others += 1  # the same cell can hold several: run_cell_magic in a loop
            name = f"{first}.{others}"
        return read_cell(head, body, name, self.shell.user_ns, self.shell.compile.flags & _future_flags())

    def number(self) -> int:
        """Return the number of the running cell: IPython 9 counts before a cell runs, IPython 8 behind it."""
        known = getattr(self.shell.compile, "_filename_map", {}).values()
        return int(max(known, default=self.shell.execution_count))

    def run(self, cell: Cell, chosen: Namespace) -> None:
        """Run it, show its result, and keep it."""
        from IPython.display import display

        try:
            on = self.machines.ready(chosen.on, chosen.ranks)
            self.machines.tell_of_restart(on)
            with rank_main(), self.own_names():
                done = run(cell.program, chosen.ranks, on, **chosen.keywords)
        except _OF_RANKS as error:
            self.show_output(error, chosen)
            show_waits(error)
            lines = failure_lines(error, cell.name, self.readable, has_colors(self.shell))
            raise _shown(error, lines) from None
        except LabkitError as error:
            self.show_output(error, chosen)
            raise _shown(error, [f"{type(error).__name__}: {first_sentence(error)}"]) from None
        except KeyboardInterrupt as error:
            self.show_output(error, chosen)
            ended = "" if machine_of(chosen.on).is_queued else f", and its {chosen.ranks} ranks were ended"
            raise _shown(error, [f"KeyboardInterrupt: the cell was interrupted{ended}"]) from None
        made = cell_run(done, cell.names, cell.is_quiet)
        self.keep(made, chosen)
        _show(None if chosen.quiet else made)
        if chosen.explain and made.trace is not None:
            display(made.explain())

    @contextlib.contextmanager
    def own_names(self) -> Iterator[None]:
        """Leave only the user's own names in the notebook while ranks take copies of them.

        IPython's (its shell, its history) cannot travel, and each rank sets those of `SCOPE` first.
        """
        names, hidden = self.shell.user_ns, getattr(self.shell, "user_ns_hidden", {})
        theirs = [
            name
            for name, value in hidden.items()
            if names.get(name, self) is value and not (name.startswith("__") and name.strip("_"))
        ]  # what every module has, such as __name__, stays
        before = {name: names.pop(name) for name in {*theirs, *SCOPE} if name in names}
        try:
            yield
        finally:
            names.update(before)

    def keep(self, run: CellRun, chosen: Namespace) -> None:
        """Give the notebook the run."""
        self.shell.user_ns["_spmd"] = run
        if chosen.out:
            self.shell.user_ns[chosen.out] = run

    def tell_of_name(self, result: object) -> None:
        """Report where a name is that a cell looks for in the notebook, and that lives on the ranks."""
        error, run = getattr(result, "error_in_exec", None), self.shell.user_ns.get("_spmd")
        if not isinstance(error, NameError):
            return
        if isinstance(run, CellRun) and error.name in run.values:
            print(f'{error.name} lives on the ranks: _spmd["{error.name}"] is its value on each of them')
        elif error.name == "MPI":
            print("from labkit import MPI has it; its ranks are in cells that begin with %%spmd")
        elif error.name in SCOPE:
            print(
                f"{error.name} lives on the ranks: in cells that begin with %%spmd, and as def program(comm)"
            )

    def show_output(self, error: BaseException, chosen: Namespace) -> None:
        """Show what the ranks of a failed or interrupted run had printed."""
        output = getattr(error, "output", ())
        printed = Printed(output, where="sys.last_value")
        if output:
            error.output = [unmarked(text) for text in output]  # type: ignore[attr-defined]
        _show(printed if printed and not chosen.quiet else None)

    def readable(self, file: str) -> str:
        """Return what people call a cell whose code has this file name."""
        return cell_name(self.shell, file)


def _show(thing: object) -> None:
    """Show the result of a cell in the place of its progress."""
    from IPython.display import display

    seen = finished_in()
    if seen is not None:
        seen.update(thing) if thing is not None else seen.update({"text/plain": ""}, raw=True)
    elif thing is not None:
        display(thing)


def _nothing(comm: Intracomm) -> None:
    """Stand for the programs of the cells to come."""


def _shown(error: BaseException, lines: list[str]) -> BaseException:
    """Let IPython show an error by these lines, without the frames of what runs cells."""
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
    return error


def _future_flags() -> int:
    import __future__

    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag
    return flags


def documentation() -> str:
    """Return the magic's help, with its options."""
    return f"{_DOCUMENTATION}\n{options.help_text()}\n"


_DOCUMENTATION = """\
Run a cell as one SPMD program: on every rank of a simulated machine, of real MPI, or of a cluster.

    %load_ext labkit

    %%spmd -n 4 --on torus:2x2
    right, left = (rank + 1) % size, (rank - 1) % size
    comm.send(rank, dest=right)
    got = comm.recv(source=left)
    got

Switch the machine by one option, with the very same cell:

    %%spmd -n 4 --on mpi           real MPI processes on this host
    %%spmd -n 4 --on cluster       engines that labkit starts once and keeps
    %%spmd -n 4 --on slurm         a batch job of this cluster's Slurm
    %%spmd -n 4 --on engines       a cluster of this notebook: engines = labkit.cluster(4)
    %%spmd -n 4 --on {machine}     what the variable machine holds

or once for all cells that follow:

    %spmd -n 16 --on torus:4x4     sets;   %spmd  shows;   %spmd --reset  forgets

In the cell: comm (an mpi4py communicator), rank, size, MPI (as labkit.MPI), lk (labkit), and every name of
the notebook by value: each rank has its own copy, as processes do; what it changes stays there.

What comes back: the run, as _spmd (and under the name behind -o).
    _spmd.results       the cell's last expression on each rank (shown unless it ends with a semicolon)
    _spmd["x"]          what the cell's name x was on each rank in the end; the notebook's own x stays
    _spmd.values        all of them, by name
    _spmd.makespan_s, .messages, .phases, .trace, .output ...   as of every run of labkit.run

A rank that raises ends the cell with its rank and line; a deadlock with who waits for whom; a cell that does
not end with where each rank was when its time was over. _spmd is then what it was before.

Options:"""

Spmd.__doc__ = documentation()
