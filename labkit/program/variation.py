"""Variations of a simulated run: computation of a phase scaled, links made faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit import _kernels

__all__ = ["Variation"]


@dataclass(frozen=True)
class Variation:
    """A change of a simulated run: its program and its machine description stay the same.

    `computation`: By phase, a factor of each rank's computation in the phase and in phases inside it. Factors
        of nested phases multiply; a phase nested in itself counts once.
    `visits`: By phase and rank, a factor for each time that the rank enters the phase; 1 for later visits.
    `links`: By kind of links (`labkit.machines.measure.kind_of`), a factor of the bandwidth.
    """

    computation: Mapping[str, Sequence[float]] = field(default_factory=dict)
    visits: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    links: Mapping[str, float] = field(default_factory=dict)

    def platform(self, built: _kernels.Platform, kind_of: Callable[[str], str]) -> Any:
        """Return the compiled machine with faster links; `kind_of` maps the name of a link to its kind."""
        kinds = [kind_of(built.link_name(link)) for link in range(built.link_count)] if self.links else []
        for kind, factor in self.links.items():
            chosen = [link for link, own in enumerate(kinds) if own == kind]
            if chosen:
                built = built.degraded(chosen, float(factor), 1.0)
        return built

    def factor(self, phases: Sequence[tuple[str, float]], rank: int, visits: Mapping[str, int]) -> float:
        """Return the factor of a rank's computation in the open `phases`, each (name, begin).

        `visits` is the number of times that the rank has entered each phase, this one included.
        """
        found = 1.0
        for name in dict.fromkeys(name for name, _ in phases):
            if name in self.computation:
                found *= self.computation[name][rank]
            if name in self.visits:
                own = self.visits[name][rank]
                found *= own[visits[name] - 1] if visits[name] <= len(own) else 1.0
        return found

    def after(self, before: Variation | None) -> Variation:
        """Return this change on top of another one."""
        if before is None:
            return self
        links = dict(before.links)
        for kind, faster in self.links.items():
            links[kind] = links.get(kind, 1.0) * faster
        return Variation(
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
    """Multiply element by element; missing elements are 1."""
    return [float(a) * float(b) for a, b in _pairs(first, second, 1.0)]
