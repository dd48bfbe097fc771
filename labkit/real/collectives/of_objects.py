"""Lower-case collectives on real MPI: sizes, then pickles, by the collectives on buffers that were chosen.

mpi4py moves objects in the same way, by the library's own collectives. Its reductions of objects are trees of
messages and no collective of the library, on every machine: they stay its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from labkit.comm.collective.objects import ObjectCollectives

__all__ = ["methods_of_objects"]

#: lower-case method -> the collectives on buffers that it is made of
_MADE_OF = {
    "barrier": ("barrier",), "bcast": ("bcast",), "gather": ("gather", "gatherv"),
    "scatter": ("scatter", "scatterv"), "allgather": ("allgather", "allgatherv"),
    "alltoall": ("alltoall", "alltoallv"),
}  # fmt: skip


def methods_of_objects(mpi: Any, native: Any, named: Mapping[str, str]) -> dict[str, Callable[..., Any]]:
    """Return the lower-case methods that stand for those of one of mpi4py's classes.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``.
    native : type
        Its class of communicators.
    named : mapping
        The collectives that algorithms were named for; empty: the choice may be about any.
    """
    made = {
        name: _method(getattr(native, name), getattr(ObjectCollectives, name))
        for name, parts in _MADE_OF.items()
        if not named or not named.keys().isdisjoint(parts)
    }
    return {"_pickle": mpi.pickle, **made} if made else {}


def _method(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    def method(comm: Any, *arguments: Any, **named: Any) -> Any:
        ranks = int(comm.Get_size())
        root = named.get("root", arguments[1] if len(arguments) > 1 else 0)
        is_right = isinstance(root, int) and 0 <= root < ranks  # else mpi4py says what is wrong with it
        return (ours if ranks > 1 and is_right else original)(comm, *arguments, **named)

    method.__name__ = method.__qualname__ = original.__name__
    method.__doc__ = original.__doc__
    return method
