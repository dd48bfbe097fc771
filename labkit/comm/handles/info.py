"""Hints: MPI.Info, a dictionary of strings. Of the simulated calls only `Split_type` looks at one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from labkit.comm import names
from labkit.comm.handles.base import MODULE_NAME, Handle
from labkit.comm.handles.exceptions import Exception as MPIException

__all__ = ["INFO_ENV", "INFO_NULL", "Info"]

_ERR_INFO, _ERR_ARG, _ERR_INFO_NOKEY = 34, 13, 32
_MISSING: Any = object()


class Info(Handle):
    """A dictionary of hints, in the order in which they were set; falsy when it is INFO_NULL."""

    __slots__ = ("__weakref__", "_items")
    __module__ = MODULE_NAME
    __hash__ = None
    _known = names.INFO
    _items: dict[str, str] | None

    def __new__(cls, info: Info | None = None) -> Info:
        """Return a handle of INFO_NULL, or of the object given."""
        if info is not None and not isinstance(info, Info):
            raise TypeError(f"info: expected an Info, got {type(info).__name__}")
        return cls._of(None if info is None else info._items)

    @classmethod
    def _of(cls, items: dict[str, str] | None) -> Info:
        self = object.__new__(cls)
        self._items = items
        return self

    @classmethod
    def Create(cls, items: Any = None) -> Info:
        """Make one, with the items given: a mapping, or pairs."""
        self = cls._of({})
        if items is not None:
            self.update(items)
        return self

    @classmethod
    def Create_env(cls, args: Any = None) -> Info:
        """Make one that describes the start of the program: with nothing in it."""
        return cls._of({})

    def _identity(self) -> Any:
        return id(self._items)

    def _dict(self) -> dict[str, str]:
        if self._items is None:
            raise MPIException(_ERR_INFO, "this is INFO_NULL, or one that has been freed")
        return self._items

    def Free(self) -> None:
        """Give it back; the handle becomes INFO_NULL."""
        self._dict()
        self._items = None

    def free(self) -> None:
        """Give it back; a handle of INFO_ENV becomes null, the module's own stays as it is."""
        if self and self is not INFO_ENV:
            self._items = None

    def Dup(self) -> Info:
        """Return a copy."""
        return type(self)._of(dict(self._dict()))

    def Get(self, key: str) -> str | None:
        """Value of a key, None where there is none."""
        return self._dict().get(key)

    def Set(self, key: str, value: str) -> None:
        """Set a key."""
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"hints are strings, got {key!r}: {value!r}")
        self._dict()[key] = value

    def Delete(self, key: str) -> None:
        """Delete a key."""
        if self._dict().pop(key, None) is None:
            raise MPIException(_ERR_INFO_NOKEY, f"there is no key {key!r}")

    def Get_nkeys(self) -> int:
        """Return the number of keys."""
        return len(self._dict())

    def Get_nthkey(self, n: int) -> str:
        """Return the n-th key."""
        keys = list(self._dict())
        if not 0 <= n < len(keys):
            raise MPIException(_ERR_ARG, f"there are keys 0 to {len(keys) - 1}, not {n}")
        return keys[n]

    # --- as a dictionary --------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return self._items is not None

    def __eq__(self, other: object) -> bool:
        return self._items is other._items if isinstance(other, Info) else NotImplemented

    def __len__(self) -> int:
        return len(self._items or {})

    def __contains__(self, key: str) -> bool:
        return key in (self._items or {})

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, key: str) -> str:
        return (self._items or {})[key]

    def __setitem__(self, key: str, value: str) -> None:
        if self._items is None:
            raise KeyError(key)
        self.Set(key, value)

    def __delitem__(self, key: str) -> None:
        del (self._items if self._items is not None else {})[key]

    def get(self, key: str, default: str | None = None) -> str | None:
        """Value of a key, or the default."""
        return (self._items or {}).get(key, default)

    def keys(self) -> list[str]:
        """Return the keys."""
        return list(self._items or {})

    def values(self) -> list[str]:
        """Return the values."""
        return list((self._items or {}).values())

    def items(self) -> list[tuple[str, str]]:
        """Return the pairs."""
        return list((self._items or {}).items())

    def update(self, items: Mapping[str, str] | Iterable[tuple[str, str]] = (), **named: str) -> None:
        """Set several keys."""
        if self._items is None:
            raise KeyError("INFO_NULL has no keys")
        pairs = items.items() if isinstance(items, Mapping | Info) else items
        for key, value in (*pairs, *named.items()):
            self.Set(key, value)

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        """Delete a key; its value."""
        kept = self._items if self._items is not None else {}
        return kept.pop(key) if default is _MISSING else kept.pop(key, default)

    def popitem(self) -> tuple[str, str]:
        """Delete the last key; it and its value."""
        return (self._items if self._items is not None else {}).popitem()

    def copy(self) -> Info:
        """Return a copy."""
        return self.Dup() if self else Info()

    def clear(self) -> None:
        """Delete all keys."""
        if self._items is not None:
            self._items.clear()

    def __reduce__(self) -> Any:
        for constant, name in ((INFO_NULL, "INFO_NULL"), (INFO_ENV, "INFO_ENV")):
            if self is constant:
                return name
            if self._items is constant._items:
                return type(self), (constant,)
        return type(self).Create, (self._items,)


INFO_NULL = Info()
INFO_ENV = Info.Create()
