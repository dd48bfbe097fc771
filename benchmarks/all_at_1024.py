"""Every algorithm of every collective once on 1024 ranks, with data: time, host's CPU time, right values.

    python benchmarks/all_at_1024.py [--ranks 1024] [--on star:1024] [OPERATION ...]

Each is carried out in simulation on real elements (one a message or block, where sizes differ at most), and
every rank's buffers are compared with what NumPy computes without schedules; where an algorithm keeps the
order of operands, with an operator that does not commute. Algorithms that do not take so many ranks are named
with their reason. Bias: CPU time of one call in this process, with the schedule's generation and the oracle's
work.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from labkit import registry
from labkit.sim.schedules import perform
from tests.support.collectives import affine, case_of


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("operations", nargs="*", metavar="OPERATION")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--on", default="star")
    words = parser.parse_args()
    known = [name for name in registry.problems() if name != "sorting"]
    rng, begin = np.random.default_rng(0), time.process_time()
    counted = {"right": 0, "wrong": 0, "refused": 0}
    print(f"{'algorithm':44} {'simulated us':>12} {'messages':>9} {'CPU s':>7}  result")
    for operation in words.operations or known:
        for name in registry.names(operation):
            algorithm, label = registry.get(operation, name), f"{operation}/{name}"
            if why := algorithm.requirements.unmet(words.ranks):
                counted["refused"] += 1
                print(f"{label:44} {'':12} {'':9} {'':7}  refused: {why}", flush=True)
                continue
            clock = time.process_time()
            needs_any_order = algorithm.requirements.commutative
            schedule = algorithm.build(words.ranks, commutative=needs_any_order)
            case = case_of(schedule, rng, 1, "sum" if needs_any_order else affine)
            found = perform(schedule, case.buffers, words.on, op=case.op, counts=case.counts)
            spent = time.process_time() - clock
            try:
                case.verify()
                word = "right"
            except AssertionError as error:
                word = "wrong"
                print(error)
            counted[word] += 1
            print(
                f"{label:44} {1e6 * found.makespan_s:12.1f} {found.messages:9} {spent:7.2f}  {word}",
                flush=True,
            )
    print(", ".join(f"{count} {word}" for word, count in counted.items()))
    print(f"{time.process_time() - begin:.0f} s of CPU time")
    return bool(counted["wrong"])


if __name__ == "__main__":
    sys.exit(main())
