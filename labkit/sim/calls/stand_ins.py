"""Stand-ins for the methods while a traced run goes on: each notes its call and makes it."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from labkit.comm.buffers import parse_simple, parse_vector, parse_vector_w
from labkit.comm.collective.makers import maker_of
from labkit.comm.collective.prequest import Prequest
from labkit.comm.communicator import Comm, Intracomm
from labkit.comm.files.file import File
from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.operators import OPERATORS
from labkit.comm.handles.special import is_in_place
from labkit.comm.handles.status import Request
from labkit.comm.inter.intercomm import Intercomm
from labkit.comm.matched import Message
from labkit.comm.pickling import Pickle
from labkit.comm.rma.window import Win
from labkit.comm.surface import FILE_CALLS, MAKERS, METHODS, NAMED, REQUESTS, WINDOW_CALLS, Method, made, over
from labkit.comm.topology.topologies import Cartcomm, Distgraphcomm, Graphcomm, Topocomm
from labkit.schedule.problem import PROBLEMS
from labkit.sim.isolation.patches import Patches
from labkit.sim.simulation import running
from labkit.trace.persistent import Persistent
from labkit.trace.recorder.collectives import OF_BLOCKS, PLAIN, sent_bytes
from labkit.trace.waiting.kinds import STARTS

__all__ = ["NOTING"]


# The bytes that a rank gives to a collective that it calls.


def given_bytes(method: Method, comm: Any, arguments: tuple[Any, ...]) -> int:
    """Return the bytes that the rank gives; of objects they are counted when they are pickled."""
    if method.problem in PLAIN and type(arguments[0]) is np.ndarray:  # most calls, at once
        size: int = arguments[0].nbytes // (comm.size if method.problem in OF_BLOCKS else 1)
        return size
    return _by_layout(method, comm, arguments)


def _by_layout(method: Method, comm: Any, arguments: tuple[Any, ...]) -> int:
    """Return the bytes that the rank gives; of objects they are counted when they are pickled."""
    if not (method.is_buffer and arguments):
        return 0
    given = arguments[1] if is_in_place(arguments[0]) else arguments[0]
    with contextlib.suppress(Exception):  # the call itself says what is wrong with it
        if method.kind == "neighbor":
            return _to_neighbors(method.base, given, len(comm.inoutedges[1]))
        if method.base == "Reduce_scatter":  # without counts the ranks would ask each other
            return parse_simple(given, False).bytes
        problem = PROBLEMS[method.problem]
        call = maker_of(method)(comm, problem, method.name, *arguments)
        if problem.layout == "table":  # its `bytes` are what the choice of the algorithm goes by
            call.bytes = 0
            call.buffers = call.buffers[::-1] if problem.name == "scatterv" else call.buffers
        return sent_bytes(call)
    return 0


def _to_neighbors(base: str, given: Any, targets: int) -> int:
    if base.startswith("Neighbor_allgather"):
        return parse_simple(given, False).bytes * targets
    if base == "Neighbor_alltoall":
        return parse_simple(given, False).bytes
    table = (parse_vector if base.endswith("v") else parse_vector_w)(given, False, targets)
    return int(table.counts.sum()) * table.element_bytes


#: classes of communicators, and what each has its methods from
_COMMUNICATORS: dict[type, type | None] = {
    Comm: None, Intracomm: Comm, Intercomm: Comm, Topocomm: Intracomm,
    **dict.fromkeys((Cartcomm, Graphcomm, Distgraphcomm), Topocomm),
}  # fmt: skip
#: calls of requests and messages that the table does not have
_ENDS, _SPLITS = ("Free", "Disconnect"), ("Split", "Split_type")  # a color and a key: 8 bytes
_OTHERS = {
    Prequest: ("Start", "Startall"), Message: ("Recv", "recv", "Irecv", "irecv"),
    Intracomm: ("Accept", "Connect", "Spawn", "Spawn_multiple"),
}  # fmt: skip


def _begin(name: str) -> int:
    """Note a call of the program's; -1 where it is MPI's own, or the run is not traced."""
    simulation = running()
    notes = None if simulation is None else simulation.call_notes
    if notes is None or simulation is None:
        return -1
    if simulation.context.left_out and simulation.context.is_left_out():
        return -1
    place = notes.place_outside(2)
    return -1 if place < 0 else notes.opened(name, place)


def _end(row: int, answer: Any) -> Any:
    """Note that it is over, and return its answer."""
    if row >= 0 and (simulation := running()) is not None:
        simulation.call_notes.closed(row)
    return answer


def _looked(method: Method, row: int, answer: Any) -> Any:
    """Do as `_end`, for a test or a probe."""
    simulation = running()
    if row >= 0 and simulation is not None:
        is_there = answer if method.kind == "probe" else over(method, answer) is not None
        (simulation.call_notes.closed if is_there else simulation.call_notes.polled)(row)
    return answer


def _join(method: Method, row: int, comm: Any, root: int | None, arguments: tuple[Any, ...]) -> int:
    """Note a call as a collective."""
    if row >= 0 and (simulation := running()) is not None:
        simulation.call_notes.joined(row, comm, root, given_bytes(method, comm, arguments))
    return row


def _described(
    method: Method, row: int, comm: Any, root: int | None, arguments: tuple[Any, ...], request: Any
) -> Any:
    """Note the making of a persistent collective, and return it."""
    simulation = running()
    if row >= 0 and simulation is not None:
        n_bytes = given_bytes(NAMED[method.base], comm, arguments[:-1])  # without the info
        notes = simulation.call_notes
        notes.persistent.described(notes.hub.rank, request, method.base, comm, root, n_bytes)
    return _end(row, request)


def _known(request: Prequest) -> Persistent | None:
    """Return what is noted of a persistent request; None where it is no collective's."""
    simulation = running()
    notes = None if simulation is None else simulation.call_notes
    return None if notes is None else notes.persistent.of(request)


