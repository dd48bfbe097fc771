"""Working directory, environment, recursion limit, reducers of pickle: each rank's own, as in a process."""

from __future__ import annotations

import builtins
import contextlib
import copyreg
import logging
import os
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from types import TracebackType
from typing import Any

import greenlet
import numpy as np

from labkit import _kernels
from labkit.program import context
from labkit.sim.isolation.code import is_installed
from labkit.sim.isolation.patches import Patch, Patches

__all__ = ["ProcessState", "RankLogs", "RankRandom", "Swaps"]


def swaps() -> Swaps | None:
    """The swaps of the run whose rank runs on this thread; None outside ranks."""
    machine = context.find_simulated()
    return machine.swaps if machine is not None else None


def _patches() -> Iterator[Patch]:
    yield os, "chdir", _changing(os.chdir, "folder", os.getcwd, os.chdir)
    yield os, "fchdir", _changing(os.fchdir, "folder", os.getcwd, os.chdir)
    yield os, "umask", _changing(os.umask, "file mask", _mask(os.umask), os.umask)
    limit = sys.setrecursionlimit
    yield sys, "setrecursionlimit", _changing(limit, "recursion limit", sys.getrecursionlimit, limit)
    kind = type(os.environ)
    for name in ("__setitem__", "__delitem__"):
        yield kind, name, _on_own_environment(getattr(kind, name))
    yield kind, "__getitem__", _with_launcher(kind.__getitem__)
    yield warnings.catch_warnings, "__enter__", _on_own_filters(warnings.catch_warnings.__enter__)
    yield subprocess.Popen, "__init__", _with_environment(subprocess.Popen.__init__)
    yield copyreg, "pickle", _Reducers(copyreg.pickle).register


#: context in which ranks have their own of all this
ProcessState = Patches(_patches)


def _changing(
    whole: Callable[..., object], name: str, read: Callable[[], object], write: Callable[[Any], Any]
) -> Callable[..., object]:
    def change(*args: object, **kwargs: object) -> object:
        own = swaps()
        if own is not None:
            own.add(name, read, write)
        return whole(*args, **kwargs)

    change.__name__ = change.__qualname__ = whole.__name__
    change.__doc__ = whole.__doc__
    return change


def _mask(umask: Callable[[int], int]) -> Callable[[], int]:
    def read() -> int:
        now = umask(0o077)
        umask(now)
        return now

    return read


# --- the environment ----------------------------------------------------------------------------------------


def _data() -> Any:
    return os.environ._data  # type: ignore[attr-defined]


def _put_data(data: object) -> None:
    os.environ._data = data  # type: ignore[attr-defined]
    if hasattr(os, "environb"):
        os.environb._data = data  # type: ignore[attr-defined]


def _on_own_environment(whole: Callable[..., object]) -> Callable[..., object]:
    def change(self: Any, *args: object) -> object:
        own = swaps()
        if own is not None and self._data is _data():
            own.add("environment", _data, _put_data)
            if _data() is own.base("environment"):
                _put_data(dict(_data()))
        return whole(self, *args)

    return change


#: what mpiexec's ranks find of themselves in their environment
_LAUNCHER: dict[str, Callable[[int, int], int]] = {
    "OMPI_COMM_WORLD_RANK": lambda rank, size: rank,
    "OMPI_COMM_WORLD_SIZE": lambda rank, size: size,
    "PMIX_RANK": lambda rank, size: rank,
    "OMPI_COMM_WORLD_LOCAL_RANK": lambda rank, size: _on_host(rank, size).index(rank),
    "OMPI_COMM_WORLD_LOCAL_SIZE": lambda rank, size: len(_on_host(rank, size)),
    "OMPI_COMM_WORLD_NODE_RANK": lambda rank, size: _on_host(rank, size).index(rank),
    "OMPI_UNIVERSE_SIZE": lambda rank, size: size,
}


def _on_host(rank: int, size: int) -> list[int]:
    """Return the ranks of a world that share a rank's host."""
    hub = _kernels.active_hub()
    first = hub.world(_kernels.current_rank())[0]
    mine = hub.host(first + rank)
    return [one for one in range(size) if hub.host(first + one) == mine]


def _with_launcher(whole: Callable[..., object]) -> Callable[..., object]:
    def get(self: object, key: Any) -> object:
        try:
            return whole(self, key)
        except KeyError:
            rank = _kernels.current_rank() if key in _LAUNCHER else -1
            if rank < 0:
                raise
            first, size = _kernels.active_hub().world(rank)
            return str(_LAUNCHER[key](rank - first, size))

    return get


