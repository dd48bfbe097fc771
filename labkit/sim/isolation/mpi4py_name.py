"""The name ``mpi4py`` on a simulated machine: the simulated module, not the library's own.

A program may import ``mpi4py.MPI`` itself, before the run or inside it. With the library's own module each
simulated rank would be alone in a world of one process, silently; so the module, and what was taken out of
it, is replaced by the simulated one. The rest of the package is Python over that module: where mpi4py is
installed, its own ``mpi4py.util`` and ``mpi4py.bench`` run over the simulated module; ``mpi4py.futures`` is
`labkit.comm.futures`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType
from typing import Any

from labkit.comm import package
from labkit.comm.handles.base import MODULE_NAME
from labkit.errors import UnsupportedError

__all__ = ["SimulatedName", "is_library"]

_PACKAGE, _MODULE = "mpi4py", "mpi4py.MPI"


def is_library(name: str | None) -> bool:
    """Whether a module's name is that of mpi4py's package, or of something in it."""
    return isinstance(name, str) and (name == _PACKAGE or name.startswith("mpi4py."))


class SimulatedName:
    """Context in which ``import mpi4py`` gives the simulated module; for any thread, and several at a time.

    So does `labkit.MPI`, which is mpi4py's own where a real rank simulates.

    `simulated`: The simulated module.
    """

    def __init__(self, simulated: ModuleType) -> None:
        self._simulated = simulated

    def stand_ins(self) -> dict[int, Callable[[int], Any]]:
        """Return what a program's copy has instead of the library's own module, and of what is in it.

        Returns: By id, as for `labkit.sim.isolation.isolation.Isolation`; empty while nobody has imported
            mpi4py.
        """
        made: dict[int, Callable[[int], object]] = {}
        for name, own in _NAMES.library().items():
            made[id(own)] = _importer(name)
            for attribute, value in list(vars(own).items()):
                # Numbers and texts are the same objects elsewhere, too; what is of other modules is the same.
                is_private = attribute.startswith("_") or isinstance(value, int | str | None)
                if is_private or isinstance(value, ModuleType) or not _is_of(value, own):
                    continue
                if name != _MODULE or attribute in vars(self._simulated):
                    made[id(value)] = _importer(name, attribute)
        return made

    def __enter__(self) -> SimulatedName:
        _NAMES.enter(self._simulated)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _NAMES.leave()


def _is_of(value: object, module: ModuleType) -> bool:
    """Whether an object was made by this module of the library."""
    if module.__name__ == _MODULE:
        return True
    return getattr(value, "__module__", None) == module.__name__


def _publish(module: ModuleType) -> None:
    sys.modules[MODULE_NAME] = vars(sys.modules["labkit"])["MPI"] = module


def _importer(name: str, attribute: str = "") -> Callable[[int], object]:
    def make(_: int) -> object:
        module = importlib.import_module(name)
        return getattr(module, attribute) if attribute else module

    return make


class _Names:
    """The package's names in `sys.modules`: the library's own, or the simulated ones while runs are on."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._users = 0
        self._before: dict[str, ModuleType] = {}
        self._labkits: ModuleType | None = None
        #: what simulated runs have imported of the package, for the next ones
        self._simulated: dict[str, ModuleType] = {}
        self._finder = _Finder()

    def library(self) -> dict[str, ModuleType]:
        """Return what has been imported of the library itself."""
        with self._lock:
            return dict(self._before) if self._users else self._loaded()

    @staticmethod
    def _loaded() -> dict[str, ModuleType]:
        # Three times a run, among thousands of names: as one text they are searched ten times as fast.
        begins = "\n" + _PACKAGE
        rests = "\n".join(["", *sys.modules]).split(begins)[1:]
        begun = [_PACKAGE + rest.partition("\n")[0] for rest in rests]
        return {name: sys.modules[name] for name in begun if is_library(name) and name in sys.modules}

    def enter(self, simulated: ModuleType) -> None:
        """Put the simulated names in place."""
        with self._lock:
            if self._users == 0:
                self._before = self._loaded()
                for name in self._before:
                    del sys.modules[name]
                if self._simulated.get(_MODULE) is not simulated:
                    made = package.simulated_package(simulated)
                    self._simulated = {_PACKAGE: made, _MODULE: simulated, "mpi4py.rc": vars(made)["rc"]}
                sys.modules.update(self._simulated)
                sys.meta_path.insert(0, self._finder)
                self._labkits = sys.modules.get(MODULE_NAME)
                _publish(simulated)
            self._users += 1

    def leave(self) -> None:
        """Take them away again, when the last run is over."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(self._finder)
            self._simulated = self._loaded()
            for name in self._simulated:
                del sys.modules[name]
            sys.modules.update(self._before)
            self._before = {}
            if self._labkits is not None:
                _publish(self._labkits)


class _Finder(importlib.abc.MetaPathFinder):
    """Find the parts of mpi4py that are simulated; refuse the others with a sentence, not 'no module'."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith("mpi4py."):
            return None
        if name in package.OWN:
            return importlib.machinery.ModuleSpec(name, _Loader(package.OWN[name]), is_package=True)
        if name in package.SHARED:
            if not path:
                raise UnsupportedError(
                    f"{name} needs the Python files of mpi4py, which is not installed; pip install mpi4py",
                    code="missing-package",
                )
            return None
        raise package.not_simulated(name)


class _Loader(importlib.abc.Loader):
    """Load a module of labkit under a name of mpi4py."""

    def __init__(self, own: str) -> None:
        self._own = own

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        made = ModuleType(spec.name)
        own = importlib.import_module(self._own)
        vars(made).update({name: value for name, value in vars(own).items() if not name.startswith("__")})
        made.__doc__, made.__path__ = own.__doc__, []
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""


_NAMES = _Names()
