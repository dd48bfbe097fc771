"""Guidelines on a machine: the operations are run, simulated or real, and compared."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.checks import check_limit, check_seed, whole_numbers
from labkit.errors import DataError
from labkit.launch.run import machine_of, run
from labkit.machines.noise import noise_of
from labkit.program import context
from labkit.program.sized import sized
from labkit.real.context import available_cores
from labkit.study.guidelines.report import (
    LEVEL,
    MARGIN,
    GuidelineComparison,
    GuidelineOutcome,
    GuidelineReport,
    Setting,
    SideTimes,
    compare_all,
)
from labkit.study.guidelines.statement import Operation, Statement, catalogue
from labkit.timing import measure
from labkit.timing.clocks import wait_until

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from labkit.program.sized import Sized

__all__ = ["bench_call", "buffer", "busy_host", "guidelines", "rounds"]


_UNSIZED = ("barrier",)


_RANKS = (4, 8, 16, 32)


def guidelines(
    on: object = "star",
    ranks: int | Iterable[int] | None = None,
    sizes: int | Iterable[int] = (8, 1024, 65536),
    only: str | Statement | Iterable[str | Statement] | None = None,
    *,
    repeats: int = 12,
    launches: int | None = None,
    margin: float = MARGIN,
    level: float = LEVEL,
    seed: int = 0,
    timeout_s: float | None = 600.0,
    **options: Any,
) -> GuidelineReport:
    """Check performance guidelines of collective operations on a machine.

    Every operation and every composition (mock-up) is run: the right side of ``allreduce <= reduce + bcast``
    is a reduce and a bcast one after the other, not a sum of times. Copies that a mock-up would make between
    its calls are not.

    Parameters
    ----------
    on : str or Platform
        ``"mpi"``, a cluster of engines, or a simulated machine.
    ranks : int or list of int, optional
        Default: 4, 8, 16 and 32, as many of them as the machine holds. Monotony in the ranks is looked at
        where p and 2 p are among them.
    sizes : int or list of int
        Message sizes n in bytes: see `labkit.study.guidelines.catalogue`.
    only : str, Statement or list of them, optional
        Kinds (pattern, special, monotony, split), operations, or statements; default: all.
    repeats : int
        Of each side in each launch, on a real machine, in three rounds of random order. A simulated machine
        needs one, unless it has noise: then each launch is one repetition.
    launches : int, optional
        Runs of MPI, each in another order: what differs between launches does not within one. Default: 3;
        in simulation 1, with noise 20.
    margin : float
        A side that takes longer by less violates nothing.
    level : float
        The chance of one false verdict among all places of all guidelines, see `compare_all`.
    seed : int
        Shuffles the order; the noise's seed.
    timeout_s : float or None
        Of each launch.
    **options
        Of `labkit.run`: ``model=``, ``coll=``, ``noise=``, ...

    Returns
    -------
    GuidelineReport
        True in a condition when nothing is violated: ``assert lk.guidelines(on="star")``.

    Examples
    --------
    >>> import labkit as lk
    >>> slow = lk.guidelines("star", 32, 8, "allreduce <= reduce + bcast", coll={"allreduce": "ring"})
    >>> print(slow.outcomes[0].word, f"{slow.outcomes[0].worst[1].factor:.1f}")
    violated 6.2
    """
    statements = catalogue(only)
    if ranks is None:
        most = machine_of(on).size(on)
        ranks = [p for p in _RANKS if most is None or p <= most] or [most or 1]
    counts, lengths = whole_numbers("ranks", ranks, 1), whole_numbers("sizes", sizes, 0)
    check_names([name for one in statements for name in one.names])
    is_real = machine_of(on).is_real
    is_noisy = not is_real and not noise_of(options.get("noise")).is_quiet if options.get("noise") else False
    usual = 3 if is_real else 20 if is_noisy else 1
    (number,) = whole_numbers("launches", [usual if launches is None else launches], 1)
    check_seed(seed)
    check_limit(timeout_s)
    for name, value, below in (("margin", margin, math.inf), ("level", level, 1.0)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < below:
            raise DataError(
                f"{name} is a number of at least 0{' and below 1' if below == 1 else ''}, got {value!r}",
                code="out-of-range",
            )
    plan = _Plan(statements, counts, lengths)
    (asked,) = whole_numbers("repeats", [repeats], 1)
    is_exact = not is_real and not is_noisy
    found = _measure(plan, on, number, asked, seed, {**options, "timeout_s": timeout_s})
    outcomes = _judged(plan, found, is_exact, margin, level)
    if left_out := len({*statements}) - len(outcomes):
        why = "left out, as p and 2 p are not both among the ranks"
        found.notes.append(f"{why}: {left_out} on monotony in the ranks")
    about = _about(on, is_real, is_exact, number, margin, level)
    return GuidelineReport(outcomes, about, found.notes)


class _Measured(NamedTuple):
    """Times of the jobs: for each launch of each number of ranks, and what was remarked."""

    samples: dict[tuple[int, Job], list[list[float]]]
    algorithms: dict[tuple[int, str, float], str]
    oversubscribed: set[int]
    notes: list[str]


def _measure(plan: _Plan, on: object, launches: int, repeats: int, seed: int, how: Any) -> _Measured:
    is_real = machine_of(on).is_real
    samples: dict[tuple[int, Job], list[list[float]]] = {}
    busy = busy_host() if is_real else ""
    notes = [busy] if busy else []
    algorithms: dict[tuple[int, str, float], str] = {}
    invalid: set[int] = set()
    for count, jobs in plan.jobs.items():
        for launch in range(launches):
            done = run(time_jobs, count, on, args=(jobs, seed + launch, repeats), seed=seed + launch, **how)
            invalid |= set() if done.is_valid else {count}
            notes += [note for note in done.notes if note not in notes]
            mine: dict[int, list[float]] = {}
            for index, times in done.results[0]:
                mine.setdefault(index, []).extend(times)
            for index, times in mine.items():
                samples.setdefault((count, jobs[index]), []).append(times)
            for at, algorithm in done.collectives.items():
                algorithms.setdefault((count, at.operation, at.n_bytes), algorithm)
    if not is_real:  # a repetition is a launch there
        samples = {key: [[v for times in found for v in times]] for key, found in samples.items()}
    return _Measured(samples, algorithms, invalid, notes)


def _judged(
    plan: _Plan, measured: _Measured, is_exact: bool, margin: float, level: float
) -> list[GuidelineOutcome]:
    made = {
        key: SideTimes(tuple(np.array(one) for one in found), is_exact)
        for key, found in measured.samples.items()
    }
    compared = iter(compare_all([(made[a], made[b]) for _, _, a, b in plan.places], margin, level))
    by_statement: dict[Statement, GuidelineOutcome] = {one: GuidelineOutcome(one) for one in plan.statements}
    for statement, place, a, b in plan.places:
        found = next(compared)
        if measured.oversubscribed & {a[0], b[0]}:
            why = "times of an oversubscribed machine allow no verdict"
            found = GuidelineComparison(
                found.left_s, found.right_s, "undecided", found.p_violated, found.p_held, why
            )
        outcome = by_statement[statement]
        outcome.places.append((place, found))
        taken = _algorithm(measured.algorithms, a)
        if taken:
            outcome.algorithms[place] = taken
    for statement, why in plan.skipped:
        by_statement[statement].missing.append(why)
    return [one for one in by_statement.values() if one.places] or list(by_statement.values())


def _about(on: object, is_real: bool, is_exact: bool, launches: int, margin: float, level: float) -> str:
    name = on if isinstance(on, str) else getattr(on, "name", None) or type(on).__name__
    if is_exact:
        return f"{name}; simulated times are exact; longer by more than {margin:.0%} counts"
    what = f"{launches} launches" if is_real else f"{launches} seeds"
    return f"{name}; {what}, rank tests at {level:.0%} after Holm's correction; a margin of {margin:.0%}"


def _algorithm(known: dict[tuple[int, str, float], str], job: tuple[int, Job]) -> str:
    """Return what carried out a job's first operation; empty where that is not clear."""
    count, (first, *_) = job
    same = {
        n: name for (ranks, operation, n), name in known.items() if (ranks, operation) == (count, first[0])
    }
    exact = {name for n, name in same.items() if n in (first[1], first[1] * count)}
    found = exact or set(same.values())
    return found.pop() if len(found) == 1 else ""


