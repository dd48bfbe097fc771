"""Ranks as isolated as processes: each gets its own copy of what its program can reach.

A program reaches its globals (those its code names, and those of the functions and classes they lead to),
its closure, its default values and its arguments. `Isolation.program(rank)` gives a rank a copy of all of
it: new function objects over new dictionaries of globals, new cells, new classes, copied data. What cannot
change is shared: numbers and texts, read-only arrays, everything of installed packages, the simulated
MPI module, and a whole program that reaches nothing else (`is_constant`). A module of the
program that is not installed is copied name by name when a name is used.

What a rank copied comes back as the original (`Isolation.restore`): a result whose class the program
defined is an instance of that class, not of a rank's copy of it.
"""

from __future__ import annotations

import abc
import contextlib
import copyreg
import ctypes
import dis
import functools
import io
import pickle
import sys
import threading
import types
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from labkit import _kernels
from labkit.comm import pickling
from labkit.comm.handles.base import MODULE_NAME
from labkit.sim.isolation import copy_rules
from labkit.sim.isolation.code import code_of_dependent, is_installed, names_used, own_builtins
from labkit.sim.isolation.copy_rules import ATOMS, is_changeable
from labkit.sim.isolation.mpi4py_name import is_library
from labkit.sim.isolation.waits import RankLock

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["Isolation", "RankPickle", "is_constant", "is_plain_data", "kept_heap"]


class Isolation:
    """Makes the ranks' own copies of a program.

    `kwargs`: Its arguments after the communicator.
    `stand_ins`: Id of a shared object -> function of the rank that makes what the rank has in its place.
    `notes`: What could not be copied and is shared by all ranks.
    """

    def __init__(
        self,
        program: Callable[..., object],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        stand_ins: Mapping[int, Callable[[int], object]] | None = None,
    ) -> None:
        self._program = program
        self._given = (tuple(args), dict(kwargs or {}))
        self._plan = CopyPlan()
        self._plan.stand_ins = stand_ins or {}
        self._copiers: dict[int, Copier] = {}
        given = (self._given[0], tuple(self._given[1].values()))
        varied = self._plan.stand_ins
        is_shared = is_constant(program, varied=varied)
        #: whether every rank may run the program as it is, with the arguments as they are
        self.is_shared = is_shared and is_constant(given, varied=varied)
        self._is_program_shared = is_shared and (self.is_shared or is_plain_data(given))

    @property
    def notes(self) -> list[str]:
        """What could not be copied and is shared by all ranks."""
        return list(self._plan.notes)

    def program(self, rank: int) -> Callable[[Any], Any]:
        """Return ``function(comm)``: a rank's own copy of the program with its own arguments."""
        if self.is_shared:
            return functools.partial(_call, self._program, *self._given)
        copier = self._copiers[rank] = Copier(self._plan, rank)
        if self._is_program_shared:
            return functools.partial(_call, self._program, *copier.copy(self._given))
        program, (args, kwargs) = copier.copy((self._program, self._given))
        return functools.partial(_call, program, args, kwargs)

    def copied(self, rank: int, original: object) -> Any:
        """Return a rank's copy of a function or class of the program."""
        return self._copiers[rank].copy(original)

    def original(self, copy: object) -> Any:
        """Return what a rank's function or class is a copy of, or None."""
        return self._plan.originals.get(id(copy))

    @property
    def has_classes(self) -> bool:
        """Whether the program has its own classes, so that objects must find their rank's copy."""
        return self._plan.has_classes

    def restore(self, value: object) -> Any:
        """Return a value in which ranks' copies of classes and functions are the originals again."""
        if not self._plan.originals:
            return value
        return Copier(self._plan, is_restoring=True).copy(value)


def _call(
    program: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], comm: Intracomm
) -> object:
    return program(comm, *args, **kwargs)


# Constancy of a program: where nothing that it can reach can change, all ranks share it as it is.


#: instructions that change what functions share
_WRITES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"})
_CELL_WRITES = frozenset({"STORE_DEREF", "DELETE_DEREF"})
#: names with which code can change a function from outside
_HANDLES = frozenset(
    {
        *("setattr", "delattr", "__setattr__", "__delattr__", "__dict__", "__globals__", "__builtins__"),
        *("__closure__", "__code__", "__defaults__", "__kwdefaults__", "__annotations__", "cell_contents"),
        *("f_globals", "f_locals", "update_wrapper"),
    }
)


