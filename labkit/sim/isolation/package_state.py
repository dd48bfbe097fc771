"""State of installed packages, which all ranks share: each rank's own where possible, else reported.

pyplot's figures, matplotlib's settings and pandas' options are each rank's own. So is a global of any other
installed module that the program imports, once a rank assigns it: from outside (``package.LEVEL = rank``), or
by a function of the package with a ``global`` statement. What is changed inside a list, a dictionary, a set
or a class of such a module remains shared; the run then has a note that names it.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from labkit import _kernels
from labkit.sim.isolation import process_state
from labkit.sim.isolation.code import is_installed_file
from labkit.sim.isolation.patches import Patch, Patches

__all__ = ["RankFigures", "RankOptions", "WatchedModules"]

_ABSENT = object()
#: packages whose modules keep only what all ranks may share, besides what is each rank's own here
_KNOWN = frozenset({"numpy", "scipy", "pandas", "matplotlib", "mpl_toolkits", "mpi4py", "greenlet", "labkit"})
#: items of a container that are compared
_MOST_ITEMS = 10_000


# --- pyplot -------------------------------------------------------------------------------------------------


class _Figures:
    """pyplot's figures by number: a dictionary for each rank, and the one outside."""

    def __init__(self, outside: OrderedDict[int, Any]) -> None:
        self.outside = outside
        self.own: dict[int, OrderedDict[int, Any]] = {}

    def here(self) -> OrderedDict[int, Any]:
        rank = _kernels.current_rank()
        return self.outside if rank < 0 else self.own.setdefault(rank, OrderedDict())

    def __getattr__(self, name: str) -> object:
        return getattr(self.here(), name)

    def merge(self) -> None:
        """Number the ranks' figures again and give them to the caller: a notebook shows them."""
        for _, figures in sorted(self.own.items()):
            for manager in figures.values():
                if manager.num in self.outside:
                    manager.num = max(self.outside) + 1
                self.outside[manager.num] = manager


def _delegating(name: str) -> Callable[..., object]:
    def method(self: _Figures, *arguments: object) -> object:
        return getattr(self.here(), name)(*arguments)

    return method


for _name in ("contains", "getitem", "setitem", "delitem", "iter", "len", "reversed", "eq"):
    setattr(_Figures, f"__{_name}__", _delegating(f"__{_name}__"))

_figures: list[_Figures] = []


def _pyplot() -> Iterator[Patch]:
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None and "IPython" in sys.modules:
        pyplot.draw_if_interactive()  # loads a notebook's backend and its settings, before ranks have theirs
    helpers: Any = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is not None:
        _figures[:] = [_Figures(helpers.Gcf.figs)]
        yield helpers.Gcf, "figs", _figures[0]
    matplotlib: Any = sys.modules.get("matplotlib")
    if matplotlib is not None:
        settings = _Content(matplotlib.rcParams, "settings of matplotlib")
        for name in ("__setitem__", "_set", "_update_raw"):
            if name in vars(type(matplotlib.rcParams)):
                yield type(matplotlib.rcParams), name, settings.noting(name)


def _give_figures() -> None:
    for one in _figures:
        one.merge()
    _figures.clear()


class _Content:
    """A dictionary whose content is each rank's own, once a rank has changed it."""

    def __init__(self, mapping: dict[str, Any], name: str) -> None:
        self._mapping, self._name = mapping, name
        self._now: dict[str, Any] | None = None

    def changes(self) -> None:
        """Note that the running rank is about to change it."""
        own = process_state.swaps()
        if own is not None:
            own.add(self._name, self._read, self._write)
            self._now = None

    def _read(self) -> dict[str, Any]:
        if self._now is None:
            self._now = _copied(self._mapping)
        return self._now

    def _write(self, content: dict[str, object]) -> None:
        dict.clear(self._mapping)
        dict.update(self._mapping, _copied(content))
        self._now = content

    def noting(self, name: str) -> Callable[..., object]:
        whole = getattr(type(self._mapping), name)

        @functools.wraps(whole)
        def change(mapping: object, *arguments: object) -> object:
            if mapping is self._mapping:
                self.changes()
            return whole(mapping, *arguments)

        return change


def _copied(mapping: dict[str, object]) -> dict[str, object]:
    """Copy a dictionary and those inside it."""
    return {key: _copied(value) if type(value) is dict else value for key, value in dict.items(mapping)}


# --- pandas -------------------------------------------------------------------------------------------------


def _pandas() -> Iterator[Patch]:
    config: object = sys.modules.get("pandas._config.config")
    if config is None or not hasattr(config, "_get_root"):
        return
    options, whole = _Options(config), config._get_root

    def root(key: str) -> object:
        if "set_option" in sys._getframe(1).f_code.co_name:
            options.changes()
        return whole(key)

    yield config, "_get_root", root


class _Options(_Content):
    """pandas' options: the innermost dictionaries stay the same objects, as `pandas.options` holds them."""

    def __init__(self, config: Any) -> None:
        super().__init__(config._global_config, "options of pandas")

    def _write(self, content: dict[str, object]) -> None:
        _put(self._mapping, content)
        self._now = content


