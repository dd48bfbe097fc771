"""Serialisation of programs: functions by value, labkit and installed packages by name."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import linecache
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from labkit.errors import ProgramError
from labkit.process.by_value import Pickler
from labkit.process.imports import is_installed
from labkit.request import RunRequest

__all__ = ["is_installed", "pack", "pack_job", "pack_program", "unwritten_sources"]

#: the text of interactive cells that travels along, so that tracebacks show their lines
SOURCE_LIMIT_BYTES = 4_000_000

_registry_lock = threading.RLock()


def pack_program(
    program: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> bytes:
    """Pickle a program and its arguments for another interpreter on this host.

    What is defined in ``__main__`` (a notebook), in a closure, or in a module that a new interpreter could
    not import goes by value; labkit and everything importable goes by name.
    """
    with _homeless_modules_by_value():
        try:
            return _dumps((program, tuple(args), dict(kwargs)))
        except Exception as error:  # pickling runs foreign code: anything may be raised
            where = _unpicklable(program, args, kwargs)
            raise ProgramError(
                f"the program cannot travel to other processes: {where or 'something it uses'} cannot be "
                f"pickled ({_first_line(error)}); create it inside the program instead",
                code="not-picklable",
            ) from error


def pack_job(request: RunRequest, **more: object) -> tuple[dict[str, Any], bytes]:
    """Pack a run for its own ranks."""
    header = {
        "sources": unwritten_sources(),
        "ranks": request.ranks,
        "seed": request.seed,
        "repeats": request.repeats,
        "numbers": _how_numbers_are_shown(),
        **more,
    }
    if "measuring" in request.options:
        header["measuring"] = request.options["measuring"]
    if request.regions:
        header["regions"] = list(request.regions)
    if not isinstance(request.program, Path):
        return header | {"kind": "function"}, pack_program(request.program, request.args, request.kwargs)
    argv = [str(argument) for argument in request.args]
    module = (request.options.get("start") or {}).get("module", "")
    script = {"kind": "script", "script": str(request.program), "argv": argv, "module": module}
    return header | script, b""


def _how_numbers_are_shown() -> str | bool:
    """Return NumPy's option ``legacy`` of this process: ranks print numbers as their notebook does."""
    numpy = sys.modules.get("numpy")
    return False if numpy is None else numpy.get_printoptions()["legacy"]


def pack(*things: object) -> list[bytes]:
    """Pickle each as `pack_program` does: what another interpreter could not import goes by value."""
    with _homeless_modules_by_value():
        return [_dumps(thing) for thing in things]


def unwritten_sources() -> dict[str, str]:
    """Collect the source text that exists in no file: notebook cells and interactive input."""
    sources: dict[str, str] = {}
    size = 0
    for name, entry in reversed(list(linecache.cache.items())):  # newest first: they are the likeliest
        if len(entry) != 4 or entry[1] is not None:  # a lazy entry, or one that belongs to a file
            continue
        size += entry[0]
        if size > SOURCE_LIMIT_BYTES:
            break
        sources[name] = "".join(entry[2])
    return sources


class _Pickler(Pickler):
    """Pickles modules of a special kind by name as well: cloudpickle knows plain ones only."""

    def reducer_override(self, thing: object) -> Any:
        if isinstance(thing, ModuleType) and type(thing) is not ModuleType:
            return importlib.import_module, (thing.__name__,)
        return super().reducer_override(thing)


def _dumps(thing: object) -> bytes:
    file = io.BytesIO()
    _Pickler(file).dump(thing)
    return file.getvalue()


@contextlib.contextmanager
def _homeless_modules_by_value() -> Iterator[None]:
    """Let cloudpickle take the content of modules that a new interpreter could not import."""
    with _registry_lock:  # cloudpickle's registry belongs to the whole process
        known = set(cloudpickle.list_registry_pickle_by_value())
        added = []
        for name, module in list(sys.modules.items()):
            if isinstance(module, ModuleType) and name not in known and _is_homeless(name, module):
                cloudpickle.register_pickle_by_value(module)
                added.append(module)
        try:
            yield
        finally:
            for module in added:
                cloudpickle.unregister_pickle_by_value(module)


def _is_homeless(name: str, module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    top = name.partition(".")[0]
    if name == "__main__" or module.__name__ != name:
        return False
    if top in ("labkit", "mpi4py") or top in sys.stdlib_module_names:
        return False
    if file is None:  # built in, frozen, or a namespace: importable whenever it has a spec
        return getattr(module, "__spec__", None) is None
    if is_installed(file):
        return False
    return not _is_importable(name, file)


def _is_importable(name: str, file: str) -> bool:
    """Ask the finders themselves: `importlib.util.find_spec` would only look into ``sys.modules``."""
    path, parts = None, name.split(".")
    spec = None
    for depth in range(1, len(parts) + 1):
        spec = _find_spec(".".join(parts[:depth]), path)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    origin = getattr(spec, "origin", None)
    return origin is not None and os.path.realpath(origin) == os.path.realpath(file)


def _find_spec(name: str, path: Any) -> Any:
    for finder in sys.meta_path:
        with contextlib.suppress(Exception):  # a foreign finder that fails cannot import it either
            spec = finder.find_spec(name, path)
            if spec is not None:
                return spec
    return None


def _unpicklable(
    program: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> str | None:
    """Name the first variable or argument that cannot be pickled on its own."""
    candidates = [(f"argument {index}", value) for index, value in enumerate(args)]
    candidates += [(f"argument {name!r}", value) for name, value in kwargs.items()]
    with contextlib.suppress(TypeError, ValueError):
        used = inspect.getclosurevars(program)
        candidates += [(f"its variable {name!r}", value) for name, value in used.nonlocals.items()]
        candidates += [(f"the global {name!r}", value) for name, value in used.globals.items()]
    for name, value in candidates:
        try:
            _dumps(value)
        except Exception:
            return f"{name} (a {type(value).__name__})"
    return None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
