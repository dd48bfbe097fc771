"""A name for what a program is, the same in every process: so that a new session finds again what was done.

The pickle of a notebook's function will not do: it holds the process id in the cell's file name, and which
equal texts are one object. So the content itself is walked: code without its file and lines, constants,
defaults, closures, the globals it uses; modules of the user by the content of their files and of all files
that these import; data by value.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import importlib
import os
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

__all__ = [
    "engine_digest",
    "fingerprint",
    "imported_files",
    "is_installed",
    "labkit_digest",
    "names_of",
    "program_digests",
]


# The files of the modules that a program imports outside Python and installed packages, at whatever time.


#: names that import modules, or run files, that are given as texts
_BY_NAME = frozenset(
    {
        "import_module",
        "__import__",
        "run_module",
        "run_path",
        "spec_from_file_location",
        "SourceFileLoader",
        "exec",
        "execfile",
    }
)


def program_digests(file: Path, package: str = "") -> dict[str, str]:
    """Return the SHA-256 of a program's file and of all files that it imports."""
    folder = os.path.realpath(file.parent)
    found = imported_files(file, package=package)
    digests = {file.name: sha256(file.read_bytes()).hexdigest()}
    for module, path in found.items():
        whole = os.path.realpath(path)
        name = os.path.relpath(whole, folder) if whole.startswith(folder + os.sep) else module
        with contextlib.suppress(OSError):  # it went away
            digests.setdefault(name, sha256(path.read_bytes()).hexdigest())
    return digests


def imported_files(program: CodeType | Path, folder: str | None = None, package: str = "") -> dict[str, Path]:
    """Return the files of all modules that a program imports, and these in turn, by the modules' names."""
    found: dict[str, Path] = {}
    if isinstance(program, Path):
        folder = str(program.parent)
        program = _compiled(program) or compile("", "", "exec")
    search = [*([folder] if folder is not None else []), *sys.path]
    todo = [(program, package, folder)]
    while todo:
        code, package, beside = todo.pop()
        texts = _texts(code)
        near = list(dict.fromkeys(one for one in (beside, folder) if one is not None))
        search += [one for one in _folders(texts, near) if one not in search]
        names = {*_imports(code, package), *_named(code, texts)}
        for name, path in _located(names, search, near):
            if name in found or path in found.values():
                continue
            found[name] = path
            content = _compiled(path)
            if content is not None:
                inner = name if path.stem == "__init__" else name.rpartition(".")[0]
                todo.append((content, inner, str(path.parent)))
    return dict(sorted(found.items()))


def _compiled(path: Path) -> CodeType | None:
    if path.suffix != ".py":
        return None
    try:
        at = path.stat()
        return _compile(str(path), at.st_mtime_ns, at.st_size)
    except OSError:
        return None


@functools.lru_cache(256)
def _compile(path: str, changed_ns: int, size: int) -> CodeType | None:
    del changed_ns, size  # they tell the versions of a file apart
    with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    todo = [code]
    while todo:
        one = todo.pop()
        yield one
        todo += [constant for constant in one.co_consts if isinstance(constant, CodeType)]


def _imports(code: CodeType, package: str) -> Iterator[str]:
    """Yield the absolute names that import statements may mean, parents included."""
    for one in _codes(code):
        before: list[object] = []
        for step in dis.get_instructions(one):
            if step.opname != "IMPORT_NAME":
                before = [*before[-1:], step.argval] if step.opname.startswith("LOAD_") else before
                continue
            level, given = before if len(before) == 2 else (0, None)
            base = _absolute(str(step.argval or ""), level if isinstance(level, int) else 0, package)
            if base is None:
                continue
            if base:
                yield from _parents_first(base.split("."))
            if isinstance(given, tuple):
                yield from (f"{base}.{item}" if base else str(item) for item in given)