class _Plan:
    """What has to be run for which places."""

    def __init__(self, statements: Sequence[Statement], ranks: Sequence[int], sizes: Sequence[int]) -> None:
        self.statements = statements
        self._ranks = set(ranks)
        self.jobs: dict[int, list[Job]] = {}
        self.places: list[tuple[Statement, Setting, tuple[int, Job], tuple[int, Job]]] = []
        self.skipped: list[tuple[Statement, str]] = []
        for statement in statements:
            calls = (statement.left, *statement.right)
            has_size = any(call.name.lower() not in _UNSIZED for call in calls[:1])
            for p in ranks:
                for n in sizes if has_size else sizes[:1]:
                    self._add(statement, p, n, has_size)

    def _add(self, statement: Statement, p: int, n: int, has_size: bool) -> None:
        left = self._side((statement.left,), n, p)
        right = self._side(statement.right, n, p)
        if left is None or right is None or right[0] not in self._ranks:
            self.skipped.append((statement, f"the ranks of its other side are not among those at p = {p}"))
            return
        for count, job in (left, right):
            known = self.jobs.setdefault(count, [])
            if job not in known:
                known.append(job)
        self.places.append((statement, Setting(p, float(n) if has_size else None), left, right))

    def _side(self, calls: Sequence[Operation], n: int, p: int) -> tuple[int, Job] | None:
        found = [(call, *call.at(n, p)) for call in calls]
        counts = {count for _, _, count in found}
        if len(counts) != 1 or min(counts) < 1:
            return None
        job = tuple(
            (call.name.lower(), 0.0 if call.name.lower() in _UNSIZED else size, call.factor)
            for call, size, _ in found
        )
        return counts.pop(), job


