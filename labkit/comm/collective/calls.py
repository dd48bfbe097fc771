"""The collective calls under way: who is in which, and whether they agree."""

from __future__ import annotations

from typing import Any

from labkit import _kernels
from labkit.comm.collective.actions import action_of, group_line
from labkit.errors import MismatchError
from labkit.selector import Choices, Selector

__all__ = ["CollectiveCalls"]


class CollectiveCalls:
    """Notes every rank's arrival at its next collective, and compares it with those before.

    Parameters
    ----------
    hub : labkit._kernels.Hub
    selector : Selector
        Chooses the algorithms.
    machine : str
        The platform's spec, which a choice may depend on.
    """

    def __init__(self, hub: Any, selector: Selector, machine: str = "") -> None:
        self.hub = hub
        self.choose = Choices(selector, machine)
        #: whether the run is written down as a time-independent trace
        self.keeps_calls = False
        self._declared: set[tuple[int, int]] = set()
        #: what communicators carry besides their ranks: by context; by context and rank
        self.topologies: dict[int, Any] = {}
        self.attributes: dict[tuple[int, int], dict[Any, Any]] = {}
        #: communicators made by their members alone: by parent, members, tag and number of the call
        self.private: dict[tuple[Any, ...], Any] = {}

    def arrive(self, comm: Any, name: str, facts: dict[str, Any]) -> _kernels.SharedCall:
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
        SharedCall
            What the ranks share about it, with its number on this communicator.

        Raises
        ------
        MismatchError
            If a rank that came earlier called something else, or with other facts.
        """
        call: _kernels.SharedCall = self.hub.arrive(comm)
        if call.name is None:
            call.name, call.facts = name, facts
        elif call.name != name:
            raise MismatchError(
                f"rank {self.hub.rank} calls {name} where rank {call.first} called {call.name} (collective "
                f"number {call.number + 1} on this communicator): all ranks must call the same collectives "
                "in the same order"
            )
        elif call.facts != facts:
            _compare(call, self.hub.rank, facts)
        return call

    def note(self, comm: Any, call: Any) -> None:
        """Write a collective call of the running rank down for the trace; the hub is told when it ends."""
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
        """Note that the running rank is through a collective made of messages."""
        self.hub.leave()

    def pending_collective(self, rank: int) -> tuple[str, tuple[int, ...]] | None:
        """Return the collective a rank is in and the ranks that have not come to it, None outside any."""
        call = self.hub.call_of(rank)
        return None if call is None else (call.name, call.absent())


def _compare(call: _kernels.SharedCall, rank: int, facts: dict[str, Any]) -> None:
    for fact, value in facts.items():
        before = call.facts.setdefault(fact, value)
        if before != value:
            raise MismatchError(
                f"{call.name} with {fact}={value!r} at rank {rank}, but {fact}={before!r} at rank "
                f"{call.first}: all ranks must give the same {fact}"
            )
