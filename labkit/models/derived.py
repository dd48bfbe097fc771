"""Models derived from a machine: of its messages, of every registered collective, and of mappings.

References
----------
T. Hoefler, W. Gropp, R. Thakur, J. L. Träff: Toward performance models of MPI implementations for
understanding application scaling issues. EuroMPI 2010, doi:10.1007/978-3-642-15646-5_3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray

from labkit import registry
from labkit.errors import DataError
from labkit.machines import platform
from labkit.machines.models import NetworkModel
from labkit.machines.platform import Platform
from labkit.machines.topologies.torus import TorusSpec
from labkit.models.hierarchy import CommunicationModel, P, S, bounded, exact
from labkit.synthesis.fabric import CROSS, Fabric, affine, fabric_of
from labkit.text.html import quantity

__all__ = [
    "FoundMapping",
    "LinkLoads",
    "closed_form",
    "collective",
    "congestion",
    "message",
    "search_mapping",
]


#: the terms that a closed form is made of, at most three of them
_BASIS: tuple[sympy.Expr, ...] = (
    sympy.Integer(1),
    P,
    sympy.log(P, 2),
    1 / P,
    P * sympy.log(P, 2),
    sympy.sqrt(P),
    1 / sympy.sqrt(P),
    sympy.log(P, 2) / P,
    P**2,
    sympy.log(P, 2) ** 2,
    sympy.cbrt(P),
    P ** sympy.Rational(-1, 3),
    P ** sympy.Rational(2, 3),
)
_MOST_TERMS = 3

#: ranks at which a closed form is found, and at which it must hold
_RANKS = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)

#: longer messages follow the last protocol of every model
_LONGEST = 2**40


def message(
    on: str | Platform, model: str | NetworkModel | None = None, congested: bool = False
) -> CommunicationModel:
    """Return the model of a blocking message between two neighboring hosts.

    Parameters
    ----------
    on : str or Platform
    model : str or NetworkModel, optional
        The machine's own by default.
    congested : bool
        With the congestion of the worst pattern of messages, as an upper bound (`congestion`).

    Returns
    -------
    CommunicationModel
        Exact and piecewise in S, as the machine's protocols are; with congestion bounded.

    Examples
    --------
    >>> from labkit import models
    >>> print(models.message("jugene"))
    T = 4.5 µs + 2.67 ns S for S < 256; 5.7 µs + 2.67 ns S for S < 1025; 9.8 µs + 2.67 ns S otherwise
    """
    machine = platform(on)
    lines = _lines(_pair(machine, model))
    title = f"a message on {machine.name or machine.spec}"
    alone = [(where, base + slope * S) for where, (base, slope) in lines]
    if not congested:
        return exact(alone, title)
    factor = congestion(machine)
    return bounded(alone, [(where, base + slope * S * factor) for where, (base, slope) in lines], title)


def congestion(on: str | Platform) -> sympy.Expr:
    """Return how many times as long the bytes of a message take at the worst pattern of messages.

    On a torus: every node sends along all its links to the nodes farthest away, by ideal adaptive routing;
    with n dimensions of k nodes that is n k / 2, and 3/2 times the cube root of P on a cube (equation 2 of
    the paper).
    Elsewhere: all messages cross the narrowest cut between two halves of the hosts.

    Parameters
    ----------
    on : str or Platform

    Returns
    -------
    sympy.Expr
        In P where the machine grows with the ranks, else a number of at least 1.
    """
    machine = platform(on)
    description = machine.description
    if isinstance(description, TorusSpec):
        if description.sizes is None or description.shape is not None:
            n = 3 if description.sizes is None else len(description.sizes)
            return sympy.Rational(n, 2) * P ** sympy.Rational(1, n)
        return sympy.Max(1, sum((sympy.Rational(k, 2) for k in description.sizes if k > 1), sympy.Integer(0)))
    bisection = machine.bisection
    if bisection is None or machine.hosts is None:
        return sympy.Integer(1)
    fabric = _pair(machine, None)
    way = fabric.ways[0][1]
    if way is None:
        return sympy.Integer(1)
    return sympy.Max(1, sympy.Float(machine.hosts / 2 * way.bytes_per_s / bisection.bytes_per_s))


def collective(
    operation: str, algorithm: str, on: str | Platform, model: str | NetworkModel | None = None
) -> CommunicationModel:
    """Return bounds of a registered collective on a machine, for P a power of two, a rank a host.

    S is what the collective's schedules call its bytes: the message of a broadcast, a reduction or a scan,
    one block of the others. Below: the processor's overheads of messages that follow one another, or their
    bytes at the full bandwidth of all links of a host, whichever is more. Above: their full times one after
    another, between the hosts farthest apart and with the congestion of the worst pattern. What the machine
    carries out on a network for collectives is exact.

    Parameters
    ----------
    operation, algorithm : str
        As in ``labkit.algorithms``.
    on : str or Platform
    model : str or NetworkModel, optional

    Returns
    -------
    CommunicationModel

    Raises
    ------
    DataError
        If the algorithm states no cost, or one without a closed form in P.
    """
    machine = platform(on)
    fabric = _pair(machine, model)
    title = f"{operation}/{algorithm} on {machine.name or machine.spec}"
    own_network = {row[0]: row[1:] for row in fabric.model.collective_network}
    if algorithm == "collective_network" and operation in own_network:
        least, base, stage, per_byte = own_network[operation]
        return exact(sympy.Max(least, base + stage * sympy.log(P, 2)) + per_byte * S, title)
    rounds, volume = closed_form(operation, algorithm)
    lines = [line for _, line in _lines(fabric)]
    start = max(base for base, _ in lines) + _detour_s(fabric) * (_distance(machine, fabric) - 1)
    back = CROSS if fabric.model.cross_traffic else 1.0  # what travels back with messages the other way
    slope_most = max(slope for _, slope in lines) * back
    slope_least = min(slope for _, slope in lines) / back / _ports(machine)
    # what a message costs at least somebody: a processor at one of its ends, or, with a handshake, a link
    handshake = fabric.model.detached_below_bytes
    starts = [0, *(n for n in fabric.turning_points(handshake) if n < handshake)]
    overheads = [
        min(affine(fabric.model.send_overhead, n), fabric.send_s(n), fabric.receive_s(n)) for n in starts
    ]
    overhead = min([*overheads, handshake * slope_least] if handshake else [0.0])
    lower = sympy.Max(overhead * rounds, slope_least * S * volume)
    upper = start * rounds + slope_most * S * volume * congestion(machine)
    return replace(bounded(lower, upper, title), is_of_hosts=True)


def _detour_s(fabric: Fabric) -> float:
    """Return how much longer a message takes at most over a way of twice the latency of the neighbors'."""
    way = fabric.ways[0][1]
    assert way is not None
    longer = replace(way, latency_s=2 * way.latency_s)
    starts = [0, *(int(n) for n in fabric.turning_points(_LONGEST))]
    return max(fabric.travel_s(longer, n)[0] - fabric.travel_s(way, n)[0] for n in starts)


