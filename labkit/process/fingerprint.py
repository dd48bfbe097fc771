"""A name for what a program is, the same in every process: so that a new session finds again what was done.

The pickle of a notebook's function will not do: it holds the process id in the cell's file name, and which
equal texts are one object. So the content itself is walked: code without its file and lines, constants,
defaults, closures, the globals it uses; modules of the user by the content of their files and of all files
that these import; data by value.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.process.imports import imported_files, is_installed, program_digests

__all__ = ["engine_digest", "fingerprint", "labkit_digest", "names_in_code"]


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


def fingerprint(*things: object) -> str:
    """Return a digest of what `things` are.

    `*things`: Functions, classes, arrays, containers, plain data.
    Returns: 32 hexadecimal digits; equal for equal content in any process under the same minor version of
        Python.
    """
    walk = _Walk()
    try:
        walk.add(things)
    except RecursionError:  # deep data: at worst the pickles of equal ones differ
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

    def add(self, thing: object) -> None:
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

    def each(self, kind: str, things: Iterable[object]) -> None:
        things = list(things)
        self.word(kind, str(len(things)))
        for thing in things:
            self.add(thing)

    def unordered(self, kind: str, things: Iterable[object]) -> None:
        """Add things whose order means nothing."""
        digests = []
        for thing in things:
            part = _Walk()
            part.open, part.seen = dict(self.open), self.seen
            part.add(thing)
            digests.append(part.digest.digest())
        self.raw(kind, b"".join(sorted(digests)))

    def compound(self, thing: object) -> None:
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

    def array(self, array: NDArray[Any]) -> None:
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
        for name in sorted(names_in_code(function.__code__)):
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

    def other(self, thing: object) -> None:
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


def names_in_code(code: CodeType) -> set[str]:
    """List the names that a function and those inside it use."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= names_in_code(constant)
    return names


def _is_filled(cell: CellType) -> bool:
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
