"""The files of the modules that a program imports outside Python and installed packages, at whatever time.

They are found in the compiled text: import statements wherever they stand, modules and Python files that a
text names where a program imports by name. Nothing is executed.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType

__all__ = ["imported_files", "is_installed", "program_digests"]

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
#: names by which programs read the environment, and what its variables are called
_ENVIRONMENT = frozenset({"environ", "environb", "getenv"})
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{1,63}")


def program_digests(file: Path, package: str = "") -> dict[str, str]:
    """Return the SHA-256 of a program's file, of all files that it imports, and of environment variables.

    The variables are those that a function which uses `os.environ` or `os.getenv` names.
    """
    folder = os.path.realpath(file.parent)
    found = imported_files(file, package=package)
    digests = {file.name: sha256(file.read_bytes()).hexdigest()}
    for module, path in found.items():
        whole = os.path.realpath(path)
        name = os.path.relpath(whole, folder) if whole.startswith(folder + os.sep) else module
        with contextlib.suppress(OSError):  # it went away
            digests.setdefault(name, sha256(path.read_bytes()).hexdigest())
    for code in filter(None, map(_compiled, (file, *found.values()))):
        for name in _variables(code):
            value = repr(os.environ.get(name)).encode("utf-8", "surrogatepass")
            digests[f"environment variable {name}"] = sha256(value).hexdigest()
    return digests


def _variables(code: CodeType) -> Iterator[str]:
    for one in _codes(code):
        if _ENVIRONMENT & set(one.co_names):
            texts = (text for text in one.co_consts if isinstance(text, str))
            yield from (text for text in texts if _VARIABLE.fullmatch(text))


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
    del changed_ns, size  # they distinguish the versions of a file
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
