"""Every algorithm of SMPI beside labkit's of `datasets/selectors/smpi_names.toml`: are they the same?

``python benchmarks/simgrid/smpi_names.py [RANKS [NODE [COLLECTIVE ...]]]`` prints for each algorithm the
greatest relative difference of a rank's time for a short, a middle and a long message on a star of RANKS/NODE
hosts. Where SMPI first makes communicators of nodes, the second of two calls counts.
"""

from __future__ import annotations

import re
import sys
import tempfile
import tomllib
from math import ceil
from pathlib import Path

import driver
import numpy as np

from labkit import registry
from labkit.errors import LabkitError
from labkit.platform.models import get
from labkit.platform.platform import platform
from labkit.sim.schedules import simulate

#: collective -> word of `interpret.c`
WORDS = {
    "allreduce": "allreduce", "alltoall": "alltoall", "allgather": "allgather", "bcast": "bcast",
    "barrier": "barrier_dissemination", "gather": "gather_binomial", "reduce": "reduce_binomial",
    "scatter": "scatter_linear", "reduce_scatter": "reduce_scatter_block_pairwise",
}  # fmt: skip
#: SMPI's segments in bytes, where they are fixed
SEGMENT = {
    "flattree_pipeline": 8192, "NTSB": 8192, "NTSL": 8192, "NTSL_Isend": 8192, "SMP_binary": 8192,
    "SMP_linear": 8192, "smp_binomial_pipeline": 4096, "ompi_pipeline": 131072, "ompi_chain": 65536,
    "ompi_binary": 32768, "ompi_in_order_binary": 32768, "ompi_split_bintree": 16384,
}  # fmt: skip
TABLE = Path(__file__).parents[2] / "datasets" / "selectors" / "smpi_names.toml"


def difference(problem: str, theirs: str, mine: str, size: int, ranks: int, node: int, folder: Path) -> str:
    """Return the greatest relative difference of a rank's time, or what went wrong."""
    word = WORDS[problem]
    driver.ALGORITHMS.clear()
    driver.ALGORITHMS[word] = f"smpi/{problem}:{theirs}"
    words = [word, *([str(size)] if problem != "barrier" else [])]
    words += ["0"] if problem in ("bcast", "gather", "reduce", "scatter") else []
    is_by_nodes = re.match("smp|mpich_smp|loosely|mvapich2_(smp|two)", theirs, re.IGNORECASE) is not None
    call = f"{' '.join(words)}; mark"
    program = "*: " + (f"{call}; barrier_dissemination; mark; {call}" if is_by_nodes else call)
    machine = platform(f"star:{ranks // node},bw=1Gbps,lat=24us" + (f",cores={node}" if node > 1 else ""))
    try:
        marks = driver.run(program, ranks, machine, get("lab"), folder, limit_s=60).marks
    except RuntimeError as error:
        return "refused" if "can't be used" in str(error) else "fails"
    begin, end = np.array([[0.0, *mark] for mark in marks]).T[-2:]
    algorithm = registry.get("reduce_scatter_block" if "block" in word else problem, mine)
    values = {"node": node, "segments": ceil(max(size, 1) / SEGMENT.get(theirs, 1 << 30))}
    known = {key: value for key, value in values.items() if key in algorithm.parameters}
    if ":" in mine:
        known.pop("radix", None)
    try:
        schedule = algorithm.tuned(**known).build(ranks)
    except LabkitError:
        return "unmet"
    run = simulate(schedule, machine, get("lab"), n_bytes=size, start_s=begin)
    return f"{np.abs(np.asarray(run.end_s) - end).max() / (end - begin).max():.0e}"


def is_same(text: str) -> bool:
    """Whether a difference is none but rounding."""
    return text in ("refused", "unmet") or (text != "fails" and float(text) < 1e-12)


def main() -> int:
    """Compare; returns 0."""
    ranks, node = (int(text) for text in (*sys.argv[1:3], *("16", "1")[len(sys.argv[1:3]) :]))
    table = tomllib.loads(TABLE.read_text())
    same = 0
    with tempfile.TemporaryDirectory() as folder:
        for problem in sys.argv[3:] or WORDS:
            sizes = [16, 4096, 100_000]
            if problem in ("bcast", "reduce", "allreduce"):
                sizes = [256, 65536, 1 << 20]
            for theirs, mine in table[problem].items():
                found = [
                    difference(problem, theirs, mine, size, ranks, node, Path(folder))
                    for size in (sizes if problem != "barrier" else [0])
                ]
                same += all(map(is_same, found))
                print(f"{problem:15} {theirs:28} {mine:37}", *(f"{text:8}" for text in found), flush=True)
    print(f"{same} are the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
