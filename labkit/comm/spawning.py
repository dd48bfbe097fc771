"""Process creation: `Spawn`, ports, and the intercommunicators of ranks that have met.

New ranks are a separate world (`Comm.Get_parent` leads back). What it costs is what its messages cost on
the simulated network: the root sends each new rank its command line, a rank's program begins
when they have come, each answers, and `Spawn` is over when the root has all answers and has informed its
communicator. To start a process takes no further simulated time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labkit.comm.collective.native import arrive, leave, shared_calls
from labkit.comm.handles.base import KNOWN
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.errors import UnsupportedError

__all__ = [
    "PORTS",
    "Wanted",
    "accept",
    "all_wanted",
    "begin_spawned",
    "connect",
    "meet",
    "one_wanted",
    "parent",
    "spawn",
]


_WORDS, _READY = 1, 2


@dataclass(frozen=True)
class Wanted:
    """Ranks that are asked for.

    Attributes
    ----------
    words : tuple of str
        Their command line.
    count : int
    job : callable, optional
        What they do instead of a command's program, where they are workers of the running one: ``job(load)``,
        where ``load()`` executes the program's file but for its main part.
    """

    words: tuple[str, ...]
    count: int
    job: Callable[[Callable[[], None]], None] | None = None


def spawn(comm: Any, name: str, root: int, wanted: Callable[[], list[Wanted]]) -> tuple[Any, list[int]]:
    """Start them; the communicator, and how many each command has."""
    arrive(comm, name, {"root": root})
    leave(name)
    news = _start(comm, name, wanted()) if comm.rank == root else None
    context, children, counts = comm.bcast(news, root)
    return _between(context, comm._world_ranks(), children), counts


def _start(comm: Any, name: str, wanted: list[Wanted]) -> tuple[int, list[int], list[int]]:
    calls, parents = shared_calls(name), comm._world_ranks()
    if calls.spawn is None:
        raise UnsupportedError(
            f"{name} starts ranks of a script, and this run is a function in this process; put the "
            "program into a file and run that (labkit run -n 4 prog.py), or run on real MPI (on='mpi')"
        )
    if calls.keeps_calls:
        raise UnsupportedError(
            f"{name} cannot be recorded: the ranks of a time-independent trace are those that it begins "
            "with; leave trace_ti out"
        )
    context = int(calls.hub.new_context())
    children = calls.spawn(name, wanted)
    for child in children:
        calls.spawned[child] = (context, children, parents, comm.rank)
    line = _private(context, parents, children)
    words = [one.words for one in wanted for _ in range(one.count)]
    for child, text in enumerate(words):
        line.send(text, child, _WORDS)
    for child in range(len(children)):
        line.recv(None, child, _READY)
    return context, children, [one.count for one in wanted]


def begin_spawned() -> None:
    """Let a spawned rank wait for its command line, and answer: before its program begins."""
    calls = shared_calls("Get_parent")
    context, children, parents, root = calls.spawned[calls.hub.rank]
    line = _private(context, children, parents)
    line.recv(None, root, _WORDS)
    line.send(None, root, _READY)
    calls.parents[calls.hub.rank] = _between(context, children, parents)


def parent() -> Any:
    """Return the communicator to the ranks that have spawned this one; COMM_NULL where none have."""
    calls = shared_calls("Get_parent")
    return calls.parents.get(calls.hub.rank) or KNOWN["Intercomm"]()


def _between(context: int, local: list[int], remote: list[int]) -> Any:
    return KNOWN["Intercomm"]._joined(context, local, remote)


def _private(context: int, local: list[int], remote: list[int]) -> Any:
    line = KNOWN["Comm"](_between(context, local, remote))
    line._use_private_context()
    return line


def one_wanted(command: Any, args: Any, count: Any) -> Wanted:
    """Return the ranks that a call of `Spawn` asks for."""
    words = [] if args is None else [args] if isinstance(args, str | os.PathLike) else list(args)
    return Wanted(tuple(os.fspath(word) for word in (command, *words)), _number(count))


def all_wanted(commands: Any, args: Any, counts: Any, infos: object) -> list[Wanted]:
    """Return the ranks that a call of `Spawn_multiple` asks for, by command."""
    if isinstance(commands, str):
        raise ValueError("command: expected a sequence of str, got a str")
    if isinstance(args, str):
        raise ValueError("args: expected a sequence with an entry for each command, got a str")
    commands = list(commands)
    n = len(commands)
    args = [None] * n if args is None else list(args)
    counts = [1] * n if counts is None else [counts] * n if isinstance(counts, int) else list(counts)
    hints = list(infos) if isinstance(infos, list | tuple) else [infos] * n
    for what, given in (("args", args), ("maxprocs", counts), ("info", hints)):
        if len(given) != n:
            raise ValueError(f"{what}: expecting {n} items, as many as commands, got {len(given)}")
    return [one_wanted(*one) for one in zip(commands, args, counts, strict=True)]


def _number(count: Any) -> int:
    if int(count) < 1:
        raise ValueError(f"maxprocs={count}: at least 1 rank can be started")
    return int(count)


# Groups of ranks that meet by the name of a port, a service or a socket, and get an intercommunicator. All of
# them belong to the one simulated job: a port is a rank that waits there, and its name says which.


_ERR_COMM, _ERR_NAME, _ERR_PORT, _ERR_SERVICE = 5, 38, 43, 48
_PREFIX, _TAG, _ANSWER, _ANY = "labkit-port", 0x10000000, 0x08000000, -1


def _shared(name: str, what: str) -> dict[str, Any]:
    """Return the ports or services that are known to the ranks, at the running rank's time."""
    calls = shared_calls(name)
    calls.hub.catch_up(name)
    known: dict[str, object] = calls.private.setdefault(what, {})
    return known


