"""Collectives made for a machine, beside every algorithm of the registry and the lower bound.

Bias: simulated time on an otherwise idle machine, the network model `raw` (links alone); algorithms of the
registry with their default parameters, and in segments of the lengths that `lk.tune` tries, ranks in the
machine's order. Targets:
on 10 of 12 machines as fast as the best of the registry or faster; on 8 of them within 1.25 of the lower
bound; an allreduce for 512 ranks of a graph with uneven links made, proved and simulated within 60 s; the
exact search finds the optima that SCCL publishes.

``python benchmarks/synthesis.py [exact|allgather|reduce_scatter|allreduce|alltoall|bcast|large] ...``: all
of them without arguments. A reduce-scatter is held against the algorithms of blocks of one size, too.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

import pandas as pd

import labkit as lk
from labkit.machines.platform import Platform
from labkit.selector.situation import candidates
from labkit.synthesis import exact_points
from labkit.tuning.tuned import SimulatedMachine, measure_algorithms

#: links of an NVIDIA DGX-1 (eight V100) between its GPUs, of 25 GB/s each way
DGX1 = [
    (0, 1, 2), (0, 2, 1), (0, 3, 1), (0, 4, 2), (1, 2, 1), (1, 3, 2), (1, 5, 1), (2, 3, 2), (2, 6, 2), (3, 7,
    1), (4, 5, 2), (4, 6, 1), (4, 7, 1), (5, 6, 1), (5, 7, 2), (6, 7, 2),
]  # fmt: skip
#: chunks, steps and rounds of an allgather: the fewest steps, and the least bandwidth, of the SCCL paper for
#: DGX-1; for ring and hypercube what diameter and links into a rank allow
OPTIMA = {"ring of 4": {(2, 2, 3)}, "hypercube of 8": {(3, 3, 7)}, "DGX-1": {(2, 2, 3), (6, 3, 7)}}

#: problems whose algorithms do the same where all blocks have one size
ALIKE = {"reduce_scatter_block": ("reduce_scatter", "reduce_scatter_block")}


def graph(edges: list[Any], hosts: int, name: str) -> Platform:
    """Return a machine of cables between hosts."""
    return lk.graph(edges, range(hosts), bw="10Gbps", lat="1us", name=name)


def torus_edges(rows: int, columns: int) -> list[tuple[int, int]]:
    """Return the cables of a two-dimensional torus."""
    at = lambda r, c: (r % rows) * columns + c % columns  # noqa: E731
    return [
        pair
        for r in range(rows)
        for c in range(columns)
        for pair in ((at(r, c), at(r, c + 1)), (at(r, c), at(r + 1, c)))
    ]


def uneven(hosts: int, degree: int, seed: int) -> list[Any]:
    """Return a ring and random chords, of three bandwidths."""
    draw = random.Random(seed)
    pairs = {(i, (i + 1) % hosts) for i in range(hosts)}
    while len(pairs) < hosts * degree // 2:
        a, b = draw.sample(range(hosts), 2)
        if (b, a) not in pairs:
            pairs.add((a, b))
    return [(a, b, {"bw": draw.choice(["10Gbps", "20Gbps", "40Gbps"])}) for a, b in sorted(pairs)]


def machines() -> dict[str, Any]:
    """Return the twelve machines: regular, irregular, with cut links."""
    hypercube = [(i, i ^ (1 << k)) for i in range(8) for k in range(3) if i < i ^ (1 << k)]
    dgx1 = [(a, b, {"bw": f"{n * 25}GBps"}) for a, b, n in DGX1]
    cut_torus = [edge for edge in torus_edges(4, 4) if edge not in ((0, 1), (5, 9))]
    slow_star = [(i, "switch", {"bw": "2Gbps" if i in (3, 7) else "10Gbps"}) for i in range(12)]
    dumbbell = [(i, "left" if i < 6 else "right") for i in range(12)] + [("left", "right", {"bw": "40Gbps"})]
    tree = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6), (4, 7), (5, 8), (8, 9)]
    return {
        "ring of 9": graph([(i, (i + 1) % 9) for i in range(9)], 9, "ring"),
        "torus 4x4": lk.platform("torus:4x4,model=raw"),
        "torus 3x3x3": lk.platform("torus:3x3x3,model=raw"),
        "hypercube of 8": graph(hypercube, 8, "hypercube"),
        "fat tree of 16": lk.platform("fattree:4x4:1x2:1x2,model=raw"),
        "star of 12, two slow": graph(slow_star, 12, "star"),
        "two switches, 12": graph(dumbbell, 12, "dumbbell"),
        "DGX-1": graph(dgx1, 8, "dgx1"),
        "uneven graph of 16": graph(uneven(16, 4, 1), 16, "uneven"),
        "uneven graph of 24": graph(uneven(24, 5, 2), 24, "uneven"),
        "torus 4x4, two links cut": graph(cut_torus, 16, "cut torus"),
        "tree of 10": graph(tree, 10, "tree"),
    }


def compare(problem: str, n_bytes: int) -> None:
    """Print a line for each machine."""
    print(f"\n{problem}, {n_bytes:,} B")
    print(
        f"{'machine':26} {'made':>10} {'registry':>10} {'its best':26} "
        f"{'bound':>10} {'ratio':>6} {'CPU s':>6}"
    )
    wins = near = 0
    for name, machine in machines().items():
        begin = time.process_time()
        made = lk.synthesize(problem, machine, n_bytes=n_bytes, model="raw")
        spent = time.process_time() - begin
        p = made.schedule.size
        times = pd.concat(
            measure_algorithms(SimulatedMachine(machine, "raw"), of, [(p, n_bytes)], candidates(of))
            for of in ALIKE.get(problem, (problem,))
        ).sort_values("time_s")
        best_s, best = float(times["time_s"].iloc[0]), str(times["algorithm"].iloc[0])
        wins += made.time_s <= best_s * (1 + 1e-9)
        near += made.ratio <= 1.25
        print(
            f"{name:26} {1e6 * made.time_s:10.1f} {1e6 * best_s:10.1f} {best:26} "
            f"{1e6 * made.bound.seconds:10.1f} {made.ratio:6.3f} {spent:6.1f}  {made.method}",
            flush=True,
        )
    print(f"as fast as the registry or faster on {wins} of 12, within 1.25 of the bound on {near} of 12")


def large() -> None:
    """Make, prove and simulate an allreduce for 512 ranks of a graph with uneven links."""
    machine = graph(uneven(512, 6, 3), 512, "uneven")
    begin, clock = time.process_time(), time.perf_counter()
    made = lk.synthesize("allreduce", machine, n_bytes=64 << 20, model="raw", chunks=1)
    cpu, wall = time.process_time() - begin, time.perf_counter() - clock
    print(f"\n{made.explain()}\nCPU {cpu:.1f} s, wall {wall:.1f} s (made, proved, simulated; target 60 s)")


def exact() -> None:
    """Search exactly for allgathers, and hold what is found against the published optima."""
    some = machines() | {"ring of 4": graph([(i, (i + 1) % 4) for i in range(4)], 4, "ring")}
    for name, wanted in OPTIMA.items():
        begin = time.process_time()
        points = exact_points("allgather", some[name])
        spent = time.process_time() - begin
        found = {(point.chunks, point.steps, point.rounds) for point in points}
        print(f"\n{name}: {'as published' if found == wanted else f'published {wanted}'}, {spent:.1f} s CPU")
        print("\n".join(f"  {point}" for point in points), flush=True)


PIECES = {
    "exact": exact,
    "allgather": lambda: compare("allgather", 1 << 20),
    "reduce_scatter": lambda: compare("reduce_scatter_block", 1 << 20),
    "allreduce": lambda: compare("allreduce", 16 << 20),
    "alltoall": lambda: compare("alltoall", 1 << 16),
    "bcast": lambda: compare("bcast", 16 << 20),
    "large": large,
}

if __name__ == "__main__":
    for piece in sys.argv[1:] or PIECES:
        PIECES[piece]()
