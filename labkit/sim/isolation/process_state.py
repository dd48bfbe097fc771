"""Working directory, environment, recursion limit and file mask: each rank's own, as in a process."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from labkit import _kernels
from labkit.sim.isolation.code import is_installed
from labkit.sim.isolation.patches import Patch, Patches
from labkit.sim.isolation.switched_state import Swaps

__all__ = ["ProcessState", "register_swaps"]

_find: Callable[[], Swaps | None] = lambda: None  # noqa: E731


def register_swaps(find: Callable[[], Swaps | None]) -> None:
    """Register what returns the swaps of the run whose rank runs on this thread, None outside ranks."""
    global _find
    _find = find


def swaps() -> Swaps | None:
    """The swaps of the run whose rank runs on this thread; None outside ranks."""
    return _find()


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


#: context in which ranks have their own of all this
ProcessState = Patches(_patches)


def _changing(
    whole: Callable[..., Any], name: str, read: Callable[[], Any], write: Callable[[Any], Any]
) -> Callable[..., Any]:
    def change(*args: Any, **kwargs: Any) -> Any:
        own = _find()
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


def _put_data(data: Any) -> None:
    os.environ._data = data  # type: ignore[attr-defined]
    if hasattr(os, "environb"):
        os.environb._data = data  # type: ignore[attr-defined]


def _on_own_environment(whole: Callable[..., Any]) -> Callable[..., Any]:
    def change(self: Any, *args: Any) -> Any:
        own = _find()
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


def _with_launcher(whole: Callable[..., Any]) -> Callable[..., Any]:
    def get(self: Any, key: Any) -> Any:
        try:
            return whole(self, key)
        except KeyError:
            rank = _kernels.current_rank() if key in _LAUNCHER else -1
            if rank < 0:
                raise
            first, size = _kernels.active_hub().world(rank)
            return str(_LAUNCHER[key](rank - first, size))

    return get


def _with_environment(whole: Callable[..., Any]) -> Callable[..., Any]:
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        own = _find()
        is_default = len(args) <= 10 and kwargs.get("env") is None  # behind that it is given by its place
        if own is not None and "environment" in own and is_default:
            kwargs["env"] = dict(os.environ)
        whole(self, *args, **kwargs)

    return begin


# --- warnings -----------------------------------------------------------------------------------------------


def _filters() -> Any:
    return warnings.filters, warnings.showwarning, warnings._showwarnmsg_impl  # type: ignore[attr-defined]


def _put_filters(state: Any) -> None:
    warnings.filters, warnings.showwarning = state[0], state[1]
    warnings._showwarnmsg_impl = state[2]  # type: ignore[attr-defined]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _on_own_filters(whole: Callable[..., Any]) -> Callable[..., Any]:
    """Let what a program's own code catches be its rank's: libraries do not communicate meanwhile."""

    def enter(self: Any) -> Any:
        own = _find()
        if own is not None and "warnings" not in own:
            frame = sys._getframe(1)
            if not is_installed(frame.f_globals.get("__name__"), frame.f_code.co_filename):
                own.add("warnings", _filters, _put_filters)
        return whole(self)

    return enter
