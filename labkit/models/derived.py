"""Models derived from a machine: of its messages, and of every registered collective.

References
----------
T. Hoefler, W. Gropp, R. Thakur, J. L. Träff: Toward performance models of MPI implementations for
understanding application scaling issues. EuroMPI 2010, doi:10.1007/978-3-642-15646-5_3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
import sympy

from labkit import registry
from labkit.errors import DataError
from labkit.models.hierarchy import CommunicationModel, P, S, bounded, exact
from labkit.platform import platform
from labkit.platform.models import NetworkModel
from labkit.platform.platform import Platform
from labkit.platform.topologies.torus import TorusSpec
from labkit.synthesis.fabric import CROSS, Fabric, affine, fabric_of

__all__ = ["closed_form", "collective", "congestion", "message"]

#: the terms that a closed form is made of, at most three of them
_BASIS: tuple[sympy.Expr, ...] = (
    sympy.Integer(1), P, sympy.log(P, 2), 1 / P, P * sympy.log(P, 2), sympy.sqrt(P), 1 / sympy.sqrt(P),
    sympy.log(P, 2) / P, P**2, sympy.log(P, 2) ** 2, sympy.cbrt(P), P ** sympy.Rational(-1, 3),
    P ** sympy.Rational(2, 3),
)  # fmt: skip
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
    another, with the congestion of the worst pattern.

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
    rounds, volume = closed_form(operation, algorithm)
    lines = [line for _, line in _lines(fabric)]
    start = max(base for base, _ in lines)
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
    return bounded(lower, upper, f"{operation}/{algorithm} on {machine.name or machine.spec}")


def _ports(machine: Platform) -> int:
    """Return over how many links a host can send at once."""
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
        raise DataError(f"{operation}/{algorithm} {what}; derive a model of another algorithm")
    ranks = [p for p in _RANKS if found.requirements.unmet(p, True) is None]
    size = 2**30
    costs = [found.cost(p, size) for p in ranks]
    rounds = _closed([cost.rounds for cost in costs], ranks)
    volume = _closed([cost.volume_bytes / size for cost in costs], ranks)
    if rounds is None or volume is None:
        what = "messages" if rounds is None else "bytes"
        raise DataError(
            f"the cost of {operation}/{algorithm} has no closed form: its {what} one after another"
        )
    return rounds, volume


def _closed(values: Sequence[float], ranks: Sequence[int]) -> sympy.Expr | None:
    """Return the shortest sum of terms with these values."""
    wanted = np.array(values, float)
    if len(ranks) < 3:
        return None
    if not wanted.any():
        return sympy.Integer(0)
    columns = np.array([[float(term.subs(P, p)) for p in ranks] for term in _BASIS])
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
        raise DataError("there is no way from the first host to the second one")
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
