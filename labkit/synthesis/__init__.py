"""Collectives made for a machine: synthesis, lower bounds, and what they export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labkit.errors import ScheduleError, nearest
from labkit.machines import models
from labkit.machines.platform import Platform, platform
from labkit.schedule import PROBLEMS, Schedule, prove
from labkit.sim.schedules import simulate
from labkit.synthesis.attempts import SynthesisTask, search
from labkit.synthesis.bounds import LowerBound, lower_bound
from labkit.synthesis.exact import FrontierPoint, check_size, exact_attempts, frontier, searched
from labkit.synthesis.fabric import fabric_of
from labkit.synthesis.synthesized import Synthesized, of_attempt

__all__ = [
    "COLLECTIVES",
    "FrontierPoint",
    "LowerBound",
    "Synthesized",
    "exact_points",
    "lower_bound_on",
    "synthesize",
]

#: what can be synthesized
COLLECTIVES = (
    "allgather",
    "allreduce",
    "alltoall",
    "bcast",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_block",
)
#: a simulated time so near to the lower bound ends the search
_GOOD = 1.002


def synthesize(
    problem: str,
    on: object = "star:8",
    *,
    n_bytes: int = 1 << 20,
    ranks: int | Sequence[int] | None = None,
    root: int = 0,
    chunks: int | None = None,
    model: object = None,
    seed: int = 0,
    method: str = "greedy",
) -> Synthesized:
    """Make a schedule of a collective for one machine, whatever its links: irregular, uneven or cut ones too.

    Chunks are spread over the machine by a greedy matching in time (as TACOS does), with several cuts and
    windows; each plan is simulated and the fastest is taken. A reduction is an allgather or broadcast
    backwards.

    Parameters
    ----------
    problem : str
        One of `COLLECTIVES`.
    on : str or Platform
        The machine.
    n_bytes : int
        The message of a bcast or reduction; one block of the others.
    ranks : int or sequence of int, optional
        How many take part, or which of the machine's ranks; default: all that it holds.
    root : int
        Of a bcast or reduce, by its place among `ranks`.
    chunks : int, optional
        Into how many chunks a message (of an allreduce: each rank's share of it) or block is cut; default:
        several are tried.
    model : str or NetworkModel, optional
        Network model; default: the platform's.
    seed : int
        Another seed draws other plans.
    method : str
        ``"greedy"``, or for up to 8 ranks ``"exact"``: schedules in steps, from the fewest steps to the least
        bandwidth (as SCCL does), of which the one that is simulated the fastest is taken; see `exact_points`.

    Returns
    -------
    Synthesized
        `schedule`, `time_s`, `bound`, `ratio`, `explain()`, `execute(comm, ...)`, `msccl(path)`,
        `goal(path)`.

    Raises
    ------
    ScheduleError
        A collective that cannot be synthesized, or amounts that are none.
    PlatformError
        A machine that is unknown, too small or not connected.

    Notes
    -----
    The operator of a reduction must commute: operands come in the order in which the machine brings them.

    Examples
    --------
    >>> made = synthesize("allgather", "torus:2x2,model=raw", n_bytes=10**6)
    >>> bool(made.proof), made.ratio < 1.25
    (True, True)
    """
    if method not in ("greedy", "exact"):
        raise ScheduleError(f"method must be 'greedy' or 'exact', got {method!r}", code="unknown-name")
    members, machine, network = _members(problem, on, n_bytes, ranks, root, chunks, model)
    if method == "exact":
        check_size(len(members))
    fabric = fabric_of(machine, len(members), network)
    bound = lower_bound(fabric, problem, n_bytes, root)

    def time(schedule: Schedule) -> float:
        return simulate(schedule, machine, network, n_bytes=n_bytes, symmetry=False).makespan_s

    if method == "exact" and len(members) > 1:
        tried = exact_attempts(fabric, problem, n_bytes, root, chunks, time)
    else:
        task = SynthesisTask(problem, fabric, n_bytes, root, chunks, seed)
        tried = search(task, time, bound.seconds * _GOOD)
    best = min(tried, key=lambda one: one.time_s)
    return of_attempt(
        best,
        tried,
        platform=machine,
        ranks=members,
        model=network,
        n_bytes=n_bytes,
        proof=prove(best.schedule),
        bound=bound,
    )


def exact_points(
    problem: str,
    on: object = "star:4",
    *,
    ranks: int | Sequence[int] | None = None,
    root: int = 0,
    most_chunks: int = 6,
) -> list[FrontierPoint]:
    """Return the frontier between latency and bandwidth: which chunks, steps and rounds are possible.

    Of an allreduce it is that of its second half, the allgather; the first half is the same backwards.

    `problem`, `on`, `ranks`, `root`: As in `synthesize`; at most 8 ranks.
    `most_chunks`: Chunks of a block, or of bcast's message, at most.

    Examples
    --------
    >>> ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    >>> for point in exact_points("allgather", ring):
    ...     print(point)
    2 chunks, 2 steps, 3 rounds; fewest steps; least bandwidth
    """
    members, machine, network = _members(problem, on, 0, ranks, root, None, "raw")
    check_size(len(members))
    fabric = fabric_of(machine, len(members), network)
    return list(frontier(searched(fabric, problem), problem, root, most_chunks=most_chunks))


def lower_bound_on(
    problem: str,
    on: object = "star:8",
    *,
    n_bytes: int = 1 << 20,
    ranks: int | Sequence[int] | None = None,
    root: int = 0,
    model: object = None,
) -> LowerBound:
    """Return what no schedule of any collective undercuts on a machine; parameters as in `synthesize`."""
    members, machine, network = _members(problem, on, n_bytes, ranks, root, None, model, tuple(PROBLEMS))
    return lower_bound(fabric_of(machine, len(members), network), problem, n_bytes, root)


def _members(
    problem: str,
    on: object,
    n_bytes: int,
    ranks: int | Sequence[int] | None,
    root: int,
    chunks: int | None,
    model: object,
    allowed: tuple[str, ...] = COLLECTIVES,
) -> tuple[tuple[int, ...], Platform, models.NetworkModel]:
    """Check what is asked for; return the ranks, the machine with them on it, and the network model."""
    if problem not in allowed:
        if allowed is not COLLECTIVES:
            hint = nearest(str(problem), allowed)
            raise ScheduleError(
                f"unknown collective {problem!r}{hint}; known: {', '.join(allowed)}", code="unknown-name"
            )
        is_other = problem in PROBLEMS
        hint = "" if is_other else nearest(str(problem), allowed)
        known = " It is a collective, but not one of these." if is_other else ""
        what = f"{problem!r} cannot be synthesized{hint}"
        raise ScheduleError(f"{what}; what can: {', '.join(COLLECTIVES)}.{known}")
    whole = {"n_bytes": (n_bytes, 0), "root": (root, 0)} | ({} if chunks is None else {"chunks": (chunks, 1)})
    for name, (value, least) in whole.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ScheduleError(
                f"{name} must be an integer of at least {least}, got {value!r}", code="out-of-range"
            )
    if problem == "reduce_scatter" and chunks not in (None, 1):
        raise ScheduleError(
            "reduce_scatter has blocks of any sizes, which are not cut; leave chunks out, or use "
            "reduce_scatter_block",
            code="conflicting-options",
        )
    machine = platform(on)
    network = machine.network(model)
    if ranks is None:
        if machine.capacity is None:
            raise ScheduleError(
                f"{machine.name} grows with the ranks: say how many, as in ranks=16", code="ranks-required"
            )
        ranks = machine.capacity
    if isinstance(ranks, int) and not isinstance(ranks, bool):
        hosts = machine.rank_hosts(ranks)  # refuses what does not fit
        members = tuple(range(ranks))
        placed = machine.sized(ranks)
    else:
        members = _chosen(ranks)
        most = machine.capacity if machine.capacity is not None else max(members) + 1
        if max(members) >= most:
            raise ScheduleError(
                f"{machine.name} holds ranks 0 to {most - 1}; got rank {max(members)}", code="too-many-ranks"
            )
        hosts = machine.rank_hosts(most)[list(members)]
        placed = machine.sized(most).mapped([int(host) for host in hosts])
    if not 0 <= root < len(members):
        raise ScheduleError(
            f"root {root} is not one of the ranks 0 to {len(members) - 1}", code="out-of-range"
        )
    return members, placed, network


def _chosen(ranks: Any) -> tuple[int, ...]:
    try:
        members = tuple(ranks)
    except TypeError:
        raise ScheduleError(
            f"ranks must be a number or a list of ranks, got {ranks!r}", code="wrong-type"
        ) from None
    if not members or any(isinstance(r, bool) or not isinstance(r, int) or r < 0 for r in members):
        raise ScheduleError(
            f"ranks must be a number of at least 1 or a list of ranks >= 0, got {ranks!r}",
            code="out-of-range",
        )
    if len(set(members)) < len(members):
        raise ScheduleError(f"ranks must be distinct, got {ranks!r}", code="duplicate-name")
    return members
