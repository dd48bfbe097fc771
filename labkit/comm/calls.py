"""The collective calls under way: who is in which, and whether they agree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from labkit.errors import MismatchError

__all__ = ["CollectiveCalls"]


@dataclass
class _Call:
    """One collective call on one communicator."""

    name: str
    facts: dict[str, Any]
    first: int
    members: list[int]
    arrived: set[int] = field(default_factory=set)
    program: Any = None
    made: dict[int, Any] = field(default_factory=dict)
    element_bytes: int = 1
    #: (number of ranks that had come, the others then)
    absent: tuple[int, tuple[int, ...]] = (-1, ())


class CollectiveCalls:
    """Notes every rank's arrival at its next collective, and compares it with those before.

    Parameters
    ----------
    hub : labkit._kernels.Hub
    coll : dict
        Collective's name to algorithm's name, as the run was asked for.
    """

    def __init__(self, hub: Any, coll: dict[str, str]) -> None:
        self.hub = hub
        self.coll = coll
        #: whether the run is written down as a time-independent trace
        self.keeps_calls = False
        self._declared: set[tuple[int, int]] = set()
        #: what communicators carry besides their ranks: by context; by context and rank
        self.topologies: dict[int, Any] = {}
        self.attributes: dict[tuple[int, int], dict[Any, Any]] = {}
        #: communicators made by their members alone: by parent, members, tag and number of the call
        self.private: dict[tuple[Any, ...], Any] = {}
        self._open: dict[tuple[int, int, int], _Call] = {}
        self._of_rank: dict[int, _Call] = {}

    def arrive(self, comm: Any, name: str, facts: dict[str, Any]) -> tuple[int, _Call]:
        """Note that the running rank calls a collective.

        Parameters
        ----------
        comm : Intracomm
        name : str
            The collective as the program spells it.
        facts : dict
            What all ranks must give alike (root, bytes, operator).

        Returns
        -------
        int
            The call's number on this communicator.
        _Call
            What the ranks share about it.

        Raises
        ------
        MismatchError
            If a rank that came earlier called something else, or with other facts.
        """
        rank = self.hub.rank
        number = int(comm._next_collective())
        key = (comm._context, number, rank if comm.size == 1 else -1)
        call = self._open.get(key)
        if call is None:
            call = self._open[key] = _Call(name, facts, rank, comm._world_ranks())
        elif call.name != name:
            raise MismatchError(
                f"rank {rank} calls {name} where rank {call.first} called {call.name} (collective number "
                f"{number + 1} on this communicator): all ranks must call the same collectives in the same "
                "order"
            )
        else:
            _compare(call, rank, facts)
        call.arrived.add(rank)
        self._of_rank[rank] = call
        if len(call.arrived) == len(call.members):
            del self._open[key]
        return number, call

    def note(self, comm: Any, call: Any) -> None:
        """Write a collective call of the running rank down for the trace; the hub is told when it ends."""
        from labkit.comm.actions import action_of, group_line

        size, context, rank = comm.size, comm._context, self.hub.rank
        if size == 1 and self.hub.ranks > 1:
            self.hub.begin_collective("")  # nothing moves
            return
        if context and size == self.hub.ranks and comm._world_ranks() == list(range(size)):
            context = 0  # a copy of the world: its collectives are the world's
        elif context and (context, rank) not in self._declared:
            self._declared.add((context, rank))
            self.hub.declare_group(group_line(context, comm._world_ranks()))
        self.hub.begin_collective(action_of(call, size, comm.rank, context))

    def leave(self) -> None:
        """Note that the running rank is through its collective."""
        self._of_rank.pop(self.hub.rank, None)

    def pending_collective(self, rank: int) -> tuple[str, tuple[int, ...]] | None:
        """Return the collective a rank is in and the ranks that have not come to it, None outside any."""
        call = self._of_rank.get(rank)
        if call is None:
            return None
        if call.absent[0] != len(call.arrived):
            absent = tuple(member for member in call.members if member not in call.arrived)
            call.absent = (len(call.arrived), absent)
        return call.name, call.absent[1]


def _compare(call: _Call, rank: int, facts: dict[str, Any]) -> None:
    if facts == call.facts:
        return
    for fact, value in facts.items():
        before = call.facts.setdefault(fact, value)
        if before != value:
            raise MismatchError(
                f"{call.name} with {fact}={value!r} at rank {rank}, but {fact}={before!r} at rank "
                f"{call.first}: all ranks must give the same {fact}"
            )
