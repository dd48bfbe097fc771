"""Live comparison with SimGrid: the same message programs here and under smpirun, predictions and host time.

``--fuzz N`` adds N random programs on random machines under random models (``--seed`` for other ones,
``--kind`` for one kind of program; ``--crowded``: they compute, on hosts with fewer cores than ranks);
``--names`` keeps the cases whose names contain one of the words.
SimGrid's host time includes what smpirun needs to start, which is printed once; labkit's includes reading the
program.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import communicator
import driver
import numpy as np
from all_cases import all_cases
from cases import FINE, FULL, Case
from cores_cases import crowded
from named import EVERY, NAMED, OF_MESSAGE_PROGRAMS
from random_cases import KINDS, START_NS, random_case

from labkit import registry
from labkit.errors import DeadlockError
from labkit.machines.mapping import mapping_of
from labkit.machines.platform import Platform, platform
from labkit.sim.schedules import simulate
from tests.support.message_program import run_program

TOLERANCE = 1e-6


def compare(case: Case, folder: Path) -> tuple[float, str]:
    """The largest relative difference of a mark, and a line to print."""
    theirs = driver.run(case.program, case.ranks, case.platform, case.network_model, folder, case.simgrid)
    begin = time.perf_counter()
    try:
        marks, messages = labkit_marks(case)
    except DeadlockError as error:
        return float("inf"), f"{case.name}: {error}"
    took = time.perf_counter() - begin
    if case.machine is not None:
        assert np.array_equal(marks, labkit_marks(reread(case, folder))[0]), (
            "the file read back is another machine"
        )
    mine, other = marks, np.concatenate(theirs.marks)
    different = mine != other
    took_s = other[different] - (START_NS * 1e-9 if "until" in case.program else 0.0)
    worst = float((np.abs(mine - other)[different] / took_s).max(initial=0.0))
    ratio = theirs.host_seconds / took
    figures = f"{theirs.host_seconds:10.3f} {took:10.4f} {ratio:8.0f} {worst:10.1e}"
    return worst, f"{case.name:36} {case.ranks:5} {messages:8} {figures}"


def reread(case: Case, folder: Path) -> Case:
    """Read the platform file that SimGrid was given; the ranks stand where they stood."""
    machine = platform(folder / "platform.xml")
    mapping = mapping_of([int(host) for host in case.platform.rank_hosts(case.ranks)])
    return replace(case, machine=Platform(machine.description, mapping=mapping))


def labkit_marks(case: Case) -> tuple[np.ndarray, int]:
    """Every rank's marks, one after the other, and how many messages there were."""
    if operation_of(case.program) in set(NAMED) - set(OF_MESSAGE_PROGRAMS):
        ran = as_schedule(case)
        return ran.end_s, ran.messages
    if communicator.needs_communicator(case.program):
        chosen = algorithms_of(case.program)
        return communicator.marks_of(case.program, case.ranks, case.platform, case.network_model, chosen)
    ran = run_program(case.program, case.ranks, case.platform, case.network_model)
    return np.concatenate(ran.marks), ran.messages


def algorithms_of(program: str) -> dict[str, str]:
    """Collective -> labkit's algorithm, for every collective of a program."""
    words = set(re.findall(r"[a-z_]+", program)) & set(EVERY)
    return {EVERY[word][0]: EVERY[word][1] for word in sorted(words)}


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
    parser.add_argument("--kind", choices=sorted(KINDS), default="")
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--crowded", action="store_true", help="random programs compute, on too few cores")
    parser.add_argument("--quiet", action="store_true", help="print only what differs")
    chosen = parser.parse_args()
    if not driver.is_there():
        print("smpirun is not here (Debian: apt install libsimgrid-dev); nothing to compare with")
        return 0
    cases = [c for c in all_cases() if not chosen.names or any(word in c.name for word in chosen.names)]
    seeds = range(chosen.seed, chosen.seed + chosen.fuzz)
    drawn = [(seed, random_case(seed, chosen.kind)) for seed in seeds]
    cases += [crowded(case, seed) if chosen.crowded else case for seed, case in drawn]
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
