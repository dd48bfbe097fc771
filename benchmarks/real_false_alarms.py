"""False alarms on real MPI: 100 launches of a program that keeps its promise, each measured and judged.

Two ranks do n blocks of the same work and agree on the sum: O(n). In every launch all sizes are measured with
`labkit.measure`, in rounds of random order, and judged against n; "none" is a false alarm. Each is measured
twice, so that a guideline with the same on both sides can be checked on every three launches; "violated" is
a false alarm, too. The load of the host is told: on a busy one the figure is about the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from typing import Any

import numpy as np

import labkit as lk
from labkit.errors import LabkitError
from labkit.study.guidelines import compare_all
from labkit.study.guidelines.check import rounds
from labkit.study.guidelines.report import SideTimes

SIZES = (8, 16, 32, 64, 128, 256)


def program(comm: Any, sizes: tuple[int, ...], repeats: int, seed: int) -> list[Any]:
    """Return for each size and side its times, and how many starts were late."""
    block, total, out = np.ones(2048), np.zeros(1), np.zeros(1)

    def work(n: int) -> None:
        for _ in range(n):
            total[0] = np.dot(block, block)
        comm.Allreduce(total, out)

    jobs = [(n, side) for n in sizes for side in (0, 1)]
    found = []
    rng = np.random.default_rng(seed)
    for count in rounds(repeats):
        for k in rng.permutation(len(jobs)):
            n, side = jobs[k]
            timing = lk.measure(comm, lambda n=n: work(n), repeats=count)
            found.append((n, side, timing.times_s, timing.conduct.late, timing.conduct.kept_late))
    return found


def gathered(found: list[Any], n: int, side: int) -> Any:
    return np.concatenate([times for m, s, times, *_ in found if (m, s) == (n, side)])


def load() -> float:
    return os.getloadavg()[0]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--most-seconds", type=float, default=900.0, help="end after so long, and say so")
    options = parser.parse_args()
    begin, before = time.monotonic(), load()
    words, alarms, violated, late, kept_late, lost = Counter(), [], 0, 0, 0, 0
    done = families = 0
    launches = []
    for number in range(options.runs):
        if time.monotonic() - begin > options.most_seconds:
            print(f"ended after {number} of {options.runs} runs: {options.most_seconds:g} s were over")
            break
        try:
            run = lk.run(program, options.ranks, "mpi", args=(SIZES, options.repeats, number), timeout_s=120)
        except LabkitError as error:
            lost += 1
            print(f"run {number} was lost: {str(error).splitlines()[0]}")
            continue
        done += 1
        found = run.results[0]
        late += sum(one[3] for one in found)
        kept_late += sum(one[4] for one in found)
        x = [n for n, side, times, *_ in found if side == 0 for _ in times]
        y = [t for _, side, times, *_ in found if side == 0 for t in times]
        verdict = lk.judge(x, y, "n", parameter="n", is_valid=run.is_valid)
        words[verdict.match] += 1
        if verdict.match == "none":
            alarms.append(f"run {number}: {verdict.seen or (verdict.model and verdict.model.formula)}")
        launches.append([{n: gathered(found, n, s) for n in SIZES} for s in (0, 1)])
        if len(launches) == 3:
            pairs = [tuple(SideTimes(tuple(one[s][n] for one in launches)) for s in (0, 1)) for n in SIZES]
            violated += any(one.word == "violated" for one in compare_all(pairs))
            families += 1
            launches = []
    spent = time.monotonic() - begin
    print(f"{done} runs of {options.ranks} ranks, {len(SIZES)} sizes, {options.repeats} times: {spent:.0f} s")
    print(
        f"load average {before:.1f} before, {load():.1f} after, on {os.cpu_count()} cores; {lost} runs lost"
    )
    print(f"starts that were late: {late} thrown away, {kept_late} kept")
    print("verdicts against n: " + ", ".join(f"{word} {count}" for word, count in words.most_common()))
    print(f"false alarms of verdicts: {len(alarms)} of {done} (at most 2 of 100 wanted)")
    for one in alarms[:10]:
        print(f"  {one}")
    print(f"false alarms of guidelines (the same on both sides): {violated} of {families}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
