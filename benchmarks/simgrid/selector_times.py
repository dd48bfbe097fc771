"""Times of every collective under SMPI's selectors, and under labkit's of the same names.

``python benchmarks/simgrid/selector_times.py [COLLECTIVE ...]`` runs each collective under smpirun's
`default`, `ompi` and `mpich` on stars of 2, 16, 17 and 64 hosts, from 8 B to 1 MiB, all calls of one size
beginning at the same moment, prints where labkit's `smpi`, `ompi` and `mpich` differ, and writes the times to
`tests/golden/simgrid_selector_times.json`; of collectives that are not named its points stay.

Sizes are powers of two: where its segments do not divide a message, SMPI makes the last one shorter, labkit
all of them nearly equal, and the times differ.
"""

from __future__ import annotations

import json
import sys
import tempfile
from itertools import product
from pathlib import Path

import driver
import numpy as np

from labkit import registry
from labkit.machines.models import get
from labkit.machines.platform import platform
from labkit.selector import Choices, selector_of
from labkit.sim.schedules import simulate

GOLDENS = Path(__file__).parents[2] / "tests" / "golden" / "simgrid_selector_times.json"
RANKS = (2, 16, 17, 64)
SIZES = (8, 64, 1024, 16_384, 131_072, 1 << 20)
#: labkit's selector -> smpirun's word
SELECTORS = {"smpi": "default", "ompi": "ompi", "mpich": "mpich"}
#: of one call: far more than any takes
SLOT_NS = 60_000_000_000
#: collective -> word of `interpret.c`, with its operands behind the bytes
CALLS = {
    "allreduce": "allreduce {}", "reduce": "reduce_binomial {} 0", "bcast": "bcast {} 0", "scan": "scan {}",
    "exscan": "exscan {}", "reduce_scatter_block": "reduce_scatter_block_pairwise {}",
    "allgather": "allgather {}", "alltoall": "alltoall {}", "gather": "gather_binomial {} 0",
    "scatter": "scatter_linear {} 0", "gatherv": "gatherv {} 0 0", "scatterv": "scatterv {} 0 0",
    "allgatherv": "allgatherv {} 0", "alltoallv": "alltoallv {} 0", "barrier": "barrier",
}  # fmt: skip
#: collectives whose buffers have a block for each rank
OF_BLOCKS = ("reduce_scatter_block", "allgather", "alltoall", "allgatherv", "alltoallv")


def sizes_of(problem: str, ranks: int) -> tuple[int, ...]:
    """Return the bytes (of a block): of all blocks together at most 4 MiB a rank."""
    if problem == "barrier":
        return (0,)
    most = (1 << 22) // ranks if problem in OF_BLOCKS else 1 << 20
    return tuple(size for size in SIZES if size <= max(most, 1000))


def spec_of(ranks: int) -> str:
    return f"star:{ranks},bw=1Gbps,lat=24us"


def theirs(problem: str, selector: str, ranks: int, folder: Path) -> dict[int, list[float]]:
    """Return how long each rank was in the second call of each size: the first may make communicators."""
    sizes = sizes_of(problem, ranks)
    driver.ALGORITHMS.clear()
    steps = [
        f"until {turn * SLOT_NS}; {CALLS[problem].format(size)}; mark"
        for turn, size in enumerate(size for size in sizes for _ in range(2))
    ]
    marks = driver.run(
        "*: " + "; ".join(steps), ranks, platform(spec_of(ranks)), get("smpi"), folder,
        (f"smpi/coll-selector:{SELECTORS[selector]}",), limit_s=300,
    ).marks  # fmt: skip
    ends = list(zip(*marks, strict=True))
    return {
        size: [end - turn * SLOT_NS * 1e-9 for end in ends[turn]]
        for turn, size in zip(range(1, len(ends), 2), sizes, strict=True)
    }


def ours(problem: str, selector: str, ranks: int, size: int) -> tuple[str, list[float]]:
    """Return labkit's choice, and how long each rank is in the call."""
    choices = Choices(selector_of(selector), spec_of(ranks), 1, get("smpi").copied_below_bytes)
    name = choices(problem, ranks, size)
    run = simulate(registry.get(problem, name).build(ranks), spec_of(ranks), "smpi", n_bytes=size)
    return name, np.asarray(run.end_s).tolist()


def main() -> int:
    """Measure, compare and write; returns 0."""
    chosen = sys.argv[1:] or list(CALLS)
    known = json.loads(GOLDENS.read_text()) if GOLDENS.exists() else []
    kept = [row for row in known if row[1] not in chosen]
    with tempfile.TemporaryDirectory() as name:
        for problem, selector, ranks in product(chosen, SELECTORS, RANKS):
            try:
                found = theirs(problem, selector, ranks, Path(name))
            except RuntimeError:  # mpich's alltoall of an odd number of ranks
                print(problem, selector, ranks, "aborts under smpirun", flush=True)
                continue
            for size, times in found.items():
                kept.append([selector, problem, ranks, size, max(times), float(np.mean(times))])
                choice, mine = ours(problem, selector, ranks, size)
                error = np.abs(np.subtract(mine, times)).max() / max(times)
                if error > 1e-6:
                    print(problem, selector, ranks, size, choice, max(mine), max(times), error, flush=True)
    GOLDENS.write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