# Collective operations by name, prepared for timing: buffers are made before, and the call is bare.


#: a side of a guideline with its sizes: (operation, bytes, times) one after the other
Job = tuple[tuple[str, float, float], ...]

_WORD = 8
#: of the repetitions of a launch on a real machine
_ROUNDS = 3
#: simulated ranks wait for a moment so far ahead: simulated time costs nothing
_AHEAD_S = 1.0


def buffer(count: int) -> Sized | NDArray[np.float64]:
    """Return a buffer of n numbers: a sized one on a simulated machine."""
    return sized(count, np.float64) if context.simulated() is not None else np.zeros(count)


class _Buffers:
    """Makes the buffers of an operation."""

    def __init__(self, comm: Intracomm, n_bytes: float) -> None:
        self.p, self.is_root = comm.Get_size(), comm.Get_rank() == 0
        self.n = math.ceil(n_bytes / _WORD)
        self.counts = [self.n] * self.p

    def __call__(self, count: int) -> Any:
        return buffer(count)

    @property
    def one(self) -> Any:
        return self(self.n)

    @property
    def all(self) -> Any:
        return self(self.n * self.p)

    def at_root(self, make: Callable[[], object]) -> Any:
        return make() if self.is_root else None


def _reduce_local(c: object, b: _Buffers) -> Callable[[], object]:
    from labkit import MPI

    x, y = b.one, b.one
    return lambda: MPI.SUM.Reduce_local(x, y)


def _bound(call: Callable[..., object], *buffers: object) -> Callable[[], object]:
    return lambda: call(*buffers)


