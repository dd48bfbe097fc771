"""The part of a notebook that a function needs: every statement that binds, fills or sets up what it uses.

A notebook also tries things out, draws and measures. None of that runs when it is graded, but all that the
function finds in the notebook's names must be there. So statements are followed backwards from the function:
who binds a name that is used, who changes it, who binds what these use, and so on. Names are resolved as the
compiler does (`symtable`), so a function's own variables are not mistaken for the notebook's.
"""

from __future__ import annotations

import ast
import symtable
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["needed_source", "without_trials"]

#: modules that a notebook sets up by calls, and the beginnings of those calls' names
_SET_UP = ("sys", "numpy", "random", "warnings", "decimal", "gc")
_SETS = ("set", "seed", "filterwarnings", "simplefilter")
#: calls that change nothing of what they are given, and modules of such
_LOOKS = frozenset({
    "abs", "all", "any", "bool", "bytes", "complex", "dict", "display", "enumerate", "float", "frozenset",
    "help", "id", "int", "isinstance", "len", "list", "max", "min", "pow", "print", "range", "repr",
    "reversed", "round", "set", "sorted", "str", "sum", "tuple", "type", "zip",
})  # fmt: skip
_LOOKING = ("labkit", "mpi4py", "matplotlib", "IPython", "bokeh", "ipywidgets")
#: what reaches names without naming them
_BY_TEXT = frozenset({"eval", "exec", "globals", "vars"})


@dataclass
class _Statement:
    """A statement of a notebook's top level: its text, and what it does to the notebook's names."""

    text: str
    node: ast.stmt
    binds: set[str] = field(default_factory=set)
    uses: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)  # into: x[0] = ..., x.y = ...
    changes: set[str] = field(default_factory=set)  # perhaps: x.append(...), fill(x)
    called: list[tuple[str, bool, set[str]]] = field(default_factory=list)  # root, is it a method, given
    line: int = 1  # of its cell

    @property
    def calls(self) -> bool:
        """Whether anything is called."""
        return bool(self.called)

    @property
    def is_definition(self) -> bool:
        return isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)

    @property
    def is_import(self) -> bool:
        return isinstance(self.node, ast.Import | ast.ImportFrom)


def needed_source(cells: Iterable[str], functions: Collection[str] | None = None) -> str:
    """Return the statements that functions need, in the notebook's order.

    Parameters
    ----------
    cells : iterable of str
        Python, as `labkit.grading.ipynb.cells.python_of` gives it.
    functions : collection of str, optional
        What is asked for. Default: everything that is defined, and the constants.

    Returns
    -------
    str
        ``from __future__`` imports come first, wherever they stood.
    """
    statements = [one for cell in cells for one in _statements(cell)]
    if functions is None:
        wanted = {
            name
            for one in statements
            if one.is_definition or (isinstance(one.node, ast.Assign | ast.AnnAssign) and not one.calls)
            for name in one.binds
        }
    else:
        wanted = set(functions)
    kept = _kept(statements, wanted, functions)
    future = [one.text for one in statements if _is_future(one)]
    rest = [one.text for one in statements if id(one) in kept and not _is_future(one)]
    return "\n".join([*dict.fromkeys(future), *rest]) + "\n"


def without_trials(script: str, functions: Collection[str]) -> str:
    """Return a script with what only tries its functions out made blank; its lines keep their numbers.

    Parameters
    ----------
    script : str
        Python.
    functions : collection of str
        What is asked for.
    """
    try:
        statements = list(_statements(script))
        kept = _kept(statements, set(functions), functions)
    except (RecursionError, SyntaxError, ValueError):
        return script
    lines = [""] * (script.count("\n") + 2)
    for one in statements:
        if id(one) in kept or _is_future(one):
            for number, line in enumerate(one.text.split("\n"), one.line - 1):
                lines[number] = f"{lines[number]}; {line}" if lines[number] else line
    return "\n".join(lines)


def _kept(statements: list[_Statement], wanted: set[str], functions: Collection[str] | None) -> set[int]:
    """Return the statements that are needed, by id."""
    modules = _modules(statements)
    for one in statements:
        _note_changes(one, modules)
    return _followed(statements, wanted, functions, _set_ups(statements, modules))


def _is_future(one: _Statement) -> bool:
    return isinstance(one.node, ast.ImportFrom) and one.node.module == "__future__"


