"""Hints: MPI.Info, a dictionary of strings. Of the simulated calls only `Split_type` looks at one."""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from labkit.comm import surface
from labkit.comm.handles.base import MODULE_NAME, Handle
from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.exceptions import Exception as MPIException

__all__ = ["INFO_ENV", "INFO_NULL", "Info", "Keyed", "copied", "deleted"]


# Attributes that a program keeps on objects of MPI, by keys that it has made, with its callbacks.


_ERR_OTHER, _ERR_KEYVAL = 16, 36
#: first number of a key of a program's own; those below are MPI's, of communicators and of windows
_FIRST, _PREDEFINED = 64, range(13)
_INVALID = -1


@dataclass
class _Keyval:
    kind: str
    copy: Any
    delete: Any
    is_number: bool
    #: one for the key, one for each value: the key goes with the last of them
    uses: int = 1
    is_freed: bool = False


_keyvals: dict[int, _Keyval] = {}
_numbers = itertools.count(_FIRST)


class Keyed:
    """Attributes of one kind of object; a class says its kind and where its values are kept."""

    _attribute_kind: ClassVar[str]
    _kept: Callable[[], dict[int, object]]

    @classmethod
    def Create_keyval(cls, copy_fn: object = None, delete_fn: object = None, nopython: bool = False) -> int:
        """Make a key.

        Parameters
        ----------
        copy_fn : callable or bool, optional
            ``copy_fn(object, keyval, value)``: a duplicate's value, or NotImplemented for none. True: the
            same value; None or False: none.
        delete_fn : callable, optional
            ``delete_fn(object, keyval, value)``, before a value goes.
        nopython : bool
            Whether values are numbers (addresses), not objects.
        """
        number = next(_numbers)
        delete = None if isinstance(delete_fn, bool) else delete_fn
        _keyvals[number] = _Keyval(cls._attribute_kind, copy_fn, delete, bool(nopython))
        return number

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Give a key back; KEYVAL_INVALID. Values under it stay until they or their objects go."""
        key = _known(cls._attribute_kind, keyval)
        if key.is_freed:
            raise MPIException(_ERR_OTHER, f"keyval={keyval} has been freed already")
        key.is_freed = True
        _given_back(int(keyval), key)
        return _INVALID

    def Get_attr(self, keyval: int) -> Any:
        """Value under a key, or None, also under a key for another kind of object."""
        if int(keyval) == _INVALID:
            raise MPIException(_ERR_KEYVAL, f"keyval={keyval} is KEYVAL_INVALID")
        if int(keyval) not in _keyvals and int(keyval) not in _PREDEFINED:
            _known(self._attribute_kind, keyval)
        return self._kept().get(int(keyval))

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        """Keep a value under a key; one that was there is deleted."""
        kept, key = self._kept(), _known(self._attribute_kind, keyval)
        key.uses += 1  # first: a freed key goes with its last value
        if int(keyval) in kept:
            self.Delete_attr(keyval)
        kept[int(keyval)] = int(attrval) if key.is_number else attrval

    def Delete_attr(self, keyval: int) -> None:
        """Delete the value under a key."""
        kept, key = self._kept(), _known(self._attribute_kind, keyval)
        if int(keyval) not in kept:
            raise MPIException(_ERR_OTHER, f"there is no value under keyval={keyval}")
        value = kept.pop(int(keyval))
        try:
            if key.delete is not None:
                _called(key.delete, self, int(keyval), value)
        finally:
            _given_back(int(keyval), key)


def _known(kind: str, keyval: int) -> _Keyval:
    key = _keyvals.get(int(keyval))
    if key is None or key.kind != kind:
        raise MPIException(
            _ERR_OTHER, f"keyval={keyval} is no key for a {kind}; {kind}.Create_keyval makes one"
        )
    return key


def _given_back(keyval: int, key: _Keyval) -> None:
    """Count a use less; a key without any is invalid."""
    key.uses -= 1
    if key.uses <= 0:
        _keyvals.pop(keyval, None)


def _called(function: Callable[..., Any], thing: Any, keyval: int, value: Any) -> Any:
    """Call a callback with a handle that is null afterwards, as mpi4py does; its errors are MPI's."""
    try:
        return function(type(thing)(thing), keyval, value)
    except MPIException as error:
        traceback.print_exc(file=sys.stderr)
        raise MPIException(error.Get_error_code()) from error
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        name = getattr(function, "__name__", "a callback")
        raise MPIException(_ERR_OTHER, f"{name} raised {type(error).__name__}: {error}") from error