#: by name: from a communicator and buffers to the call
OPERATIONS: dict[str, Callable[[Any, _Buffers], Callable[[], Any]]] = {
    "barrier": lambda c, b: c.Barrier,
    "bcast": lambda c, b: _bound(c.Bcast, b.one),
    "reduce": lambda c, b: _bound(c.Reduce, b.one, b.at_root(lambda: b.one)),
    "allreduce": lambda c, b: _bound(c.Allreduce, b.one, b.one),
    "gather": lambda c, b: _bound(c.Gather, b.one, b.at_root(lambda: b.all)),
    "scatter": lambda c, b: _bound(c.Scatter, b.at_root(lambda: b.all), b.one),
    "allgather": lambda c, b: _bound(c.Allgather, b.one, b.all),
    "alltoall": lambda c, b: _bound(c.Alltoall, b.all, b.all),
    "gatherv": lambda c, b: _bound(c.Gatherv, b.one, b.at_root(lambda: [b.all, b.counts])),
    "scatterv": lambda c, b: _bound(c.Scatterv, b.at_root(lambda: [b.all, b.counts]), b.one),
    "allgatherv": lambda c, b: _bound(c.Allgatherv, b.one, [b.all, b.counts]),
    "allgatherv_of_one": lambda c, b: _bound(
        c.Allgatherv, b(b.n if b.is_root else 0), [b.one, [b.n] + [0] * (b.p - 1)]
    ),
    "alltoallv": lambda c, b: _bound(c.Alltoallv, [b.all, b.counts], [b.all, b.counts]),
    "reduce_scatter_block": lambda c, b: _bound(c.Reduce_scatter_block, b.all, b.one),
    "reduce_scatter": lambda c, b: _bound(c.Reduce_scatter, b.all, b.one, b.counts),
    "scan": lambda c, b: _bound(c.Scan, b.one, b.one),
    "exscan": lambda c, b: _bound(c.Exscan, b.one, b.one),
    "reduce_local": _reduce_local,
}


def prepare(comm: Intracomm, job: Job) -> Callable[[], None]:
    """Return what carries out a job: its operations one after the other, each as often as it says."""
    calls = [OPERATIONS[name](comm, _Buffers(comm, n)) for name, n, times in job for _ in range(round(times))]

    def carry_out() -> None:
        for call in calls:
            call()

    return carry_out


def check_names(names: Sequence[str]) -> None:
    """Refuse operations that cannot be called."""
    lost = [name for name in names if name.lower() not in OPERATIONS]
    if lost:
        raise DataError(
            f"{lost[0]!r} is no operation that can be run here; there are {', '.join(sorted(OPERATIONS))}; "
            "for other names measure yourself, and ask study.guideline(...)",
            code="unknown-name",
        )


def time_jobs(comm: Intracomm, jobs: Sequence[Job], seed: int, repeats: int) -> list[tuple[int, list[float]]]:
    """Time jobs: once on a simulated machine, repeatedly on a real one.

    There it goes in rounds, each in another order, so that what disturbs the host for a while disturbs more
    than one side of a guideline.
    """
    rng = np.random.default_rng(seed)
    calls = [prepare(comm, job) for job in jobs]
    found = []
    for count in rounds(repeats):
        found += [(int(k), bench_call(comm, calls[k], count)) for k in rng.permutation(len(jobs))]
    return found


def rounds(repeats: int) -> list[int]:
    """Return how many repetitions each round has; one is enough on a simulated machine."""
    if context.simulated() is not None:
        return [1]
    whole, rest = divmod(repeats, _ROUNDS)
    return [count for k in range(_ROUNDS) if (count := whole + (k < rest))]


def bench_call(comm: Intracomm, call: Callable[[], object], repeats: int) -> list[float]:
    """Time a call: repeatedly on a real machine, once on a simulated one, where all ranks begin together."""
    from labkit import MPI

    machine = context.simulated()
    if machine is None:
        return list(measure(comm, call, repeats=repeats).times_s)
    moment = comm.allreduce(machine.wtime(), op=MPI.MAX) + _AHEAD_S
    wait_until(moment, machine.wtime)
    begin = machine.wtime()
    call()
    return [float(comm.allreduce(machine.wtime() - begin, op=MPI.MAX))]


def busy_host() -> str:
    """Return the sentence that this host's cores are busy already; empty where they are not, or not known."""
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):
        return ""
    cores = available_cores()
    return (
        f"this host is busy: a load of {load:.1f} on {cores} cores before the first run"
        if load > cores
        else ""
    )
