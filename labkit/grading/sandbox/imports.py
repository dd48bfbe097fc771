"""A submission's imports: packages that are loaded once for all ranks, and stand-ins for what draws.

A rank would pay for its imports with its own CPU time and memory; on 64 ranks that is a run's whole time. So
what a source names of the standard library and of installed packages is loaded by the process that ranks are
forked from: no line of the submission runs for it. Packages other than a few well-known ones are first tried
in a separate process. What only shows things (figures, widgets, the notebook itself) has nobody to show
them to, and becomes an object that takes every call and does nothing.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import marshal
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from types import ModuleType

import numpy

from labkit.errors import DataError
from labkit.grading.sandbox.caller import SUBMISSION
from labkit.process.confinement.containment import limit

__all__ = ["SHOWN_BY_NAME", "Silent", "SilentModules", "compiled", "imported_by", "load_modules"]

#: of other packages; of the standard library everything but what acts when it is imported
_LOADED = ("scipy", "pandas", "tqdm")
_ACTING = ("antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter", "test", "__main__", "lib2to3")
_MOST = 64
#: what is never loaded for a submission; other packages are tried first, for so long
_NEVER = ("labkit", "mpi4py", "submission", "_pytest", "pytest", "nbgrader")
_TRIED_S, _IS_FINE = 20, 77
#: of compiled code, which each rank of each run is sent
_MOST_CODE_BYTES = 8 << 20
#: what such a package loads when it is first used, by a library that must not be loaded in a rank
_PARTS = {"scipy": "scipy.linalg"}
#: what only shows
_SHOWING = (
    "matplotlib", "mpl_toolkits", "matplotlib_inline", "pylab", "IPython", "ipywidgets", "bokeh", "seaborn",
    "plotly", "anywidget", "jupyter_bokeh", "labkit.plot", "labkit.jupyter", "labkit.grading.notebook",
)  # fmt: skip
_DRAWING = """
    annotate axes axhline axis axvline bar boxplot cla clf close colorbar contour draw errorbar figtext
    figure fill_between gca gcf grid hist imshow ion ioff legend loglog matshow pause pcolormesh plot savefig
    scatter semilogx semilogy show stem step style subplot suptitle text tight_layout title xlabel xlim xscale
    xticks ylabel ylim yscale yticks
"""
#: what a notebook has without an import
SHOWN_BY_NAME = ("display", "get_ipython")


def imported_by(source: str) -> list[str]:
    """Return the modules that a source names in imports and that may be loaded for it, in order."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _PARTS:
            names.append(f"{node.value.id}.{node.attr}")
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    parts = [part for root, part in _PARTS.items() if any(name.partition(".")[0] == root for name in names)]
    return [name for name in dict.fromkeys([*parts, *names]) if _may_load(name)][:_MOST]


def compiled(source: str) -> bytes | None:
    """Return a source as Python's code, marshalled, so that its ranks need not compile it one by one."""
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            code = marshal.dumps(compile(source, SUBMISSION, "exec", dont_inherit=True, optimize=0))
    except (SyntaxError, ValueError, OverflowError, RecursionError):
        return None
    if len(code) > _MOST_CODE_BYTES:
        raise DataError(f"it compiles to more than {_MOST_CODE_BYTES >> 20} MiB of code", code="too-large")
    return None if told else code


def _may_load(name: str) -> bool:
    root, last = name.partition(".")[0], name.rpartition(".")[2]
    if last == "__main__" or not name.replace(".", "").replace("_", "").isalnum() or not name.isascii():
        return False
    if root in sys.stdlib_module_names:
        return root not in _ACTING and root[0] != "_"
    is_shown = any(name == shown or name.startswith(f"{shown}.") for shown in _SHOWING)
    return root not in _NEVER and root not in _ACTING and not is_shown


def load_modules(names: Sequence[str]) -> None:
    """Load modules; what cannot be loaded is left for the submission to find out."""
    for name in names:
        root = name.partition(".")[0]
        if not _may_load(name) or name in sys.modules:
            continue
        if root in sys.stdlib_module_names or root in _LOADED or _is_loaded_alone(name):
            _loaded(name)


def _loaded(name: str) -> bool:
    with contextlib.suppress(Exception, SystemExit), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(name)
        return True
    return False


def _is_loaded_alone(name: str) -> bool:
    """Try in a child process whether a package can be loaded, and starts nothing that a fork would break."""
    try:
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            return False
        child = os.fork()
    except (ImportError, ValueError, OSError):
        return False
    if child == 0:
        code = 1
        try:  # a package that leaves by itself does not know the code
            limit("RLIMIT_CPU", _TRIED_S)
            signal.alarm(3 * _TRIED_S)
            code = _IS_FINE if _loaded(name) and threading.active_count() == 1 else 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == _IS_FINE


class Silent:
    """An object that takes every call, and shows nothing."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Do nothing."""
        return self

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _two if name == "subplots" else self

    def __getitem__(self, key: object) -> Silent:
        return self

    def __setitem__(self, key: object, value: object) -> None:
        """Forget it."""

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        """Let errors through."""


def _two(*args: object, **kwargs: object) -> tuple[Silent, Silent]:
    return Silent(), Silent()


class SilentModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds silent modules for packages that only show things."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a silent module's specification, None for any other module."""
        if not any(name == shown or name.startswith(f"{shown}.") for shown in _SHOWING):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return a module all of whose names are silent."""
        module = ModuleType(spec.name)
        if spec.name.endswith(("pylab", "pyplot")):  # whose names are imported by a star
            vars(module).update(dict.fromkeys(_DRAWING.split(), Silent()), subplots=_two)
        if spec.name.endswith("pylab"):  # which has NumPy's names as well
            vars(module).update({name: vars(numpy)[name] for name in numpy.__all__ if name in vars(numpy)})
        vars(module)["__getattr__"] = Silent().__getattr__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run."""
