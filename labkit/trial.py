"""A trial of a run that is simulated again: computation of a phase scaled, links made faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Trial"]


@dataclass(frozen=True)
class Trial:
    """A change of a simulated run that neither its program nor its machine knows.

    Attributes
    ----------
    computation : mapping of str to sequence of float
        By phase a factor for each rank: what the rank computes in the phase, and in those inside it, takes so
        many times as long. Factors of phases in each other multiply; a phase in itself counts once.
    visits : mapping of str to sequence of sequences of float
        By phase and rank a factor for each time that the rank enters the phase; 1 beyond them.
    links : mapping of str to float
        By kind of links, as `labkit.machines.measure.kind_of` names them: how many times the bandwidth.
    """

    computation: Mapping[str, Sequence[float]] = field(default_factory=dict)
    visits: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    links: Mapping[str, float] = field(default_factory=dict)

    def platform(self, built: Any) -> Any:
        """Return the compiled machine with these links faster."""
        if not self.links:
            return built
        from labkit.machines.measure import kind_of

        kinds = [kind_of(built.link_name(link)) for link in range(built.link_count)]
        for kind, faster in self.links.items():
            chosen = [link for link, own in enumerate(kinds) if own == kind]
            if chosen:
                built = built.degraded(chosen, float(faster), 1.0)
        return built

    def factor(self, phases: Sequence[tuple[str, float]], rank: int, visits: Mapping[str, int]) -> float:
        """Return how many times as long a rank computes.

        Parameters
        ----------
        phases : sequence of (str, float)
            The open ones: name, since when.
        rank : int
        visits : mapping of str to int
            How often the rank has entered each phase of `visits` so far, this time included.
        """
        found = 1.0
        for name in dict.fromkeys(name for name, _ in phases):
            if name in self.computation:
                found *= self.computation[name][rank]
            if name in self.visits:
                own = self.visits[name][rank]
                found *= own[visits[name] - 1] if visits[name] <= len(own) else 1.0
        return found

    def after(self, before: Trial | None) -> Trial:
        """Return this change on top of another one."""
        if before is None:
            return self
        links = dict(before.links)
        for kind, faster in self.links.items():
            links[kind] = links.get(kind, 1.0) * faster
        return Trial(
            {
                name: _product(before.computation.get(name, ()), self.computation.get(name, ()))
                for name in {**before.computation, **self.computation}
            },
            {
                name: [
                    _product(*both)
                    for both in _pairs(before.visits.get(name, ()), self.visits.get(name, ()), ())
                ]
                for name in {**before.visits, **self.visits}
            },
            links,
        )


def _pairs(first: Sequence[object], second: Sequence[object], missing: object) -> list[tuple[Any, Any]]:
    longest = max(len(first), len(second))
    return [
        (first[at] if at < len(first) else missing, second[at] if at < len(second) else missing)
        for at in range(longest)
    ]


def _product(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Multiply place by place; what is missing is 1."""
    return [float(a) * float(b) for a, b in _pairs(first, second, 1.0)]
