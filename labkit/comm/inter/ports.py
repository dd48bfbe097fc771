"""Groups of ranks that meet by the name of a port, a service or a socket, and get an intercommunicator.

All of them belong to the one simulated job: a port is a rank that waits there, and its name says which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.comm.collective.native import arrive, leave, shared_calls
from labkit.comm.handles.base import KNOWN
from labkit.comm.handles.exceptions import Exception as MPIException

__all__ = ["PORTS", "accept", "connect", "meet"]

_ERR_COMM, _ERR_NAME, _ERR_PORT, _ERR_SERVICE = 5, 38, 43, 48
_PREFIX, _TAG, _ANSWER, _ANY = "labkit-port", 0x10000000, 0x08000000, -1


def _shared(name: str, what: str) -> dict[str, Any]:
    """Return what the ranks of the run know of ports or services, at the running rank's time."""
    calls = shared_calls(name)
    calls.hub.catch_up(name)
    known: dict[str, Any] = calls.private.setdefault(what, {})
    return known


def Open_port(info: Any = None) -> str:
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


def _port(name: Any, call: str) -> tuple[int, int]:
    """Return a port's number, and the rank that has opened it."""
    ports = _shared(call, "ports")
    if name not in ports:
        raise MPIException(_ERR_PORT, f"{call}: {name!r} is no open port; Open_port returns the name of one")
    found: tuple[int, int] = ports[name]
    return found


def Publish_name(service_name: str, port_name: str, info: Any = None) -> None:
    """Let `Lookup_name` find a port under the name of a service."""
    services = _shared("Publish_name", "services")
    if service_name in services:
        raise MPIException(_ERR_SERVICE, f"Publish_name: {service_name!r} is published already")
    services[service_name] = port_name


def Unpublish_name(service_name: str, port_name: str, info: Any = None) -> None:
    """Take the name of a service back."""
    services = _shared("Unpublish_name", "services")
    if services.get(service_name) != port_name:
        raise MPIException(_ERR_SERVICE, f"Unpublish_name: {service_name!r} is not published with that port")
    del services[service_name]


def Lookup_name(service_name: str, info: Any = None) -> str:
    """Return the port of a service."""
    services = _shared("Lookup_name", "services")
    if service_name not in services:
        raise MPIException(_ERR_NAME, f"Lookup_name: nobody has published {service_name!r}")
    return str(services[service_name])


def accept(comm: Any, port_name: str, root: int) -> Any:
    """Wait at the root's port for a group; the communicator with it."""

    def answer(mine: Any) -> Any:
        number, owner = _port(port_name, "Accept")
        if owner != shared_calls("Accept").hub.rank:
            text = f"Accept: {port_name!r} is rank {owner}'s port, and only that rank accepts there"
            raise MPIException(_ERR_PORT, text)
        asker, theirs = _line(owner).recv(None, _ANY, _TAG + number)
        _line(asker).send(mine, 0, _TAG + _ANSWER + number)
        return theirs

    return meet(comm, "Accept", root, answer)


def connect(comm: Any, port_name: str, root: int) -> Any:
    """Go to a port where a group waits, or will; the communicator with it."""

    def ask(mine: Any) -> Any:
        number, owner = _port(port_name, "Connect")
        line = _line(owner)
        line.send((int(shared_calls("Connect").hub.rank), mine), 0, _TAG + number)
        return line.recv(None, 0, _TAG + _ANSWER + number)

    return meet(comm, "Connect", root, ask)


def meet(comm: Any, name: str, root: int, exchange: Callable[[Any], Any]) -> Any:
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
    """Return the running rank's line to another rank, of whatever world, with messages of its own."""
    calls = shared_calls("Connect")
    if "port messages" not in calls.private:
        calls.private["port messages"] = calls.hub.new_context()
    line = KNOWN["Comm"]()
    line._become("group", calls.private["port messages"], [int(calls.hub.rank)], [peer])
    line._use_private_context()
    return line


#: name in the module -> function
PORTS: dict[str, Any] = {
    function.__name__: function
    for function in (Open_port, Close_port, Publish_name, Unpublish_name, Lookup_name)
}
