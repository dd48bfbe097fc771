"""The cost of simulating a sort at p = 1024 to this computer: every sorter on star, torus and fat tree.

Model `lab` with cross-traffic, 1000 int64 keys per rank (mini sort: one), seeded. Each cell is a process of
its own. `CPU s` is the processor time of the whole run, starting the ranks included, importing not; `us/msg`
is that per simulated message; `RSS` is the process's largest memory. Makespans must never change from one
version to the next unless an algorithm or a model does.

    python benchmarks/sorts.py --sort sample_sort --on star:1024 --ranks 1024
    python benchmarks/sorts.py --profile --sort sample_sort --on star:1024   # calls of Python, by own time
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

import labkit as lk
from labkit import registry
from labkit.errors import LabkitError

KEYS_PER_RANK = 1000
RANKS = 1024
#: the platforms of the table; {p} is the number of ranks
PLATFORMS = ("star:{p}", "torus:8x8x16", "fattree:16x8x8:1x8x8:1x1x1")
#: seconds of CPU at 1024 ranks: (sort, kind of platform); a splitter-based sort is any other
TARGETS_S = {"radix_sort": (40.0, 120.0), "mini_sort": (3.3, 10.0), "": (8.3, 25.0)}


def target_s(sort: str, on: str) -> float:
    """Return the target of a cell: the star's, or the fat tree's (taken for the torus, too)."""
    star, other = TARGETS_S.get(sort, TARGETS_S[""])
    return star if on.startswith("star") else other


def program(comm: Any, sort: str) -> int:
    """Sort random keys; return how many this rank ends with."""
    keys = np.random.default_rng([7, comm.rank]).integers(
        -(2**63), 2**63, KEYS_PER_RANK, np.int64, endpoint=False
    )
    if sort == "mini_sort":
        keys = keys[:1]
    function = registry.get("sorting", sort).function
    assert function is not None
    return len(function(comm, keys))


def measure(sort: str, on: str, ranks: int) -> dict[str, float]:
    """Run one cell in this process."""
    lk.run(program, 2, on="star", args=(sort,))  # imports
    begin = time.process_time()
    run = lk.run(program, ranks, on=on, args=(sort,), timeout_s=None, model="lab")
    cpu_s = time.process_time() - begin
    # mini sort may leave a rank with none or two: the total is what must be right
    assert sum(run.results) == ranks * (1 if sort == "mini_sort" else KEYS_PER_RANK)
    return {
        "cpu_s": cpu_s,
        "messages": float(run.messages or 0),
        "makespan_s": run.makespan_s,
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def profile(sort: str, on: str, ranks: int) -> None:
    """Print which Python functions take the time; ranks are greenlets, so cumulative times mean little."""
    lk.run(program, 2, on="star", args=(sort,))
    profiler = cProfile.Profile()
    profiler.runcall(lk.run, program, ranks, on=on, args=(sort,), timeout_s=None, model="lab")
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def row(sort: str, on: str, ranks: int) -> None:
    """Measure one cell in a process of its own and print it."""
    command = [sys.executable, __file__, "--cell", "--sort", sort, "--on", on, "--ranks", str(ranks)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{sort:22} {on:26} {ranks:6}  not run: {(done.stderr.splitlines() or ['?'])[-1]}", flush=True)
        return
    cell = json.loads(done.stdout)
    verdict = ""
    if ranks == RANKS:
        target = target_s(sort, on)
        verdict = f"{target:6.1f} {'met' if cell['cpu_s'] <= target else 'MISSED'}"
    each_us = cell["cpu_s"] / max(cell["messages"], 1) * 1e6
    print(
        f"{sort:22} {on:26} {ranks:6} {cell['cpu_s']:8.2f} {cell['messages']:10.0f} {each_us:7.2f} "
        f"{cell['makespan_s'] * 1e3:15.9g} {cell['rss_mib']:8.0f}  {verdict}",
        flush=True,
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=RANKS)
    parser.add_argument("--on", nargs="+", help="platforms")
    parser.add_argument("--sort", nargs="+", help="files of algorithms/sorting (default: all)")
    parser.add_argument("--cell", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--profile", action="store_true", help="profile Python instead")
    chosen = parser.parse_args()
    platforms = chosen.on or [on.format(p=chosen.ranks) for on in PLATFORMS]
    sorts = chosen.sort or registry.names("sorting")
    if chosen.cell:
        try:
            print(json.dumps(measure(sorts[0], platforms[0], chosen.ranks)))
        except LabkitError as error:
            print(str(error).splitlines()[0], file=sys.stderr)
            return 1
        return 0
    if chosen.profile:
        profile(sorts[0], platforms[0], chosen.ranks)
        return 0
    print(
        f"{'sort':22} {'on':26} {'ranks':>6} {'CPU s':>8} {'messages':>10} {'us/msg':>7} {'makespan ms':>15} "
        f"{'RSS MiB':>8}  target s"
    )
    for on in platforms:
        for sort in sorts:
            row(sort, on, chosen.ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
