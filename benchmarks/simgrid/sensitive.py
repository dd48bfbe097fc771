"""The change of a prediction with a bandwidth changed by 1e-11: where that is much, no two agree.

An alltoall of pairs between ranks that are placed at random on a fat tree makes hundreds of transfers that
end together, or almost. Which of two ends first decides which pair meets next, and so on: the last bits
decide.

    python benchmarks/simgrid/sensitive.py
"""

from __future__ import annotations

import driver
import numpy as np

import labkit as lk
from labkit.machines import models
from tests.support.message_program import run_program

RANKS, CHANGES = 64, 6
CASES = {
    "at random, twice": ("random:3", "*: alltoall 8192; mark; alltoall 8192; mark"),
    "in order, twice": ("block", "*: alltoall 8192; mark; alltoall 8192; mark"),
}


def off(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.max(np.abs(one / other - 1)))


def main() -> None:
    model = models.get("raw")
    print("largest relative change of a mark, and how far the two are apart")
    print(f"{'placed':<18} {'bandwidth':>10} {'labkit':>9} {'SimGrid':>9} {'apart':>9}")
    for name, (mapping, program) in CASES.items():
        first: list[np.ndarray] = []
        for step in range(CHANGES):
            bandwidth = 1.25e9 * (1 + step * 1e-11)
            machine = lk.platform(f"fattree:4x4:1x2:1x2,cores=4,bw={bandwidth!r}Bps").mapped(mapping)
            ours = np.array(run_program(program, RANKS, machine, model).marks)
            theirs = ours * np.nan
            if driver.is_there():
                extra = ("surf/precision:1e-13", "network/optim:Full")
                theirs = np.array(driver.run(program, RANKS, machine, model, None, extra, 120).marks)
            first = first or [ours, theirs]
            changed = off(ours, first[0]), off(theirs, first[1])
            print(
                f"{name:<18} {'' if step == 0 else f'+{step}e-11':>10} {changed[0]:9.1e} {changed[1]:9.1e} "
                f"{off(ours, theirs):9.1e}"
            )


if __name__ == "__main__":
    main()