def _with_environment(whole: Callable[..., object]) -> Callable[..., object]:
    def begin(self: object, *args: object, **kwargs: object) -> None:
        own = swaps()
        is_default = len(args) <= 10 and kwargs.get("env") is None  # behind that it is given by its place
        if own is not None and "environment" in own and is_default:
            kwargs["env"] = dict(os.environ)
        whole(self, *args, **kwargs)

    return begin


# --- warnings -----------------------------------------------------------------------------------------------


def _filters() -> object:
    return warnings.filters, warnings.showwarning, warnings._showwarnmsg_impl  # type: ignore[attr-defined]


def _put_filters(state: Any) -> None:
    warnings.filters, warnings.showwarning = state[0], state[1]
    warnings._showwarnmsg_impl = state[2]  # type: ignore[attr-defined]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _on_own_filters(whole: Callable[..., object]) -> Callable[..., object]:
    """Let what a program's own code catches be its rank's: libraries do not communicate meanwhile."""

    def enter(self: object) -> object:
        own = swaps()
        if own is not None and "warnings" not in own:
            frame = sys._getframe(1)
            if not is_installed(frame.f_globals.get("__name__"), frame.f_code.co_filename):
                own.add("warnings", _filters, _put_filters)
        return whole(self)

    return enter


# --- reducers of pickle -------------------------------------------------------------------------------------


#: reducers by type, as `copyreg` keeps them
_Table = dict[type, Any]


class _Reducers:
    """`copyreg.pickle`, whose table is a rank's own where the program registers a function of its own.

    The table stays the same dictionary: the compiled pickler holds it.
    """

    def __init__(self, whole: Callable[..., object]) -> None:
        self._whole = whole
        self._now: _Table | None = None
        #: what installed packages have registered, which ranks load once
        self._shared: _Table = {}

    def register(
        self, ob_type: type, pickle_function: Callable[..., object], constructor_ob: object = None
    ) -> None:
        """Register how objects of a type are pickled."""
        own, frame = swaps(), sys._getframe(1)
        is_private = frame.f_builtins is not vars(builtins)  # a module that each rank has loaded itself
        if own is not None:
            if is_private or not is_installed(frame.f_globals.get("__name__"), frame.f_code.co_filename):
                own.add("reducers of pickle", self._read, self._write)
            else:
                self._shared[ob_type] = pickle_function
        self._now = None
        self._whole(ob_type, pickle_function, constructor_ob)

    def _read(self) -> _Table:
        if self._now is None:
            self._now = dict(copyreg.dispatch_table)
        return self._now

    def _write(self, content: _Table) -> None:
        copyreg.dispatch_table.clear()
        copyreg.dispatch_table.update({**self._shared, **content})
        self._now = content


# State that a process has once and each rank has for itself: exchanged when control goes from rank to rank.
#
# The working directory, the mask of new files, the recursion limit and the environment belong to the whole
# process. A rank that changes one of them gets its own value: from then on it is saved when the rank is
# suspended and put back when it goes on. A run whose ranks change nothing pays nothing: the exchange hangs on
# greenlet's tracing, which is off until the first change.


class _Kind:
    def __init__(self, read: Callable[[], object], write: Callable[[Any], None]) -> None:
        self.read, self.write = read, write
        self.base = read()
        self.values: dict[object, Any] = {}