def is_constant(*values: object, varied: Container[int] = ()) -> bool:
    """Whether nothing that these values reach can change, as far as the program's code shows."""
    pending = list(values)
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if type(value) in ATOMS or id(value) in seen:
            continue
        if id(value) in varied:
            return False
        seen.add(id(value))
        parts = _parts(value)
        if parts is None:
            return False
        pending.extend(parts)
    return True


def is_plain_data(*values: Any) -> bool:
    """Whether values hold nothing but numbers, texts, arrays and built-in containers: no code at all."""
    pending = list(values)
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        kind = type(value)
        if kind in ATOMS or id(value) in seen:
            continue
        seen.add(id(value))
        if kind in (list, tuple, set, frozenset):
            pending.extend(value)
        elif kind is dict:
            pending.extend(value)
            pending.extend(value.values())
        elif kind is np.ndarray:
            if value.dtype.hasobject:
                return False
        elif not (kind is bytearray or issubclass(kind, np.generic | np.dtype)):
            return False
    return True


def _parts(value: Any) -> Iterable[Any] | None:
    """Return what a value reaches; None when it can change itself."""
    kind = type(value)
    if kind in (tuple, frozenset):
        return value  # type: ignore[no-any-return]
    if kind is types.FunctionType:
        return _function_parts(value)
    if kind is types.BuiltinMethodType:
        owner = value.__self__
        return () if owner is None or isinstance(owner, types.ModuleType) else (owner,)
    if kind is np.ndarray:
        return None if value.dtype.hasobject or is_changeable(value) else ()
    if issubclass(kind, np.generic | np.dtype) or kind.__module__ in (MODULE_NAME, "typing"):
        return ()
    if is_library(kind.__module__) or is_library(getattr(value, "__module__", None)):
        return None  # of mpi4py's own module: a rank gets the simulated one instead
    if isinstance(value, types.ModuleType):
        if is_library(value.__name__):
            return None
        is_shared = value.__name__ == MODULE_NAME or is_installed(
            value.__name__, getattr(value, "__file__", None)
        )
        return () if is_shared else None
    if isinstance(value, type):
        return () if is_installed(value.__module__, None) else None
    if kind is functools._lru_cache_wrapper:
        return () if is_installed(value.__module__, None) else None
    return () if _is_named(value) else None


def _is_named(value: object) -> bool:
    """Whether pickle would look a value up by name: a compiled function, a singleton."""
    try:
        return isinstance(value.__reduce_ex__(4), str)
    except Exception:  # locks, files, sockets, generators...
        return False


def _function_parts(value: types.FunctionType) -> Iterable[Any] | None:
    contents = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
    if is_installed(value.__module__, value.__code__.co_filename):
        # a wrapper around something of the program (`functools.wraps`) is as constant as that
        return [item for item in contents if isinstance(item, types.FunctionType | type)]
    names = names_used(value.__code__)
    if code_of_dependent(value.__globals__) is not None:
        return None
    if names is None or names & _HANDLES or len(contents) < len(value.__closure__ or ()):
        return None
    if any(_writes(code, value.__code__.co_freevars) for code in _codes(value.__code__)):
        return None
    scope = value.__globals__
    used = [scope[name] for name in names if name in scope and name != "__builtins__"]
    defaults = (value.__defaults__, value.__kwdefaults__ and tuple(value.__kwdefaults__.values()))
    return [*used, *contents, *defaults, *value.__dict__.values()]


def _codes(code: types.CodeType) -> Iterable[types.CodeType]:
    """Yield a code and those inside it."""
    pending = [code]
    while pending:
        one = pending.pop()
        yield one
        pending += [constant for constant in one.co_consts if isinstance(constant, types.CodeType)]


def _writes(code: types.CodeType, shared: tuple[str, ...]) -> bool:
    """Whether a code assigns a global, an attribute, or one of the shared variables of a closure."""
    return any(
        step.opname in _WRITES or (step.opname in _CELL_WRITES and step.argval in shared)
        for step in dis.get_instructions(code)
    )


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


# Deep copies for isolated ranks: like `copy.deepcopy`, but of code and its surroundings too.


#: what a module holds of the import system; a loader may lead to everything (pytest's does)
_MACHINERY = frozenset({"__builtins__", "__loader__", "__spec__"})
#: attributes of a class that its copy gets by being made
_MADE_WITH_CLASS = frozenset({"__dict__", "__weakref__", "__abstractmethods__", "_abc_impl", "__module__"})


