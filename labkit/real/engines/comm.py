"""mpi4py's communicators with calls that an interrupt can end: what a program gets on a cluster of engines.

They are mpi4py's classes, so that buffers, datatypes, operators and ``isinstance`` are as ever; only what
blocks is made of nonblocking calls and tests. What has no good nonblocking twin (making communicators) comes
after a nonblocking barrier: once all ranks have arrived, the call itself does not wait for anybody.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NoReturn

from mpi4py import MPI as MPI4PY

from labkit.comm.collective.objects import ObjectCollectives
from labkit.comm.surface import MAKERS, METHODS, Method, add_methods
from labkit.real.engines.noted import Probed
from labkit.real.engines.waits import (
    WAITING,
    Aborted,
    Message,
    PersistentRequest,
    Request,
    finish,
    keep,
    until,
)

__all__ = ["CLASSES", "Communicator", "interruptible", "take_contexts"]

#: untyped: names of the module are replaced during a run, and classes mixed into its own
MPI: Any = MPI4PY

#: blocking calls that are their nonblocking twins, waited for
_TWINS = {
    row.base: row.name
    for row in METHODS
    if row.form == "nonblocking" and row.kind in ("send", "collective") and row.base.lower() != "bsend"
}
#: calls that give a request
_STARTED = {
    row.name: PersistentRequest if row.form == "persistent" else Request
    for row in METHODS
    if row.form != "blocking" and row.kind != "probe"
}
_NEIGHBOR = [row.name for row in METHODS if row.kind == "neighbor" and row.form == "blocking"]


#: mpi4py's own class: the names of the module mean others during a recorded run
_Comm = MPI.Comm

#: duplicates in which reductions exchange their messages, by the handle of the communicator
_contexts: dict[int, Any] = {}


class Communicator:
    """The part that all interruptible communicators share; its calls are those of `mpi4py.MPI.Comm`."""

    # mpi4py's own classes are the other bases, and the table has the rest: named so that checkers know them
    mprobe: Any

    def Sendrecv(  # noqa: N802
        self, sendbuf: Any, dest: int, sendtag: int = 0, recvbuf: Any = None, source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG, status: Any = None,
    ) -> None:  # fmt: skip
        """Send a buffer and receive into another one."""
        receive = _Comm.Irecv(self, recvbuf, source, recvtag)
        try:
            send = _Comm.Isend(self, sendbuf, dest, sendtag)
        except BaseException:
            receive.Cancel()
            keep(receive)
            raise
        try:
            finish(receive, status)
        except BaseException:
            keep(send)
            raise
        finish(send)

    # -- objects ------------------------------------------------------------------------------------------

    def recv(
        self, buf: Any = None, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None
    ) -> Any:
        """Receive an object."""
        if buf is not None:
            return Request(_Comm.irecv(self, buf, source, tag)).wait(status)
        return self.mprobe(source, tag, status).recv(status)

    def sendrecv(
        self, sendobj: Any, dest: int, sendtag: int = 0, recvbuf: Any = None, source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG, status: Any = None,
    ) -> Any:  # fmt: skip
        """Send an object and receive another one."""
        request = _Comm.isend(self, sendobj, dest, sendtag)
        try:
            received = self.recv(recvbuf, source, recvtag, status)
        except BaseException:
            keep(request)
            raise
        finish(request)
        return received

    # -- communicators ------------------------------------------------------------------------------------

    def Idup(self, info: Any = None) -> tuple[Any, Request]:  # noqa: N802
        """Begin to duplicate."""
        made, request = _Comm.Idup(self, info)
        return interruptible(made), Request(request)

    def Free(self) -> None:  # noqa: N802
        """Let go of it; it is freed when no message can be under way in it."""
        kind: Any = type(self)
        WAITING.freed += [kind(self), *take_contexts(self)]
        _make_null(self)

    Disconnect = Free

    def Abort(self, errorcode: int = 0) -> NoReturn:  # noqa: N802
        """End the run on all ranks, whatever the program catches; the engines live on."""
        WAITING.aborted = Aborted(errorcode)
        raise WAITING.aborted


def _twin(row: Method) -> str | None:
    """Return how a call that blocks is made of its nonblocking twin, which may have no status."""
    if row.form != "blocking":
        return None
    twin = "Comm." + ("I" if row.is_buffer else "i") + row.name.lower() + "(self, {args})"
    if row.kind == "probe":
        found = f"until(lambda: {twin}, Probed(self, source, tag))"
        return f"Message({found})" if row.name.lower() == "mprobe" else f"bool({found})"
    if row.name in ("Recv", "Sendrecv_replace"):
        return f"finish({twin.replace('{args}', row.arguments.removesuffix(', status'))}, status)"
    return None


add_methods(
    Communicator,
    METHODS,
    _twin,
    {"__name__": __name__, "Comm": _Comm, "Message": Message, "Probed": Probed}
    | {"finish": finish, "until": until}
    | {"ANY_SOURCE": MPI.ANY_SOURCE, "ANY_TAG": MPI.ANY_TAG},
)


class _Objects(ObjectCollectives):
    """The lower-case collectives: sizes first, then pickles; the trees of reductions are mpi4py's own.

    Results are the same as on ``on="mpi"`` to the last bit.
    """

    handle: int
    _pickle = MPI.pickle

    def _private(self, name: str, root: int, op: str = "") -> tuple[Any, int]:
        """Return the duplicate for the messages of reductions, and their tag; all ranks make it at once."""
        if self.handle not in _contexts:
            made, request = _Comm.Idup(self)
            finish(request)
            _contexts[self.handle] = made
        return interruptible(_contexts[self.handle]), 0

    def _leave(self, name: str) -> None:
        """Nobody keeps a list."""


def take_contexts(comm: Any = None) -> list[Any]:
    """Return what reductions have made for a communicator, or for all, and forget it."""
    handles = list(_contexts) if comm is None else [comm.handle]
    return [_contexts.pop(handle) for handle in handles if handle in _contexts]


def _make_null(comm: Any) -> None:
    """Turn a communicator into ``COMM_NULL`` as `Free` does, without freeing it."""
    size = MPI._sizeof(MPI.COMM_NULL)
    ctypes.memmove(MPI._addressof(comm), MPI._addressof(MPI.COMM_NULL), size)


def _call(
    owner: Any, name: str, then: Callable[[Any], Any], shown: str = "", is_together: bool = False
) -> Callable[..., Any]:
    """Return a call that makes mpi4py's own, then does something with what that returns.

    With `is_together` all ranks of the communicator make it, and come together before.
    """
    original = getattr(owner, name)

    @functools.wraps(getattr(owner, shown or name))
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_together:
            finish(_Comm.Ibarrier(self))
        return then(original(self, *args, **kwargs))

    return call


def interruptible(comm: Any) -> Any:
    """Return the communicator with calls that can be interrupted; what is null stays as it is."""
    if isinstance(comm, Communicator) or comm == MPI.COMM_NULL:
        return comm
    for kind, wrapped in reversed(CLASSES.items()):  # the special ones first
        if isinstance(comm, kind):
            return wrapped(comm)
    return comm


def _calls(owner: Any) -> dict[str, Any]:
    """Build the calls that replace those which mpi4py's class `owner` itself defines."""
    own = vars(owner)
    calls: dict[str, Any] = {}
    for name, twin in _TWINS.items():
        if name in own and twin in own:
            calls[name] = _call(owner, twin, finish, shown=name)
    for name, kind in _STARTED.items():
        if name in own:
            calls[name] = _call(owner, name, kind)
    # Open MPI's nonblocking neighbour exchanges swap the two messages of a pair that is a neighbour twice.
    for name in _NEIGHBOR:
        if name in own:
            calls[name] = _call(owner, name, interruptible, is_together=True)
    for name, is_together in MAKERS.items():
        if name in own:
            calls[name] = _call(owner, name, interruptible, is_together=is_together)
    return calls


_ANY = type("_Any", (Communicator,), _calls(MPI.Comm))
_INTRA = type("_Intra", (_Objects, _ANY), _calls(MPI.Intracomm))
_TOPO = type("_Topo", (_INTRA,), _calls(MPI.Topocomm))

#: mpi4py's classes and what stands for each of them in a program
CLASSES: dict[type, type] = {
    MPI.Intracomm: type("Intracomm", (_INTRA, MPI.Intracomm), {}),
    MPI.Cartcomm: type("Cartcomm", (_TOPO, MPI.Cartcomm), _calls(MPI.Cartcomm)),
    MPI.Graphcomm: type("Graphcomm", (_TOPO, MPI.Graphcomm), {}),
    MPI.Distgraphcomm: type("Distgraphcomm", (_TOPO, MPI.Distgraphcomm), {}),
    MPI.Intercomm: type("Intercomm", (_ANY, MPI.Intercomm), _calls(MPI.Intercomm)),
}
