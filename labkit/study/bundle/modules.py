"""Modules of one's own: files beside a program that another computer does not have."""

from __future__ import annotations

import ast
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from labkit.errors import DataError

__all__ = ["imported_names", "is_local", "local_files", "own_name"]

_MOST_BYTES = 20_000_000


def is_local(name: str) -> bool:
    """Whether a loaded module is neither Python's, nor labkit's, nor an installed package's."""
    top = name.partition(".")[0]
    if top in ("labkit", "mpi4py", "__main__") or top in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and file.endswith(".py") and not _is_installed(Path(file))


def own_name(module: ModuleType | None) -> bool:
    """Whether a module's file can be found by the module's name: one loaded by path may not."""
    if module is None or not isinstance(getattr(module, "__file__", None), str):
        return False
    path = Path(str(module.__file__)).with_suffix("")
    parts = module.__name__.split(".")
    parts += ["__init__"] if path.name == "__init__" else []
    root = path
    for part in reversed(parts):
        if root.name != part:
            return False
        root = root.parent
    return str(root) in {str(Path(folder or ".").resolve()) for folder in sys.path}


def local_files(names: Iterable[str]) -> dict[str, bytes]:
    """Read the local modules among some, and those that they import.

    Returns
    -------
    dict
        Content by path below a folder from which they can be imported.

    Raises
    ------
    DataError
        More than 20 MB, or a file that is gone.
    """
    files: dict[str, bytes] = {}
    todo, seen = list(names), set()
    while todo:
        name = todo.pop()
        parts = name.split(".")
        todo += [".".join(parts[:depth]) for depth in range(1, len(parts))]
        if name in seen or not is_local(name):
            continue
        seen.add(name)
        path = Path(str(sys.modules[name].__file__))
        inside = "/".join(parts) + ("/__init__.py" if path.name == "__init__.py" else ".py")
        try:
            files[inside] = path.read_bytes()
        except OSError as error:
            raise DataError(f"the program's module {name} cannot be read: {error}") from error
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        todo += [one for one in imported_names(files[inside], package) if one in sys.modules]
        if sum(map(len, files.values())) > _MOST_BYTES:
            raise DataError(f"the modules that the program imports are more than {_MOST_BYTES} bytes")
    return dict(sorted(files.items()))


def imported_names(source: bytes, package: str = "") -> Iterator[str]:
    """Name the modules that a file imports (and names in them, which may be modules)."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")
                above = above[: len(above) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _is_installed(path: Path) -> bool:
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    folders = [*site.getsitepackages(), *(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib"))]
    return any(path.is_relative_to(folder) for folder in folders)


def script_files(path: Path) -> dict[str, bytes]:
    """Read a script, and the modules beside it that it imports.

    Raises
    ------
    DataError
        It cannot be read.
    """
    files: dict[str, bytes] = {}
    todo = [path.name]
    while todo:
        name = todo.pop()
        if name in files:
            continue
        try:
            files[name] = (path.parent / name).read_bytes()
        except OSError as error:
            raise DataError(f"the program's file {name!r} cannot be read: {error}") from error
        package = name.rpartition("/")[0].replace("/", ".")
        for module in imported_names(files[name], package):
            inside = module.replace(".", "/")
            todo += [
                one for one in (f"{inside}.py", f"{inside}/__init__.py") if (path.parent / one).is_file()
            ]
    return dict(sorted(files.items()))