#: IPython's objects among a notebook's names, such as `exit`: no rank uses them, they lead to all the rest
_OF_THE_NOTEBOOK = (
    "IPython.core.autocall",
    "IPython.core.interactiveshell",
    "IPython.terminal.",
    "ipykernel.",
)


class CopyPlan:
    """What all ranks' copies share: the originals behind copies, what code uses, notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.has_classes = False
        #: id of a rank's function or class -> the original; `keep` makes sure no id is used again
        self.originals: dict[int, object] = {}
        self.keep: list[object] = []
        #: id of a shared object -> makes what a rank has in its place
        self.stand_ins: Mapping[int, Callable[[int], object]] = {}
        self._names: dict[types.CodeType, frozenset[str] | None] = {}

    def names(self, code: types.CodeType) -> frozenset[str] | None:
        """Return the global names a code uses, None for all."""
        if code not in self._names:
            self._names[code] = names_used(code)
        return self._names[code]

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)


_Copy = TypeVar("_Copy")


class Copier:
    """Copies for one rank: everything copied once keeps its identity within the rank.

    `rank`: Whose copies they are.
    `is_restoring`: Turn ranks' classes and functions back into the originals instead.
    """

    def __init__(self, plan: CopyPlan, rank: int = 0, is_restoring: bool = False) -> None:
        self.plan = plan
        self.rank = rank
        self.is_restoring = is_restoring
        self._memo: dict[int, Any] = {}
        self._keep: list[object] = []
        self._globals: dict[int, dict[str, object]] = {}

    def copy(self, value: object) -> Any:
        """Return the rank's copy of a value; the value itself where it cannot change."""
        kind = type(value)
        if kind in ATOMS:
            return value
        found = self._memo.get(id(value), self)
        if found is not self:
            return found
        stand_in = self.plan.stand_ins.get(id(value))
        if stand_in is not None and not self.is_restoring:
            return self.remember(value, stand_in(self.rank))
        handler = _HANDLERS.get(kind)
        if handler is None:
            handler = _handler_for(kind)
        return handler(self, value)

    def remember(self, value: object, copy: _Copy) -> _Copy:
        """Note a copy; also keeps the original alive, so that its id stays its own."""
        self._memo[id(value)] = copy
        self._keep.append(value)
        return copy

    def found(self, value: object) -> Any:
        """Return the copy noted for a value, or None."""
        return self._memo.get(id(value))

    # --- code -------------------------------------------------------------------------------------

    def function(self, value: types.FunctionType) -> object:
        """Copy a function of the program: code shared, surroundings copied."""
        if self.is_restoring:
            return self.plan.originals.get(id(value), value)
        if is_installed(value.__module__, value.__code__.co_filename):
            return self._installed_function(value)
        closure = value.__closure__
        cells = None if closure is None else tuple(self.new_cell(cell) for cell in closure)
        scope = self.scope(value.__globals__)
        again = self.found(value)
        if again is not None:  # its module has been executed again
            return again
        made = types.FunctionType(value.__code__, scope, value.__name__, None, cells)
        self.remember(value, made)
        self._note_original(made, value)
        made.__module__ = value.__module__
        made.__qualname__ = value.__qualname__
        made.__doc__ = value.__doc__
        made.__defaults__ = self.copy(value.__defaults__)
        made.__kwdefaults__ = self.copy(value.__kwdefaults__)
        made.__dict__.update(self.copy(value.__dict__) if value.__dict__ else {})
        made.__annotations__ = value.__annotations__
        self.fill(scope, value.__globals__, self.plan.names(value.__code__))
        for cell, source in zip(cells or (), closure or (), strict=True):
            self.fill_cell(cell, source)
        return made

    def _installed_function(self, value: types.FunctionType) -> object:
        """Share an installed function, unless it is a wrapper around something of the program."""
        wrapped = value.__closure__ is not None and any(
            isinstance(_contents(cell), types.FunctionType | type)
            and self.copy(_contents(cell)) is not _contents(cell)
            for cell in value.__closure__
        )
        if not wrapped:
            return self.remember(value, value)
        cells = tuple(self.new_cell(cell) for cell in value.__closure__ or ())
        made = types.FunctionType(
            value.__code__, value.__globals__, value.__name__, value.__defaults__, cells
        )
        self.remember(value, made)
        self._note_original(made, value)
        made.__qualname__, made.__doc__ = value.__qualname__, value.__doc__
        made.__kwdefaults__ = value.__kwdefaults__
        made.__dict__.update(self.copy(value.__dict__))
        for cell, source in zip(cells, value.__closure__ or (), strict=True):
            self.fill_cell(cell, source)
        return made

    def new_cell(self, cell: types.CellType) -> types.CellType:
        """Return the rank's cell of a closure, empty at first."""
        found = self._memo.get(id(cell))
        made: types.CellType = found if found is not None else self.remember(cell, types.CellType())
        return made

    def fill_cell(self, made: types.CellType, source: types.CellType) -> None:
        """Copy what a cell holds."""
        try:
            contents = source.cell_contents
        except ValueError:  # still empty
            return
        try:
            _ = made.cell_contents
        except ValueError:
            made.cell_contents = self.copy(contents)

    def _note_original(self, made: object, original: object) -> None:
        self.plan.originals[id(made)] = original
        self.plan.keep.append(made)

    def scope(self, source: dict[str, object]) -> dict[str, object]:
        """Return the rank's dictionary for a module's globals, filled as names are used."""
        scope = self._globals.get(id(source))
        if scope is None:
            scope = self._globals[id(source)] = {
                name: source[name]
                for name in ("__name__", "__builtins__", "__file__", "__package__")
                if name in source
            }
            self._keep.append(source)
            code = None if self.is_restoring else code_of_dependent(source)
            if code is not None:
                self._import_again(code, scope, source)
        return scope

    def _import_again(
        self, code: types.CodeType, scope: dict[str, object], source: dict[str, object]
    ) -> None:
        """Execute a module whose values depend on the rank, as a rank of real MPI does."""
        machinery = ("__spec__", "__loader__", "__path__", "__doc__")
        scope.update({name: source[name] for name in machinery if name in source})
        scope["__builtins__"] = own_builtins(self.copy)
        exec(code, scope)
        for name, original in source.items():
            made = scope.get(name)
            is_own = isinstance(original, type | types.FunctionType) and type(made) is type(original)
            if is_own and original.__module__ == source["__name__"] == getattr(made, "__module__", None):
                self.remember(original, made)
                self._note_original(made, original)
                self.plan.has_classes = self.plan.has_classes or isinstance(original, type)

    def fill(self, scope: dict[str, object], source: dict[str, object], names: frozenset[str] | None) -> None:
        """Copy names that a code uses into its globals; None: all there are."""
        for name in list(source) if names is None else names:
            if name in _MACHINERY and name in source:
                scope[name] = source[name]
            elif name not in scope and name in source:
                scope[name] = None  # a cycle of functions ends here
                scope[name] = self.copy(source[name])

    def module(self, value: types.ModuleType) -> object:
        """Copy a module of the program, lazily; share every other module."""
        name = value.__name__
        if self.is_restoring or name == MODULE_NAME or is_installed(name, getattr(value, "__file__", None)):
            return value
        made = _RankModule(name)
        self.remember(value, made)
        scope = self.scope(value.__dict__)
        made.__dict__.update({key: scope[key] for key in scope if key not in made.__dict__})
        object.__setattr__(made, "_labkit_source", (self, value))
        return made

    # --- classes ----------------------------------------------------------------------------------

    def class_(self, value: type) -> object:
        """Copy a class of the program, with methods over the rank's globals."""
        if self.is_restoring:
            return self.plan.originals.get(id(value), value)
        module = sys.modules.get(value.__module__)
        if is_installed(value.__module__, getattr(module, "__file__", None)) or _is_enum(value):
            return self.remember(value, value)
        again = self._of_own_module(value, module)
        if again is not None:
            return again
        self.plan.has_classes = True
        body = {"__module__": value.__module__, "__qualname__": value.__qualname__, "__doc__": value.__doc__}
        slots = value.__dict__.get("__slots__")
        if slots is not None:
            body["__slots__"] = slots
        bases = tuple(self.copy(base) for base in value.__bases__)
        maker: Any = self.copy(type(value)) if type(value) is not type else type
        new = abc.ABCMeta.__new__ if issubclass(maker, abc.ABCMeta) else type.__new__
        try:
            made: Any = new(maker, value.__name__, bases, body)
        except Exception as error:  # an __init_subclass__ that wants more than it gets here
            self.plan.note(f"class {value.__qualname__} cannot be copied ({error}): all ranks share it")
            return self.remember(value, value)
        self.remember(value, made)
        self._note_original(made, value)
        for name, attribute in value.__dict__.items():
            is_slot = isinstance(attribute, types.MemberDescriptorType) and attribute.__objclass__ is value
            if name not in _MADE_WITH_CLASS and name not in body and not is_slot:
                type.__setattr__(made, name, self.copy(attribute))
        if issubclass(maker, abc.ABCMeta):
            abc.update_abstractmethods(made)
        return made

    def _of_own_module(self, value: type, module: types.ModuleType | None) -> object:
        """Return the class that a rank's own execution of its module has made, or None."""
        if module is None or code_of_dependent(vars(module)) is None:
            return None
        self.scope(vars(module))
        return self.found(value)

    # --- data -------------------------------------------------------------------------------------

    def by_reduction(self, value: object) -> object:
        """Copy any other object the way pickle would rebuild it."""
        kind = type(value)
        if kind.__module__.startswith(_OF_THE_NOTEBOOK):
            return self.remember(value, value)
        if self.is_restoring and kind.__module__.startswith("matplotlib."):  # a copy would be shown as well
            return self.remember(value, value)
        method = getattr(kind, "__deepcopy__", None)
        if method is not None and not self.is_restoring:
            return self.remember(value, method(value, _Memo(self)))
        try:
            reducer = copyreg.dispatch_table.get(kind)
            reduced = reducer(value) if reducer is not None else value.__reduce_ex__(4)
        except Exception:  # locks, files, sockets, generators...
            if not self.is_restoring:
                self.plan.note(
                    f"an object of type {kind.__module__}.{kind.__qualname__} cannot be copied: all ranks "
                    "share it"
                )
            return self.remember(value, value)
        if isinstance(reduced, str) or _is_mark(kind, reduced):
            return self.remember(value, value)
        return self._rebuild(value, reduced)

    def _rebuild(self, value: object, reduced: tuple[Any, ...]) -> object:
        function, arguments, state, items, pairs, setter = (*reduced, *(None,) * 6)[:6]
        if function is copyreg.__newobj__ or function is copyreg._reconstructor:  # type: ignore[attr-defined]
            arguments = (self.copy(arguments[0]), *(self.copy(item) for item in arguments[1:]))
        else:
            function, arguments = self.copy(function), self.copy(arguments)
        made = function(*arguments)
        self.remember(value, made)
        if state is not None:
            state = self.copy(state)
            if setter is not None:
                setter(made, state)
            elif hasattr(type(made), "__setstate__"):  # asked of the class: __getattr__ may need the state
                made.__setstate__(state)
            else:
                _set_state(made, state)
        for item in items or ():
            made.append(self.copy(item))
        for key, item in pairs or ():
            made[self.copy(key)] = self.copy(item)
        return made