def copied(original: Any, duplicate: Any) -> None:
    """Give a duplicate the attributes that their keys want copied."""
    kept = original._kept()
    for keyval, value in list(kept.items()) if kept else ():
        key = _keyvals.get(keyval)
        if key is None:  # given back too often
            continue
        if key.copy is True:
            duplicate._kept()[keyval] = value
            key.uses += 1
        elif callable(key.copy):
            copy = _called(key.copy, original, keyval, value)
            if copy is not NotImplemented:
                duplicate._kept()[keyval] = int(copy) if key.is_number else copy
                key.uses += 1


def deleted(thing: Any) -> None:
    """Delete all attributes of an object that goes: the last one first."""
    kept = thing._kept()
    for keyval in reversed(list(kept)) if kept else ():
        if keyval in _keyvals:
            thing.Delete_attr(keyval)


_ERR_INFO, _ERR_ARG, _ERR_INFO_KEY, _ERR_INFO_NOKEY, _ERR_INFO_VALUE = 34, 13, 31, 32, 33
#: their strings end with a zero byte
_MOST_KEY_BYTES, _MOST_VALUE_BYTES = CONSTANTS["MAX_INFO_KEY"], CONSTANTS["MAX_INFO_VAL"]
_MISSING: object = object()


def _checked_key(key: str) -> str:
    """Refuse a key that has no bytes, or too many."""
    if isinstance(key, str) and not 0 < len(key.encode()) < _MOST_KEY_BYTES:
        raise MPIException(
            _ERR_INFO_KEY, f"a key has 1 to {_MOST_KEY_BYTES - 1} bytes, got {len(key.encode())}"
        )
    return key


class Info(Handle):
    """A dictionary of hints, in the order in which they were set; falsy when it is INFO_NULL."""

    __slots__ = ("__weakref__", "_items")
    __module__ = MODULE_NAME
    __hash__ = None
    _known = surface.INFO
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
    def Create_env(cls, args: object = None) -> Info:
        """Make one that describes the start of the program: with nothing in it."""
        return cls._of({})

    def _identity(self) -> object:
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
        """Give it back; a handle of INFO_ENV becomes null, the module's own stays unchanged."""
        if self and self is not INFO_ENV:
            self._items = None

    def Dup(self) -> Info:
        """Return a copy."""
        return type(self)._of(dict(self._dict()))

    def Get(self, key: str) -> str | None:
        """Value of a key, or None."""
        return self._dict().get(_checked_key(key))

    def Set(self, key: str, value: str) -> None:
        """Set a key."""
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"hints are strings, got {key!r}: {value!r}")
        if not 0 < len(value.encode()) < _MOST_VALUE_BYTES:
            raise MPIException(
                _ERR_INFO_VALUE, f"a value has 1 to {_MOST_VALUE_BYTES - 1} bytes, got {len(value.encode())}"
            )
        self._dict()[_checked_key(key)] = value

    def Delete(self, key: str) -> None:
        """Delete a key."""
        if self._dict().pop(_checked_key(key), None) is None:
            raise MPIException(_ERR_INFO_NOKEY, f"there is no key {key!r}")

    def Get_nkeys(self) -> int:
        """Return the number of keys."""
        return len(self._dict())

    def Get_nthkey(self, n: int) -> str:
        """Return the n-th key."""
        keys = list(self._dict())
        if not 0 <= n < len(keys):
            raise MPIException(
                _ERR_ARG if n < 0 else _ERR_INFO_KEY, f"there are {len(keys)} keys, none is number {n}"
            )
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

    def pop(self, key: str, default: object = _MISSING) -> Any:
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

    def __reduce__(self) -> str | tuple[object, ...]:
        for constant, name in ((INFO_NULL, "INFO_NULL"), (INFO_ENV, "INFO_ENV")):
            if self is constant:
                return name
            if self._items is constant._items:
                return type(self), (constant,)
        return type(self).Create, (self._items,)


INFO_NULL = Info()
INFO_ENV = Info.Create()
