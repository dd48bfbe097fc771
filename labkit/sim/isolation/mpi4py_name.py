"""The name ``mpi4py`` on a simulated machine: the simulated module, not the library's own.

A program may import ``mpi4py.MPI`` itself, before the run or inside it. With the library's own module each
simulated rank would be alone in a world of one process, silently; so the module, and what was taken out of
it, is replaced by the simulated one.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType
from typing import Any

from labkit.errors import UnsupportedError

__all__ = ["OWN_NAMES", "SimulatedName"]

_PACKAGE, _MODULE = "mpi4py", "mpi4py.MPI"
#: The library's own package and module.
OWN_NAMES = (_PACKAGE, _MODULE)


class SimulatedName:
    """Context in which ``import mpi4py`` gives the simulated module.

    Parameters
    ----------
    simulated : module
        The module behind `labkit.MPI`.
    """

    def __init__(self, simulated: ModuleType) -> None:
        package = _Package(_PACKAGE)
        package.__path__ = []
        vars(package).update(MPI=simulated, rc=_Rc(), __version__="4.1", get_config=dict)
        self._modules: dict[str, ModuleType] = {_PACKAGE: package, _MODULE: simulated}
        self._before: dict[str, ModuleType | None] = {}
        self._finder = _Refuse()

    def stand_ins(self) -> dict[int, Callable[[int], Any]]:
        """Return what a program's copy has instead of the library's own module, and of what is in it.

        Returns
        -------
        dict of int to callable
            By id, as for `labkit.sim.isolation.isolation.Isolation`; empty while nobody has imported mpi4py.
        """
        made: dict[int, Callable[[int], Any]] = {}
        for module_name, stand_in in self._modules.items():
            own = sys.modules.get(module_name)
            if own is not None and own is not stand_in:
                made[id(own)] = _maker(stand_in)
        simulated, own = self._modules[_MODULE], sys.modules.get(_MODULE)
        if id(own) in made:
            for name, value in vars(own).items():
                # Numbers and texts are the same objects elsewhere, too.
                is_object = not (name.startswith("_") or isinstance(value, int | str | None))
                if is_object and name in vars(simulated):
                    made[id(value)] = _maker(getattr(simulated, name))
        return made

    def __enter__(self) -> SimulatedName:
        self._before = {name: sys.modules.get(name) for name in self._modules}
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self._finder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.meta_path.remove(self._finder)
        for name, module in self._before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def _maker(value: Any) -> Callable[[int], Any]:
    return lambda _: value


class _Refuse(importlib.abc.MetaPathFinder):
    """Refuse the parts of mpi4py that are not simulated, with a sentence instead of 'no module'."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.startswith("mpi4py."):
            raise _not_simulated(name)
        return None


def _not_simulated(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"{name} is not simulated; of mpi4py the module mpi4py.MPI is. Run on real MPI (--on mpi) to use it"
    )


class _Package(ModuleType):
    """The package `mpi4py` on the simulated machine."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _not_simulated(f"mpi4py.{name}")


class _Rc:
    """`mpi4py.rc`: its settings are accepted; there is nothing to set up."""

    initialize = threads = finalize = True
    thread_level = "funneled"

    def __call__(self, **settings: Any) -> None:
        vars(self).update(settings)
