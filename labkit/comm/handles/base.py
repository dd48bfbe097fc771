"""The base of the simulated module's objects: names that pickle, and names not built yet."""

from __future__ import annotations

from typing import Any, TypeVar

from labkit.errors import UnsupportedError

__all__ = [
    "BOTTOM",
    "IN_PLACE",
    "KNOWN",
    "MODULE_NAME",
    "SPECIAL",
    "Handle",
    "HandleType",
    "MissingError",
    "Named",
    "constant_of",
    "is_in_place",
    "public",
    "refuse",
]


#: where everything is found again when unpickled: see labkit/MPI.py
MODULE_NAME = "labkit.MPI"

Class = TypeVar("Class", bound=type)


class MissingError(UnsupportedError, AttributeError):
    """A name of mpi4py that is not there: also what `hasattr` and guards of programs expect."""


def public(cls: Class) -> Class:
    """Make a class one of the module's own, so that it pickles by the module's name."""
    cls.__module__ = MODULE_NAME
    return cls


def refuse(owner: str, name: str, known: frozenset[str]) -> Exception:
    """Return the error for a missing attribute: not built yet, or a typo."""
    if name in known:
        return MissingError(f"{owner}.{name} is not simulated yet; on real MPI (on='mpi') it works")
    return AttributeError(f"{owner} has no attribute {name!r}")


class HandleType(type):
    """Class of the module's classes: says which of mpi4py's names are not built yet."""

    _known: frozenset[str] = frozenset()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        raise refuse(f"MPI.{cls.__name__}", name, cls._known)


class Handle(metaclass=HandleType):
    """Mixin of the module's classes: the same for their instances; and objects as numbers."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # as mpi4py's handles

    def toint(self) -> int:
        """Return the number of the object, from which `fromint` makes a handle again."""
        key = (type(self).__name__, self._identity())
        if key not in _numbers:
            _numbers[key] = len(_kept)
            _kept.append(type(self)(self))  # type: ignore[call-arg]
        return _numbers[key]

    @classmethod
    def fromint(cls, arg: int, /) -> Any:
        """Return a handle of the object with a number."""
        if not 0 <= int(arg) < len(_kept) or not isinstance(_kept[int(arg)], cls):
            raise ValueError(f"{arg} is the number of no {cls.__name__}; toint() gives numbers")
        kept = _kept[int(arg)]
        return type(kept)(kept)  # type: ignore[call-arg]

    py2f: Any = toint
    f2py: Any = fromint
    fromhandle = fromint
    handle = property(toint, doc="Number of the object.")

    def _identity(self) -> Any:
        """Return what is the same for all handles of one object, and for no other."""
        return id(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise refuse(f"MPI.{type(self).__name__}", name, type(self)._known)


#: numbers of objects by class and identity, and handles of them, which keep them alive
_numbers: dict[tuple[str, Any], int] = {}
_kept: list[Handle] = []


class Named(Handle):
    """Mixin of the module's constant objects: they compare by identity and pickle by name."""

    __slots__ = ()
    __hash__ = None
    _constant: str | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)) and not isinstance(self, type(other)):
            return NotImplemented
        return self is other

    def __reduce__(self) -> Any:
        if self._constant is None:
            raise ValueError(f"cannot pickle a {type(self).__name__} that the program made itself")
        return self._constant


# Classes of communicators and MPI's own communicators, by name: filled where they are made.


#: a making of one communicator from another names the class of the new one
KNOWN: dict[str, Any] = {}


def constant_of(comm: Any) -> str | None:
    """Name of a communicator that the module has, None of any other."""
    for name in ("COMM_WORLD", "COMM_SELF", "COMM_NULL"):
        if KNOWN.get(name) == comm:
            return name
    return None


# IN_PLACE and BOTTOM: marks that stand where a buffer would.


class InPlaceType(int):
    """Type of IN_PLACE."""

    __module__ = MODULE_NAME

    def __new__(cls) -> InPlaceType:
        """Make the one there is."""
        return super().__new__(cls, -1)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "labkit.MPI.IN_PLACE"

    def __reduce__(self) -> Any:
        return "IN_PLACE"


IN_PLACE = InPlaceType()


def is_in_place(message: Any) -> bool:
    """Whether a buffer argument says that the data lies in the other buffer (None counts, as in mpi4py)."""
    return message is IN_PLACE or message is None


class BottomType(int):
    """Type of BOTTOM."""

    __module__ = MODULE_NAME

    def __new__(cls) -> BottomType:
        """Make the one there is."""
        return super().__new__(cls, 0)

    def __repr__(self) -> str:
        return "labkit.MPI.BOTTOM"

    def __reduce__(self) -> Any:
        return "BOTTOM"


BOTTOM = BottomType()

SPECIAL: dict[str, Any] = {
    "BOTTOM": BOTTOM,
    "BottomType": BottomType,
    "IN_PLACE": IN_PLACE,
    "InPlaceType": InPlaceType,
}
