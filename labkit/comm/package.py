"""The package mpi4py on a simulated machine: its attributes, its `rc`, and which of its modules there are."""

from __future__ import annotations

import importlib.machinery
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from labkit.comm import environment
from labkit.comm.environment import SETTINGS
from labkit.comm.handles.base import MissingError
from labkit.errors import UnsupportedError
from labkit.program.context import simulated

__all__ = ["OWN", "SHARED", "RankModule", "Rc", "not_simulated", "simulated_package"]


# Modules of mpi4py whose attributes a rank may set and delete for itself, as in a separate process.


_ABSENT = object()


class _Changes(dict[str, Any]):
    """What a rank has changed: values by name, never compared."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = None


class RankModule(ModuleType):
    """A module in which ranks see their own changes only; a run leaves none behind."""

    def __setattr__(self, name: str, value: object) -> None:
        self._change(name, value)

    def __delattr__(self, name: str) -> None:
        if name not in self.__dict__:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self._change(name, _ABSENT)

    def _change(self, name: str, value: object) -> None:
        machine = simulated()
        if machine is None:
            self._put(name, value)
            return
        state = _states.setdefault(id(self), ({}, [_Changes()]))
        machine.swaps.add(
            f"names of {self.__name__}", lambda: state[1][0], lambda changes: self._exchange(state, changes)
        )
        state[0].setdefault(name, self.__dict__.get(name, _ABSENT))
        state[1][0] = _Changes({**state[1][0], name: value})
        self._put(name, value)

    def _exchange(self, state: _State, changes: _Changes) -> None:
        for name in state[1][0]:
            self._put(name, state[0][name])
        for name, value in changes.items():
            self._put(name, value)
        state[1][0] = changes

    def _put(self, name: str, value: object) -> None:
        if value is _ABSENT:
            self.__dict__.pop(name, None)
        else:
            self.__dict__[name] = value


#: what changed names have meant before, and in a list what the rank that runs has changed
_State = tuple[dict[str, Any], list[_Changes]]
#: by id of the module
_states: dict[int, _State] = {}


#: modules of mpi4py that are labkit's own
OWN = {
    "mpi4py.futures": "labkit.comm.futures",
    "mpi4py.futures.server": "labkit.comm.futures.server",
    "mpi4py.futures.__main__": "labkit.comm.futures.runner",
}
#: modules that are mpi4py's own Python, over the simulated module
SHARED = frozenset(
    {
        *("mpi4py.bench", "mpi4py.run", "mpi4py.typing", "mpi4py.__main__", "mpi4py._mpiabi"),
        *("mpi4py.util", "mpi4py.util.dtlib", "mpi4py.util.pkl5", "mpi4py.util.pool", "mpi4py.util.sync"),
    }
)


class MissingModuleError(UnsupportedError, ModuleNotFoundError):
    """A module of mpi4py that is not there: also what ``try: from mpi4py import dl`` expects."""


def not_simulated(name: str, kind: type[UnsupportedError] = MissingModuleError) -> UnsupportedError:
    """Return the error for a part of the package that is not simulated."""
    return kind(
        f"{name} is not simulated; of mpi4py the modules MPI, util, futures, run and bench are. Run on real "
        "MPI (--on mpi) to use it"
    )


class Rc:
    """`mpi4py.rc` of the running rank: what a rank sets is its own, as in a separate process.

    ``initialize=False``, set before the rank imports mpi4py.MPI, leaves that to the program; the
    thread level that is asked for decides what `Query_thread` says.
    """

    def __call__(self, **settings: object) -> None:
        """Set several."""
        for name in settings:
            if name not in SETTINGS:
                raise TypeError(f"unexpected argument {name!r}")
        for name, value in settings.items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> object:
        if name not in SETTINGS:
            raise AttributeError(name)
        return environment.settings().get(name, SETTINGS[name][0])

    def __setattr__(self, name: str, value: object) -> None:
        if name not in SETTINGS:
            raise TypeError(f"object has no attribute {name!r}")
        environment.set_setting(name, value)

    def __dir__(self) -> list[str]:
        return sorted(SETTINGS)

    def __repr__(self) -> str:
        return "<mpi4py.rc>"


class _Package(RankModule):
    """The package `mpi4py` on the simulated machine."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(f"module 'mpi4py' has no attribute {name!r}")
        if f"mpi4py.{name}" in SHARED | OWN.keys():  # a submodule that nobody has imported yet
            raise AttributeError(f"module 'mpi4py' has no attribute {name!r}")
        raise not_simulated(f"mpi4py.{name}", MissingError)


def simulated_package(simulated: ModuleType) -> ModuleType:
    """Return the package of the simulated module, with the folder of mpi4py where it is installed."""
    spec = importlib.machinery.PathFinder.find_spec("mpi4py")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    own = importlib.machinery.ModuleSpec(
        "mpi4py", None, origin=spec.origin if spec else None, is_package=True
    )
    own.submodule_search_locations = folders
    made = _Package("mpi4py", "mpi4py on a simulated machine.")
    made.__path__, made.__spec__, made.__package__ = folders, own, "mpi4py"
    vars(made).update(
        MPI=simulated,
        rc=Rc(),
        __version__=_version(own.origin),
        __all__=["MPI"],
        __author__="Lisandro Dalcin",
        __credits__="MPI Forum, MPICH Team, Open MPI Team",
        get_config=get_config,
        get_include=get_include,
        profile=profile,
    )
    if own.origin:
        made.__file__ = own.origin
    return made


def _version(file: str | None) -> str:
    """Return the version that mpi4py's own file assigns: `importlib.metadata` takes 20 ms to be imported."""
    text = Path(file).read_text("utf-8") if file else ""
    found = re.search(r"^__version__ = [\"'](.+)[\"']$", text, re.MULTILINE)
    return found[1] if found else "4.1"


def get_config() -> dict[str, str]:
    """Return what is known of how MPI was built: nothing, as mpi4py says by default."""
    return {}


def get_include() -> str:
    """Return the folder of mpi4py's header files; what is compiled against them needs real MPI."""
    spec = importlib.machinery.PathFinder.find_spec("mpi4py")
    if spec is None or spec.origin is None:
        raise UnsupportedError(
            "mpi4py is not installed, and so its header files are not; pip install mpi4py",
            code="missing-package",
        )
    return str(Path(spec.origin).parent / "include")


def profile(name: str, *, path: object = None) -> None:
    """Refuse: there is no MPI library below whose calls a profiler could stand between."""
    raise UnsupportedError(
        f"mpi4py.profile({name!r}): a simulated run has no MPI library to profile; lk.run(..., trace=True) "
        "records its calls"
    )