def _parents_first(parts: list[str]) -> Iterator[str]:
    return (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _absolute(name: str, level: int, package: str) -> str | None:
    if level == 0:
        return name
    parts = package.split(".") if package else []
    if level > len(parts) and package:
        return None
    kept = parts[: len(parts) - level + 1]
    return ".".join([*kept, *([name] if name else [])])


def _texts(code: CodeType) -> set[str]:
    return {
        text for one in _codes(code) for text in one.co_consts if isinstance(text, str) and len(text) < 200
    }


def _named(code: CodeType, texts: set[str]) -> Iterator[str]:
    """Yield the texts that may name a module, or a Python file, where the program imports by name."""
    if not any(_BY_NAME & set(one.co_names) for one in _codes(code)):
        return
    for text in texts:
        parts = text.split(".")
        if text.endswith(".py"):
            yield text
        elif all(part.isidentifier() for part in parts):
            yield from _parents_first(parts)


def _folders(texts: set[str], near: Sequence[str]) -> list[str]:
    """Return the folders that texts name, which a program may put on its path."""
    named = [os.path.join(base, text) for text in sorted(texts) if text.strip("./") for base in near]
    return [path for path in named if "\0" not in path and os.path.isdir(path)]


# A test whether a file belongs to Python or to an installed package: another interpreter has it, too.


def is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    path = os.path.abspath(file)
    if {"site-packages", "dist-packages"} & set(Path(path).parts):
        return True
    return any(path.startswith(folder + os.sep) for folder in _standard_folders())


def _standard_folders() -> set[str]:
    return {os.path.abspath(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")}


def _located(names: set[str], search: list[str], near: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield the modules that have their own file outside Python, labkit and installed packages."""
    places: dict[str, Sequence[str] | None] = {"": search}
    for name in sorted(names):  # parents before what is in them
        if name.endswith(".py"):
            files = [Path(base, name) for base in near]
            yield from ((name, file) for file in files[:1] if file.is_file())
            continue
        if name.partition(".")[0] == "labkit" or name in sys.builtin_module_names:
            continue
        parent = name.rpartition(".")[0]
        if places.get(parent) is None:
            continue
        spec = _spec(name, list(places[parent] or ()))
        if spec is None:
            continue
        inside = spec.submodule_search_locations
        places[name] = None if inside is None else list(inside)
        if spec.origin and os.path.isfile(spec.origin):
            if is_installed(spec.origin):
                places[name] = None
            else:
                yield name, Path(spec.origin)


def _spec(name: str, search: list[str]) -> ModuleSpec | None:
    """Find a module without importing what it is in."""
    with contextlib.suppress(Exception):  # finders are foreign code
        if (spec := PathFinder.find_spec(name, search)) is not None:
            return spec
    for finder in sys.meta_path:  # of packages that are installed so that they can be edited
        if finder is PathFinder or getattr(finder, "find_spec", None) is None:
            continue
        with contextlib.suppress(Exception):
            if (spec := finder.find_spec(name, None if "." not in name else search)) is not None:
                return spec
    return None


#: parts of a class that say nothing about it, or are made again in every process
_CLASS_NOISE = {
    "__dict__",
    "__weakref__",
    "__module__",
    "__doc__",
    "__firstlineno__",
    "__static_attributes__",
    "_abc_impl",
    "__slotnames__",
    "__annotations_cache__",
}


def fingerprint(*things: Any) -> str:
    """Return a digest of what `things` are.

    Parameters
    ----------
    *things
        Functions, classes, arrays, containers, plain data.

    Returns
    -------
    str
        32 hexadecimal digits; equal for equal content in any process under the same minor version of Python.
    """
    walk = _Walk()
    try:
        walk.add(things)
    except RecursionError:  # deep data: the pickle tells equal ones apart at worst
        import cloudpickle

        walk.digest.update(cloudpickle.dumps(things))
    return walk.digest.hexdigest()


class _Walk:
    """Feeds one digest with everything that it meets."""

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)
        #: what is being walked: recursive data ends here
        self.open: dict[int, int] = {}
        #: functions, classes and modules that have been walked, by id: each is walked once
        self.seen: dict[int, Any] = {}

    def add(self, thing: Any) -> None:
        if thing is None or isinstance(thing, bool | int | complex | bytes | bytearray):
            self.word(type(thing).__name__, repr(thing))
        elif isinstance(thing, str):
            self.word("str", thing)
        elif isinstance(thing, float):
            self.raw("float", struct.pack("<d", thing))
        elif id(thing) in self.open:
            self.word("again", str(len(self.open) - self.open[id(thing)]))
        else:
            self.open[id(thing)] = len(self.open)
            try:
                self.compound(thing)
            finally:
                del self.open[id(thing)]

    def word(self, kind: str, text: str = "") -> None:
        self.raw(kind, text.encode("utf-8", "surrogatepass"))

    def raw(self, kind: str, content: bytes) -> None:
        self.digest.update(f"{kind}:{len(content)}:".encode())
        self.digest.update(content)

    def each(self, kind: str, things: Iterable[Any]) -> None:
        things = list(things)
        self.word(kind, str(len(things)))
        for thing in things:
            self.add(thing)

    def unordered(self, kind: str, things: Iterable[Any]) -> None:
        """Add things whose order means nothing."""
        digests = []
        for thing in things:
            part = _Walk()
            part.open, part.seen = dict(self.open), self.seen
            part.add(thing)
            digests.append(part.digest.digest())
        self.raw(kind, b"".join(sorted(digests)))

    def compound(self, thing: Any) -> None:
        if isinstance(thing, FunctionType | type | ModuleType):
            if id(thing) in self.seen:
                self.word("seen", getattr(thing, "__qualname__", thing.__name__))
                return
            self.seen[id(thing)] = thing
        for kinds, add in _KINDS:
            if isinstance(thing, kinds):
                add(self, thing)
                return
        self.other(thing)

    # -- kinds --------------------------------------------------------------------------------------------

    def array(self, array: np.ndarray[Any, Any]) -> None:
        self.word("array", f"{array.dtype.str}{array.shape}")
        if array.dtype.hasobject:
            self.each("objects", array.ravel().tolist())
        else:
            self.digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")

    def function(self, function: FunctionType) -> None:
        if is_installed(function.__code__.co_filename):
            self.word("named", f"{function.__module__}.{function.__qualname__}")
            return
        self.word("function", function.__qualname__)
        self.code(function.__code__)
        self.add(function.__defaults__)
        self.add(function.__kwdefaults__)
        cells = [cell.cell_contents if _is_filled(cell) else None for cell in function.__closure__ or ()]
        self.each("closure", cells)
        for name in sorted(names_of(function.__code__)):
            if name in function.__globals__:
                self.word("global", name)
                self.add(function.__globals__[name])
        folder = os.path.dirname(function.__code__.co_filename)
        package = function.__globals__.get("__package__") or ""
        self.files(imported_files(function.__code__, folder if os.path.isdir(folder) else None, package))

    def code(self, code: CodeType) -> None:
        self.raw("code", code.co_code)
        self.each("names", [*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars])
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self.word("counts", repr(counts))
        self.each("constants", code.co_consts)

    def cls(self, cls: type) -> None:
        self.word("class", f"{cls.__module__ if _is_named(cls) else ''}.{cls.__qualname__}")
        if _is_named(cls):
            return
        self.each("bases", cls.__bases__)
        for name in sorted(set(vars(cls)) - _CLASS_NOISE):
            self.word("member", name)
            self.add(vars(cls)[name])

    def module(self, module: ModuleType) -> None:
        self.word("module", module.__name__)
        path = getattr(module, "__file__", None)
        top = module.__name__.partition(".")[0]
        if path and module.__name__ != "__main__" and top != "labkit" and not is_installed(path):
            content = Path(path)
            self.raw("file", content.read_bytes() if content.is_file() else b"")
            if content.is_file():
                self.each("imports", program_digests(content, module.__package__ or "").items())

    def files(self, files: Mapping[str, Path]) -> None:
        """Add the content of the modules that a function imports when it is called."""
        for name, path in files.items():
            self.word("imports", name)
            self.raw("file", path.read_bytes() if path.is_file() else b"")

    def other(self, thing: Any) -> None:
        """Add any other object by what its own pickling says: its maker, arguments and state."""
        self.add(type(thing))
        try:
            reduced = thing.__reduce_ex__(4)
        except Exception:  # foreign code: anything may be raised; it cannot travel, and will be refused
            self.word("unpicklable")
            return
        if isinstance(reduced, str):
            self.word("named", reduced)
            return
        maker, arguments, *state = reduced
        self.add(maker)
        self.add(arguments)
        for part in state:
            self.each("state", part) if hasattr(part, "__next__") else self.add(part)


_Adder = Callable[[_Walk, Any], None]

_KINDS: list[tuple[Any, _Adder]] = [
    (np.ndarray, _Walk.array),
    (np.generic, lambda walk, value: walk.raw(f"numpy {value.dtype.str}", value.tobytes())),
    (tuple | list, lambda walk, value: walk.each(type(value).__name__, value)),
    (dict, lambda walk, value: walk.unordered("dict", value.items())),
    (set | frozenset, lambda walk, value: walk.unordered("set", value)),
    (functools.partial, lambda walk, value: walk.each("partial", [value.func, value.args, value.keywords])),
    (MethodType, lambda walk, value: walk.each("method", [value.__func__, value.__self__])),
    (FunctionType, _Walk.function),
    (staticmethod | classmethod, lambda walk, value: walk.add(value.__func__)),
    (property, lambda walk, value: walk.each("property", [value.fget, value.fset, value.fdel])),
    (CodeType, _Walk.code),
    (type, _Walk.cls),
    (ModuleType, _Walk.module),
    (BuiltinFunctionType, lambda walk, value: walk.word("builtin", f"{value.__module__}.{value.__name__}")),
    (os.PathLike, lambda walk, value: walk.word("path", os.fspath(value))),
]


def names_of(code: CodeType) -> set[str]:
    """List the names that a function and those inside it use."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= names_of(constant)
    return names


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a name that is not bound yet
        return False


def _is_named(cls: type) -> bool:
    """Whether a class goes by name: it belongs to Python, labkit or an installed package."""
    if cls.__module__.partition(".")[0] in ("builtins", "labkit"):
        return True
    module = sys.modules.get(cls.__module__)
    path = getattr(module, "__file__", None)
    return cls.__module__ != "__main__" and (path is None or is_installed(path))


# Digests of labkit itself, of which results that are kept depend: a version number hides edits.


@functools.cache
def labkit_digest() -> str:
    """Return the SHA-256 of labkit's sources and data, which identifies a version exactly."""
    total = hashlib.sha256()
    for name in ("labkit", "labkit.algorithms", "labkit.datasets"):
        package = importlib.import_module(name)
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*")):
            is_text = path.suffix in (".py", ".toml", ".csv", ".xml")
            if is_text and not {"algorithms", "datasets"} & set(path.relative_to(root).parts[:1]):
                inside = f"{name}/{path.relative_to(root).as_posix()}"
                total.update(f"{inside}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


@functools.cache
def engine_digest() -> str:
    """Return the SHA-256 of the compiled engine."""
    from labkit import _kernels

    return hashlib.sha256(Path(_kernels.__file__).read_bytes()).hexdigest()
