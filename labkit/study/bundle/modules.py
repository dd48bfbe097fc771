"""Modules of one's own: files beside a program that another computer does not have."""

from __future__ import annotations

import ast
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from labkit.errors import DataError

__all__ = ["has_own_name", "is_local", "local_files", "script_files"]

_MOST_BYTES = 20_000_000


def is_local(name: str) -> bool:
    """Whether a loaded module is neither Python's, nor labkit's, nor an installed package's."""
    top = name.partition(".")[0]
    if top in ("labkit", "mpi4py", "__main__") or top in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None or not file.endswith(".py") or {"site-packages", "dist-packages"} & set(Path(file).parts):
        return False
    folders = [*site.getsitepackages(), *(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib"))]
    return not any(Path(file).is_relative_to(folder) for folder in folders)


def has_own_name(name: str) -> bool:
    """Whether a module's file can be found by the module's name: one loaded by path may not."""
    path = Path(str(getattr(sys.modules.get(name), "__file__", None))).with_suffix("")
    parts = [*name.split("."), *(["__init__"] if path.name == "__init__" else [])]
    folders = {str(Path(folder or ".").resolve()) for folder in sys.path}
    return path.parts[-len(parts) :] == tuple(parts) and str(path.parents[len(parts) - 1]) in folders


def local_files(names: Iterable[str]) -> dict[str, bytes]:
    """Read the local modules among some, and those that they import: content by path below one folder.

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
        is_package = path.name == "__init__.py"
        inside = "/".join(parts) + ("/__init__.py" if is_package else ".py")
        files[inside] = _read(path)
        package = name if is_package else name.rpartition(".")[0]
        todo += [one for one in _imported_names(files[inside], package) if one in sys.modules]
        if sum(map(len, files.values())) > _MOST_BYTES:
            raise DataError(f"the modules that the program imports are more than {_MOST_BYTES} bytes")
    return dict(sorted(files.items()))


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
        files[name] = _read(path.parent / name)
        for module in _imported_names(files[name], name.rpartition("/")[0].replace("/", ".")):
            inside = module.replace(".", "/")
            nearby = (f"{inside}.py", f"{inside}/__init__.py")
            todo += [one for one in nearby if (path.parent / one).is_file()]
    return dict(sorted(files.items()))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"the program's file {path.name!r} cannot be read: {error}") from error


def _imported_names(source: bytes, package: str) -> Iterator[str]:
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
                base = ".".join([*above[: len(above) - node.level + 1], *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