class Swaps:
    """The values that the ranks of one run have of what the process has once."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._before: Any = None
        #: what could not be put back
        self.failures: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._kinds

    def add(self, name: str, read: Callable[[], object], write: Callable[[Any], None]) -> None:
        """Let each rank have its own value from now on; the present one is everybody's until it changes.

        `name`: What it is; added once, again it changes nothing.
        `read`, `write`: Of the process's value.
        """
        if name in self._kinds:
            return
        kind = _Kind(read, write)
        if not self._kinds:
            self._before = greenlet.settrace(self._trace)
        self._kinds = {**self._kinds, name: kind}

    def base(self, name: str) -> Any:
        """Return the value that a rank has which changed nothing."""
        return self._kinds[name].base

    def _trace(self, event: str, args: Any) -> None:
        if event in ("switch", "throw"):
            origin, target = args
            for name, kind in self._kinds.items():
                try:
                    now = kind.read()
                    if origin.dead:
                        kind.values.pop(origin, None)
                    elif origin in kind.values or (now is not kind.base and now != kind.base):
                        kind.values[origin] = now
                    wanted = kind.values.get(target, kind.base)
                    if wanted is not now and wanted != now:
                        kind.write(wanted)
                except Exception as error:  # a folder that is gone, a limit below the depth
                    text = f"the {name} of a rank could not be put back: {error}"
                    if text not in self.failures:
                        self.failures.append(text)
        if self._before is not None:
            self._before(event, args)

    def close(self) -> None:
        """Give the process its own values back."""
        if not self._kinds:
            return
        greenlet.settrace(self._before)
        for kind in self._kinds.values():
            with contextlib.suppress(Exception):
                kind.write(kind.base)
        self._kinds = {}


# The state of `logging`: each rank's own handlers, levels and filters, of loggers that all ranks share.
#
# A logger belongs to the library that made it; what a rank attaches to it, and the level it sets, is the
# rank's. In a rank these attributes of every logger begin as they were outside, and are its own from then on.


#: where a run keeps its ranks' state: by rank, logger and attribute
Store = dict[tuple[int, int, str], Any]


def _find_log() -> tuple[Store, int] | None:
    """Return the running rank's store and number, None outside ranks."""
    machine = context.find_simulated()
    return (machine.logs, machine.hub.rank) if machine is not None else None


class _Own:
    """An attribute of all loggers that is each rank's own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, logger: object, kind: object = None) -> object:
        if logger is None:
            return self
        found = _find_log()
        if found is None:
            return self._outside(logger)
        store, rank = found
        key = (rank, id(logger), self._name)
        if key not in store:
            value = self._outside(logger)
            store[key] = {} if self._name == "_cache" else list(value) if isinstance(value, list) else value
        return store[key]

    def _outside(self, logger: object) -> object:
        try:
            return logger.__dict__[self._name]
        except KeyError:
            raise AttributeError(self._name) from None

    def __set__(self, logger: object, value: object) -> None:
        found = _find_log()
        if found is None or self._name not in logger.__dict__:  # a new one begins like this for all ranks
            logger.__dict__[self._name] = value
            return
        store, rank = found
        store[rank, id(logger), self._name] = value

    def __delete__(self, logger: object) -> None:
        logger.__dict__.pop(self._name, None)


def _log_patches() -> Iterator[Patch]:
    for name in ("handlers", "filters", "level", "disabled", "propagate", "_cache"):
        yield logging.Logger, name, _Own(name)
    yield logging.Manager, "_disable", _Own("_disable")
    yield logging, "setLogRecordFactory", _set_factory
    yield logging, "getLogRecordFactory", _factory
    whole = logging.getLogRecordFactory()
    yield logging, "_logRecordFactory", lambda *args, **kwargs: (_own_factory() or whole)(*args, **kwargs)


#: context in which each rank has its own logging
RankLogs = Patches(_log_patches)


def _own_factory() -> Any:
    found = _find_log()
    return None if found is None else found[0].get((found[1], 0, "factory"))


def _set_factory(factory: object) -> None:
    found = _find_log()
    if found is None:
        logging._logRecordFactory = factory  # type: ignore[attr-defined]
    else:
        found[0][found[1], 0, "factory"] = factory


def _factory() -> object:
    return _own_factory() or logging._logRecordFactory  # type: ignore[attr-defined]


# The global random generators, one state per rank: `random` and `numpy.random`.


_PYTHON = (
    *(
        "seed",
        "random",
        "uniform",
        "triangular",
        "randint",
        "choice",
        "randrange",
        "sample",
        "shuffle",
        "choices",
    ),
    *(
        "normalvariate",
        "lognormvariate",
        "expovariate",
        "vonmisesvariate",
        "gammavariate",
        "gauss",
        "betavariate",
    ),
    *(
        "binomialvariate",
        "paretovariate",
        "weibullvariate",
        "getstate",
        "setstate",
        "getrandbits",
        "randbytes",
    ),
)
_NUMPY_STATE: object = np.random.mtrand._rand
_PYTHON_STATE: object = random._inst


@cache
def _numpy_names() -> list[str]:
    """Functions of numpy.random that belong to its global state."""
    return [
        name
        for name in dir(_NUMPY_STATE)
        if not name.startswith("_") and hasattr(np.random, name) and callable(getattr(np.random, name))
    ]


class RankRandom:
    """Context in which the global random generators are each rank's own.

    `seed`: Of the run; with the rank it seeds the rank's generators.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._python: dict[int, random.Random] = {}
        self._numpy: dict[int, np.random.RandomState] = {}
        self._fresh: dict[int, int] = {}

    @property
    def is_used(self) -> bool:
        """Whether any rank has used a generator that the seed has set up."""
        return bool(self._python or self._numpy or self._fresh)

    def python(self, rank: int) -> random.Random:
        """Return a rank's generator behind `random`."""
        made = self._python.get(rank)
        if made is None:
            made = self._python[rank] = random.Random(f"{self._seed}:{rank}")
        return made

    def numpy(self, rank: int) -> np.random.RandomState:
        """Return a rank's generator behind `numpy.random`."""
        made = self._numpy.get(rank)
        if made is None:
            words = np.random.SeedSequence([abs(self._seed), rank]).generate_state(8)
            made = self._numpy[rank] = np.random.RandomState(words)
        return made

    @property
    def stand_ins(self) -> dict[int, Callable[[int], Any]]:
        """Makers of what a program's copy has instead of the global generators, by their ids."""
        return {id(_PYTHON_STATE): self.python, id(_NUMPY_STATE): self.numpy}

    def fresh_seed(self, rank: int) -> Any:
        """Return a seed for `numpy.random.default_rng()` that repeats, unlike the operating system's."""
        fresh = self._fresh[rank] = self._fresh.get(rank, 0) + 1
        return np.random.SeedSequence([abs(self._seed), rank, fresh])

    def __enter__(self) -> RankRandom:
        _PATCHES.__enter__()
        _local.__dict__.setdefault("active", []).append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _local.active.pop()
        _PATCHES.__exit__(kind, error, trace)


