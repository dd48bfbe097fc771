"""The choices of one run: asked once a situation, settled and kept."""

from __future__ import annotations

from collections.abc import Sequence

from labkit.errors import ScheduleError
from labkit.selector.situation import Selector, Situation, settled

__all__ = ["Choices"]

#: situations that a run keeps its choices of
_MOST_KEPT = 10_000


class Choices:
    """The choices of one run on one machine: asked once a situation, and kept for who wants to see them.

    Parameters
    ----------
    selector : Selector
    machine : str
        The platform's spec.
    node : int, optional
        How many consecutive ranks share a host: what algorithms by nodes take for their parameter `node`
        where the choice leaves it open. Default: what the algorithm says.
    copied_below_bytes : int
        As in `Situation`.
    collective_network : sequence of str
        Operations of all ranks for which the machine has its own network.
    all_ranks : int
        The ranks of the run.

    Attributes
    ----------
    made : dict
        Situation to algorithm's name, in the order of the calls; of the first ten thousand situations.
    """

    def __init__(
        self,
        selector: Selector,
        machine: str = "",
        node: int | None = None,
        copied_below_bytes: int = 0,
        collective_network: Sequence[str] = (),
        all_ranks: int = 0,
    ) -> None:
        self.selector = selector
        self.machine = machine
        self.node = node
        self.copied_below_bytes = copied_below_bytes
        self.collective_network = frozenset(collective_network)
        self.all_ranks = all_ranks
        self.made: dict[Situation, str] = {}

    def __call__(
        self,
        operation: str,
        ranks: int,
        n_bytes: float = 0,
        commutative: bool = True,
        is_cuttable: bool = True,
        given: str | None = None,
    ) -> str:
        """Return the name of the algorithm to take (see `Situation`); of a `given` one, its settled name.

        Raises
        ------
        ScheduleError
            If there is none.
        """
        at = Situation(operation, ranks, n_bytes, commutative, is_cuttable, self.machine, self.node or 1)
        if given is not None:
            return settled(at, given, self.node)
        name = self.made.get(at)
        if name is None:
            name = self.selector.choose(
                at._replace(
                    copied_below_bytes=self.copied_below_bytes,
                    on_collective_network=operation in self.collective_network and ranks == self.all_ranks,
                )
            )
            if name is None:
                raise ScheduleError(
                    f"no algorithm for {operation} on {ranks} ranks (commutative={commutative})"
                )
            name = settled(at, name, self.node)
            if len(self.made) < _MOST_KEPT:
                self.made[at] = name
        return name
