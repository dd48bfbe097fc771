"""The measuring program: two ranks, the same code on real MPI and on a simulated machine."""

from __future__ import annotations

import ctypes
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit import registry
from labkit.errors import DataError
from labkit.launch.run import run
from labkit.program import context
from labkit.text.html import number, quantity

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = [
    "EXPERIMENTS",
    "TAG",
    "EffectiveBisection",
    "Plan",
    "Row",
    "effective_bisection",
    "grid",
    "heap_bytes",
    "make_plan",
    "measure_plan",
    "partners",
]


#: experiment, bytes, round, seconds at rank 0, seconds at rank 1, seconds rank 1 came late
Row = tuple[str, int, int, float, float, float]

#: Of every message that is measured.
TAG = 77
#: A sample lasts at least this long; shorter ones are repeated and divided.
_SAMPLE_S = 20e-6
_MOST_TRIPS = 32
#: How late a late receiver is, in transfer times, and at least.
_LATE, _LATE_S = 2.0, 300e-6
_PILOTS = 3


def measure_plan(comm: Intracomm, plan: Plan) -> dict[str, Any]:
    """Make the measurements of a plan between ranks 0 and 1.

    `comm`: Of two ranks or more (the others do nothing).
    Returns: At rank 0: ``rows`` (list of Row), ``tick_s`` (what reading the clock costs) and ``switches``
        (involuntary context switches of both ranks). At the others: nothing.
    """
    if comm.Get_rank() > 1:
        return {}
    bench = _Bench(comm, max(plan.sizes))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    bench.pilot(plan.sizes)
    mine: list[tuple[float, float]] = []
    rounds = plan.rounds()
    for items in rounds:
        for name, size in items:
            mine.append(getattr(bench, name)(size, plan.window))
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - before
    if bench.rank == 1:
        comm.send((mine, switches), dest=0, tag=TAG)
        return {}
    theirs, other_switches = comm.recv(source=1, tag=TAG)
    keys = [(name, size, number) for number, items in enumerate(rounds) for name, size in items]
    rows: list[Row] = [
        (*key, one, other, late) for key, (one, _), (other, late) in zip(keys, mine, theirs, strict=True)
    ]
    return {"rows": rows, "tick_s": bench.tick_s, "switches": switches + other_switches}