def _followed(
    statements: list[_Statement], needed: set[str], functions: Collection[str] | None, setters: set[int]
) -> set[int]:
    """Return the statements to keep, by id."""
    trials = _trials(statements, functions)
    fixed = {name for one in statements for name in one.binds if _is_fixed(one)}
    fixed -= {name for one in statements for name in one.binds if not _is_fixed(one)}
    fixed -= {name for one in statements if one.is_definition for name in one.stores}  # global, in functions
    definitions = _definitions(statements)
    own = {name for one in statements if not one.is_import for name in one.binds}
    effects = {id(one): _effects(one, definitions) for one in statements}
    kept: set[int] = set()
    is_open = True
    order = statements
    while is_open:
        is_open = False
        data = needed - fixed
        order = order[::-1]  # names are mostly bound before they are used, but functions may stand anyhow
        for one in order:
            if id(one) in kept:
                continue
            wanted = bool(one.binds & needed) or _is_star(one)
            if wanted and id(one) in trials:
                _without_trials(one, needed)
            elif one.is_definition and not wanted:
                wanted = bool(effects[id(one)] & needed & own)
            if not (wanted or one.is_definition or one.is_import):
                wanted = id(one) in setters or bool(one.stores & needed and not one.calls)
                if id(one) not in trials:
                    wanted = wanted or bool(effects[id(one)] & data) or bool(one.stores & needed)
            if wanted:
                kept.add(id(one))
                needed |= one.uses
                if one.uses & _BY_TEXT:
                    needed |= {name for s in statements if id(s) not in trials for name in s.binds}
                is_open = True
    return kept


def _is_star(one: _Statement) -> bool:
    return isinstance(one.node, ast.ImportFrom) and any(alias.name == "*" for alias in one.node.names)


def _definitions(statements: list[_Statement]) -> dict[str, list[_Statement]]:
    found: dict[str, list[_Statement]] = {}
    for one in statements:
        if one.is_definition:
            for name in one.binds:
                found.setdefault(name, []).append(one)
    return found


def _effects(one: _Statement, definitions: Mapping[str, list[_Statement]]) -> set[str]:
    """Return the names that a statement may change: by itself, or in the functions that it comes to."""
    if not one.is_definition:
        return one.changes | one.stores | (_changed_by(one.uses, definitions) if one.calls else set())
    # A definition calls its decorators, and its bases learn of a class (__init_subclass__, __subclasses__).
    node = one.node
    bases = [*node.bases, *(word.value for word in node.keywords)] if isinstance(node, ast.ClassDef) else []
    found, named = {root for base in bases if (root := _root(base)) is not None}, set()
    for decorator in getattr(node, "decorator_list", ()):
        names = {part.id for part in ast.walk(decorator) if isinstance(part, ast.Name)}
        named |= names
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        found |= names - {called.id} if isinstance(called, ast.Name) else names
    return found | _changed_by(found | named, definitions)


def _changed_by(names: set[str], definitions: Mapping[str, list[_Statement]]) -> set[str]:
    """Return what the functions and classes of these names may change, or those that they come to."""
    found: set[str] = set()
    seen, open_ = set(names), list(names)
    while open_:
        for one in definitions.get(open_.pop(), ()):
            found |= one.changes | one.stores
            open_ += one.uses - seen
            seen |= one.uses
    return found


def _without_trials(one: _Statement, needed: set[str]) -> None:
    """Take from a loop that tries the function out what it tries: only its own variables are needed."""
    node = one.node
    if not isinstance(node, ast.For):
        return
    targets = {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
    if one.binds & needed <= targets:
        line = ast.For(node.target, node.iter, [ast.Pass()], [], None)
        try:
            shorter = next(_statements(ast.unparse(ast.fix_missing_locations(line))))
        except RecursionError:  # a list of thousands of sums
            return
        # one line: in a script whose lines keep their numbers, the next line is another statement's
        one.text, one.uses = shorter.text.removesuffix("\n    pass") + " pass", shorter.uses


def _trials(statements: list[_Statement], functions: Collection[str] | None) -> set[int]:
    """Return the statements that call something which comes, in the end, to a function: they try it out."""
    if functions is None:
        return {id(one) for one in statements if one.calls and not _is_fixed(one)}
    reaches = set(functions)
    is_open = True
    while is_open:
        is_open = False
        for one in statements:
            new = one.binds - reaches
            if new and one.uses & reaches and not one.is_import:
                reaches |= new
                is_open = True
    return {id(one) for one in statements if one.calls and one.uses & reaches and not one.is_definition}


def _is_fixed(one: _Statement) -> bool:
    """Whether no call can change what a statement binds: a function, a module, a number."""
    if one.is_definition or one.is_import:
        return True
    value = getattr(one.node, "value", None)
    if not isinstance(one.node, ast.Assign | ast.AnnAssign) or value is None:
        return False
    changing = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)
    is_plain = not any(isinstance(part, changing) for part in ast.walk(value))
    return is_plain and all(root in _LOOKS - {"list", "dict", "set"} for root, _, _ in one.called)


