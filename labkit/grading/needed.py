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
from collections.abc import Collection, Iterable, Iterator, Sequence
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
    """Return the statements that functions need, in the notebook's order."""
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
    """Return a script with what only tries its functions out made blank; its lines keep their numbers."""
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
    statements: list[_Statement], wanted: set[str], functions: Collection[str] | None, setters: set[int]
) -> set[int]:
    """Return the statements to keep, by id."""
    following = _Following(statements, _trials(statements, functions))
    following.need(wanted)
    for one in statements:
        if _is_star(one) or (id(one) in setters and not (one.is_definition or one.is_import)):
            following.keep(one)
    following.finish()
    return following.kept


class _Following:
    """Follows needed names to the statements that give them what they are; each of both is visited once."""

    def __init__(self, statements: list[_Statement], trials: set[int]) -> None:
        self.fixed = _fixed(statements)
        self.own = {name for one in statements if not one.is_import for name in one.binds}
        self.trials, self.kept = trials, set[int]()
        self.by_text = {name for one in statements if id(one) not in trials for name in one.binds}
        self._needed: set[str] = set()
        self._open: list[str] = []
        self._loops: list[_Statement] = []
        self._shortened: dict[int, tuple[str, set[str]]] = {}
        #: name -> who binds it; who fills it for sure, and perhaps; the same of definitions
        self._binders, self._stores, self._fills = _Index(), _Index(), _Index()
        self._hooks, self._defined_by = _Index(), _Index()
        #: name -> who comes to it by a call: statements, hooks of definitions, bodies of definitions
        self._calls, self._hook_calls, self._bodies = _Index(), _Index(), _Index()
        #: names whose functions come to a statement that changes something needed: as data, as a name
        self._filling: set[str] = set()
        self._hooking: set[str] = set()
        for one in statements:
            self._note(one)

    def _note(self, one: _Statement) -> None:
        self._binders.add(one.binds, one)
        if one.is_definition:
            self._bodies.add(one.uses, one)
            self._defined_by.add(one.changes | one.stores, one)
            changed, called = _hooks_of(one.node)
            self._hooks.add(changed, one)
            self._hook_calls.add(changed | called, one)
        elif not one.is_import:
            is_trial = id(one) in self.trials
            if not (is_trial and one.calls):
                self._stores.add(one.stores, one)
            if not is_trial:
                self._fills.add(one.changes | one.stores, one)
                if one.calls:
                    self._calls.add(one.uses, one)

    def need(self, names: set[str]) -> None:
        """Add names to those that are needed."""
        self._open += names - self._needed
        self._needed |= names

    def keep(self, one: _Statement) -> None:
        """Keep a statement, and need what it uses."""
        if id(one) in self.kept:
            return
        self.kept.add(id(one))
        self.need(one.uses)
        if one.uses & _BY_TEXT:
            self.need(self.by_text)
            self.by_text = set()

    def finish(self) -> None:
        """Follow all names; loops that try a function out come last, when it is known what they are for."""
        while self._open or self._loops:
            while self._open:
                self._follow(self._open.pop())
            if self._loops:
                self._keep_loop(self._loops.pop())

    def _follow(self, name: str) -> None:
        for one in self._binders[name]:
            if id(one) in self._shortened:
                self._lengthen(one)
            elif id(one) in self.trials and id(one) not in self.kept and isinstance(one.node, ast.For):
                self._loops.append(one)
            else:
                self.keep(one)
        for one in self._stores[name]:
            self.keep(one)
        if name not in self.fixed:
            for one in self._fills[name]:
                self.keep(one)
            self._spread(name, self._filling, self._calls)
        if name in self.own:
            for one in self._hooks[name]:
                self.keep(one)
            self._spread(name, self._hooking, self._hook_calls)

    def _spread(self, name: str, marked: set[str], callers: _Index) -> None:
        """Keep whoever calls a function that comes to one which changes what a name stands for."""
        open_ = [new for one in self._defined_by[name] for new in one.binds]
        while open_:
            called = open_.pop()
            if called in marked:
                continue
            marked.add(called)
            for one in callers[called]:
                self.keep(one)
            for one in self._bodies[called]:
                open_ += one.binds

    def _keep_loop(self, one: _Statement) -> None:
        """Keep a loop without what it tries out, if only its own variables are needed."""
        if id(one) in self.kept or id(one) in self._shortened:
            return
        assert isinstance(one.node, ast.For)
        targets = {part.id for part in ast.walk(one.node.target) if isinstance(part, ast.Name)}
        shorter = _without_body(one.node) if one.binds & self._needed <= targets else None
        if shorter is not None:
            self._shortened[id(one)] = one.text, one.uses
            one.text, one.uses = shorter.text.removesuffix("\n    pass") + " pass", shorter.uses
        self.keep(one)

    def _lengthen(self, one: _Statement) -> None:
        """Put back what a loop does, if more of it is needed after all."""
        assert isinstance(one.node, ast.For)
        targets = {part.id for part in ast.walk(one.node.target) if isinstance(part, ast.Name)}
        if not one.binds & self._needed <= targets:
            one.text, one.uses = self._shortened.pop(id(one))
            self.kept.discard(id(one))
            self.keep(one)