class _Bench:
    """One rank's side of every experiment: each returns (seconds here, seconds it came late)."""

    def __init__(self, comm: Intracomm, most: int) -> None:
        self.comm, self.rank = comm, comm.Get_rank()
        self.peer = 1 - self.rank
        self.out: NDArray[np.uint8] = np.ones(most, np.uint8)  # written once: no page is missing later
        self.into: NDArray[np.uint8] = np.zeros(most, np.uint8)
        self.token: NDArray[np.uint8] = np.zeros(0, np.uint8)
        from labkit import MPI  # this rank's: mpi4py's or the simulated one

        self.clock: Callable[[], float] = MPI.Wtime
        self.tick_s = min(-(self.clock() - self.clock()) for _ in range(100))
        self.expected_s: dict[int, float] = {}

    # -- parts ---------------------------------------------------------------------------------------------
    def pilot(self, sizes: tuple[int, ...]) -> None:
        """Estimate how long messages take; this is also the warm-up, which enters no result."""
        for size in sizes:
            self.expected_s[size] = min(self.pingpong(size, 1)[0] for _ in range(_PILOTS))
        self.expected_s = self._told(self.expected_s)

    def _told(self, times: dict[int, float]) -> dict[int, float]:
        """Send rank 1 the value that rank 0 found."""
        if self.rank == 0:
            self.comm.send(times, dest=1, tag=TAG)
            return times
        told: dict[int, float] = self.comm.recv(source=0, tag=TAG)
        return told

    def ready(self, is_sender: bool) -> None:
        """Wait until the other rank is here: 0 bytes from rank 1 to rank 0."""
        if is_sender:
            self.comm.Send(self.token, dest=self.peer, tag=TAG)
        else:
            self.comm.Recv(self.token, source=self.peer, tag=TAG)

    def pause(self, size: int) -> float:
        """Stay away long enough for a message to be transferred; return how long."""
        wanted = max(_LATE * self.expected_s[size], _LATE_S)
        begin = self.clock()
        context.compute(seconds=wanted)  # on a simulated machine; on a real one it does nothing
        left = wanted - (self.clock() - begin)
        if left > 1e-6:
            time.sleep(left)
        return float(self.clock() - begin)

    def timed(self, call: Any, *arguments: object, **named: object) -> float:
        """Time one call, without what reading the clock costs."""
        begin = self.clock()
        call(*arguments, **named)
        return float(max(self.clock() - begin - self.tick_s, 0.0))

    # -- experiments ----------------------------------------------------------------------------------------
    def pingpong(self, size: int, _: int) -> tuple[float, float]:
        """Half a round trip."""
        out, into, peer = self.out[:size], self.into[:size], self.peer
        expected = self.expected_s.get(size, 0.0)
        trips = int(min(max(_SAMPLE_S / expected, 1), _MOST_TRIPS)) if expected > 0 else 1
        self.ready(self.rank == 1)
        begin = self.clock()
        for _trip in range(trips):
            if self.rank == 0:
                self.comm.Send(out, dest=peer, tag=TAG)
                self.comm.Recv(into, source=peer, tag=TAG)
            else:
                self.comm.Recv(into, source=peer, tag=TAG)
                self.comm.Send(out, dest=peer, tag=TAG)
        return (float(self.clock() - begin) - self.tick_s) / (2 * trips), 0.0

    def late(self, size: int, _: int) -> tuple[float, float]:
        """Send to a receiver that is not there yet."""
        self.ready(self.rank == 1)
        if self.rank == 0:
            return self.timed(self.comm.Send, self.out[:size], dest=1, tag=TAG), 0.0
        away = self.pause(size)
        return self.timed(self.comm.Recv, self.into[:size], source=0, tag=TAG), away

    def early(self, size: int, _: int) -> tuple[float, float]:
        """Send to a receive that is posted; the receiver comes back when all is done."""
        if self.rank == 0:
            self.ready(False)
            return self.timed(self.comm.Send, self.out[:size], dest=1, tag=TAG), 0.0
        request = self.comm.Irecv(self.into[:size], source=0, tag=TAG)
        self.ready(True)
        away = self.pause(size)
        return self.timed(request.Wait), away

    def isend(self, size: int, _: int) -> tuple[float, float]:
        """Post a send; the receiver is not there yet."""
        self.ready(self.rank == 1)
        if self.rank == 1:
            away = self.pause(size)
            return self.timed(self.comm.Recv, self.into[:size], source=0, tag=TAG), away
        begin = self.clock()
        request = self.comm.Isend(self.out[:size], dest=1, tag=TAG)
        spent = max(float(self.clock() - begin) - self.tick_s, 0.0)
        request.Wait()
        return spent, 0.0

    def window(self, size: int, count: int) -> tuple[float, float]:
        """Send a burst; the time a message of it takes, the last one's answer included."""
        if self.rank == 1:
            requests = [self.comm.Irecv(self.into[:size], source=0, tag=TAG) for _ in range(count)]
            self.ready(True)
            type(requests[0]).Waitall(requests)
            self.ready(True)
            return 0.0, 0.0
        self.ready(False)
        begin = self.clock()
        requests = [self.comm.Isend(self.out[:size], dest=1, tag=TAG) for _ in range(count)]
        type(requests[0]).Waitall(requests)
        self.ready(False)
        return (float(self.clock() - begin) - self.tick_s) / count, 0.0

    def exchange(self, size: int, _: int) -> tuple[float, float]:
        """Send and receive concurrently."""
        self.ready(self.rank == 1)
        begin = self.clock()
        self.comm.Sendrecv(
            self.out[:size],
            dest=self.peer,
            sendtag=TAG,
            recvbuf=self.into[:size],
            source=self.peer,
            recvtag=TAG,
        )
        return float(self.clock() - begin) - self.tick_s, 0.0


# The measurement plan of a calibration: points, repetitions and their order.


#: Each experiment by name, and what one measurement of it does.
EXPERIMENTS = {
    "pingpong": "half of a round trip of Send and Recv",
    "late": "a Send before its receiver comes, and the Recv of a receiver that comes late",
    "early": "a Send to a posted Irecv, and the Wait of a receiver that comes back late",
    "isend": "an Isend before its receiver comes",
    "window": "a burst of Isends to posted Irecvs: saturation",
    "exchange": "both directions simultaneously",
}


@dataclass(frozen=True)
class Plan:
    """A list of measurements.

    Attributes
    ----------
    sizes : tuple of int
        Payload sizes in bytes.
    repeats : int
        How many times each experiment is made with each size.
    experiments : tuple of str
        Names of `EXPERIMENTS`.
    window : int
        Messages of a burst.
    seed : int
        Of the order.
    """

    sizes: tuple[int, ...]
    repeats: int
    experiments: tuple[str, ...] = tuple(EXPERIMENTS)
    window: int = 8
    seed: int = 0

    def rounds(self) -> list[list[tuple[str, int]]]:
        """Return the measurements: every round has each of them once, in its own order.

        So a disturbance of the machine meets a few measurements of many kinds, never all repetitions of one,
        and no size always follows the same other size.
        """
        rng = np.random.default_rng(self.seed)
        items = [(name, size) for name in self.experiments for size in self.sizes]
        return [[items[i] for i in rng.permutation(len(items))] for _ in range(self.repeats)]

    def at(self, sizes: tuple[int, ...], experiments: tuple[str, ...]) -> Plan:
        """Return a plan of other sizes and experiments, in its own order."""
        return replace(self, sizes=sizes, experiments=experiments, seed=self.seed + 1)