def _put(mapping: dict[str, Any], content: Mapping[str, object]) -> None:
    for key, value in content.items():
        if type(value) is dict and type(mapping.get(key)) is dict:
            _put(mapping[key], value)
        else:
            mapping[key] = value


#: contexts in which ranks have their own figures and settings, and their own options
RankFigures = Patches(_pyplot, _give_figures)
RankOptions = Patches(_pandas)


# --- any other package --------------------------------------------------------------------------------------


class _Watched(types.ModuleType):
    """A module whose globals are a rank's own when a rank assigns them."""

    def __setattr__(self, name: str, value: object) -> None:
        is_import = (
            isinstance(value, types.ModuleType) and sys.modules.get(f"{self.__name__}.{name}") is value
        )
        if not is_import:  # an import of a submodule happens once, for all ranks
            _own_global(vars(self), name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        _own_global(vars(self), name)
        super().__delattr__(name)


def _own_global(scope: dict[str, object], name: str) -> None:
    own = process_state.swaps()
    if own is None or name.startswith("__") or isinstance(scope.get(name), types.ModuleType):
        return

    def write(value: object) -> None:
        scope.pop(name, None) if value is _ABSENT else scope.__setitem__(name, value)

    own.add(f"{scope.get('__name__')}.{name}", lambda: scope.get(name, _ABSENT), write)


class WatchedModules:
    """The installed packages that a script's ranks have imported themselves."""

    def __init__(self) -> None:
        self._packages: set[str] = set()
        self._before: dict[tuple[str, str], Any] = {}

    def imported(self, name: str) -> None:
        """Watch a package that a rank's own code has imported."""
        top = name.partition(".")[0]
        if top in self._packages or top in sys.stdlib_module_names or top in _KNOWN:
            return
        self._packages.add(top)
        wrapped: dict[int, object] = {}
        for module in list(_modules_of(top)):
            if type(module) is types.ModuleType:
                module.__class__ = _Watched
            for scope in (module, *(one for one in vars(module).values() if _is_class_of(one, module))):
                for key, value in list(vars(scope).items()):
                    if isinstance(value, types.FunctionType) and (names := _assigned(value.__code__)):
                        if id(value) not in wrapped:
                            wrapped[id(value)] = _owning(value, names)
                        if isinstance(scope, type):
                            setattr(scope, key, wrapped[id(value)])
                        else:
                            vars(scope)[key] = wrapped[id(value)]
            self._before.update(_state_of(module))

    def notes(self) -> Iterable[str]:
        """Yield as sentences what has changed inside their modules, which all ranks share."""
        changed: dict[str, list[str]] = {}
        for top in sorted(self._packages):
            for module in list(_modules_of(top)):
                for (owner, name), state in _state_of(module).items():
                    if self._before.get((owner, name), state) != state:
                        changed.setdefault(top, []).append(f"{owner}.{name}")
        for top, names in changed.items():
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            yield (
                f"all ranks shared what the package {top!r} keeps in {', '.join(names[:4])}{more}, and it "
                "changed during the run; on real MPI each rank has its own. Keep such state in a module of "
                "the program, or run on real MPI (--on mpi)"
            )


def _modules_of(top: str) -> Iterator[types.ModuleType]:
    for name, module in list(sys.modules.items()):
        if name == top or name.startswith(f"{top}."):
            file = getattr(module, "__file__", None)
            if isinstance(module, types.ModuleType) and file and is_installed_file(file):
                yield module


def _is_class_of(value: object, module: types.ModuleType) -> bool:
    return isinstance(value, type) and value.__module__ == module.__name__


@functools.cache
def _assigned(code: types.CodeType) -> tuple[str, ...]:
    """Return the globals that a function assigns."""
    steps = dis.get_instructions(code)
    return tuple(
        dict.fromkeys(one.argval for one in steps if one.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"))
    )


def _owning(function: types.FunctionType, names: tuple[str, ...]) -> object:
    scope = function.__globals__

    @functools.wraps(function)
    def call(*arguments: object, **named: object) -> object:
        if _kernels.current_rank() >= 0:
            for name in names:
                _own_global(scope, name)
        return function(*arguments, **named)

    return call


def _state_of(module: types.ModuleType) -> dict[tuple[str, str], object]:
    """Return a fingerprint of the containers and plain values of a module's classes."""
    found: dict[tuple[str, str], object] = {}
    for name, value in list(vars(module).items()):
        if name.startswith("__"):
            continue
        if type(value) in (dict, list, set, OrderedDict) and len(value) <= _MOST_ITEMS:
            found[module.__name__, name] = _items(value)
        elif _is_class_of(value, module):
            for key, one in list(vars(value).items()):
                if not key.startswith("__") and isinstance(one, int | float | str | bool | None):
                    found[f"{module.__name__}.{name}", key] = one
                elif not key.startswith("__") and type(one) in (dict, list, set):
                    found[f"{module.__name__}.{name}", key] = _items(one)
    return found


def _items(value: Any) -> object:
    pairs = value.items() if isinstance(value, dict) else ((one, None) for one in value)
    return len(value), [(id(key), id(item)) for key, item in pairs]
