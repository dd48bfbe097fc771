"""Live comparison with SimGrid: the same message programs here and under smpirun, predictions and host time.

``--fuzz N`` adds N random programs on random stars under random models (``--seed`` for other ones);
``--names`` keeps the cases whose names contain one of the words. SimGrid's host time includes what smpirun
needs to start, which is printed once; labkit's includes reading the program.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import driver
import numpy as np
from cases import (
    CONTENDED,
    FINE,
    FULL,
    GIGABIT,
    STAR,
    Case,
    all_cases,
    blocking_mix,
    linear_alltoall,
    posted_mix,
)
from named import NAMED, OF_MESSAGE_PROGRAMS

from labkit import registry
from labkit.errors import DeadlockError
from labkit.schedule.native import simulate
from labkit.sim.message_program import run_program

TOLERANCE = 1e-6


def random_star(rng: random.Random) -> str:
    spec = rng.choice([STAR, GIGABIT, CONTENDED, "odd"])
    if spec == "odd":
        spec = (
            f"star:{{p}},bw={rng.randrange(10, 5000)}MBps,lat={rng.choice([0, rng.randrange(1, 90_000)])}ns"
        )
        if rng.random() < 0.4:
            spec += f",limiter={rng.randrange(10, 9000)}MBps"
        if rng.random() < 0.4:
            spec += f",bb_bw={rng.randrange(10, 20_000)}MBps,bb_sharing={rng.choice(['shared', 'fatpipe'])}"
    if rng.random() < 0.2:
        spec += ",sharing=shared"
    if rng.random() < 0.3:
        spec += ",cores=2" + (",loopback_bw=6GBps,loopback_lat=100ns" if rng.random() < 0.5 else "")
    return spec


def random_case(seed: int) -> Case:
    rng = random.Random(f"labkit {seed}")
    p = rng.randrange(2, 17) if rng.random() < 0.9 else 64
    spec = random_star(rng)
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["cross_traffic"] = rng.random() < 0.5
    if rng.random() < 0.3:
        options["detached_below_bytes"] = rng.choice([0, 1000, 300_000])
    messages = rng.randrange(1, 8 * p)
    kind = rng.random()
    if kind < 0.2:
        program = linear_alltoall(seed, p, rng.choice([100, 10_000, 100_000]), rng.random() < 0.7)
    elif kind < 0.5:
        program = blocking_mix(seed, p, messages)
    else:
        wait = rng.choice(["waitall", "waitany", "wait", "test"])
        program = posted_mix(seed, p, messages, rng.random() < 0.4 and wait in ("waitall", "wait"), wait)
    model = rng.choice(["raw", "cm02", "lv08", "smpi", "lab"])
    return Case(f"random-{seed}", p, spec.format(p=p), model, program, options, FINE + FULL)


def compare(case: Case, folder: Path) -> tuple[float, str]:
    """The largest relative difference of a mark, and a line to print."""
    theirs = driver.run(case.program, case.ranks, case.platform, case.network_model, folder, case.simgrid)
    begin = time.perf_counter()
    try:
        marks, messages = labkit_marks(case)
    except DeadlockError as error:
        return float("inf"), f"{case.name}: {error}"
    took = time.perf_counter() - begin
    mine, other = marks, np.concatenate(theirs.marks)
    different = mine != other
    worst = float((np.abs(mine - other)[different] / other[different]).max(initial=0.0))
    ratio = theirs.host_seconds / took
    figures = f"{theirs.host_seconds:10.3f} {took:10.4f} {ratio:8.0f} {worst:10.1e}"
    return worst, f"{case.name:36} {case.ranks:5} {messages:8} {figures}"


def labkit_marks(case: Case) -> tuple[np.ndarray, int]:
    """Every rank's marks, one after the other, and how many messages there were."""
    if operation_of(case.program) in set(NAMED) - set(OF_MESSAGE_PROGRAMS):
        ran = as_schedule(case)
        return ran.end_s, ran.messages
    ran = run_program(case.program, case.ranks, case.platform, case.network_model)
    return np.concatenate(ran.marks), ran.messages


def operation_of(program: str) -> str:
    """The collective of a program of one, ``*: bcast 8 0; mark``; empty for any other."""
    name = program.removeprefix("*:").split(";")[0].split()[0]
    return name if program.startswith("*:") and name in NAMED else ""


def as_schedule(case: Case) -> Any:
    """Run a program of one collective from its native schedule."""
    _, *numbers = case.program.removeprefix("*:").split(";")[0].split()
    size, root = (*map(int, numbers), 0, 0)[:2]
    problem, algorithm, _ = NAMED[operation_of(case.program)]
    schedule = registry.get(problem, algorithm).build(case.ranks, root=root)
    return simulate(schedule, case.platform, case.network_model, n_bytes=size)


def native_seconds(case: Case) -> float:
    """Host time of the same collective, run from its schedule; the second of two runs."""
    for _ in range(2):
        begin = time.perf_counter()
        as_schedule(case)
        took = time.perf_counter() - begin
    return took


def start_up(folder: Path) -> float:
    case = all_cases()[0]
    return driver.run("*: mark\n", 2, case.platform, case.network_model, folder).host_seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fuzz", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--quiet", action="store_true", help="print only what differs")
    chosen = parser.parse_args()
    if not driver.is_there():
        print("smpirun is not here (Debian: apt install libsimgrid-dev); nothing to compare with")
        return 0
    cases = [c for c in all_cases() if not chosen.names or any(word in c.name for word in chosen.names)]
    cases += [random_case(chosen.seed + i) for i in range(chosen.fuzz)]
    worst, failed = 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        driver.compile_interpreter(Path(folder))
        print(f"SimGrid {driver.version()}, {start_up(Path(folder)):.3f} s to start")
        print(f"{'case':36} ranks messages  SimGrid s   labkit s    ratio difference")
        for case in cases:
            error, line = compare(case, Path(folder))
            if error > TOLERANCE and case.simgrid == FINE + FULL:
                # Where its own two ways of updating part (ties), either will do.
                error, line = compare(replace(case, simgrid=FINE), Path(folder))
            worst = max(worst, error)
            if operation_of(case.program):
                line += f"   schedule {native_seconds(case):.4f} s"
            if error > TOLERANCE:
                failed.append(case.name)
            if error > TOLERANCE or not chosen.quiet:
                print(line, flush=True)
    print(f"{len(cases)} programs, largest relative difference {worst:.1e}")
    if failed:
        print(f"differ by more than {TOLERANCE:g}: {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
