"""The best and the worst mapping of ranks to hosts, by the load of the links.

What a mapping costs here is the time of its busiest link: its bytes over its bandwidth. The pattern does not
end before that link has carried all of them, whatever the order of the messages. Latencies and the sharing of
links are left to the simulation, which is to check what is found.

References
----------
S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi: Optimization by simulated annealing. Science 220, 1983,
doi:10.1126/science.220.4598.671.
S. H. Bokhari: On the mapping problem. IEEE Trans. Computers C-30, 1981, doi:10.1109/TC.1981.1675756.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit.errors import DataError
from labkit.html import quantity
from labkit.platform import platform
from labkit.platform.platform import Platform
from labkit.synthesis.fabric import fabric_of

__all__ = ["FoundMapping", "LinkLoads", "search_mapping"]

#: the temperature at the begin and at the end, as shares of the first mapping's cost
_HOT, _COLD = 0.1, 1e-4

#: the search lowers this norm of the links' times: the busiest links count most, and every change is seen
_NORM = 4


class LinkLoads:
    """The links that a pattern of messages loads, for any mapping of its ranks to the hosts of a job.

    Parameters
    ----------
    volume : array_like, shape (p, p)
        Bytes from each rank to each other one.
    on : str or Platform
        Its hosts are those that p ranks get there, in their order.
    """

    def __init__(self, volume: ArrayLike, on: str | Platform) -> None:
        bytes_of = np.asarray(volume, float)
        if bytes_of.ndim != 2 or bytes_of.shape[0] != bytes_of.shape[1] or bytes_of.shape[0] < 2:
            raise DataError(
                f"volume must be a square matrix of two ranks or more, got shape {bytes_of.shape}"
            )
        if not np.isfinite(bytes_of).all() or (bytes_of < 0).any():
            raise DataError("volume must be finite numbers of bytes >= 0")
        self.ranks = len(bytes_of)
        self.machine = platform(on)
        fabric = fabric_of(self.machine.sized(self.ranks), self.ranks, self.machine.model)
        self.hosts = self.machine.rank_hosts(self.ranks)
        longest = max((len(w.links) for row in fabric.ways for w in row if w is not None), default=0)
        none = len(fabric.capacity)  # a link that is none
        self._routes = np.full((self.ranks, self.ranks, max(longest, 1)), none)
        for u, row in enumerate(fabric.ways):
            for v, way in enumerate(row):
                if way is not None:
                    self._routes[u, v, : len(way.links)] = way.links
        self._seconds_per_byte = np.append(1 / np.array(fabric.capacity), 0.0)
        self._from, self._to = np.nonzero(bytes_of * (1 - np.eye(self.ranks)))
        self._bytes = np.repeat(bytes_of[self._from, self._to], self._routes.shape[2])

    def seconds(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return how long each link is busy where rank r is at the place of rank ``places[r]``."""
        links = self._routes[places[self._from], places[self._to]].ravel()
        loads = np.bincount(links, self._bytes, len(self._seconds_per_byte))
        busy: NDArray[np.float64] = loads * self._seconds_per_byte
        return busy

    def busiest_s(self, places: NDArray[np.intp]) -> float:
        """Return how long the busiest link is busy."""
        return float(self.seconds(places).max())


@dataclass(frozen=True)
class FoundMapping:
    """What a search has found.

    Attributes
    ----------
    hosts : list of int
        The host of each rank: ``lk.run(..., on=machine, mapping=found.hosts)``.
    busiest_s : float
        How long the busiest link is busy.
    default_s : float
        The same with the ranks in their order.
    is_worst : bool
        Whether the worst mapping was looked for.
    """

    hosts: list[int]
    busiest_s: float
    default_s: float
    is_worst: bool

    def __str__(self) -> str:
        what = "worst" if self.is_worst else "best"
        there, here = quantity(self.busiest_s, "s"), quantity(self.default_s, "s")
        return (
            f"{what} mapping found: the busiest link is busy for {there}; with the ranks in order for {here}"
        )


def search_mapping(
    volume: ArrayLike, on: str | Platform, *, worst: bool = False, steps: int = 20_000, seed: int = 0
) -> FoundMapping:
    """Search the mapping whose busiest link is busy for the shortest time, or the longest.

    Simulated annealing: two ranks change places; a worse mapping is kept with a probability that falls with
    the temperature. The best that was seen is returned; it is never worse than the ranks in their order.

    Parameters
    ----------
    volume : array_like, shape (p, p)
        Bytes from each rank to each other one.
    on : str or Platform
    worst : bool
        Search the longest time instead.
    steps : int
        Changes tried; 0 returns the ranks in their order.
    seed : int
        Of the random changes: the same seed finds the same mapping.

    Returns
    -------
    FoundMapping

    Raises
    ------
    DataError
        If the volume is no square matrix of bytes.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(16), 5, axis=1) * 1e6  # rank r sends to rank r + 5
    >>> found = search_mapping(ring, "torus:4x4", steps=3000)
    >>> found.busiest_s < found.default_s
    True
    """
    if steps < 0:
        raise DataError(f"steps must be 0 or more, got {steps}")
    loads = LinkLoads(volume, on)
    places = np.arange(loads.ranks)
    default_s = loads.busiest_s(places)
    rng = np.random.default_rng(seed)
    sign = -1.0 if worst else 1.0

    def cost(at: NDArray[np.intp]) -> tuple[float, float]:
        busy = loads.seconds(at)
        return sign * float((busy**_NORM).mean() ** (1 / _NORM)), float(busy.max())

    now, longest = cost(places)
    best, best_s = places.copy(), longest
    hot = _HOT * max(abs(now), np.finfo(float).tiny)
    for step in range(steps):
        temperature: Any = hot * (_COLD / _HOT) ** (step / steps)
        a, b = rng.integers(0, loads.ranks, 2)
        places[[a, b]] = places[[b, a]]
        then, longest = cost(places)
        if then <= now or rng.random() < np.exp((now - then) / temperature):
            now = then
            if sign * longest < sign * best_s:
                best, best_s = places.copy(), longest
        else:
            places[[a, b]] = places[[b, a]]
    return FoundMapping([int(loads.hosts[i]) for i in best], best_s, default_s, worst)
