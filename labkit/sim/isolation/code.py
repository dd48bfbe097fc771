"""Names that a program's code uses, and the owner of a piece of code."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import types
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from typing import Any

__all__ = ["is_installed", "is_installed_file", "module_code", "names_used"]

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


def module_code(loader: Any, name: str) -> types.CodeType | None:
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


@lru_cache(maxsize=1)
def _roots() -> tuple[str, ...]:
    """Folders of installed code: the standard library, site-packages, labkit itself."""
    paths = sysconfig.get_paths()
    roots = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib") if name in paths}
    roots |= set(site.getsitepackages()) if hasattr(site, "getsitepackages") else set()
    roots.add(site.getusersitepackages())
    roots |= {path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")}
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