def _is_mark(kind: type, reduced: tuple[Any, ...]) -> bool:
    """Whether an object has no state at all: a mark such as ``MISSING = object()``, known by its identity."""
    is_new = reduced[0] is copyreg.__newobj__  # type: ignore[attr-defined]
    return is_new and len(reduced[1]) == 1 and not any(reduced[2:]) and is_installed(kind.__module__, None)


def _set_state(made: Any, state: object) -> None:
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        made.__dict__.update(state)
    for name, item in (slots or {}).items():
        object.__setattr__(made, name, item)


class _Memo(dict):  # type: ignore[type-arg]
    """The memo that an object's own ``__deepcopy__`` hands on."""

    def __init__(self, copier: Copier) -> None:
        super().__init__()
        self.copier = copier


class _RankModule(types.ModuleType):
    """A rank's copy of a module of the program: a name is copied when it is first used."""

    def __getattr__(self, name: str) -> object:
        copier, source = self.__dict__["_labkit_source"]
        scope = copier.scope(source.__dict__)
        if name not in scope:
            original = getattr(source, name)
            if name not in source.__dict__:
                return original
            copier.fill(scope, source.__dict__, frozenset((name,)))
        self.__dict__[name] = scope[name]
        return scope[name]


def _contents(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _is_enum(value: type) -> bool:
    return any(base.__module__ == "enum" for base in value.__mro__)


_HANDLERS: dict[type, Callable[[Copier, Any], object]] = {
    list: copy_rules.list_,
    tuple: copy_rules.tuple_,
    dict: copy_rules.dict_,
    set: copy_rules.set_,
    frozenset: copy_rules.set_,
    bytearray: lambda copier, value: copier.remember(value, bytearray(value)),
    np.ndarray: copy_rules.array,
    types.FunctionType: Copier.function,
    types.MethodType: copy_rules.method,
    types.BuiltinMethodType: copy_rules.builtin_method,
    functools._lru_cache_wrapper: copy_rules.cached,
    types.ModuleType: Copier.module,
    types.CellType: copy_rules.cell,
    staticmethod: copy_rules.wrapping,
    classmethod: copy_rules.wrapping,
    property: copy_rules.property_,
    type: Copier.class_,
    types.MappingProxyType: copy_rules.share,
    type(threading.Lock()): copy_rules.lock,
    type(threading.RLock()): copy_rules.lock,
    RankLock: copy_rules.lock,
}


def _handler_for(kind: type) -> Callable[[Copier, Any], object]:
    """Return the handler for a type that lacks one."""
    if issubclass(kind, type):
        return Copier.class_
    if issubclass(kind, types.ModuleType):
        return Copier.module
    if issubclass(kind, np.generic | np.dtype) or kind.__module__ in (MODULE_NAME, "typing"):
        return copy_rules.share
    return Copier.by_reduction


# A heap that keeps what simulated ranks free, while their code is being measured.
#
# The ranks of a simulation share one heap. glibc gives the free end of a heap back to the system as soon as
# it is large, in the code of whichever rank frees the last piece: that rank alone would pay for the pages
# that all of them have filled (5 to 8 ms for 256 MB, where each of 32 ranks computes for 20 ms), as no
# process of a real machine does. So nothing is given back while ranks are measured; afterwards all of it is,
# in nobody's time. An array so large that it is mapped alone is still given back by the rank that drops it.


#: glibc's names for `mallopt`
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_NEVER = -1
#: bytes from which on a piece is mapped alone. glibc raises the limit up to here by itself, as a program
#: frees larger and larger pieces, until `mallopt` is called for the first time.
_MAPPED_ALONE = 4 * 1024 * 1024 * ctypes.sizeof(ctypes.c_long)

_holders = 0


@contextlib.contextmanager
def kept_heap() -> Iterator[None]:
    """Keep what is freed inside; does nothing where the C library is not glibc."""
    global _holders
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        yield
        return
    _holders += 1
    libc.mallopt(_MMAP_THRESHOLD, _MAPPED_ALONE)
    libc.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        _holders -= 1
        if not _holders:
            libc.mallopt(_TRIM_THRESHOLD, 2 * _MAPPED_ALONE)  # where glibc's own adaption ends, too
            libc.malloc_trim(0)


# Messages between isolated ranks: an object's class arrives as the receiver's own copy of that class.


_PLAIN = frozenset({int, float, bool, str, bytes, type(None), complex})
_active: list[RankPickle] = []


class RankPickle:
    """Context that pickles ranks' copies of classes and functions by name."""

    def __init__(self, isolation: Isolation) -> None:
        self.isolation = isolation
        self._by_name: dict[tuple[str, str], object] = {}

    def __enter__(self) -> RankPickle:
        _active.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _active.pop()
        pickling.use_in_run(_active[-1].dumps if _active and _active[-1].isolation.has_classes else None)

    def install(self) -> None:
        """Start, if the program has its own classes (plain pickle is faster)."""
        if self.isolation.has_classes:
            pickling.use_in_run(self.dumps)

    def dumps(self, obj: object, protocol: int | None = None, buffer_callback: object = None) -> bytes:
        """Return an object as bytes."""
        if type(obj) in _PLAIN:
            return pickle.dumps(obj, protocol)
        out = io.BytesIO()
        _Pickler(out, self, protocol, buffer_callback).dump(obj)
        return out.getvalue()

    def name(self, copy: object) -> tuple[str, str] | None:
        """Return module and name of what a rank's class or function is a copy of; None for anything else."""
        original = self.isolation.original(copy)
        if original is None or "<locals>" in original.__qualname__:
            return None  # what is defined in a function cannot be pickled by name: let pickle say so
        key = (original.__module__, original.__qualname__)
        self._by_name[key] = original
        return key

    def find(self, key: tuple[str, str]) -> Any:
        """Return the running rank's copy."""
        return self.isolation.copied(_kernels.current_rank(), self._by_name[key])


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, owner: RankPickle, protocol: int | None, callback: Any) -> None:
        super().__init__(out, protocol, buffer_callback=callback)
        self._owner = owner

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, type | FunctionType):
            key = self._owner.name(obj)
            if key is not None:
                return _find, key
        return NotImplemented


def _find(module: str, name: str) -> object:
    return _active[-1].find((module, name))
