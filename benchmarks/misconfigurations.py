"""Planted misconfigurations: how many are located, and how often a healthy run raises an alarm.

    python benchmarks/misconfigurations.py [--real] [--seed N]

Twenty runs with one fault each and twenty without any, of three programs on three machines, held against the
noiseless simulation of the machine as it should be. What is "measured" is simulated as well, with jitter that
takes 1 % of the time, and with computations that scatter by 2 %. A fault is located if the first finding
names its host, its link (or the two neighbors that it joins) or its call. With ``--real`` four more runs are
on real MPI, with delays in the program.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import labkit as lk
from labkit import _kernels
from labkit.program.variation import Variation
from labkit.selector import Selector

MACHINES = ("star:16", "fattree:4x4:1x2:1x1", "torus:4x4")
RANKS, STEPS = 16, 24
#: of its bandwidth a link keeps that takes turns in its two directions: collisions cost the rest
_HALF = 0.5


def scattered(comm: Any, seconds: float, seed: int, spend: Any, step: int) -> None:
    """Compute, a bit more or less each time."""
    random = np.random.default_rng([seed, comm.rank, step])
    spend(seconds * (1.0 + (0.02 * random.standard_normal() if seed else 0.0)))


def charge(seconds: float) -> None:
    """Spend simulated time."""
    lk.compute(seconds=seconds)


def halo(comm: Any, seed: int, stall: Any, spend: Any = charge) -> None:
    """Neighbors around a ring, and two reductions."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    edge, many = np.zeros(5000), np.zeros(20000)
    for step in range(STEPS):
        requests = [comm.Irecv(edge.copy(), left, 1), comm.Irecv(edge.copy(), right, 2)]
        with lk.phase("solve"):
            scattered(comm, 2e-3, seed, spend, step)
            if stall and stall[:2] == (comm.rank, step):
                spend(stall[2])
        requests += [comm.Isend(edge, right, 1), comm.Isend(edge, left, 2)]
        lk.MPI.Request.Waitall(requests)
        comm.Allreduce(np.zeros(2), np.zeros(2))
        if step % 2:
            comm.Allreduce(many, many.copy())