def _modules(statements: list[_Statement]) -> dict[str, str]:
    """Return what imported names are, with dots."""
    known: dict[str, str] = {}
    for one in statements:
        for part in ast.walk(one.node) if one.is_import else ():
            if isinstance(part, ast.alias) and isinstance(one.node, ast.ImportFrom):
                known[part.asname or part.name] = f"{one.node.module or ''}.{part.name}"
            elif isinstance(part, ast.alias):
                first = part.name.partition(".")[0]
                known[part.asname or first] = part.name if part.asname else first
    return known


def _note_changes(one: _Statement, modules: dict[str, str]) -> None:
    """Note what a statement's calls may change."""
    for root, is_method, given in one.called:
        if root == "setattr" and not is_method:
            one.stores |= given
        if (root in _LOOKS and not is_method) or modules.get(root, "").startswith(_LOOKING):
            continue
        one.changes |= given | ({root} if is_method else set())
    if one.is_definition:  # of its names only the notebook's
        one.changes &= one.uses | one.stores


def _set_ups(statements: list[_Statement], modules: dict[str, str]) -> set[int]:
    """Return the statements that only set a module up: sys.setrecursionlimit(...), np.random.seed(...)."""
    found = set()
    for one in statements:
        call = one.node.value if isinstance(one.node, ast.Expr) else None
        if isinstance(call, ast.Call):
            of = modules.get(_root(call.func) or "", "")
            last = call.func.attr if isinstance(call.func, ast.Attribute) else of.rpartition(".")[2]
            if of.partition(".")[0] in _SET_UP and last.startswith(_SETS):
                found.add(id(one))
    return found


def _statements(cell: str) -> Iterator[_Statement]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(cell)
    lines = [line.encode() for line in cell.split("\n")]
    for node in tree.body:
        first, begin = node.lineno, node.col_offset
        for decorator in getattr(node, "decorator_list", ()):
            first, begin = min(first, decorator.lineno), 0
        end_line = node.end_lineno or node.lineno
        part = lines[first - 1 : end_line]
        part[-1] = part[-1][: node.end_col_offset]
        part[0] = part[0][begin:]
        yield _looked_at(_Statement(b"\n".join(part).decode(), node, line=first))


def _looked_at(one: _Statement) -> _Statement:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = symtable.symtable(one.text, "cell", "exec")
    except (SyntaxError, ValueError, RecursionError):  # await at the top, or an expression without end
        names = [part for part in ast.walk(one.node) if isinstance(part, ast.Name)]
        one.binds = {part.id for part in names if isinstance(part.ctx, ast.Store)}
        one.uses = {part.id for part in names}
    else:
        _note_names(one, table)
    own = one.uses | one.binds if one.is_definition else None
    for part in ast.walk(one.node):
        if isinstance(part, ast.Call):
            values = [*part.args, *(keyword.value for keyword in part.keywords)]
            given = {root for value in values if (root := _root(value)) is not None}
            one.called.append((_root(part.func) or "", isinstance(part.func, ast.Attribute), given))
        elif isinstance(part, ast.Subscript | ast.Attribute) and isinstance(part.ctx, ast.Store):
            one.stores.add(_root(part) or "")
    if own is not None:
        one.stores &= own
    if one.is_definition:
        one.stores |= one.binds - {getattr(one.node, "name", "")}
        one.binds = {getattr(one.node, "name", "")}
    return one


def _note_names(one: _Statement, table: symtable.SymbolTable) -> None:
    open_ = [table]
    while open_:
        scope = open_.pop()
        open_ += scope.get_children()
        is_top = scope is table
        for symbol in scope.get_symbols():
            name = symbol.get_name()
            if is_top and (symbol.is_assigned() or symbol.is_imported()):
                one.binds.add(name)
            if (is_top or symbol.is_global()) and symbol.is_referenced():
                one.uses.add(name)
            if not is_top and symbol.is_declared_global() and symbol.is_assigned():
                one.binds.add(name)
                one.uses.add(name)


def _root(node: ast.AST) -> str | None:
    """Return the name that an expression like a.b[0].c begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None