_local = threading.local()


def _active() -> tuple[RankRandom, int] | None:
    """Return the generators of the run whose rank runs on this thread, and the rank; None outside ranks."""
    rank = _kernels.current_rank()
    if rank < 0:
        return None
    active: list[RankRandom] | None = _local.__dict__.get("active")
    return (active[-1], rank) if active else None


def _random_patches() -> Iterator[Patch]:
    for name in _PYTHON:
        if hasattr(random, name):
            yield random, name, _dispatcher(getattr(random, name), name, RankRandom.python)
    for name in _numpy_names():
        yield np.random, name, _dispatcher(getattr(np.random, name), name, RankRandom.numpy)
    yield np.random, "default_rng", _default_rng()
    yield np.random.mtrand, "_rand", _RANK_STATE
    scipy = sys.modules.get("scipy.stats")
    for one in list(vars(scipy).values()) if scipy is not None else ():
        if getattr(one, "__dict__", {}).get("_random_state") is _NUMPY_STATE:
            yield one, "_random_state", _RANK_STATE


_PATCHES = Patches(_random_patches)


@cache
def _dispatcher(
    whole: Callable[..., object], name: str, state_of: Callable[[RankRandom, int], object]
) -> Callable[..., object]:
    def dispatch(*args: object, **kwargs: object) -> object:
        found = _active()
        return whole(*args, **kwargs) if found is None else getattr(state_of(*found), name)(*args, **kwargs)

    dispatch.__name__ = dispatch.__qualname__ = name
    dispatch.__doc__ = whole.__doc__
    return dispatch


def _default_rng() -> Callable[..., np.random.Generator]:
    whole = np.random.default_rng

    def default_rng(seed: Any = None) -> np.random.Generator:
        found = _active() if seed is None else None
        return whole(seed if found is None else found[0].fresh_seed(found[1]))

    default_rng.__doc__ = whole.__doc__
    return default_rng


class _RankState(np.random.RandomState):
    """NumPy's global generator as libraries hold it: in a rank, the rank's own."""

    def __reduce__(self) -> Any:
        found = _active()
        return (_NUMPY_STATE if found is None else found[0].numpy(found[1])).__reduce__()


for _name in dir(_NUMPY_STATE):
    if not _name.startswith("_") and callable(getattr(_NUMPY_STATE, _name)):
        _one = _dispatcher(getattr(_NUMPY_STATE, _name), _name, RankRandom.numpy)
        setattr(_RankState, _name, staticmethod(_one))
_RANK_STATE = _RankState(0)
