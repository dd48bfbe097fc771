"""A plan: which message carries which chunks from where to where, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from labkit.synthesis.fabric import Way

__all__ = ["Plan", "Transfer"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """One message of a plan.

    Attributes
    ----------
    begin_s, end_s : float
        When it is sent and when it is received, by the plan.
    source, destination : int
    chunks : tuple of int
        What it carries, ascending.
    links : tuple of int
        The shared links that it crosses.
    is_combined : bool
        Whether the receiver combines it with what it has.
    """

    begin_s: float
    end_s: float
    source: int
    destination: int
    chunks: tuple[int, ...]
    links: tuple[int, ...]
    is_combined: bool = False


@dataclass(frozen=True)
class Plan:
    """Messages in the order of their beginnings."""

    transfers: tuple[Transfer, ...]

    @staticmethod
    def of(transfers: Iterable[Transfer]) -> Plan:
        """Return the plan of some messages, in order."""
        return Plan(tuple(sorted(transfers, key=lambda one: (one.begin_s, one.end_s))))

    @property
    def end_s(self) -> float:
        """When the last message is received, by the plan."""
        return max((one.end_s for one in self.transfers), default=0.0)

    def reversed(self) -> Plan:
        """Return the plan backwards: what spread now gathers, and is combined on the way.

        Every chunk went down a tree from its origin. Backwards each rank combines what its children send with
        its own and sends it to its parent, once.
        """
        last = self.end_s
        return Plan.of(
            Transfer(
                last - one.end_s, last - one.begin_s, one.destination, one.source, one.chunks,
                one.links[::-1], True,
            )
            for one in self.transfers
        )  # fmt: skip

    def mirrored(self, ways: Sequence[Sequence[Way | None]]) -> Plan:
        """Return the same plan with every message on the other one's way, source and destination as they are.

        Where each link has a twin the other way, a plan for the machine is so one for the machine backwards.
        """
        return Plan(
            tuple(replace(one, links=_back(ways, one.destination, one.source)) for one in self.transfers)
        )

    def then(self, other: Plan) -> Plan:
        """Return this plan followed by another one."""
        shift = self.end_s
        moved = (
            Transfer(
                shift + one.begin_s, shift + one.end_s, one.source, one.destination, one.chunks, one.links,
                one.is_combined,
            )
            for one in other.transfers
        )  # fmt: skip
        return Plan((*self.transfers, *moved))


def _back(ways: Sequence[Sequence[Way | None]], source: int, destination: int) -> tuple[int, ...]:
    way = ways[source][destination]
    assert way is not None
    return way.links[::-1]