def _started(row: int, known: Persistent | None) -> None:
    """Note that a call starts a persistent collective."""
    simulation = running()
    if row >= 0 and known is not None and simulation is not None:
        simulation.call_notes.joined(row, known.comm, known.root, known.n_bytes, known.number)


def _start(original: Callable[..., Any]) -> Callable[..., None]:
    @functools.wraps(original)
    def start(self: Prequest) -> None:
        known = _known(self)
        row = _begin("Start" if known is None else f"{STARTS}{known.name})")
        _started(row, known)
        _end(row, original(self))

    return start


def _start_all(original: Callable[..., Any]) -> Any:
    """Several are started one after the other: as one call, unless collectives are among them."""

    @functools.wraps(original)
    def start_all(cls: type[Prequest], requests: Sequence[Prequest]) -> None:
        requests = list(requests)
        known = [_known(request) for request in requests]
        if not any(known):
            row = _begin("Startall")
            _end(row, original(requests))
            return
        for request, one in zip(requests, known, strict=True):
            row = _begin("Start" if one is None else f"{STARTS}{one.name})")
            _started(row, one)
            _end(row, original([request]))

    return classmethod(start_all)


def _expression(method: Method) -> str:
    call = "call({args})" if "requests" in method.arguments else "call(self, {args})"
    row = "begin(method.name)"
    if method.kind in ("collective", "neighbor"):
        arguments = "({args},)" if method.parameters else "()"
        joint = f"self, {'root' if 'root' in method.arguments else None}, {arguments}"
        if method.form == "persistent":
            return f"described(method, {row}, {joint}, {call})"
        row = f"join(method, {row}, {joint})"
    is_look = method.form == "nonblocking" and method.kind in ("probe", "one", "all", "any", "some")
    return f"looked(method, {row}, {call})" if is_look else f"end({row}, {call})"


_SPACE = {
    "begin": _begin, "end": _end, "looked": _looked, "join": _join, "described": _described,
    "SUM": OPERATORS["SUM"], "ANY_SOURCE": CONSTANTS["ANY_SOURCE"], "ANY_TAG": CONSTANTS["ANY_TAG"],
}  # fmt: skip


def _noted(owner: type, name: str, method: Method | None) -> Any:
    """Return what stands in a method's place."""
    original = getattr(owner, name)
    if owner is Prequest:
        return _start(original) if name == "Start" else _start_all(original)
    if method is not None:
        function = made(method, _expression(method), {**_SPACE, "call": original})
        return classmethod(function) if "requests" in method.arguments else function
    is_joint, n_bytes = _is_joint(owner, name), 8 * (name in _SPLITS)
    is_of_class = isinstance(inspect.getattr_static(owner, name), classmethod)

    @functools.wraps(original)
    def call(first: Any, *arguments: Any, **named: Any) -> Any:
        row, simulation = _begin(name), running()
        if is_joint and row >= 0 and simulation is not None:
            simulation.call_notes.joined(row, getattr(first, "_comm", first), None, n_bytes)
        return _end(row, original(*(() if is_of_class else (first,)), *arguments, **named))

    return classmethod(call) if is_of_class else call


def _is_joint(owner: type, name: str) -> bool:
    """Whether all ranks make the call together, as a collective."""
    if owner is Intercomm:  # two groups, each with a root of its own: every rank's call is its own
        return False
    if owner in (Win, File):
        return name in ("Fence", "Free", "Close")
    return MAKERS.get(name, name in _ENDS)


def _dumps(original: Callable[[Any, Any], bytes]) -> Callable[[Any, Any], bytes]:
    def dumps(self: Any, obj: Any) -> bytes:
        data, simulation = original(self, obj), running()
        if simulation is not None and simulation.call_notes is not None:
            simulation.call_notes.gave(len(data))
        return data

    return dumps


@cache
def _stand_ins() -> tuple[tuple[type, str, Any], ...]:
    """Return what stands in for which methods; the same objects for all runs."""
    return (*((*what[:2], _noted(*what)) for what in _plan()), (Pickle, "dumps", _dumps(Pickle.dumps)))


@cache
def _plan() -> tuple[tuple[type, str, Method | None], ...]:
    """Return what is replaced: each class's own methods, with their rows of the table."""
    rows: dict[str, Method | None] = {row.name: row for row in METHODS} | dict.fromkeys((*MAKERS, *_ENDS))
    plan: list[tuple[type, str, Method | None]] = []
    for owner, above in _COMMUNICATORS.items():
        for name, row in rows.items():
            own = inspect.getattr_static(owner, name, None)
            if own is not None and (above is None or own is not inspect.getattr_static(above, name, None)):
                plan.append((owner, name, None if owner is Intercomm else row))
    plan += [(Request, row.name, row) for row in REQUESTS]
    plan += [(owner, name, None) for owner, names in _OTHERS.items() for name in names]
    plan += [(Win, name, None) for name in WINDOW_CALLS] + [(File, name, None) for name in FILE_CALLS]
    return tuple(plan)


#: in this context the calls of runs that are traced are noted
NOTING = Patches(_stand_ins)
