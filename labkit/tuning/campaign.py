"""A campaign: every algorithm of a collective that can be used, at every number of ranks and size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from labkit import registry
from labkit.machines import platform
from labkit.selector import Situation
from labkit.selector.situation import without_bytes
from labkit.sim.schedules import node_of, time_alone

__all__ = ["COLUMNS", "Machine", "measure"]

COLUMNS = ["operation", "ranks", "bytes", "algorithm", "time_s"]


class Machine:
    """A simulated machine that algorithms are timed on, alone.

    `model`: Network model.
    `mapping`: Hosts of the ranks, as in `labkit.run`.
    """

    how = "tuned by simulation"

    def __init__(self, on: Any, model: Any = None, mapping: Any = None) -> None:
        self.platform = platform(on).mapped(mapping)
        self.model = model
        self.network = self.platform.network(model)

    @property
    def name(self) -> str:
        """What sentences call it."""
        return self.platform.spec

    def node(self, ranks: int) -> int:
        """Return how many consecutive ranks share a host."""
        return node_of(self.platform.rank_hosts(ranks))

    def situation(self, operation: str, ranks: int, n_bytes: int) -> Situation:
        """Return what a choice may depend on here."""
        return Situation(
            *(operation, ranks, n_bytes),
            machine=self.platform.spec,
            ranks_per_node=self.node(ranks),
            copied_below_bytes=self.network.copied_below_bytes,
            on_collective_network=self.has_network_for(operation),
        )

    def has_network_for(self, operation: str) -> bool:
        """Say whether the machine has its own network for an operation."""
        return operation in {row[0] for row in self.network.collective_network}

    def time(self, at: Situation, name: str) -> float:
        """Simulate one call, all ranks entering together; seconds until the last one has left."""
        return time_alone(self.platform, self.model, self.node(at.ranks), at, name)


def measure(
    machine: Machine,
    operation: str,
    points: Sequence[tuple[int, int]],
    names: Sequence[str],
    tick: Any = None,
) -> pd.DataFrame:
    """Time every algorithm at every point where it can be used.

    `points`: Ranks and bytes: the message of a bcast, reduction or scan, one block of the others.
    `tick`: Called after every point.
    Returns: A row for each measurement, with the columns of `COLUMNS`.
    """
    rows = []
    for ranks, n_bytes in points:
        at = machine.situation(operation, ranks, n_bytes)
        for name in names:
            algorithm = registry.get(operation, without_bytes(operation, name))
            if not algorithm.requirements.unmet(ranks, True):
                rows.append((operation, ranks, n_bytes, name, machine.time(at, name)))
        if tick is not None:
            tick()
    return pd.DataFrame(rows, columns=COLUMNS)
