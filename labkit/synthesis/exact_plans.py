"""Plans of the exact search: steps, rounds and chunks become messages with times."""

from __future__ import annotations

from collections.abc import Callable

from labkit.errors import ScheduleError
from labkit.schedule import Schedule
from labkit.synthesis.attempts import Attempt
from labkit.synthesis.exact import Point, frontier
from labkit.synthesis.fabric import Fabric
from labkit.synthesis.plan import Plan, Transfer
from labkit.synthesis.programs import schedule_of

__all__ = ["exact_attempts", "searched"]

_BACKWARDS = ("reduce", "reduce_scatter", "reduce_scatter_block")


def searched(fabric: Fabric, problem: str) -> Fabric:
    """Return the machine on which is searched: backwards for a collective that only combines."""
    return fabric.reversed() if problem in _BACKWARDS else fabric


def exact_attempts(
    fabric: Fabric,
    problem: str,
    n_bytes: int,
    root: int,
    chunks: int | None,
    time: Callable[[Schedule], float],
) -> list[Attempt]:
    """Return the schedules of the frontier, simulated.

    Raises
    ------
    ScheduleError
        None was found in time.
    """
    found = []
    most = {"most_chunks": 1 if problem == "reduce_scatter" else 6 if chunks is None else chunks}
    points = list(frontier(searched(fabric, problem), problem, root, **most))
    if chunks is not None:
        points = [point for point in points if point.chunks == chunks] or points
    before = {}
    if problem == "allreduce":
        before = {point.chunks: point for point in frontier(fabric.reversed(), problem, root, **most)}
    for point in points:
        size = n_bytes / point.chunks / (fabric.size if problem == "allreduce" else 1)
        plan = _plan(searched(fabric, problem), point, size)
        if problem in _BACKWARDS:
            plan = plan.reversed()
        elif problem == "allreduce":
            if point.chunks not in before:
                continue
            plan = _plan(fabric.reversed(), before[point.chunks], size).reversed().then(plan)
        parts = point.chunks * (fabric.size if problem == "allreduce" else 1)
        schedule = schedule_of(problem, fabric.size, root, parts, plan)
        found.append(Attempt(f"exact search: {point}", time(schedule), schedule, plan))
    if not found:
        raise ScheduleError(f"no exact schedule of {problem} was found in time; use method='greedy'")
    return found


def _plan(fabric: Fabric, point: Point, chunk_bytes: float) -> Plan:
    """Return the plan of a point: in each step the chunks of a link go one after another."""
    found: list[Transfer] = []
    clock = 0.0
    for step in range(point.steps):
        busy: dict[int, float] = {}
        end = clock
        for _, u, v, chunk in (one for one in point.sends if one[0] == step):
            way = fabric.ways[u][v]
            assert way is not None
            took = max(fabric.message_s(way, chunk_bytes), 1e-12)
            begin = max([clock, *(busy.get(link, 0.0) for link in way.links)])
            for link in way.links:
                busy[link] = begin + took
            found.append(Transfer(begin, begin + took, u, v, (chunk,), way.links))
            end = max(end, begin + took)
        clock = end
    return Plan.of(found)
