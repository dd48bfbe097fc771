"""The measuring program: two ranks, the same code on real MPI and on a simulated machine."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit import context
from labkit.errors import DataError

__all__ = ["EXPERIMENTS", "TAG", "Plan", "Row", "grid", "make_plan", "measure"]


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


def measure(comm: Any, plan: Plan) -> dict[str, Any]:
    """Make the measurements of a plan between ranks 0 and 1.

    Parameters
    ----------
    comm : communicator
        Of two ranks or more (the others do nothing).
    plan : Plan

    Returns
    -------
    dict
        At rank 0: ``rows`` (list of Row), ``tick_s`` (what reading the clock costs) and ``switches``
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

    def __init__(self, comm: Any, most: int) -> None:
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
        """Learn how long messages take: also the warm-up, which no figure contains."""
        for size in sizes:
            self.expected_s[size] = min(self.pingpong(size, 1)[0] for _ in range(_PILOTS))
        self.expected_s = self._told(self.expected_s)

    def _told(self, times: dict[int, float]) -> dict[int, float]:
        """Tell rank 1 what rank 0 found."""
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

    def timed(self, call: Any, *arguments: Any, **named: Any) -> float:
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
        """Send and receive at once."""
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
                f"a calibration needs {name} to be a whole number of at least {least}, got {value!r}"
            )
    rng = np.random.default_rng(seed)
    sizes = grid(1, max_bytes, points, rng)
    return Plan(tuple(sorted({*sizes, 1, max_bytes})), repeats, window=window, seed=seed)
