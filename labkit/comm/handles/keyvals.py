"""Attributes that a program keeps on objects of MPI, by keys that it has made, with its callbacks."""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from labkit.comm.handles.exceptions import Exception as MPIException

__all__ = ["Keyed", "copied", "deleted"]

_ERR_OTHER, _ERR_KEYVAL = 16, 36
#: first number of a key of a program's own; those below are MPI's
_FIRST = 64
_INVALID = -1


@dataclass
class _Keyval:
    kind: str
    copy: Any
    delete: Any
    is_number: bool
    #: one for the key, one for each value: the key goes with the last of them
    uses: int = 1


_keyvals: dict[int, _Keyval] = {}
_numbers = itertools.count(_FIRST)


class Keyed:
    """Attributes of one kind of object; a class says its kind and where its values are kept."""

    _attribute_kind: ClassVar[str]
    _kept: Callable[[], dict[int, Any]]

    @classmethod
    def Create_keyval(cls, copy_fn: Any = None, delete_fn: Any = None, nopython: bool = False) -> int:
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
        _given_back(int(keyval), _known(cls._attribute_kind, keyval))
        return _INVALID

    def Get_attr(self, keyval: int) -> Any:
        """Value under a key; None where there is none, as under a key for another kind of object."""
        if int(keyval) == _INVALID:
            raise MPIException(_ERR_KEYVAL, f"keyval={keyval} is KEYVAL_INVALID")
        if int(keyval) not in _keyvals:
            _known(self._attribute_kind, keyval)
        return self._kept().get(int(keyval))

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        """Keep a value under a key; one that was there is deleted."""
        key = _known(self._attribute_kind, keyval)
        if int(keyval) in self._kept():
            self.Delete_attr(keyval)
        self._kept()[int(keyval)] = int(attrval) if key.is_number else attrval
        key.uses += 1

    def Delete_attr(self, keyval: int) -> None:
        """Delete the value under a key."""
        key, kept = _known(self._attribute_kind, keyval), self._kept()
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
