"""The situation that a choice may depend on, and the selectors that choose in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["Selector", "Situation", "Timing"]


class Situation(NamedTuple):
    """What a choice may depend on.

    Attributes
    ----------
    operation : str
        The collective, as the registry calls it.
    ranks : int
    n_bytes : float
        The message of a bcast, reduction or scan; one block of the others.
    is_commutative : bool
        Whether the operator commutes.
    is_cuttable : bool
        Whether the operator works element by element, so that a message can be cut anywhere.
    machine : str
        The platform's spec, such as ``"torus:4x4x4"``.
    ranks_per_node : int
        How many consecutive ranks share a host; 1 where that differs from host to host.
    copied_below_bytes : int
        Below this length the machine's messages are copied (`labkit.platform.models.NetworkModel`);
        0 where none is, or that is not known: on real MPI, and in `Run.collectives`, which leaves it out.
    on_collective_network : bool
        Whether all ranks of the run take part in an operation for which the machine has a network of its own
        (`NetworkModel.collective_network`); `Run.collectives` leaves it out.
    """

    operation: str
    ranks: int
    n_bytes: float = 0
    is_commutative: bool = True
    is_cuttable: bool = True
    machine: str = ""
    ranks_per_node: int = 1
    copied_below_bytes: int = 0
    on_collective_network: bool = False

    def __repr__(self) -> str:
        """Leave out what the machine does not have."""
        told = self._asdict()
        if not self.copied_below_bytes:
            del told["copied_below_bytes"]
        if not self.on_collective_network:
            del told["on_collective_network"]
        return f"Situation({', '.join(f'{name}={value!r}' for name, value in told.items())})"


#: how long an algorithm, by its name, takes in a situation: seconds
Timing = Callable[[Situation, str], float]


class Selector(ABC):
    """Chooses algorithms; derive from it, or combine what is here."""

    @abstractmethod
    def choose(self, situation: Situation) -> str | None:
        """Return an algorithm's name, None for no opinion."""

    def check(self) -> None:  # noqa: B027 - most have nothing to refuse
        """Refuse what can never work, before anything runs.

        Raises
        ------
        ScheduleError
            For an unknown collective or algorithm.
        """

    @property
    def forced(self) -> Mapping[str, str]:
        """Algorithms of the MPI library's own that a real run is to force: collective to name."""
        return {}

    def named(self) -> Mapping[str, str]:
        """Return the algorithms that are taken whatever the situation: collective to name."""
        return {}

    @property
    def asks_nodes(self) -> bool:
        """Whether a choice may depend on how many ranks share a host."""
        return False

    def on(self, time: Timing) -> Selector:
        """Return the selector for one machine: itself, unless it must know how long algorithms take there.

        Parameters
        ----------
        time : callable
            Situation and algorithm's name to the seconds that it takes on this machine.
        """
        return self