def _distance(machine: Platform, fabric: Fabric) -> sympy.Expr:
    """Return the latency between the hosts farthest apart, by that of neighbors; in P where it grows."""
    description, way = machine.description, fabric.ways[0][1]
    if isinstance(description, TorusSpec):
        if description.sizes is None or description.shape is not None:
            # sides of 2^a and 2^(a + 1) add up to at most 1.06 times those of a cube
            n = 3 if description.sizes is None else len(description.sizes)
            return sympy.Max(1, sympy.Rational(53, 50) * sympy.Rational(n, 2) * P ** sympy.Rational(1, n))
        return sympy.Integer(max(1, sum(k // 2 for k in description.sizes)))
    if machine.hosts is None or way is None or not way.latency_s:
        return sympy.Integer(1)
    built = machine.build(1)
    farthest = max(float(built.route(0, host)[1]) for host in range(1, built.host_count))
    return sympy.Float(max(1.0, farthest / way.latency_s))


def _ports(machine: Platform) -> int:
    """Return over how many links a host can send concurrently."""
    description = machine.description
    if not isinstance(description, TorusSpec):
        return 1
    if description.sizes is None:
        return 6
    return sum(min(k - 1, 2) for k in description.sizes)


def closed_form(operation: str, algorithm: str) -> tuple[sympy.Expr, sympy.Expr]:
    """Return an algorithm's messages one after another, and its bytes one after another per byte, in P.

    Found as the shortest sum of terms that equals the algorithm's stated cost at all powers of two from 4 to
    4096 that it works for.

    Examples
    --------
    >>> closed_form("allreduce", "ring")
    (2*P - 2, 2 - 2/P)
    """
    found = registry.get(operation, algorithm)
    if found.cost is None or found.schedule is None:
        what = "states no cost" if found.schedule is not None else "is a program, not a schedule"
        raise DataError(
            f"{operation}/{algorithm} {what}; derive a model of another algorithm", code="unsupported"
        )
    ranks = tuple(p for p in _RANKS if found.requirements.unmet(p, True) is None)
    size = 2**30
    costs = [found.cost(p, size) for p in ranks]
    rounds = _closed(tuple(cost.rounds for cost in costs), ranks)
    volume = _closed(tuple(cost.volume_bytes / size for cost in costs), ranks)
    if rounds is None or volume is None:
        what = "messages" if rounds is None else "bytes"
        raise DataError(
            f"the cost of {operation}/{algorithm} has no closed form: its {what} one after another",
            code="unsupported",
        )
    return rounds, volume


@cache
def _closed(values: tuple[float, ...], ranks: tuple[int, ...]) -> sympy.Expr | None:
    """Return the shortest sum of terms with these values."""
    wanted = np.array(values, float)
    if len(ranks) < 3:
        return None
    if not wanted.any():
        return sympy.Integer(0)
    columns = _columns(ranks)
    for terms in range(1, min(_MOST_TERMS, len(ranks) - 2) + 1):
        for chosen in combinations(range(len(_BASIS)), terms):
            table = columns[list(chosen)].T / wanted[:, None]
            found, *_ = np.linalg.lstsq(table, np.ones(len(ranks)), rcond=None)
            near = [Fraction(float(c)).limit_denominator(1000) for c in found]
            if np.abs(table @ np.array(near, float) - 1).max() < 1e-9:
                exactly = [sympy.Rational(c) for c in near]
                terms_of = zip(exactly, (_BASIS[i] for i in chosen), strict=True)
                return sum((c * term for c, term in terms_of), sympy.Integer(0))
    return None


@cache
def _columns(ranks: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the values of all terms, a row each."""
    return np.array([[float(term.subs(P, p)) for p in ranks] for term in _BASIS])


def _pair(machine: Platform, model: str | NetworkModel | None) -> Fabric:
    """Return two neighboring hosts."""
    network = machine.network(model)
    alone = machine.mapped("block:1") if machine.capacity is None or machine.capacity > 1 else machine
    return fabric_of(alone.allocated(2).sized(2), 2, network)


def _lines(fabric: Fabric) -> list[tuple[object, tuple[float, float]]]:
    """Return a message's start-up and seconds per byte in every range of lengths, with its condition."""
    starts = [0, *(int(n) for n in fabric.turning_points(_LONGEST))]
    found: list[tuple[int, tuple[float, float]]] = []
    for begin, end in zip(reversed(starts), [2 * _LONGEST, *reversed(starts[1:])], strict=True):
        near, far = _blocking_s(fabric, begin), _blocking_s(fabric, end - 1)
        if found and all(
            math.isclose(found[-1][1][0] + found[-1][1][1] * n, s, rel_tol=1e-9)
            for n, s in ((begin, near), (end - 1, far))
        ):
            found[-1] = (begin, found[-1][1])  # the same line, from here on
            continue
        slope = (far - near) / (end - 1 - begin) if end - 1 > begin else 0.0
        found.append((begin, (near - slope * begin, slope)))
    found.reverse()
    ends = [begin for begin, _ in found[1:]]
    wheres: list[object] = [end > S for end in ends] + [True]
    return [(where, line) for where, (_, line) in zip(wheres, found, strict=True)]


def _blocking_s(fabric: Fabric, n_bytes: int) -> float:
    """Return what a blocking message takes from the call of Send to the end of Recv."""
    way = fabric.ways[0][1]
    if way is None:
        raise DataError("there is no way from the first host to the second one", code="unsupported")
    back, model = fabric.ways[1][0], fabric.model
    latency_s, transfer_s = fabric.travel_s(way, n_bytes)
    if model.cross_traffic and model.sharing != "delay":
        shared = set() if back is None else set(back.links)  # on other links, what travels back costs nothing
        narrowest = min(
            (fabric.capacity[i] / (CROSS if i in shared else 1) for i in way.links), default=math.inf
        )
        rate = fabric.rate(way)
        transfer_s *= rate / CROSS / min(rate, narrowest)
    sent_s = affine(model.send_overhead, n_bytes) if n_bytes < model.detached_below_bytes else 0.0
    return sent_s + latency_s + transfer_s + fabric.receive_s(n_bytes)


# The best and the worst mapping of ranks to hosts, by the load of the links.
#
# A mapping costs the time of its busiest link: its bytes over its bandwidth. The pattern does not end before
# that link has carried all of them, whatever the order of the messages. The simulation checks the result with
# latencies and shared links.
#
# S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi: Optimization by simulated annealing. Science 220, 1983,
# doi:10.1126/science.220.4598.671.
# S. H. Bokhari: On the mapping problem. IEEE Trans. Computers C-30, 1981, doi:10.1109/TC.1981.1675756.


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
                f"volume must be a square matrix of two ranks or more, got shape {bytes_of.shape}",
                code="count-mismatch",
            )
        if not np.isfinite(bytes_of).all() or (bytes_of < 0).any():
            raise DataError("volume must be finite numbers of bytes >= 0", code="not-finite")
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
        raise DataError(f"steps must be 0 or more, got {steps}", code="out-of-range")
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
