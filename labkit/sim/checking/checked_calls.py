"""Stand-ins for the methods while a checked run goes on: each tells `Checks` of its call."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

from labkit.comm.collective.prequest import Prequest
from labkit.comm.communicator import Comm, Intracomm
from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.operators import OPERATORS
from labkit.comm.handles.special import is_in_place
from labkit.comm.handles.status import Request, Status
from labkit.comm.inter.intercomm import Intercomm
from labkit.comm.surface import METHODS, REQUESTS, Method, made
from labkit.sim.calls import NOTING
from labkit.sim.checking.checks import Pending, Sent
from labkit.sim.checking.memory import elements_of, region_of
from labkit.sim.isolation.patches import Patches
from labkit.sim.simulation import running
from labkit.sim.where import place_of

__all__ = ["CHECKING"]

_BUFFERS = ("read", "write")


def _named(method: Method, arguments: tuple[Any, ...]) -> dict[str, Any]:
    return {one.name: value for one, value in zip(method.parameters, arguments, strict=True)}


def _regions(method: Method, comm: Any, given: dict[str, Any]) -> list[Any]:
    """Return the memory that a call uses, as far as its buffers are single blocks."""
    found: list[Any] = []
    for one in method.parameters:
        value = given[one.name]
        if one.role not in _BUFFERS or is_in_place(value):
            continue
        if method.kind in ("collective", "neighbor") and isinstance(value, list | tuple) and len(value) > 2:
            continue  # with counts and displacements: only parts of it
        is_root = method.base == "Bcast" and given.get("root") == comm.rank
        found += region_of(value, one.role == "write" and not is_root)
    return found


def _watched(method: Method, call: Callable[..., Any], comm: Any, arguments: tuple[Any, ...]) -> Any:
    """Make a call of a communicator, and tell what it was."""
    simulation = running()
    checks = None if simulation is None else simulation.checks
    if simulation is None or checks is None or simulation.hub.rank in checks.inside:
        return call(comm, *arguments)
    rank, given = simulation.hub.rank, _named(method, arguments)
    what = f"rank {rank}: {method.name}{_where()}"
    if (method.kind == "probe" and method.base[:1] in "mM") or method.form == "persistent":
        checks.is_blind = True
    if method.form == "persistent" or method.kind == "probe":
        return call(comm, *arguments)
    regions = _regions(method, comm, given)
    checks.use(rank, what, regions)
    if method.form == "blocking":
        _overlap_within(checks, what, regions)
    is_message = method.kind in ("send", "receive", "exchange") and bool(comm)
    context, me = (int(comm._context), comm.rank) if is_message else (0, 0)
    if method.kind in ("send", "exchange") and is_message:
        tag = given.get("sendtag", given.get("tag"))
        data = given.get("sendbuf", given.get("buf")) if method.is_buffer else None
        kind, name = elements_of(data) if method.is_buffer else ("object", "a pickled object")
        checks.sent(context, me, int(given["dest"]), int(tag or 0), Sent(kind, name, what, rank))
    takes = None
    if method.kind in ("receive", "exchange") and is_message:
        data = given.get("recvbuf", given.get("buf"))
        takes = (context, me, *(elements_of(data) if method.is_buffer else ("object", "a pickled object")))
    if "status" in given and takes is not None:
        given["status"] = Status() if given["status"] is None else given["status"]
    checks.inside.add(rank)
    try:
        answer = call(comm, *given.values())
    finally:
        checks.inside.discard(rank)
    if method.form == "nonblocking" and isinstance(answer, Request):
        checks.begin(rank, Pending.of(answer, what, regions, takes))
    elif takes is not None and "status" in given:
        checks.received(context, me, given["status"], takes[2], takes[3], what)
    return answer


def _overlap_within(checks: Any, what: str, regions: list[Any]) -> None:
    for number, one in enumerate(regions):
        if any(one.overlaps(other) for other in regions[:number]):
            checks.tell(f"{what}: its buffers overlap; give another one, or IN_PLACE where MPI has it")


def _waited(method: Method, call: Callable[..., Any], first: Any, arguments: tuple[Any, ...]) -> Any:
    """Wait for requests, or test them, and tell which are over."""
    simulation = running()
    checks = None if simulation is None else simulation.checks
    if simulation is None or checks is None or simulation.hub.rank in checks.inside:
        return call(*(first + arguments))
    rank, given = simulation.hub.rank, _named(method, arguments)
    requests = [*first] if method.kind == "one" else list(given["requests"])
    checks.look(rank, requests, f"{method.name}{_where()}")
    name = "statuses" if "statuses" in given else "status"
    if given[name] is None:
        given[name] = [] if name == "statuses" else Status()
    checks.inside.add(rank)
    try:
        answer = call(*first, *given.values())
    finally:
        checks.inside.discard(rank)
    statuses = _by_index(method, answer, given[name])
    for index, request in enumerate(requests):
        if not request:
            checks.end(rank, request, statuses.get(index))
    return answer


def _by_index(method: Method, answer: Any, statuses: Any) -> dict[int, Any]:
    """Return the statuses of the requests that are over, by their places in the list."""
    if method.kind == "one":
        return {0: statuses}
    if method.kind == "all":
        return dict(enumerate(statuses))
    found = answer[0] if isinstance(answer, tuple) else answer
    if method.kind == "any":
        return {found: statuses}
    return dict(zip(found or (), statuses, strict=False))


def _where() -> str:
    place = place_of(sys._getframe())
    return "" if place is None else f" at {place.file}:{place.line}"


_SPACE = {
    "watched": _watched, "waited": _waited, "SUM": OPERATORS["SUM"],
    "ANY_SOURCE": CONSTANTS["ANY_SOURCE"], "ANY_TAG": CONSTANTS["ANY_TAG"],
}  # fmt: skip


def _stand_in(owner: type, method: Method) -> Any:
    original = getattr(owner, method.name)
    arguments = "({args},)" if method.parameters else "()"
    if method in REQUESTS:
        first = "()" if "requests" in method.arguments else "(self,)"
        function = made(method, f"waited(method, call, {first}, {arguments})", {**_SPACE, "call": original})
        return classmethod(function) if "requests" in method.arguments else function
    return made(method, f"watched(method, call, self, {arguments})", {**_SPACE, "call": original})


def _guarded(owner: type, name: str) -> Any:
    """Return a start of persistent requests that is not watched: its messages are not followed."""
    original = getattr(owner, name)
    is_of_class = isinstance(inspect.getattr_static(owner, name), classmethod)

    @functools.wraps(original)
    def start(first: Any, *arguments: Any) -> Any:
        simulation = running()
        checks = None if simulation is None else simulation.checks
        given = arguments if is_of_class else (first, *arguments)
        if checks is None or simulation is None or simulation.hub.rank in checks.inside:
            return original(*given)
        rank = simulation.hub.rank
        checks.inside.add(rank)
        try:
            return original(*given)
        finally:
            checks.inside.discard(rank)

    return classmethod(start) if is_of_class else start


def _own() -> Iterator[tuple[type, Method]]:
    """Yield the classes' own methods: those that no class above them has, too."""
    for owner, above in ((Comm, None), (Intracomm, Comm), (Intercomm, Comm)):
        for row in METHODS:
            own = inspect.getattr_static(owner, row.name, None)
            if own is not None and own is not inspect.getattr_static(above, row.name, None):
                yield owner, row
    yield from ((Request, row) for row in REQUESTS)


def _stand_ins() -> list[tuple[type, str, Any]]:
    """Return what stands in for which methods, around what notes their calls where that is there, too."""
    calls = [(owner, row.name, _stand_in(owner, row)) for owner, row in _own()]
    return calls + [(Prequest, name, _guarded(Prequest, name)) for name in ("Start", "Startall")]


#: in this context the calls of runs that are checked are watched
CHECKING = Patches(_stand_ins, upon=NOTING)
