"""Calls of MPI that the threads of a rank make: the rank makes them, when it waits or calls MPI itself.

Blocking calls begin as nonblocking ones where MPI has such a form, so that several threads may wait at the
same time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from labkit.comm.communicator import Comm
from labkit.comm.files.file import File
from labkit.comm.futures.manager import MPIPoolExecutor
from labkit.comm.handles.status import Message, Prequest, Request, Status
from labkit.comm.intercomm import Intercomm
from labkit.comm.intracomm import Intracomm
from labkit.comm.place import name_as
from labkit.comm.rma.window import Win
from labkit.comm.surface import NAMED, Method
from labkit.comm.topologies import Cartcomm, Distgraphcomm, Graphcomm, Topocomm
from labkit.sim.checks import CHECKING
from labkit.sim.isolation.patches import Patch, Patches
from labkit.sim.isolation.waits import owner_of_thread, waits_of_rank

__all__ = ["ThreadCalls"]

#: classes whose methods communicate, and what each has its other methods from
_CLASSES: dict[type, type | None] = {
    Comm: None,
    Intracomm: Comm,
    Intercomm: Comm,
    Topocomm: Intracomm,
    **dict.fromkeys((Cartcomm, Graphcomm, Distgraphcomm), Topocomm),
    Request: None,
    Prequest: Request,
    Message: None,
    Win: None,
    File: None,
    MPIPoolExecutor: None,
}
#: methods that need nobody else: a thread makes them itself
_LOCAL = frozenset(
    {
        *(
            "Abort",
            "Get_rank",
            "Get_size",
            "Get_name",
            "Get_group",
            "Get_topology",
            "Get_remote_size",
            "Is_inter",
        ),
        *("Is_intra", "py2f", "f2py", "tompi", "fromint", "toint", "fromhandle", "Get_errhandler"),
    }
)
#: most bytes of an object that a thread receives
_ROOM = 1 << 31


def _calls() -> Iterator[Patch]:
    for owner, above in _CLASSES.items():
        for name in dir(owner):
            own = inspect.getattr_static(owner, name)
            is_known = above is not None and own is inspect.getattr_static(above, name, None)
            if name.startswith("_") or name in _LOCAL or is_known or isinstance(own, property):
                continue
            if isinstance(own, classmethod | staticmethod) or callable(own):
                yield owner, name, _handed_over(owner, name, own)


def _handed_over(owner: type, name: str, own: Any) -> object:
    """Return what stands in a method's place: the rank makes the call, whichever of its threads asks."""
    is_of_class, is_static = isinstance(own, classmethod), isinstance(own, staticmethod)
    whole = own.__func__ if is_of_class or is_static else own
    begin = None if is_of_class or is_static else _beginning(owner, name)

    def call(*args: object, **named: object) -> object:
        waits = waits_of_rank()
        if waits is not None:
            return waits.make(name, whole, args, named, begin)
        thread = owner_of_thread()
        return whole(*args, **named) if thread is None else thread.call(name, whole, args, named, begin)

    name_as(call, name, f"{owner.__name__}.{name}").__doc__ = getattr(whole, "__doc__", None)
    return classmethod(call) if is_of_class else staticmethod(call) if is_static else call


def _beginning(owner: type, name: str) -> Callable[..., object] | None:
    """Return what begins a blocking call: a function that returns its request and the status to fill."""
    if issubclass(owner, Request) and name in ("Wait", "wait"):
        return lambda self, status=None: (self, status)
    row = NAMED.get(name) if issubclass(owner, Comm) else None
    form = _nonblocking(row)
    if row is None or not form:
        return None
    order = [one.name for one in row.parameters if one.name != "status"]

    def begin(self: object, *args: Any, **named: Any) -> object:
        given = dict(zip((one.name for one in row.parameters), args, strict=False)) | named
        status: Status | None = given.pop("status", None)
        if name == "recv" and given.get("buf") is None:
            given["buf"] = _ROOM
        return getattr(self, form)(**{one: given[one] for one in order if one in given}), status

    return begin


def _nonblocking(row: Method | None) -> str:
    if row is None or row.form != "blocking" or row.kind not in ("send", "receive", "collective", "neighbor"):
        return ""
    if row.kind in ("send", "receive"):
        name = ("I" if row.is_buffer else "i") + row.name.lower()
    else:
        name = "Ibarrier" if row.name == "barrier" else f"I{row.name[0].lower()}{row.name[1:]}"
        if not row.is_buffer and row.name != "barrier":
            return ""
    return name if name in NAMED else ""


#: context in which ranks make the calls of their threads: from the first thread of a rank on
ThreadCalls = Patches(_calls, upon=CHECKING)
