"""Names that a program's code uses, and the owner of a piece of code."""

from __future__ import annotations

import builtins
import dis
import importlib.util
import os
import site
import sys
import sysconfig
import types
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from typing import Any

from labkit.comm import surface

__all__ = [
    "code_of_dependent",
    "is_installed",
    "is_installed_file",
    "module_code",
    "names_used",
    "own_builtins",
]


#: names with which code can reach any global; not locals(), which pytest writes into every assert
_REACHES_ALL = frozenset({"globals", "eval", "exec", "vars", "__import__"})


def names_used(code: types.CodeType) -> frozenset[str] | None:
    """Return every name that a code and the code inside it mention; None when it can reach any global."""
    names: set[str] = set()
    pending = [code]
    while pending:
        one = pending.pop()
        names.update(one.co_names)
        pending += [constant for constant in one.co_consts if isinstance(constant, types.CodeType)]
    return None if names & _REACHES_ALL else frozenset(names)


def module_code(loader: object, name: str) -> types.CodeType | None:
    """Return a module's code; None for a namespace package or a compiled extension.

    A source is compiled: bytecode, read or written, would hide an edit within the same second that keeps the
    file's size.
    """
    if isinstance(loader, SourceFileLoader):
        path = loader.get_filename(name)
        code: types.CodeType = loader.source_to_code(loader.get_data(path), path)
        return code
    get_code = getattr(loader, "get_code", None)
    return None if get_code is None else get_code(name)


def _has_installed(path: str) -> bool:
    """Whether ``pip install --target`` has filled a folder, other than the program's, with packages."""
    own = (os.path.realpath(sys.path[0]), os.getcwd())
    try:
        names = os.listdir(path) if path and os.path.realpath(path) not in own else []
    except OSError:
        return False
    return any(name.endswith(".dist-info") for name in names)


@lru_cache(maxsize=1)
def _roots() -> tuple[str, ...]:
    """Folders of installed code: the standard library, site-packages, labkit itself."""
    paths = sysconfig.get_paths()
    roots = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib") if name in paths}
    roots |= set(site.getsitepackages()) if hasattr(site, "getsitepackages") else set()
    roots.add(site.getusersitepackages())
    roots |= {path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")}
    roots |= {path for path in sys.path[1:] if _has_installed(path)}
    return tuple(os.path.join(os.path.realpath(root), "") for root in sorted(roots))


@lru_cache(maxsize=4096)
def is_installed(module: str | None, filename: str | None) -> bool:
    """Whether a module belongs to an installed package (or labkit) rather than to the program."""
    top = (module or "").partition(".")[0]
    if top == "__main__":
        return False
    if top == "labkit" or top in sys.builtin_module_names or top in sys.stdlib_module_names:
        return True
    if filename is None:
        found = sys.modules.get(module or "")
        filename = getattr(found, "__file__", None)
        if filename is None:
            return False
    if filename.startswith("<"):
        return filename.startswith("<frozen")
    return is_installed_file(filename)


@lru_cache(maxsize=4096)
def is_installed_file(filename: str | None) -> bool:
    """Whether a file lies in a folder of installed code; None: it is no file's, but built in."""
    return filename is None or os.path.realpath(filename).startswith(_roots())


# Modules that ask MPI something while they are imported: ``rank = MPI.COMM_WORLD.Get_rank()`` at their top.
#
# On real MPI every rank imports such a module for itself. A program given to `labkit.run` has imported it
# once, outside the run, where the world is one process; a rank therefore executes it again, in its own copy.


#: functions that run where they stand
_AT_ONCE = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_LIBRARIES = frozenset({"mpi4py", "labkit"})
#: what each rank has separately: all that communicators do, and the host's name
_ASKS = surface.COMM | {"Get_processor_name"}
#: by id of a module's globals: these, and the code of one that depends on the rank
_known: dict[int, tuple[dict[str, object], types.CodeType | None]] = {}


def code_of_dependent(scope: dict[str, object]) -> types.CodeType | None:
    """Return the code of the module whose globals these are; None unless it depends on the rank."""
    found = _known.get(id(scope))
    if found is None or found[0] is not scope:
        _known[id(scope)] = (scope, None)  # a circle of imports ends here
        found = _known[id(scope)] = (scope, _look(scope))
    return found[1]


def _look(scope: dict[str, Any]) -> types.CodeType | None:
    name = scope.get("__name__", "__main__")
    module = sys.modules.get(name)
    if name == "__main__" or module is None or vars(module) is not scope:
        return None
    if is_installed(name, scope.get("__file__")):
        return None
    code = module_code(scope.get("__loader__"), name)
    if code is None:
        return None
    used, imported = _at_import(code, scope)
    asks = bool(used & _ASKS) and any(one.partition(".")[0] in _LIBRARIES for one in imported)
    return code if asks or any(_is_dependent(one, scope) for one in imported) else None


def _is_dependent(name: str, scope: Mapping[str, Any]) -> bool:
    package = scope.get("__package__") or ""
    full = importlib.util.resolve_name(name, package) if name.startswith(".") else name
    module = sys.modules.get(full)
    return module is not None and code_of_dependent(vars(module)) is not None


def _at_import(code: types.CodeType, scope: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Return the names that run while a module is loaded, and the modules that it imports then."""
    used: set[str] = set()
    imported: set[str] = set()
    pending = [code]
    while pending:
        one = pending.pop()
        used.update(one.co_names)
        level = 0
        for step in dis.get_instructions(one):
            if step.opname == "LOAD_CONST" and isinstance(step.argval, int):
                level = step.argval
            elif step.opname == "IMPORT_NAME":
                imported.add("." * level + step.argval)
            elif step.opname == "LOAD_NAME" and isinstance(scope.get(step.argval), types.FunctionType):
                function = scope[step.argval]
                if function.__globals__ is scope:  # it may be called immediately
                    used |= names_used(function.__code__) or set()
        pending += [part for part in one.co_consts if isinstance(part, types.CodeType) and _runs(part)]
    return used, imported


def _runs(code: types.CodeType) -> bool:
    """Whether a code inside a module runs with it: a class body does, a function does not."""
    return not code.co_flags & 0x1 or code.co_name in _AT_ONCE


def own_builtins(copy: Callable[[object], object]) -> dict[str, object]:
    """Return built-in names whose ``__import__`` gives a rank its own copies of the program's modules."""

    def import_(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> object:
        return copy(builtins.__import__(name, globals, locals, fromlist or (), level))

    return {**vars(builtins), "__import__": import_}
