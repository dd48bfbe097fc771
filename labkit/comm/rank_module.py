"""Modules of mpi4py whose attributes a rank may set and delete for itself, as in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["RankModule", "register_changes"]

_ABSENT = object()
#: ``add(name, read, write)`` of the running rank's exchanged state, None outside ranks
_find: Callable[[], Callable[..., None] | None] = lambda: None  # noqa: E731


def register_changes(find: Callable[[], Callable[..., None] | None]) -> None:
    """Register what returns the function by which ranks exchange state, None outside ranks."""
    global _find
    _find = find


class _Changes(dict[str, Any]):
    """What a rank has changed: values by name, never compared."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = None


class RankModule(ModuleType):
    """A module in which ranks see their own changes only; a run leaves none behind."""

    def __setattr__(self, name: str, value: Any) -> None:
        self._change(name, value)

    def __delattr__(self, name: str) -> None:
        if name not in self.__dict__:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self._change(name, _ABSENT)

    def _change(self, name: str, value: Any) -> None:
        add = _find()
        if add is None:
            self._put(name, value)
            return
        state = _states.setdefault(id(self), ({}, [_Changes()]))
        add(f"names of {self.__name__}", lambda: state[1][0], lambda changes: self._exchange(state, changes))
        state[0].setdefault(name, self.__dict__.get(name, _ABSENT))
        state[1][0] = _Changes({**state[1][0], name: value})
        self._put(name, value)

    def _exchange(self, state: _State, changes: _Changes) -> None:
        for name in state[1][0]:
            self._put(name, state[0][name])
        for name, value in changes.items():
            self._put(name, value)
        state[1][0] = changes

    def _put(self, name: str, value: Any) -> None:
        if value is _ABSENT:
            self.__dict__.pop(name, None)
        else:
            self.__dict__[name] = value


#: what changed names have meant before, and in a list what the rank that runs has changed
_State = tuple[dict[str, Any], list[_Changes]]
#: by id of the module
_states: dict[int, _State] = {}
