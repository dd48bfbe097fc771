"""The choices of one simulated machine: selectors learn its nodes, and how long algorithms take there."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit import registry
from labkit.platform.platform import Platform
from labkit.selector import Choices, Selector, Situation, selector_of
from labkit.selector.situation import settled
from labkit.sim.schedules import simulate

__all__ = ["choices_on", "node_of", "time_alone"]


def choices_on(machine: Platform, ranks: int, model: Any = None, coll: Any = None) -> Choices:
    """Return the choices of a run."""
    node, network = node_of(machine.rank_hosts(ranks)), machine.network(model)
    selector = coll if isinstance(coll, Selector) else selector_of(coll)
    return Choices(
        selector.on(partial(time_alone, machine, model, node)),
        machine.spec,
        node,
        network.copied_below_bytes,
        [row[0] for row in network.collective_network],
        ranks,
    )


def time_alone(machine: Platform, model: Any, node: int, at: Situation, name: str) -> float:
    """Simulate one call, all ranks entering together; seconds until the last one has left."""
    schedule = registry.get(at.operation, settled(at, name, node)).build(at.ranks)
    return simulate(schedule, machine, model, n_bytes=int(at.n_bytes)).makespan_s


def node_of(hosts: NDArray[np.int32]) -> int:
    """Return how many consecutive ranks share a host, 1 where that differs from host to host.

    Parameters
    ----------
    hosts : ndarray of int, shape (ranks,)
        The host of each rank.

    Examples
    --------
    >>> node_of(np.array([0, 0, 1, 1, 2])), node_of(np.array([0, 1, 0, 1]))
    (2, 1)
    """
    changes = np.flatnonzero(np.diff(hosts)) + 1
    if not changes.size:
        return len(hosts)
    node = int(changes[0])
    is_regular = np.array_equal(changes, np.arange(node, len(hosts), node))
    return node if is_regular and np.count_nonzero(np.bincount(hosts)) == changes.size + 1 else 1
