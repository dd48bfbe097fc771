"""Exact search for few ranks: whether a schedule with given numbers of steps, rounds and chunks exists.

Time goes in steps. A step lasts one or more rounds; in a round a link of unit bandwidth carries one chunk.
For given numbers of steps S, rounds R and chunks C the question is a linear program in whole numbers, which
HiGHS answers. The least S is the one with the least latency; the least R / C takes the least bandwidth.

Reference: Z. Cai, Z. Liu, S. Maleki, M. Musuvathi, T. Mytkowicz, J. Nelson, O. Saarikivi: Synthesizing
optimal collective algorithms. PPoPP 2021, doi:10.1145/3437801.3441620.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from labkit.errors import ScheduleError
from labkit.schedule import Schedule
from labkit.synthesis.attempts import Attempt
from labkit.synthesis.bounds import lower_bound
from labkit.synthesis.fabric import Fabric
from labkit.synthesis.programs import Transfer, TransferPlan, schedule_of

__all__ = ["MOST_RANKS", "FrontierPoint", "check_size", "exact_attempts", "frontier", "searched", "solve"]


Renaming = tuple[int, ...]


def regular_group(fabric: Fabric) -> list[Renaming]:
    """Return renamings, a group of which exactly one takes rank 0 to each rank; else the trivial one.

    Schedules that look the same from every rank are found among far fewer.
    """
    p = fabric.size
    found = [one for one in _renamings(fabric) if all(one[i] != i for i in range(p))]
    alone: list[Renaming] = [tuple(range(p))]
    for count in (1, 2, 3):
        for generators in product(found, repeat=count):
            group = _closure(generators, p)
            if group is not None and len(group) == p and len({one[0] for one in group}) == p:
                return sorted(group)
        if len(found) ** (count + 1) > 200_000:
            break
    return alone


def _closure(generators: tuple[Renaming, ...], p: int) -> set[Renaming] | None:
    group = {tuple(range(p))}
    frontier = list(group)
    while frontier:
        one = frontier.pop()
        for g in generators:
            other = tuple(g[i] for i in one)
            if other not in group:
                if len(group) == p:
                    return None
                group.add(other)
                frontier.append(other)
    return group


def _renamings(fabric: Fabric) -> list[Renaming]:
    """Return all renamings that keep direct neighbors, bandwidths, and which ways share a link."""
    p = fabric.size
    kind = [[_kind(fabric, u, v) for v in range(p)] for u in range(p)]
    found: list[Renaming] = []

    def extend(images: list[int]) -> None:
        u = len(images)
        if u == p:
            found.append(tuple(images))
            return
        for image in range(p):
            if image in images:
                continue
            if all(
                kind[u][v] == kind[image][images[v]] and kind[v][u] == kind[images[v]][image]
                for v in range(u)
            ):
                extend([*images, image])

    extend([])
    return found


def _kind(fabric: Fabric, u: int, v: int) -> tuple[float, int, bool]:
    way = fabric.ways[u][v]
    if way is None or u == v:
        return (0.0, 0, False)
    return (way.bytes_per_s, len(way.links), v in fabric.beside[u])


#: the search grows with all of these
MOST_RANKS = 8
_SECONDS = 20.0
#: status of an answer of HiGHS
_OUT_OF_TIME = 1


@dataclass(frozen=True)
class FrontierPoint:
    """A schedule of the frontier between latency and bandwidth.

    `chunks`, `steps`, `rounds`: C, S and R.
    `is_least_steps`, `is_least_bandwidth`: Whether S and R / C are the least that any schedule in steps has.
    `sends`: Step, source, destination and chunk.
    """

    chunks: int
    steps: int
    rounds: int
    is_least_steps: bool
    is_least_bandwidth: bool
    sends: tuple[tuple[int, int, int, int], ...]

    def __str__(self) -> str:
        words = [
            f"{self.chunks} chunk{'s' if self.chunks > 1 else ''}, {self.steps} steps, {self.rounds} rounds"
        ]
        words += ["fewest steps"] * self.is_least_steps + ["least bandwidth"] * self.is_least_bandwidth
        return "; ".join(words)


def check_size(ranks: int) -> None:
    """Refuse more ranks than the exact search is for."""
    if ranks > MOST_RANKS:
        raise ScheduleError(
            f"the exact search handles at most {MOST_RANKS} ranks, got {ranks}; use method='greedy'",
            code="too-many-ranks",
        )


class _Case:
    """What is asked: where chunks are, where they must get, and what links carry in a round."""

    def __init__(self, fabric: Fabric, problem: str, root: int) -> None:
        p = fabric.size
        check_size(p)
        self.fabric, self.problem, self.root, self.size = fabric, problem, root, p
        self.edges = [(u, v) for u in range(p) for v in fabric.beside[u]]
        self.unit = min((fabric.capacity[i] for e in self.edges for i in self._links(e)), default=1.0)
        used = sorted({i for edge in self.edges for i in self._links(edge)})
        self.links = {i: max(1, int(fabric.capacity[i] / self.unit + 1e-9)) for i in used}
        self.hops = self._hops()

    def _links(self, edge: tuple[int, int]) -> tuple[int, ...]:
        way = self.fabric.ways[edge[0]][edge[1]]
        assert way is not None
        return way.links

    def _hops(self) -> list[list[int]]:
        p = self.size
        hops = [[0 if u == v else p for v in range(p)] for u in range(p)]
        for u, v in self.edges:
            hops[u][v] = 1
        for w in range(p):
            for u in range(p):
                for v in range(p):
                    hops[u][v] = min(hops[u][v], hops[u][w] + hops[w][v])
        return hops

    def chunks(self, count: int) -> list[tuple[int, list[int]]]:
        """Return the origin of every chunk and where it must get."""
        p = self.size
        if self.problem == "alltoall":
            return [(u, [v]) for u in range(p) for v in range(p) for _ in range(count)]
        if self.problem in ("bcast", "reduce"):
            return [(self.root, list(range(p)))] * count
        return [(u, list(range(p))) for u in range(p) for _ in range(count)]

    @property
    def least_steps(self) -> int:
        """The farthest that a chunk must get."""
        return max(self.hops[origin][v] for origin, wanted in self.chunks(1) for v in wanted)

    @property
    def least_bandwidth(self) -> Fraction:
        """Rounds for each chunk that the narrowest cut takes at least."""
        problem = {
            "reduce": "bcast",
            "reduce_scatter": "allgather",
            "reduce_scatter_block": "allgather",
            "allreduce": "allgather",
        }.get(self.problem, self.problem)
        bound = lower_bound(self.fabric, problem, 1e6, self.root)
        rate = self.fabric.ideal(1e6).rate_factor
        return Fraction(bound.bandwidth_s * rate * self.unit / 1e6).limit_denominator(720)


def frontier(
    fabric: Fabric, problem: str, root: int = 0, *, most_chunks: int = 6, most_extra_rounds: int = 4
) -> Iterator[FrontierPoint]:
    """Yield schedules from the least latency to the least bandwidth."""
    case = _Case(fabric, problem, root)
    if case.size == 1:
        return
    least, first = case.least_bandwidth, case.least_steps
    best = Fraction(10**9)
    for steps in range(first, first + case.size):
        pairs = sorted(
            (Fraction(rounds, chunks), chunks, rounds)
            for chunks in range(1, most_chunks + 1)
            for rounds in range(steps, steps + most_extra_rounds + 1)
        )
        seen: set[Fraction] = set()
        for share, chunks, rounds in pairs:
            if share < least or share >= best or share in seen:
                continue
            sends = solve(case, chunks, steps, rounds)
            if sends is not None:
                seen.add(share)
                yield FrontierPoint(chunks, steps, rounds, steps == first, share == least, sends)
                best = share
                break
        if best == least:
            return


def solve(
    case: _Case, chunks: int, steps: int, rounds: int, seconds: float = _SECONDS
) -> tuple[tuple[int, int, int, int], ...] | None:
    """Return the sends of a schedule with given chunks, steps and rounds; None if none was found in time.

    The time is the processor's, so that what is found does not depend on what else the machine does.
    A schedule that looks the same from every rank is looked for first, where the machine does.
    """
    if case.problem not in ("alltoall", "bcast", "reduce"):
        group = regular_group(case.fabric)
        if len(group) == case.size > 1:
            found = _Program(case, chunks, steps, rounds, group).solve(seconds)
            if found is not None:
                return found
    return _Program(case, chunks, steps, rounds, [tuple(range(case.size))]).solve(seconds)


def _answered(seconds: float, **program: object) -> Any:
    """Solve a program within a limit of processor seconds.

    HiGHS counts those of the clock: on a busy machine it would give up before it has begun. Where it had
    less than half of its time it begins again, with as much more as it did not get.
    """
    limit = seconds
    while True:
        began = time.process_time()
        answer = milp(**program, options={"time_limit": limit, "mip_rel_gap": 1.0})
        spent = time.process_time() - began
        if answer.status != _OUT_OF_TIME or 2 * spent >= seconds:
            return answer
        limit *= max(2.0, min(seconds / max(spent, 1e-9), 32.0))


class _Program:
    """The linear program: x = 1 where a chunk is sent over a way in a step; r: the rounds of each step."""

    def __init__(
        self, case: _Case, chunks: int, steps: int, rounds: int, group: list[tuple[int, ...]]
    ) -> None:
        self.case, self.steps, self.rounds, self.group, self.per_rank = case, steps, rounds, group, chunks
        every = case.chunks(chunks)
        self.chunks = every if len(group) == 1 else every[:chunks]
        self.count = 0
        self.x: dict[tuple[int, int, int], int] = {}
        self.r = [self._new() for _ in range(steps)]
        for c, (origin, _) in enumerate(self.chunks):
            for e, (u, v) in enumerate(case.edges):
                for s in range(case.hops[origin][u], steps):
                    if v != origin and any(s + 1 + case.hops[v][w] <= steps for w in self.chunks[c][1]):
                        self.x[c, e, s] = self._new()
        self.rows: list[tuple[dict[int, float], float, float]] = []

    def _new(self) -> int:
        self.count += 1
        return self.count - 1

    def solve(self, seconds: float) -> tuple[tuple[int, int, int, int], ...] | None:
        self._paths()
        self._links()
        self.rows.append((dict.fromkeys(self.r, 1.0), float(self.rounds), float(self.rounds)))
        entries = [(i, j, a) for i, (row, _, _) in enumerate(self.rows) for j, a in row.items()]
        matrix = coo_array(
            ([a for _, _, a in entries], ([i for i, _, _ in entries], [j for _, j, _ in entries])),
            shape=(len(self.rows), self.count),
        ).tocsr()
        limits = LinearConstraint(
            matrix, [low for _, low, _ in self.rows], [high for _, _, high in self.rows]
        )
        lower, upper = np.zeros(self.count), np.ones(self.count)
        lower[self.r], upper[self.r] = 1, self.rounds
        cost = np.ones(self.count)
        answer = _answered(
            seconds, c=cost, constraints=limits, integrality=np.ones(self.count), bounds=Bounds(lower, upper)
        )
        return None if answer.x is None else self._sends(answer.x)

    def _paths(self) -> None:
        """A chunk is sent from where it is; it gets to each rank once at most, and where it must."""
        case = self.case
        into: dict[int, list[int]] = {}
        for e, (_, v) in enumerate(case.edges):
            into.setdefault(v, []).append(e)
        for c, (origin, wanted) in enumerate(self.chunks):
            for v in range(case.size):
                if v == origin:
                    continue
                come = {
                    s: [self.x[c, e, s] for e in into.get(v, []) if (c, e, s) in self.x]
                    for s in range(self.steps)
                }
                every = [i for one in come.values() for i in one]
                self.rows.append((dict.fromkeys(every, 1.0), 1.0 if v in wanted else 0.0, 1.0))
                for e, (u, _) in enumerate(case.edges):
                    if u != v:
                        continue
                    for s in range(self.steps):
                        if (c, e, s) in self.x:
                            row = {i: -1.0 for before in range(s) for i in come[before]}
                            row[self.x[c, e, s]] = 1.0
                            self.rows.append((row, -float(case.size), 0.0))

    def _links(self) -> None:
        """A link carries as many chunks in a step as its bandwidth and the step's rounds say."""
        case = self.case
        for s in range(self.steps):
            rows: dict[int, dict[int, float]] = {}
            for (_, e, step), i in self.x.items():
                if step != s:
                    continue
                for one in self.group:
                    u, v = case.edges[e]
                    for link in case._links((one[u], one[v])):
                        row = rows.setdefault(link, {})
                        row[i] = row.get(i, 0.0) + 1.0
            for link, row in rows.items():
                row[self.r[s]] = -float(case.links[link])
                self.rows.append((row, -np.inf, 0.0))

    def _sends(self, x: np.ndarray) -> tuple[tuple[int, int, int, int], ...]:
        found = []
        for (c, e, s), i in self.x.items():
            if x[i] < 0.5:
                continue
            u, v = self.case.edges[e]
            if len(self.group) == 1:
                found.append((s, u, v, c))
            else:
                found += [(s, one[u], one[v], one[0] * self.per_rank + c) for one in self.group]
        return tuple(sorted(found))


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
    """Return the schedules of the frontier, simulated."""
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
        raise ScheduleError(
            f"no exact schedule of {problem} was found in time; use method='greedy'", code="time-limit"
        )
    return found


def _plan(fabric: Fabric, point: FrontierPoint, chunk_bytes: float) -> TransferPlan:
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
    return TransferPlan.of(found)
