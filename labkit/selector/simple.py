"""Selectors that need no table: a fixed choice, several one after another, the fastest, what can be used."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass

from labkit import registry
from labkit.errors import ScheduleError
from labkit.selector.settled import without_bytes
from labkit.selector.situation import Selector, Situation, Timing

__all__ = ["Best", "First", "Fixed", "Usable", "check_schedule", "is_usable"]


#: before the name of an algorithm of the MPI library's own
LIBRARY = "library:"


@dataclass(frozen=True)
class Fixed(Selector):
    """One algorithm a collective, whatever the situation.

    Parameters
    ----------
    algorithms : mapping of str to str
        Collective's name to algorithm's name; behind ``library:`` it is one of the MPI library's own.
    """

    algorithms: Mapping[str, str]

    def choose(self, situation: Situation) -> str | None:
        """Return its name, None for a collective that is not among them, or is left to the library."""
        name = self.algorithms.get(situation.operation)
        return None if name is None or name.startswith(LIBRARY) else name

    def check(self) -> None:
        """Refuse algorithms that are not in the registry, or are no schedules."""
        for operation, name in self.algorithms.items():
            check_schedule(operation, name.removeprefix(LIBRARY))

    def named(self) -> Mapping[str, str]:
        """Return them, but those of the library's own."""
        return {key: name for key, name in self.algorithms.items() if not name.startswith(LIBRARY)}

    @property
    def forced(self) -> Mapping[str, str]:
        """Those behind ``library:``."""
        return {
            operation: name.removeprefix(LIBRARY)
            for operation, name in self.algorithms.items()
            if name.startswith(LIBRARY)
        }


class Usable(Selector):
    """The first algorithm by name that can be used here: what is left when no rule says anything."""

    def choose(self, situation: Situation) -> str | None:
        """Return its name, None if there is none."""
        names = registry.names(situation.operation)
        return next((name for name in names if is_usable(situation, name)), None)


class Best(Selector):
    """Every algorithm that can be used here is simulated on this machine, alone, and the fastest is taken.

    The ranks of the call are taken for the machine's first ones, and enter together; of equally fast ones the
    first by name is taken. What it costs: one simulation of every algorithm for each new situation.

    Parameters
    ----------
    time : callable, optional
        Situation and name to seconds; a run gives its machine's (`on`).
    """

    def __init__(self, time: Timing | None = None) -> None:
        self.time = time

    def __repr__(self) -> str:
        return "Best()"

    def on(self, time: Timing) -> Best:
        """Return the one that asks this machine."""
        return Best(time)

    def choose(self, situation: Situation) -> str | None:
        """Return the fastest one's name, None if there is none."""
        time = self.time
        if time is None:
            raise ScheduleError("coll='best' simulates every algorithm, which needs a simulated machine")
        usable = [name for name in registry.names(situation.operation) if is_usable(situation, name)]
        return min(usable, key=lambda name: time(situation, name), default=None)


class First(Selector):
    """Several selectors: the first one that has an opinion.

    Parameters
    ----------
    *selectors : Selector
    """

    def __init__(self, *selectors: Selector) -> None:
        self.selectors = selectors

    def __repr__(self) -> str:
        return f"First({', '.join(map(repr, self.selectors))})"

    def choose(self, situation: Situation) -> str | None:
        """Return the first one's choice."""
        for selector in self.selectors:
            name = selector.choose(situation)
            if name is not None:
                return name
        return None

    def check(self) -> None:
        """Check them all."""
        for selector in self.selectors:
            selector.check()

    def named(self) -> Mapping[str, str]:
        """Return each collective's first one."""
        return dict(ChainMap(*(dict(selector.named()) for selector in self.selectors)))

    @property
    def asks_nodes(self) -> bool:
        """Whether one of them asks."""
        return any(selector.asks_nodes for selector in self.selectors)

    @property
    def forced(self) -> Mapping[str, str]:
        """Of each collective the first one's."""
        return dict(ChainMap(*(dict(selector.forced) for selector in self.selectors)))

    def on(self, time: Timing) -> First:
        """Return the same of each one's for this machine."""
        return First(*(selector.on(time) for selector in self.selectors))


def check_schedule(operation: str, name: str) -> None:
    """Refuse what is not in the registry, and what is no schedule."""
    if operation.startswith("neighbor_"):
        raise ScheduleError(
            f"{operation}={name}: collectives of all ranks are chosen; those of neighbours are no schedules: "
            "lk.tune.neighborhood chooses among the forms of such an exchange"
        )
    if registry.get(operation, without_bytes(operation, name)).schedule is None:
        raise ScheduleError(f"{operation}/{name} is a program, not a schedule")


def is_usable(at: Situation, name: str) -> bool:
    """Whether an algorithm takes these ranks and this operator, and the machine has what it needs."""
    if name == registry.ON_NETWORK and not at.on_collective_network:
        return False
    algorithm = registry.get(at.operation, without_bytes(at.operation, name))
    return algorithm.schedule is not None and not algorithm.requirements.unmet(at.ranks, at.is_commutative)
