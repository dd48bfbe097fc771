"""The cost of one simulation to this computer, beside the same program in C under smpirun in the same run.

CPU seconds of the whole simulation, best of `--best` (2). labkit's are those of a process that has imported
it already and made one tiny run; SimGrid's are those of smpirun and its children, less those of an empty
program of two ranks. `start` is the part that an empty program of as many ranks takes. SimGrid runs as fast
as its options make it: nobody's globals are privatised (`peer.c` has none), alltoall's buffers are memory in
common whose copies it skips. labkit is measured as Python rank programs (`ranks`), as the collective's
schedule without them (`schedule`, whole), and by two ranks that stand for all (`quotient`). The target is
asked of the first where it exists, and of the schedule for alltoall: SimGrid moves no data either.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import driver
import numpy as np

import labkit as lk
from labkit import registry
from labkit.machines.models import get
from labkit.machines.platform import platform
from labkit.machines.xml.writer import host_file, platform_xml, smpirun_options
from labkit.sim.schedules import simulate

STAR = "star:{p},bw=1.25GBps,lat=1us"
MODEL = "smpi"


@dataclass(frozen=True)
class Case:
    """A program of `peer.c`, its ranks, its number, and what is asked: SimGrid's CPU time over labkit's."""

    program: str
    ranks: int
    number: int
    algorithm: str
    simgrid: str
    at_least: float


CASES = [
    Case("allreduce", 4096, 8, "recursive_doubling", "rdb", 20),
    Case("alltoall", 256, 1 << 16, "pairwise", "pair", 10),
    Case("alltoall", 256, 1 << 16, "linear", "basic_linear", 50),
    *(Case("ring", p, max(10, 65536 // p), "", "", 1) for p in (64, 256, 1024, 4096, 16384)),
]


def start(comm: Any) -> None:
    """Nothing."""


def ring(comm: Any, rounds: int) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    send, receive = np.zeros(1), np.zeros(1)
    for _ in range(rounds):
        comm.Send(send, right)
        comm.Recv(receive, left)


def allreduce(comm: Any, n_bytes: int) -> None:
    send, receive = np.zeros(n_bytes, np.uint8), np.empty(n_bytes, np.uint8)
    comm.Allreduce(send, receive, lk.MPI.BOR)


def labkit_cpu(name: str, ranks: int, number: int, algorithm: str, way: str) -> tuple[float, Any]:
    """CPU seconds of one simulation in this process, and its result."""
    on = STAR.format(p=ranks)
    begin = time.process_time()
    if way != "ranks":
        schedule, symmetry = registry.get(name, algorithm).build(ranks), way == "quotient"
        result: Any = simulate(schedule, on, MODEL, n_bytes=number, symmetry=symmetry)
    else:
        program: Callable[..., None] = {"ring": ring, "allreduce": allreduce}.get(name, start)
        args = () if program is start else (number,)
        coll = {name: algorithm} if algorithm else None
        result = lk.run(program, ranks, on=on, model=MODEL, args=args, coll=coll, timeout_s=None)
    return time.process_time() - begin, result


def in_child(*arguments: Any) -> dict[str, float]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--cell", json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def cell(name: str, ranks: int, number: int, algorithm: str, way: str, best: int) -> dict[str, float]:
    """What the child does: warm up, then the best of some runs."""
    labkit_cpu(name, 4, 1, algorithm, way)
    runs = [labkit_cpu(name, ranks, number, algorithm, way) for _ in range(best)]
    return {"cpu_s": min(run[0] for run in runs), "makespan_s": runs[0][1].makespan_s}


def smpirun_cpu(
    folder: Path, name: str, ranks: int, number: int, simgrid: str, best: int
) -> tuple[float, float]:
    """CPU seconds of one smpirun, and the seconds that rank 0 took in simulated time."""
    machine = platform(STAR.format(p=ranks))
    (folder / "platform.xml").write_text(platform_xml(machine, ranks))
    (folder / "hosts.txt").write_text(host_file(machine, ranks))
    options = [*smpirun_options(get(MODEL)), "smpi/privatization:no"]
    if simgrid:
        options.append(f"smpi/{name}:{simgrid}")
    where = ["-np", str(ranks), "-platform", "platform.xml", "-hostfile", "hosts.txt"]
    cfg = ["--log=root.thres:warning", *(f"--cfg={option}" for option in options)]
    command = ["smpirun", *where, *cfg, "./peer", name, str(number)]
    used = []
    for _ in range(best):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(used), float(done.stdout.split()[-2])


def compare(case: Case, folder: Path | None, empty_s: float, best: int) -> bool:
    """Print one row; False when the target is missed."""
    has_schedule = bool(case.algorithm)
    has_ranks = case.program != "alltoall"
    mine: dict[str, dict[str, float]] = {}
    if has_ranks:
        mine["ranks"] = in_child(case.program, case.ranks, case.number, case.algorithm, "ranks", best)
    if has_schedule:
        for way in ("schedule", "quotient"):
            mine[way] = in_child(case.program, case.ranks, case.number, case.algorithm, way, best)
    starting = in_child("start", case.ranks, 0, "", "ranks", best)["cpu_s"]
    judged = mine["ranks" if has_ranks else "schedule"]
    label = f"{case.program} {case.algorithm}".strip()
    shown = "  ".join(
        f"{mine[way]['cpu_s']:8.3f}" if way in mine else 8 * " " for way in ("ranks", "schedule", "quotient")
    )
    line = f"{label:29} {case.ranks:6} {case.number:6}  {shown}  {starting:7.3f}"
    if folder is None:
        print(line, flush=True)
        return True
    whole, makespan = smpirun_cpu(folder, case.program, case.ranks, case.number, case.simgrid, best)
    starts, _ = smpirun_cpu(folder, "start", case.ranks, 0, "", best)
    ratio = (whole - empty_s) / judged["cpu_s"]
    is_met = ratio >= case.at_least
    verdict = f"{ratio:7.1f} of {case.at_least:3g} {'met' if is_met else 'MISSED'}"
    # SimGrid's own clock adds what MPI_Wtime costs
    difference = abs(makespan - 1e-8 - judged["makespan_s"]) / judged["makespan_s"]
    print(
        f"{line}  {whole - empty_s:8.3f} {starts - empty_s:7.3f}  {verdict:18} {difference:8.1e}", flush=True
    )
    return is_met


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--best", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="programs of peer.c, algorithms")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.cell:
        print(json.dumps(cell(*json.loads(chosen.cell))))
        return 0
    cases = [c for c in CASES if not chosen.only or {c.program, c.algorithm} & set(chosen.only)]
    print(
        f"CPU s; load average {os.getloadavg()[0]:.1f}{' (machine busy)' if os.getloadavg()[0] > 1 else ''}"
    )
    print(f"{'':46} labkit{'':33} SimGrid")
    print(
        f"{'program':29}  ranks number     ranks  schedule  quotient    start     whole   start"
        "   ratio, target     differs"
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder, empty_s = None, 0.0
        if driver.is_there():
            folder = Path(temporary)
            peer = str(Path(__file__).parent / "peer.c")
            subprocess.run(["smpicc", "-O2", peer, "-o", str(folder / "peer")], check=True)
            empty_s, _ = smpirun_cpu(folder, "start", 2, 0, "", 3)
        else:
            print("smpirun is not here (Debian: apt install libsimgrid-dev); nothing to compare with")
        missed = [c for c in cases if not compare(c, folder, empty_s, chosen.best)]
    if missed:
        print("missed: " + ", ".join(f"{c.program} {c.algorithm} {c.ranks}" for c in missed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