def transpose(comm: Any, seed: int, stall: Any, spend: Any = charge) -> None:
    """Everybody with everybody, pair by pair."""
    block = np.zeros(8000)
    for step in range(STEPS // 2):
        with lk.phase("rows"):
            scattered(comm, 3e-3, seed, spend, step)
            if stall and stall[:2] == (comm.rank, step):
                spend(stall[2])
        for away in range(1, comm.size):
            there, back = (comm.rank + away) % comm.size, (comm.rank - away) % comm.size
            comm.Sendrecv(block, there, 0, block.copy(), back, 0)
        comm.Allreduce(np.zeros(2), np.zeros(2))


def rows_and_sums(comm: Any, seed: int, stall: Any, spend: Any = charge) -> None:
    """Shifts by one and by four, broadcasts and sums."""
    block, big = np.zeros(3000), np.zeros(30000)
    for step in range(STEPS):
        for by in (1, 4):
            there, back = (comm.rank + by) % comm.size, (comm.rank - by) % comm.size
            with lk.phase("part"):
                scattered(comm, 1e-3, seed, spend, step)
                if by == 1 and stall and stall[:2] == (comm.rank, step):
                    spend(stall[2])
            comm.Sendrecv(block, there, 0, block.copy(), back, 0)
        comm.Bcast(big, root=0)
        comm.Allreduce(np.zeros(64), np.zeros(64))


PROGRAMS = (halo, transpose, rows_and_sums)


class Fault(Variation):
    """Slow ranks, bad links and wrong routes that nobody has written down."""

    ranks: Mapping[int, float] = {}
    links: Sequence[str] = ()
    bandwidth = 1.0
    #: links of which both directions are one
    half: Sequence[str] = ()
    #: a host, and the one by which all that it sends goes
    detour: tuple[int, int] | None = None

    def after(self, before: Variation | None) -> Variation:
        """Return it alone."""
        return self

    def platform(self, built: Any, kind_of: Any) -> Any:
        """Return the machine with the links degraded."""
        if self.half or self.detour:
            return rewired(built, self.half, self.detour)
        chosen = [at for at in range(built.link_count) if built.link_name(at) in self.links]
        return built.degraded(chosen, self.bandwidth, 1.0) if chosen else built

    def factor(self, phases: Any, rank: int, visits: Any) -> float:
        """Return how much longer a rank computes."""
        return self.ranks.get(rank, 1.0)


def rewired(built: Any, half: Sequence[str], detour: tuple[int, int] | None) -> Any:
    """Return a machine with routes of its own: links that are one for both ways, a host that goes astray."""
    zones = _kernels.Zones()
    zone = zones.zone(-1, "full", "rewired")
    hosts = range(built.host_count)
    points = [zones.host(zone, built.speed(host), built.cores(host), str(host)) for host in hosts]
    number: dict[str, int] = {}
    for at in range(built.link_count):
        name, bandwidth, latency, policy = built.link(at)
        bandwidth *= _HALF if name in half else 1.0
        if name in half[1:]:
            number[name] = number[half[0]]
        else:
            number[name] = zones.link(bandwidth, latency, policy == "fatpipe", name)
    for source in hosts:
        for target in hosts:
            way = [source, target]
            if detour is not None and source == detour[0] and target != detour[1]:
                way.insert(1, detour[1])
            names = [name for step in pairwise(way) for name in built.route(*step)[0]]
            if source != target:
                zones.route(zone, points[source], points[target], [number[name] for name in names])
    return zones.build(built.rank_hosts)


class Threshold(Selector):
    """Takes another algorithm for allreduces of one range of sizes."""

    def __init__(self, most: int, name: str) -> None:
        self.most, self.name = most, name

    def choose(self, situation: Any) -> str | None:
        """Return the wrong one where the threshold is wrong."""
        wrong = situation.operation == "allreduce" and situation.n_bytes < self.most
        return self.name if wrong else None


def case(number: int, seed: int) -> tuple[Any, str, Fault, dict[str, Any], Any, tuple[str, ...], str]:
    """Return program, machine, fault, options, stall, words that would be right, and the fault's name."""
    random = np.random.default_rng([seed, number])
    program = PROGRAMS[number % 3]
    on = MACHINES[int(random.integers(3))]
    fault, how, stall = Fault(), {}, None
    host = int(random.integers(1, RANKS - 1))
    what = number % 7
    if what == 0:
        fault.__dict__["ranks"] = {host: float(random.uniform(1.3, 2.5))}
        words, name = (
            (f"rank {host}", f"host {host}"),
            f"host {host} computes {fault.ranks[host]:.2f} times as long",
        )
    elif what == 1:
        step, length = int(random.integers(2, STEPS // 2 - 1)), float(random.choice([0.05, 0.2]))
        stall = (host, step, length)
        words, name = (f"rank {host}",), f"rank {host} stalls for {length * 1e3:.0f} ms"
    elif what in (2, 3):
        built = lk.platform(on).sized(RANKS).build(RANKS)
        used = built.route(host, (host + 1) % RANKS)[0]
        link = used[0] if what == 2 else used[len(used) // 2]
        fault.__dict__.update(links=[link], bandwidth=float(random.uniform(0.05, 0.3)))
        words, name = (f"link {link}", *_end(link)), f"{link} has {fault.bandwidth:.0%} of its bandwidth"
    elif what == 4:
        how = {"coll": Threshold(8192, "ring")}
        words, name = ("Allreduce",), "small allreduces go by the ring"
    elif what == 5:
        built = lk.platform(on).sized(RANKS).build(RANKS)
        there, back = (
            built.route(host, (host + 1) % RANKS)[0][0],
            built.route((host + 1) % RANKS, host)[0][-1],
        )
        fault.__dict__.update(half=sorted((there, back), key=_order(built)))
        words = (f"link {there}", f"link {back}", *_end(there), *_end(back))
        name = f"{there} and {back} are one: half duplex"
    else:
        away = (host + RANKS // 2) % RANKS
        fault.__dict__["detour"] = (host, away)
        first = lk.platform(on).sized(RANKS).build(RANKS).route(host, away)[0][0]
        words = (f"host {host}", f"link {first}")
        name = f"all that host {host} sends goes by host {away}"
    return program, on, fault, how, stall, words, name


def _order(built: Any) -> Any:
    """Return a key that sorts names of links by their numbers."""
    names = [built.link_name(at) for at in range(built.link_count)]
    return names.index


def _end(link: str) -> tuple[str, ...]:
    """Return the host or the neighbors to which alone a link belongs: to name them is to name the link."""
    if cable := re.fullmatch(r"(\d+) -> (\d+) \(.*\)", link):
        return (f"from rank {cable.group(1)} to rank {cable.group(2)}",)
    own = re.fullmatch(r"(?:up|down) (\d+)|host (\d+) -> switch \S+|switch \S+ -> host (\d+)", link)
    return tuple(f"host {number}" for number in own.groups() if number) if own else ()


def noise(seed: int) -> lk.Noise:
    """Return jitter that takes 1 % of the time."""
    return lk.Noise(jitter_s=10e-6, period_s=1e-3, seed=seed)


def simulated(seed: int) -> tuple[int, int]:
    """Return how many of 20 faults are located, and how many of 20 healthy runs raise an alarm."""
    located = alarms = 0
    for number in range(20):
        program, on, fault, how, stall, words, name = case(number, seed)
        predicted = lk.run(program, RANKS, on, trace=True, kwargs={"seed": 0, "stall": None})
        own = {"kwargs": {"seed": seed + number + 1, "stall": stall}, "noise": noise(seed + number)}
        again = lk.run(program, RANKS, on, **own, **how)  # for its `again`
        misfits = again.again(trial=fault).against(predicted)
        right = bool(misfits.findings) and any(_has(misfits.findings[0].where, word) for word in words)
        located += right
        print(f"{'located' if right else 'MISSED '}  {program.__name__:13} {on:20} {name}")
        print(f"    {misfits.reading()}")
        healthy = {
            "kwargs": {"seed": seed + 100 + number, "stall": None},
            "noise": noise(seed + 500 + number),
        }
        quiet = lk.run(program, RANKS, on, trace=True, **healthy).against(predicted)
        if quiet.findings:
            alarms += 1
            print(f"ALARM    {program.__name__:13} {on:20} nothing is wrong\n    {quiet.reading()}")
    return located, alarms


def _has(where: str, word: str) -> bool:
    """Whether a place is among the names of a finding."""
    return re.search(rf"(?<!\w){re.escape(word)}(?![\w.])", where) is not None


def real() -> int:
    """Return how many of four faults on real MPI are located."""
    ranks, located = 4, 0
    program = halo
    predicted = lk.run(program, ranks, "star:4", trace=True, kwargs={"seed": 0, "stall": None})
    for rank, step, length in ((2, 7, 0.2), (1, 3, 0.2), (3, 15, 0.3), (0, 20, 0.2)):
        how = {"seed": 0, "stall": (rank, step, length), "spend": time.sleep}
        misfits = lk.run(program, ranks, "mpi", trace=True, kwargs=how).against(predicted)
        stalls = [one for one in misfits.findings if one.what == "stall" and one.kind == "computation"]
        right = bool(stalls) and _has(stalls[0].where, f"rank {rank}")
        located += right
        print(f"{'located' if right else 'MISSED '}  real MPI, rank {rank} stalls\n    {misfits.reading()}")
    return located


def main() -> None:
    """Print every case and the counts."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--real", action="store_true")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    began = time.perf_counter()
    located, alarms = simulated(given.seed)
    print(f"{located} of 20 located, {alarms} alarms in 20 healthy runs; {time.perf_counter() - began:.0f} s")
    if given.real:
        print(f"on real MPI {real()} of 4 located")


if __name__ == "__main__":
    main()
