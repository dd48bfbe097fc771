"""Printed values of the papers that labkit follows, next to its own: many rows of docs/papers.md.

    python benchmarks/papers.py [hoefler] [benkert] [wylie] [degomme]      # default: all, under a CPU minute

Simulated times, except the costs to this host in the last rows of `degomme`.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from applications import pumped

import labkit as lk
from labkit import MPI, registry
from labkit.calibration import effective_bisection
from labkit.models import P, congestion, message
from labkit.tuning.neighbor_exchange import FORMS

#: what an MPI_Wtime takes on the simulated machines
WTIME_S = 1e-8
MIB = 2**20


class Row(NamedTuple):
    """A value of a paper, where it prints one, and labkit's."""

    what: str
    paper: float | None
    ours: float
    unit: str

    def __str__(self) -> str:
        """Print the two values, and how far they are apart."""
        paper = "-" if self.paper is None else f"{self.paper:.6g}"
        apart = "" if not self.paper else f"{100 * (self.ours / self.paper - 1):+.1f} %"
        return f"{self.what:66} {paper:>9} {self.ours:>9.6g} {self.unit:6} {apart}"


def _sent(comm: Any, n_bytes: int) -> float | None:
    if comm.rank == 0:
        comm.Send(lk.sized(n_bytes), 4)  # four cores on each node
    if comm.rank == 4:
        comm.Recv(lk.sized(n_bytes), 0)
        return float(MPI.Wtime() - WTIME_S)
    return None


def _strided(comm: Any, stride: int) -> float | None:
    kind = MPI.CHAR.Create_vector(1 << 14, 1, stride).Create_resized(0, stride << 14).Commit()
    data = np.zeros(stride << 14, np.uint8)
    if comm.rank == 0:
        comm.Send([data, 1, kind], 4)
    if comm.rank == 4:
        comm.Recv([data, 1, kind], 0)
        return float(MPI.Wtime() - WTIME_S)
    return None


def _queued(comm: Any, outstanding: int) -> float | None:
    if comm.rank == 4:
        others = [comm.Irecv(lk.sized(8), 0, tag=1 + i) for i in range(outstanding)]
        comm.Recv(lk.sized(8), 0, tag=0)
        took = MPI.Wtime()
        for other in others:
            other.Cancel()
            other.Wait()
        return float(took)
    if comm.rank == 0:
        lk.compute(seconds=1e-3)  # until all receives are posted
        comm.Send(lk.sized(8), 4, tag=0)
    return None