class _Index:
    """Statements by name."""

    def __init__(self) -> None:
        self._found: dict[str, list[_Statement]] = {}

    def add(self, names: Iterable[str], one: _Statement) -> None:
        """Note a statement under each of some names."""
        for name in names:
            self._found.setdefault(name, []).append(one)

    def __getitem__(self, name: str) -> Sequence[_Statement]:
        return self._found.get(name, ())


def _is_star(one: _Statement) -> bool:
    return isinstance(one.node, ast.ImportFrom) and any(alias.name == "*" for alias in one.node.names)


def _hooks_of(node: ast.stmt) -> tuple[set[str], set[str]]:
    """Return what a definition hands to its decorators and bases, and the names of these.

    A definition calls its decorators, and a class notifies its bases (__init_subclass__, __subclasses__).
    """
    bases = [*node.bases, *(word.value for word in node.keywords)] if isinstance(node, ast.ClassDef) else []
    found, named = {root for base in bases if (root := _root(base)) is not None}, set()
    for decorator in getattr(node, "decorator_list", ()):
        names = {part.id for part in ast.walk(decorator) if isinstance(part, ast.Name)}
        named |= names
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        found |= names - {called.id} if isinstance(called, ast.Name) else names
    return found, named


def _without_body(node: ast.For) -> _Statement | None:
    """Return a loop that does nothing; None for one that cannot be written, such as thousands of sums."""
    line = ast.For(node.target, node.iter, [ast.Pass()], [], None)
    try:
        # one line: in a script whose lines keep their numbers, the next line is another statement's
        return next(_statements(ast.unparse(ast.fix_missing_locations(line))))
    except RecursionError:
        return None


def _trials(statements: list[_Statement], functions: Collection[str] | None) -> set[int]:
    """Return the statements that call something which comes, in the end, to a function: they try it out."""
    if functions is None:
        return {id(one) for one in statements if one.calls and not _is_fixed(one)}
    users = _Index()
    for one in statements:
        if not one.is_import:
            users.add(one.uses, one)
    reaches, open_ = set(functions), list(functions)
    while open_:
        for one in users[open_.pop()]:
            new = one.binds - reaches
            reaches |= new
            open_ += new
    return {id(one) for one in statements if one.calls and one.uses & reaches and not one.is_definition}


def _fixed(statements: list[_Statement]) -> set[str]:
    """Return the names that are bound to what no call can change, and to nothing else."""
    others = {name for one in statements for name in one.binds if not _is_fixed(one)}
    others |= {name for one in statements if one.is_definition for name in one.stores}
    found = {name for one in statements for name in one.binds if one.is_definition or one.is_import}
    for one in statements:
        if _is_fixed(one) and not (one.is_definition or one.is_import):
            same = _same_as(getattr(one.node, "value", None))
            (found if same <= found and not same & others else others).update(one.binds)
    return found - others


def _same_as(value: ast.expr | None) -> set[str]:
    """Return the names whose objects, or parts of them, an expression may have for its value."""
    if isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Starred):
        root = _root(value)
        return set() if root is None else {root}
    parts: list[ast.expr] = []
    if isinstance(value, ast.IfExp):
        parts = [value.body, value.orelse]
    elif isinstance(value, ast.BoolOp):
        parts = value.values
    elif isinstance(value, ast.Tuple):
        parts = value.elts
    elif isinstance(value, ast.NamedExpr):
        parts = [value.value]
    return set().union(*map(_same_as, parts))


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
        if len(part) == 1:  # cut out of a line with thousands of statements, not copied with what is before
            part[0] = part[0][begin : node.end_col_offset]
        else:
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
