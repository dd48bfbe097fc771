"""What all of the simulated module's objects share: names that pickle, and names not built yet."""

from __future__ import annotations

from typing import Any, TypeVar

from labkit.errors import UnsupportedError

__all__ = ["MODULE_NAME", "Named", "public", "refuse"]

#: where everything is found again when unpickled: see labkit/MPI.py
MODULE_NAME = "labkit.MPI"

Class = TypeVar("Class", bound=type)


def public(cls: Class) -> Class:
    """Make a class one of the module's own, so that it pickles by the module's name."""
    cls.__module__ = MODULE_NAME
    return cls


def refuse(owner: str, name: str, known: frozenset[str]) -> Exception:
    """Return the error for a missing attribute: not built yet, or a typo.

    Parameters
    ----------
    owner : str
        ``"MPI"`` or ``"MPI.Comm"``...
    name : str
        What was asked for.
    known : frozenset of str
        The names mpi4py has there.
    """
    if name in known:
        return UnsupportedError(f"{owner}.{name} is not simulated yet; on real MPI (on='mpi') it works")
    return AttributeError(f"{owner} has no attribute {name!r}")


class Named:
    """Mixin of the module's constant objects: they compare by identity and pickle by name."""

    __slots__ = ()
    _constant: str | None
    __hash__ = None  # type: ignore[assignment]  # as mpi4py's handles

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)) and not isinstance(self, type(other)):
            return NotImplemented
        return self is other

    def __reduce__(self) -> Any:
        if self._constant is None:
            raise TypeError(f"cannot pickle a {type(self).__name__} that the program made itself")
        return self._constant