def Open_port(info: object = None) -> str:
    """Return the name of a port at which other groups of the job can reach this rank."""
    ports = _shared("Open_port", "ports")
    calls = shared_calls("Open_port")
    number = calls.private["ports so far"] = calls.private.get("ports so far", 0) + 1
    name = f"{_PREFIX}:{number}"
    ports[name] = (number, int(calls.hub.rank))
    return name


def Close_port(port_name: str) -> None:
    """Give a port back."""
    _port(port_name, "Close_port")
    del _shared("Close_port", "ports")[port_name]


def _port(name: object, call: str) -> tuple[int, int]:
    """Return a port's number, and the rank that has opened it."""
    ports = _shared(call, "ports")
    if name not in ports:
        raise MPIException(_ERR_PORT, f"{call}: {name!r} is no open port; Open_port returns the name of one")
    found: tuple[int, int] = ports[name]
    return found


def Publish_name(service_name: str, port_name: str, info: object = None) -> None:
    """Let `Lookup_name` find a port under the name of a service."""
    services = _shared("Publish_name", "services")
    if service_name in services:
        raise MPIException(_ERR_SERVICE, f"Publish_name: {service_name!r} is published already")
    services[service_name] = port_name


def Unpublish_name(service_name: str, port_name: str, info: object = None) -> None:
    """Take the name of a service back."""
    services = _shared("Unpublish_name", "services")
    if services.get(service_name) != port_name:
        raise MPIException(_ERR_SERVICE, f"Unpublish_name: {service_name!r} is not published with that port")
    del services[service_name]


def Lookup_name(service_name: str, info: object = None) -> str:
    """Return the port of a service."""
    services = _shared("Lookup_name", "services")
    if service_name not in services:
        raise MPIException(_ERR_NAME, f"Lookup_name: no rank has published {service_name!r}")
    return str(services[service_name])


def accept(comm: object, port_name: str, root: int) -> Any:
    """Wait at the root's port for a group; the communicator with it."""

    def answer(mine: object) -> object:
        number, owner = _port(port_name, "Accept")
        if owner != shared_calls("Accept").hub.rank:
            text = f"Accept: {port_name!r} is rank {owner}'s port, and only that rank accepts there"
            raise MPIException(_ERR_PORT, text)
        asker, theirs = _line(owner).recv(None, _ANY, _TAG + number)
        _line(asker).send(mine, 0, _TAG + _ANSWER + number)
        return theirs

    return meet(comm, "Accept", root, answer)


def connect(comm: object, port_name: str, root: int) -> Any:
    """Go to a port where a group waits, or will; the communicator with it."""

    def ask(mine: object) -> object:
        number, owner = _port(port_name, "Connect")
        line = _line(owner)
        line.send((int(shared_calls("Connect").hub.rank), mine), 0, _TAG + number)
        return line.recv(None, 0, _TAG + _ANSWER + number)

    return meet(comm, "Connect", root, ask)


def meet(comm: Any, name: str, root: int, exchange: Callable[[object], object]) -> Any:
    """Exchange what the groups' ranks are, and return the communicator with the other group."""
    arrive(comm, name, {"root": root})
    leave(name)
    hub, both = shared_calls(name).hub, None
    if comm.rank == root:
        mine = (comm._world_ranks(), int(hub.new_context()))
        both = (mine, exchange(mine))
    (local, own_context), (remote, other_context) = comm.bcast(both, root)
    if set(local) & set(remote):
        raise MPIException(_ERR_COMM, f"{name}: the groups must have no rank in common")
    context = own_context if local[0] < remote[0] else other_context
    return KNOWN["Intercomm"]._joined(context, local, remote)


def _line(peer: int) -> Any:
    """Return the running rank's line to another rank, of whatever world, with its own messages."""
    calls = shared_calls("Connect")
    if "port messages" not in calls.private:
        calls.private["port messages"] = calls.hub.new_context()
    line = KNOWN["Comm"]()
    line._become("group", calls.private["port messages"], [int(calls.hub.rank)], [peer])
    line._use_private_context()
    return line


#: name in the module -> function
PORTS: dict[str, Callable[..., object]] = {
    function.__name__: function
    for function in (Open_port, Close_port, Publish_name, Unpublish_name, Lookup_name)
}
