"""The cost card of a collective: what formulas, LogGP, simulation and measurements say of every algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labkit.errors import DataError
from labkit.machines import platform
from labkit.machines.platform import Platform
from labkit.selector.situation import candidates
from labkit.tuning.cards.card import Card, Costs, measured_points

__all__ = ["Card", "card"]

#: bytes and ranks where none are said
_SIZES = (8, 64, 512, 4096, 32_768, 262_144, 2_097_152)
_MOST_RANKS, _GROWN_RANKS = 64, 16


def card(
    operation: str,
    on: Any = "star",
    p: int | Sequence[int] | None = None,
    bytes: int | Sequence[int] | None = None,
    *,
    algorithms: Sequence[str] | None = None,
    model: Any = None,
    mapping: Any = None,
    measured: Any = None,
) -> Card:
    """Hold everything that is known of a collective's cost against each other, over its bytes or its ranks.

    For each algorithm that can be used: the closed formula of its file, with alpha and beta of this machine
    (an empty message between two hosts, and what each byte of the card's largest size adds); its schedule
    under LogGP, which knows no network between the hosts; and its simulation on the machine itself. Beside
    them a time that no algorithm undercuts, and measurements where some are given. Combining costs nothing,
    as in simulated runs.

    Parameters
    ----------
    operation : str
        Such as ``"allreduce"``.
    on : str or Platform
        A simulated machine.
    p : int or sequence of int, optional
        Ranks; default: as many as the machine holds, 64 at most, 16 on one that grows. Where `bytes` is one
        number: powers of two up to that.
    bytes : int or sequence of int, optional
        The message of a bcast, reduction or scan, one block of the others; default: 8 B to 2 MB. One of `p`
        and `bytes` may be a sequence.
    algorithms : sequence of str, optional
        Such as ``["ring", "pipeline:segment_bytes=8192"]``; default: all of the registry.
    model : str or NetworkModel, optional
        Network model; default: the machine's.
    mapping : str, path or sequence of int, optional
        Hosts of the ranks, as in `labkit.run`.
    measured : Run, Study or DataFrame, optional
        A run with a trace: each call's time from its last rank's begin to its last rank's end. A study over
        ``ranks`` and ``bytes`` (or ``n_bytes``), and maybe ``algorithm``: its phase with the operation's
        name, else the makespan. A table with ranks, bytes, time_s and maybe algorithm.

    Returns
    -------
    Card
        `data`, `winners`, `reading`, `plot()`; a notebook shows its table.

    Raises
    ------
    DataError
        For a collective or algorithm that is not known, two sequences, amounts that are none, or measurements
        that hold no such call.
    PlatformError
        For a machine that is not known, or too small.

    Examples
    --------
    >>> found = card("bcast", "star:8,model=raw", bytes=[8, 10**6], algorithms=["binomial", "linear"])
    >>> found.winners["algorithm"].tolist()
    ['linear', 'binomial']
    """
    names = candidates(operation, algorithms)
    machine = platform(on).mapped(mapping)
    ranks, sizes = _axes(operation, machine, p, bytes)
    for many in ranks:
        machine.rank_hosts(many)  # too small: refused before anything runs
    points = None if measured is None else measured_points(measured, operation, ranks, sizes)
    costs = Costs(operation, machine, model, names, sizes[-1])
    return Card(
        operation,
        machine,
        costs.network.name,
        costs.alpha_s,
        costs.beta_s_per_byte,
        costs.loggp,
        costs.table(ranks, sizes, points),
    )


def _axes(operation: str, machine: Platform, p: Any, n_bytes: Any) -> tuple[list[int], list[int]]:
    """Return ranks and sizes, of which one has one entry."""
    capacity = machine.capacity
    most = _GROWN_RANKS if capacity is None else min(capacity, _MOST_RANKS)
    if operation == "barrier":
        if n_bytes not in (None, 0):
            raise DataError(f"a barrier has no bytes; leave bytes out, got {n_bytes!r}")
        n_bytes = 0
    if p is None:
        p = most
        if isinstance(n_bytes, int):
            p = sorted({2**k for k in range(1, most.bit_length() + 1) if 2**k <= most} | {most})
    if n_bytes is None:
        n_bytes = _SIZES
    if (
        not isinstance(p, int)
        and not isinstance(n_bytes, int)
        and len(list(p)) > 1
        and len(list(n_bytes)) > 1
    ):
        raise DataError(
            "a card goes along the ranks or along the bytes: give one number for the other one, "
            "as in p=16 or bytes=65536"
        )
    return _whole("p", p, 1), _whole("bytes", n_bytes, 0)


def _whole(name: str, value: Any, least: int) -> list[int]:
    values = [value] if isinstance(value, int | float) else list(value)
    if not values or any(
        isinstance(v, bool) or not isinstance(v, int | float) or v != int(v) or v < least for v in values
    ):
        raise DataError(f"{name} must be integers of at least {least}, got {value!r}")
    return sorted({int(v) for v in values})