def _collectives(comm: Any, n_bytes: int) -> list[float]:
    times = [MPI.Wtime()]
    comm.Barrier()
    times.append(MPI.Wtime())
    comm.Bcast(lk.sized(n_bytes), 1)
    times.append(MPI.Wtime())
    comm.Allreduce(lk.sized(n_bytes // 8, float), lk.sized(n_bytes // 8, float))
    times.append(MPI.Wtime())
    return [later - earlier - WTIME_S for earlier, later in pairwise(times)]


def _to_all(comm: Any, n_bytes: int) -> None:
    comm.Alltoall(lk.sized(n_bytes * comm.size), lk.sized(n_bytes * comm.size))


def _to_farthest(comm: Any, side: int, n_bytes: int) -> None:
    here = np.unravel_index(comm.rank, (side,) * 3)
    there = tuple((x + side // 2) % side for x in here)
    peer = int(np.ravel_multi_index(there, (side,) * 3))
    comm.Sendrecv(lk.sized(n_bytes), peer, recvbuf=lk.sized(n_bytes), source=peer)


def _nodes(ranks: int) -> Any:
    """Return a cube of nodes of the Blue Gene/P, a rank on each."""
    return lk.platform("jugene").mapped("block:1").allocated(ranks)


def _slowest(program: Callable[..., Any], ranks: int, *args: Any) -> list[float]:
    run = lk.run(program, ranks, "jugene", args=args, isolate=False, timeout_s=None)
    return [max(times) for times in zip(*run.results, strict=True)]


def messages() -> Iterator[Row]:
    """Yield the point-to-point values of Hoefler et al. 2010."""
    for n_bytes, start_us in ((8, 4.5), (512, 5.7), (4096, 9.8)):
        took = lk.run(_sent, 8, "jugene", args=(n_bytes,)).results[4]
        yield Row(f"equation 1: message of {n_bytes} B", start_us + 2.67e-3 * n_bytes, 1e6 * took, "us")
    one, two = (lk.run(_sent, 8, "jugene", args=(n * MIB,)).results[4] for n in (1, 2))
    yield Row("bandwidth of long messages", 374.5, MIB / (two - one) / 1e6, "MB/s")
    whole = lk.run(_sent, 8, "jugene", args=(1 << 14,)).results[4]
    yield Row("figure 1b: 16 KiB in one piece", 53.0, 1e6 * whole, "us")
    for stride, paper in ((2, 1292.0), (128, 2090.0)):
        took = lk.run(_strided, 8, "jugene", args=(stride,)).results[4]
        yield Row(f"figure 1b: 16 KiB, every {stride}. byte", paper, 1e6 * took, "us")
    free, longer = (lk.run(_queued, 8, "jugene", args=(n,)).results[4] for n in (0, 13))
    yield Row("figure 2a: 13 receives in the matching queue", 1.3, 1e6 * (longer - free), "us")
    factor = congestion("jugene")
    for ranks in (512, 4096):
        yield Row(
            f"equation 2: worst congestion, P = {ranks}",
            1.5 * ranks ** (1 / 3),
            float(factor.subs(P, ranks)),
            "times",
        )


def small_collectives(most: int = 32_768) -> Iterator[Row]:
    """Yield the values of its figure 3a."""
    _, two, _ = _slowest(_collectives, 2, 8)
    yield Row("figure 3a: bcast of 8 B, P = 2", 13.31, 1e6 * two, "us")
    barrier, first, allreduce = _slowest(_collectives, 4096, 8)
    yield Row("barrier, P = 4096", 0.95, 1e6 * barrier, "us")
    yield Row("figure 3a: allreduce of 8 B, P = 4096", 17.77, 1e6 * allreduce, "us")
    if most > 4096:
        barrier, bcast, allreduce = _slowest(_collectives, most, 8)
        stages = math.log2(most)
        yield Row(f"barrier, P = {most}", 0.95, 1e6 * barrier, "us")
        yield Row(f"figure 3a: bcast of 8 B, P = {most}", 13 + 0.31 * stages, 1e6 * bcast, "us")
        yield Row("figure 3a: a stage of the bcast", 0.31, 1e6 * (bcast - first) / (stages - 12), "us")
        yield Row(f"figure 3a: allreduce of 8 B, P = {most}", None, 1e6 * allreduce, "us")
    times = [
        lk.run(_to_all, p, _nodes(p), args=(8,), coll={"alltoall": "linear"}).makespan_s for p in (64, 128)
    ]
    yield Row("figure 3a: alltoall of 8 B, for each rank", 0.84, 1e6 * (times[1] - times[0]) / 64, "us")


def large_collectives() -> Iterator[Row]:
    """Yield the values of its figure 3b, and what congestion does to simulated messages."""
    n_bytes = 960 * MIB
    _, bcast, allreduce = _slowest(_collectives, 64, n_bytes)
    yield Row("figure 3b: bandwidth of a bcast of 960 MiB", 2247.0, n_bytes / bcast / 1e6, "MB/s")
    yield Row("figure 3b: allreduce of 960 MiB by bcast", 2.68, allreduce / bcast, "times")
    for side in (4, 8):
        low, high = message("jugene", congested=True).evaluate(S=MIB, P=side**3)
        took = lk.run(
            _to_farthest, side**3, _nodes(side**3), args=(side, MIB), isolate=False, timeout_s=None
        ).makespan_s
        yield Row(f"1 MiB from each to the farthest, P = {side**3}: by equation 1", None, took / low, "times")
        yield Row("    the same: share of the upper bound of equation 2", None, 100 * took / high, "%")
    for side in (4, 6):  # 8 takes minutes
        ranks = side**3
        # streams on a link if all travel along shortest paths and the links are loaded evenly
        load = side**2 * sum(min(x, side - x) for x in range(side)) / 2
        bound = 0.84e-6 * (ranks - 1) + 2.67e-9 * 65536 * side * (side / 2 + 1) ** 3  # as printed
        took = lk.run(
            _to_all,
            ranks,
            _nodes(ranks),
            args=(65536,),
            coll={"alltoall": "linear"},
            isolate=False,
            timeout_s=None,
        ).makespan_s
        yield Row(f"figure 3b: alltoall of 64 KiB blocks, P = {ranks}", 1e3 * bound, 1e3 * took, "ms")
        yield Row(
            "    the same: by the load of links, counted", None, took / (2.67e-9 * 65536 * load), "times"
        )
    for ranks in (64, 512):
        found = effective_bisection(_nodes(ranks), ranks, samples=10)
        yield Row(f"figure 2b: effective bisection bandwidth, P = {ranks}", None, 100 * found.share, "%")


def hoefler() -> Iterator[Row]:
    """Hoefler, Gropp, Thakur, Traeff 2010: Blue Gene/P."""
    yield from messages()
    yield from small_collectives()
    yield from large_collectives()


def _slab(comm: Any, shape: tuple[int, int, int]) -> None:
    part = (shape[0] // comm.size, *shape[1:])
    registry.get("fft", "slab").function(comm, lk.sized(math.prod(part), complex).reshape(part), shape)


def benkert() -> Iterator[Row]:
    """Benkert 2011: messages of NAS FT, and the forms of a halo exchange."""
    classes = {"A": (128, 256, 256), "B": (256, 256, 512), "C": (512, 512, 512)}
    for name, ranks, paper in (
        ("A", 8, 2097),
        ("B", 8, 8388),
        ("B", 32, 524),
        ("C", 32, 2097),
        ("C", 128, 131),
    ):
        run = lk.run(
            _slab, ranks, f"star:{ranks}", args=(classes[name],), trace=True, coll={"alltoall": "linear"}
        )
        yield Row(
            f"table 2.4: message of FT, class {name}, {ranks} ranks",
            paper,
            run.trace.messages["bytes"].max() / 1e3,
            "kB",
        )
    yield Row("table 3.1: forms of a neighborhood exchange", 20, len(FORMS), "forms")


def wylie() -> Iterator[Row]:
    """Wylie, Geimer, Wolf 2008: empty messages in a finite-element code that exchanges values as XNS did."""
    for ranks in (64, 256):
        every, lean = (pumped(ranks, is_every, is_every) for is_every in (True, False))
        empty = (every.trace.messages["bytes"] == 0).mean()
        yield Row(f"figure 5: empty messages of {ranks} ranks", None, 100 * empty, "%")
        yield Row(
            "    figure 6: step with messages to all / to partners",
            None,
            every.makespan_s / lean.makespan_s,
            "times",
        )


def _late(comm: Any, n_bytes: int) -> float | None:
    """Return how long a send takes whose receiver comes late, and a receive that comes late."""
    if comm.rank == 0:
        comm.Send(lk.sized(n_bytes), 1)
        return float(MPI.Wtime())
    lk.compute(seconds=1.0)
    comm.Recv(lk.sized(n_bytes), 0)
    return float(MPI.Wtime() - 1.0)


def _largest(is_short: Callable[[int], bool]) -> int:
    low, high = 1, MIB
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_short(middle) else (low, middle)
    return low


def _pairs(comm: Any, n_bytes: int, both: bool) -> None:
    half = comm.size // 2
    if comm.rank < half:
        receives = [comm.Irecv(lk.sized(n_bytes), comm.rank + half)] if both else []
        MPI.Request.Waitall([*receives, comm.Isend(lk.sized(n_bytes), comm.rank + half)])
    else:
        sends = [comm.Isend(lk.sized(n_bytes), comm.rank - half)] if both else []
        MPI.Request.Waitall([*sends, comm.Irecv(lk.sized(n_bytes), comm.rank - half)])


def degomme() -> Iterator[Row]:
    """Degomme et al. 2017: graphene, and what simulating costs."""
    nodes = lk.platform("graphene").mapped("block:1")
    waits = _largest(lambda n: lk.run(_late, 2, nodes, args=(n,)).results[0] < 0.5)
    yield Row("figure 3: longest message whose sender does not wait", 327_680, waits, "B")
    arrived = _largest(lambda n: lk.run(_late, 2, nodes, args=(n,)).results[1] < 3e-4)
    yield Row("figure 3: longest message that travels before its receive", 65_536, arrived, "B")
    one, both = (lk.run(_pairs, 2, nodes, args=(4 * MIB, way)).makespan_s for way in (False, True))
    yield Row("section 3.2: both directions of a node by one", 1.5, 2 * one / both, "times")
    hosts = [*range(35), *range(39, 74)]  # of the first cabinet and of the second
    took = lk.run(_pairs, 70, "graphene", args=(64 * MIB, True), mapping=hosts).makespan_s
    yield Row(
        "section 3.2: both directions between two cabinets", 13.0, 70 * 64 * MIB * 8 / took / 1e9, "Gb/s"
    )
    begin, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ranks = 16_384
    lk.run(lambda comm: comm.Barrier(), ranks, f"star:{ranks}", isolate=False, timeout_s=None)
    took, grown = time.process_time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    yield Row(f"section 7.1: CPU time of an idle rank, p = {ranks}", 40e6 / 2**20, 1e6 * took / ranks, "us")
    yield Row(f"section 7.1: memory of an idle rank, p = {ranks}", 9.1, grown / ranks, "KiB")
    block = 71 * 2**30 // 128**2 // 2  # what is sent and what is received
    lk.run(_to_all, 128, "tibidabo", args=(block,), coll={"alltoall": "pairwise"})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Row("section 7.2: memory of 128 ranks with 71 GiB of data", 2560, peak, "MiB")


PAPERS = {one.__name__: one for one in (hoefler, benkert, wylie, degomme)}


def main() -> None:
    """Print the rows of the papers named on the command line."""
    for name in sys.argv[1:] or PAPERS:
        if name not in PAPERS:
            raise SystemExit(f"unknown paper {name!r}; allowed: {', '.join(PAPERS)}")
        print(f"{PAPERS[name].__doc__}\n{'':66} {'printed':>9} {'labkit':>9}")
        began = time.process_time()
        for row in PAPERS[name]():
            print(row, flush=True)
        print(f"({time.process_time() - began:.1f} s of CPU time)\n")


if __name__ == "__main__":
    main()