def grid(first: float, last: float, points: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Choose sizes at random, one in each of `points` equal cells of the logarithmic axis.

    A regular grid would see powers of two only, for which many an implementation has its own rules.
    """
    edges = np.linspace(np.log(first), np.log(last), points + 1)
    inner = np.exp(rng.uniform(edges[:-1], edges[1:]))
    sizes = np.unique(np.clip(np.rint(inner), first, last).astype(int))
    return tuple(int(size) for size in sizes)


def make_plan(
    max_bytes: int = 4_000_000, *, points: int = 60, repeats: int = 7, window: int = 8, seed: int = 0
) -> Plan:
    """Plan a calibration.

    Parameters
    ----------
    max_bytes : int
        Largest message.
    points : int
        Sizes from 1 byte to `max_bytes`.
    repeats : int
        Measurements of each experiment and size.
    window : int
        Messages of a burst.
    seed : int
        Chooses the sizes and the order.

    Raises
    ------
    DataError
        Fewer than 8 sizes, 3 repeats or 2 messages of a burst, or no room for the sizes.
    """
    for name, value, least in (
        ("max_bytes", max_bytes, 1024),
        ("points", points, 8),
        ("repeats", repeats, 3),
        ("window", window, 2),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise DataError(
                f"a calibration needs {name} to be a whole number of at least {least}, got {value!r}",
                code="out-of-range",
            )
    rng = np.random.default_rng(seed)
    sizes = grid(1, max_bytes, points, rng)
    return Plan(tuple(sorted({*sizes, 1, max_bytes})), repeats, window=window, seed=seed)


# Memory of MPI libraries: the heap that a call takes, and the connections that a collective needs.


#: fields of glibc's struct mallinfo2
_FIELDS = (
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
)


def heap_bytes() -> int:
    """Return the bytes of the heap that this process has allocated and not freed, in all arenas.

    The difference of two calls is what the calls in between have kept, such as the tables of a new
    communicator. In simulation all ranks share one heap, so there it says nothing of a rank.

    Returns
    -------
    int
        As glibc counts them (``mallinfo2``): blocks in use, with their headers, and mapped blocks.

    Raises
    ------
    DataError
        If the C library has no ``mallinfo2`` (glibc has it from 2.33 on).
    """
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        raise DataError(
            "the heap is counted by mallinfo2 of glibc 2.33 or later; this C library has none",
            code="unsupported",
        )
    ask.restype = type(
        "mallinfo2", (ctypes.Structure,), {"_fields_": [(f, ctypes.c_size_t) for f in _FIELDS]}
    )
    found: Any = ask()
    return int(found.uordblks + found.hblkhd)


def partners(operation: str, algorithm: str, ranks: int) -> int:
    """Return how many others a rank exchanges messages with in a collective, at most.

    Parameters
    ----------
    operation, algorithm : str
        Of the registry, such as "alltoall" and "bruck".
    ranks : int

    Returns
    -------
    int
        Of the rank that has the most. A library that opens a connection with the first message to a rank
        needs at least that many.

    Raises
    ------
    RegistryError, ScheduleError
        If there is no such algorithm, or it is not for this number of ranks.
    """
    pairs = [np.empty(0, np.int64)]
    for step in registry.get(operation, algorithm).build(ranks).steps():
        for column in step.columns:
            here, peer = np.broadcast_arrays(column.ranks, column.peer)
            is_message = peer >= 0
            here, peer = here[is_message], peer[is_message]
            pairs += [here * ranks + peer, peer * ranks + here]
    both = np.unique(np.concatenate(pairs))
    return int(np.bincount(both // ranks).max(initial=0))


# Effective bisection bandwidth: what pairs of ranks get when a random half of them sends to the other half.


_BAR = "display:inline-block;height:.8em;background:#0072B2"


@dataclass(frozen=True)
class EffectiveBisection:
    """The bandwidths of pairs, over random bisections.

    Attributes
    ----------
    bytes_per_s : ndarray, shape (samples, p // 2)
        Of every pair in every bisection.
    alone_bytes_per_s : float
        Of a pair that has the machine to itself.
    """

    bytes_per_s: NDArray[np.float64]
    alone_bytes_per_s: float

    @property
    def samples_bytes_per_s(self) -> NDArray[np.float64]:
        """The mean of the pairs in each bisection."""
        means: NDArray[np.float64] = self.bytes_per_s.mean(axis=1)
        return means

    @property
    def mean_bytes_per_s(self) -> float:
        """The effective bisection bandwidth of a pair: the mean over all bisections."""
        return float(self.bytes_per_s.mean())

    @property
    def share(self) -> float:
        """The mean as a share of what a pair alone has; 1 is full effective bisection bandwidth."""
        return self.mean_bytes_per_s / self.alone_bytes_per_s

    def __str__(self) -> str:
        low, high = np.quantile(self.samples_bytes_per_s, [0.05, 0.95])
        samples, pairs = self.bytes_per_s.shape
        return (
            f"effective bisection bandwidth of a pair: {quantity(self.mean_bytes_per_s, 'B/s')}, "
            f"{100 * self.share:.1f} % of a pair alone; {number(samples)} bisections of {pairs} pairs, 90 % "
            f"of them between {quantity(float(low), 'B/s')} and {quantity(float(high), 'B/s')}"
        )

    def _repr_html_(self) -> str:
        counts, edges = np.histogram(
            self.samples_bytes_per_s, bins=min(20, max(1, len(self.bytes_per_s) // 5))
        )
        most = max(int(counts.max()), 1)
        rows = "".join(
            f"<tr><td style='text-align:right'>{quantity(float(a), 'B/s')}</td>"
            f"<td><span style='{_BAR};width:{160 * n / most:.0f}px'></span> {n}</td></tr>"
            for a, n in zip(edges[:-1], counts, strict=True)
        )
        return f"<p>{self}</p><table><tr><th>from</th><th>bisections</th></tr>{rows}</table>"


def effective_bisection(
    on: object = "star",
    ranks: int = 64,
    *,
    samples: int = 100,
    n_bytes: int = 1 << 20,
    seed: int = 0,
    **options: Any,
) -> EffectiveBisection:
    """Measure the effective bisection bandwidth, on a simulated machine or a real one.

    In each of the bisections the ranks are drawn into two halves, and pairs between them: every rank of the
    first half sends one message to its partner in the second, all at the same time.

    Parameters
    ----------
    on : str, cluster or Platform
        As for `labkit.run`.
    ranks : int
        At least 2; of an odd number one pauses.
    samples : int
        Bisections.
    n_bytes : int
        Of each message.
    seed : int
        Of the draws.
    **options
        Further options of `labkit.run`, such as ``model=``.

    Returns
    -------
    EffectiveBisection

    Examples
    --------
    >>> effective_bisection("star", 8, samples=5).share > .999
    True
    """
    if ranks < 2 or samples < 1 or n_bytes < 1:
        raise DataError(
            f"an effective bisection needs 2 ranks, 1 sample and 1 byte or more; got ranks={ranks!r}, "
            f"samples={samples!r}, n_bytes={n_bytes!r}",
            code="out-of-range",
        )
    pairs = ranks // 2
    done = run(_measure, ranks=ranks, on=on, args=(samples, n_bytes, seed), **options)
    seconds = np.array(list(zip(*done.results, strict=True)), float)
    received = np.sort(seconds, axis=1)[:, :pairs]  # who does not receive says nan, which sorts last
    alone = run(_alone, ranks=ranks, on=on, args=(n_bytes,), **options)
    alone_s = min(s for s in alone.results if s is not None)
    return EffectiveBisection(n_bytes / received, n_bytes / alone_s)


def _measure(comm: Intracomm, samples: int, n_bytes: int, seed: int) -> list[float]:
    """Return how long a message took in every bisection; nan on ranks that send."""
    from labkit import MPI  # this rank's: mpi4py's or the simulated one

    rng = np.random.default_rng(seed)
    data = np.zeros(n_bytes, np.uint8)
    found = []
    for _ in range(samples):
        order = rng.permutation(comm.size)
        place = int(np.flatnonzero(order == comm.rank)[0])
        half = comm.size // 2
        comm.Barrier()
        begin = MPI.Wtime()
        took = float("nan")
        if place < half:
            comm.Send(data, int(order[place + half]))
        elif place < 2 * half:
            comm.Recv(data, int(order[place - half]))
            took = float(MPI.Wtime() - begin)
        found.append(took)
    return found


def _alone(comm: Intracomm, n_bytes: int) -> float | None:
    """Return how long a message from the first half's first rank to the second half's takes."""
    from labkit import MPI  # this rank's: mpi4py's or the simulated one

    data, partner = np.zeros(n_bytes, np.uint8), comm.size // 2
    comm.Barrier()
    begin = MPI.Wtime()
    if comm.rank == 0:
        comm.Send(data, partner)
    elif comm.rank == partner:
        comm.Recv(data, 0)
        return float(MPI.Wtime() - begin)
    return None
