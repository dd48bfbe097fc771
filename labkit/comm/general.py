"""Methods of `MPI.Comm` that communicators of one and of two groups do in their own ways.

A program may call them on the class, ``MPI.Comm.Free(comm)``, or derive from it; they look at what the
communicator is.
"""

from __future__ import annotations

import inspect
from typing import Any

from labkit.comm.communicator import Comm, Intracomm
from labkit.comm.handles.operators import OPERATORS
from labkit.comm.inter.intercomm import Intercomm
from labkit.comm.known import KNOWN, constant_of
from labkit.comm.surface import METHODS, add_methods

__all__ = ["complete"]


def _exact(comm: Any) -> Any:
    """Return a handle of the kind that the communicator is."""
    comm._check()
    return Intercomm(comm) if comm.Is_inter() else Intracomm(comm)


def _free(self: Any) -> None:
    """Give it back; a handle of one of MPI's own becomes null, the module's stay as they are."""
    if self:
        exact = _exact(self)
        if self is not KNOWN.get(constant_of(self) or ""):
            exact.free()
            self._become("null", 0)


def _made(name: str, doc: str | None) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        exact = _exact(self)
        made = getattr(exact, name)(*args, **kwargs)
        if not exact:  # it has been given back
            self._become("null", 0)
        return Comm.__new__(type(self), made) if name == "Clone" else made  # type: ignore[call-arg]

    method.__name__, method.__qualname__, method.__doc__ = name, f"Comm.{name}", doc
    method.__signature__ = inspect.signature(getattr(Intracomm, name))  # type: ignore[attr-defined]
    return method


def complete() -> None:
    """Give `Comm` what both kinds of communicators have."""
    own, both = _of(Comm), _of(Intercomm) & _of(Intracomm)
    rows = [row for row in METHODS if row.name in both - own]
    add_methods(
        Comm,
        rows,
        lambda row: f"exact(self).{row.name}({{args}})",
        {"exact": _exact, "SUM": OPERATORS["SUM"]},
    )
    _free.__name__, _free.__qualname__ = "free", "Comm.free"
    Comm.free = _free  # type: ignore[attr-defined]
    for name in both - _of(Comm):
        if not name.startswith("_"):
            setattr(Comm, name, _made(name, getattr(Intracomm, name).__doc__))


def _of(cls: type) -> frozenset[str]:
    return frozenset(dir(cls))
