"""The situation that a choice may depend on, and the selectors that choose in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import ceil
from typing import NamedTuple

from labkit import registry
from labkit.errors import DataError, ScheduleError, nearest
from labkit.schedule.problem import PROBLEMS

__all__ = ["Choices", "Selector", "Situation", "Timing", "candidates", "settled", "without_bytes"]


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
        Below this length the machine's messages are copied (`labkit.machines.models.NetworkModel`);
        0 where none is, or that is not known: on real MPI, and in `Run.collectives`, which leaves it out.
    on_collective_network : bool
        Whether all ranks of the run take part in an operation for which the machine has its own network
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


# Names of algorithms whose parameters follow from the call: bytes of a segment, ranks of a node.


#: lengths of segments that are tried where an algorithm has segments
SEGMENT_BYTES = (8192, 65536)

_KEY = "segment_bytes="


def settled(at: Situation, name: str, node: int | None) -> str:
    """Return the name with the numbers that this call settles.

    Examples
    --------
    >>> settled(Situation("bcast", 4, 100_000), "pipeline:segment_bytes=8192", None)
    'pipeline:segments=13'
    """
    plain, segment_bytes = _parts(at.operation, name)
    if segment_bytes:
        one = registry.get(at.operation, plain).tuned(segments=1)
        plain += f":segments={max(1, ceil(at.n_bytes / (one.parts(at.ranks) * segment_bytes)))}"
    if node is not None and ":node=" not in plain and "node" in registry.get(at.operation, plain).parameters:
        plain += f":node={node}"
    return plain


def without_bytes(operation: str, name: str) -> str:
    """Return the name without the length of segments."""
    return _parts(operation, name)[0]


@cache
def _parts(operation: str, name: str) -> tuple[str, int]:
    words = name.split(":")
    lengths = [word.removeprefix(_KEY) for word in words if word.startswith(_KEY)]
    plain = ":".join(word for word in words if not word.startswith(_KEY))
    if not lengths:
        return name, 0
    is_number = lengths[0].isascii() and lengths[0].isdecimal() and len(lengths[0]) < 19
    if len(lengths) > 1 or not is_number or int(lengths[0]) < 1:
        raise ScheduleError(
            f"{operation}/{name}: segment_bytes must be at least 1 and given once", code="duplicate-name"
        )
    parameters = registry.get(operation, plain).parameters
    if "segments" not in parameters or ":segments=" in plain:
        known = ", ".join(parameters) or "none"
        raise ScheduleError(
            f"{operation}/{name}: segment_bytes is for an algorithm whose number of segments is left open; "
            f"parameters of {plain}: {known}"
        )
    return plain, int(lengths[0])


#: where the functions are put that are given in place of a name
_OWN = "; an algorithm of your own is a file my_algorithms/<collective>/<name>.py, called by <name>"


def _named(thing: object) -> str:
    return f"the function {thing.__name__}" if callable(thing) and hasattr(thing, "__name__") else repr(thing)


def candidates(
    operation: str, algorithms: Sequence[str] | None = None, has_network: bool = False
) -> list[str]:
    """Return the names that are tried: all of the registry, with some lengths of segments."""
    known = [name for name in registry.problems() if name in PROBLEMS]
    if operation not in known:
        hint = nearest(operation, known, 1)
        raise DataError(
            f"{_named(operation)} is not a collective{hint}; there are: {', '.join(known)}"
            f"{_OWN if callable(operation) else ''}",
            code="unknown-name",
        )
    if algorithms is not None:
        algorithms = [algorithms] if isinstance(algorithms, str) else algorithms
        if not isinstance(algorithms, Iterable) or not all(isinstance(name, str) for name in algorithms):
            got = list(algorithms) if isinstance(algorithms, Iterable) else [algorithms]
            raise DataError(
                f"algorithms are names, as in algorithms=['ring']; got {', '.join(map(_named, got))}"
                f"{_OWN if any(map(callable, got)) else ''}",
                code="wrong-type",
            )
        for name in algorithms:
            registry.get(operation, without_bytes(operation, name))
        return list(dict.fromkeys(algorithms))
    found = []
    for name in registry.names(operation):
        if name == registry.ON_NETWORK and not has_network:
            continue
        found.append(name)
        if "segments" in registry.get(operation, name).parameters:
            found += [f"{name}:segment_bytes={n}" for n in SEGMENT_BYTES]
    return found


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
