"""The reach of one computer: CPU seconds and peak memory of the largest simulations, a process each.

The targets are those of a computer of 23 GB; a case that needs more memory than is free is left out with a
word. Start-up of the interpreter and imports are in the memory, not in the time. The first four run Python
rank programs by `lk.run`, isolated as by default; the schedules are collectives without rank programs,
simulated whole (`symmetry=False`) and by the quotient.

    python benchmarks/scale.py --only start        # the cases whose names contain one of the words
    python benchmarks/scale.py --largest 65536     # leave out more ranks
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import labkit as lk
from labkit import registry
from labkit.sim.schedules import simulate

MILLION = 1 << 20
#: where no time is promised
INFINITY = float("inf")


@dataclass(frozen=True)
class Case:
    name: str
    ranks: int
    on: str
    most_s: float
    most_mib: float


CASES = [
    Case("torus allreduce", 32768, "torus:32x32x32", 4, 600),
    Case("torus ep", 65536, "torus:32x32x64", 20, 1200),
    Case("start", MILLION, "star:{p}", 25, 8192),
    Case("barrier", MILLION, "star:{p}", INFINITY, 8192),  # all ranks alive at once
    Case("schedule whole", MILLION, "star:{p}", INFINITY, 4096),
    Case("schedule", MILLION, "star:{p}", 15, 4096),
]


def start(comm: Any) -> int:
    """Nothing but to be there."""
    return comm.rank  # type: ignore[no-any-return]


def barrier(comm: Any) -> None:
    comm.Barrier()


def allreduce(comm: Any) -> None:
    comm.Allreduce(np.zeros(1), np.empty(1))


def ep(comm: Any) -> None:
    """The NAS kernel EP: much computing, charged, and three reductions of what was counted."""
    lk.compute(seconds=1.0)
    for n in (1, 2, 10):
        comm.Allreduce(np.zeros(n), np.empty(n))


def run_case(case: Case) -> Any:
    """Run a case in this process."""
    on = case.on.format(p=case.ranks)
    if case.name.startswith("schedule"):
        schedule = registry.get("allreduce", "recursive_doubling").build(case.ranks)
        return simulate(schedule, on, n_bytes=8, symmetry=case.name == "schedule")
    programs: dict[str, Callable[..., Any]] = {"start": start, "barrier": barrier, "torus ep": ep}
    coll = {"allreduce": "recursive_doubling", "barrier": "dissemination"}
    return lk.run(programs.get(case.name, allreduce), case.ranks, on=on, timeout_s=None, coll=coll)


def cell(case: Case) -> dict[str, float]:
    """What the child does; a tiny run first, for the imports."""
    run_case(Case(case.name, 4, "star:{p}", 0, 0))
    begin = time.process_time()
    result = run_case(case)
    cpu_s = time.process_time() - begin
    shown = len(repr(result)) + len(getattr(result, "_repr_html_", str)())
    return {
        "cpu_s": cpu_s,
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "makespan_s": result.makespan_s,
        "messages": result.messages or 0,
        "shown": shown,
    }


def free_mib() -> float:
    """Return the memory that is free."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--largest", type=int, default=MILLION)
    parser.add_argument("--cell", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.cell is not None:
        print(json.dumps(cell(CASES[chosen.cell])))
        return 0
    load = os.getloadavg()[0]
    print(f"load average {load:.1f}{' (machine busy: times are too long)' if load > 1 else ''}")
    print(
        f"{'case':16} {'ranks':>8} {'on':16} {'CPU s':>8} {'of':>4} {'RSS MiB':>8} {'of':>6} {'messages':>9} "
        "makespan"
    )
    for number, case in enumerate(CASES):
        if case.ranks > chosen.largest or (chosen.only and not any(w in case.name for w in chosen.only)):
            continue
        if free_mib() < case.most_mib:
            print(f"{case.name:16} {case.ranks:8}  not run: {free_mib():.0f} MiB of memory are free")
            continue
        command = [sys.executable, __file__, "--cell", str(number)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{case.name:16} {case.ranks:8}  failed: {(done.stderr.splitlines() or ['?'])[-1]}")
            continue
        found = json.loads(done.stdout)
        is_met = found["cpu_s"] <= case.most_s and found["rss_mib"] <= case.most_mib
        on = case.on.format(p=case.ranks)
        print(
            f"{case.name:16} {case.ranks:8} {on:16} {found['cpu_s']:8.2f} {case.most_s:4.0f} "
            f"{found['rss_mib']:8.0f} {case.most_mib:6.0f} {found['messages']:9} {found['makespan_s']:.6g} s "
            f"{('met' if is_met else 'MISSED') if case.most_s < INFINITY else ''}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
