"""Every algorithm of SMPI beside labkit's of `datasets/selectors/smpi_names.toml`: are they the same?

``python benchmarks/simgrid/smpi_names.py [RANKS [NODE [COLLECTIVE ...]]]`` prints for each algorithm the
greatest relative difference of a rank's time for a short, a middle and a long message on a star of RANKS/NODE
hosts. Where SMPI first makes communicators of nodes, the second of two calls counts. ``--goldens`` measures
all on several machines and writes those that are the same to `tests/golden/simgrid_collectives.json`;
``--goldens 64 allreduce:rab1`` measures anew only what has 64 ranks and this name, and keeps the rest of the
file. Where SMPI's is made of other collectives, those are chosen of which labkit's is made (`INNER`).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

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
    "ompi_binary": 32768, "ompi_split_bintree": 16384,
}  # fmt: skip
#: collectives that SMPI makes of others -> the ones that labkit's is made of
INNER = {
    "allreduce:redbcast": ["reduce:binomial", "bcast:binomial_tree"],
    "allreduce:rab1": ["allgather:NTSLR"],
    "allreduce:rab2": ["alltoall:ring", "allgather:NTSLR"],
    "allgather:GB": ["gather:ompi_binomial", "bcast:binomial_tree"],
    "alltoall:pair_one_barrier": ["barrier:ompi_bruck"],
    "alltoall:ring_one_barrier": ["barrier:ompi_bruck"],
}
GOLDENS = Path(__file__).parents[2] / "tests" / "golden" / "simgrid_collectives.json"
SPECS = (
    "star:20,bw=1Gbps,lat=24us",
    "torus:3x3x2",
    "fattree:5x4:1x5:1x1",
    "star:5,bw=1Gbps,lat=24us,cores=4",
)
LARGE_SPECS = ("star:64,bw=1Gbps,lat=24us", "torus:4x4x4", "fattree:8x8:1x8:1x1")
#: ranks of the goldens -> the machines they are on
MACHINES = {16: SPECS, 17: SPECS, 64: LARGE_SPECS}
#: bytes of the goldens, where not 4096
SIZES = {"bcast": 65536, "reduce": 65536, "allreduce": 16 * 17 * 256, "barrier": 0}
TABLE = Path(__file__).parents[2] / "datasets" / "selectors" / "smpi_names.toml"


def segment_of(problem: str, theirs: str, ranks: int, size: int) -> int:
    """Return the bytes of SMPI's segments for a message of `size`."""
    if (problem, theirs) == ("reduce", "ompi_pipeline"):
        if ranks > 0.0410 / 1024 * size + 9.7128:
            return 1024
        return 32768 if ranks > 0.0033 / 1024 * size + 1.6761 else 65536
    return SEGMENT.get(theirs, 1 << 30)


def measure(
    problem: str, theirs: str, mine: str, size: int, ranks: int, spec: str, folder: Path
) -> dict[str, Any]:
    """Return when every rank began and ended under SMPI, and labkit's algorithm with its parameters.

    Raises
    ------
    RuntimeError
        smpirun fails.
    """
    word = WORDS[problem]
    driver.ALGORITHMS.clear()
    driver.ALGORITHMS[word] = f"smpi/{problem}:{theirs}"
    driver.INNER[:] = [f"smpi/{option}" for option in INNER.get(f"{problem}:{theirs}", ())]
    words = [word, *([str(size)] if problem != "barrier" else [])]
    words += ["0"] if problem in ("bcast", "gather", "reduce", "scatter") else []
    is_by_nodes = re.match("smp|mpich_smp|loosely|mvapich2_(smp|two)", theirs, re.IGNORECASE) is not None
    call = f"{' '.join(words)}; mark"
    program = "*: " + (f"{call}; barrier_dissemination; mark; {call}" if is_by_nodes else call)
    marks = driver.run(program, ranks, platform(spec), get("lab"), folder, limit_s=30).marks
    begin, end = np.array([[0.0, *mark] for mark in marks]).T[-2:]
    problem = "reduce_scatter_block" if "block" in word else problem
    node = int(spec.partition("cores=")[2] or 1)
    segments = ceil(max(size, 1) / segment_of(problem, theirs, ranks, size))
    ahead = 2 if (problem, theirs) == ("reduce", "ompi_pipeline") else 1
    values = {"node": node, "segments": segments, "ahead": segments if theirs.startswith("NTS") else ahead}
    values |= {"chains": max(ranks // 2, 1)} if theirs == "ompi_chain" else {}
    known = [key for key in values if key in registry.get(problem, mine).parameters and ":" not in mine]
    name = ":".join([mine, *(f"{key}={values[key]}" for key in known)])
    return {
        "smpi": f"{problem}:{theirs}", "problem": problem, "name": name, "bytes": size, "spec": spec,
        "begin_s": begin.tolist(), "end_s": end.tolist(),
    }  # fmt: skip


def error_of(found: dict[str, Any]) -> float:
    """Return the greatest relative difference of a rank's time."""
    begin, end = np.array(found["begin_s"]), np.array(found["end_s"])
    schedule = registry.get(found["problem"], found["name"]).build(len(end))
    run = simulate(schedule, found["spec"], get("lab"), n_bytes=found["bytes"], start_s=begin)
    return float(np.abs(np.asarray(run.end_s) - end).max() / (end - begin).max())


def difference(*what: Any) -> str:
    """Return the error as text, or what went wrong."""
    try:
        return f"{error_of(measure(*what)):.0e}"
    except RuntimeError as error:
        return "refused" if "can't be used" in str(error) else "fails"
    except LabkitError:
        return "unmet"


def write_goldens(numbers: list[int], names: list[str]) -> None:
    """Measure all, or what is named, on several machines and numbers of ranks, and keep what is the same."""
    kept = [
        found
        for found in json.loads(GOLDENS.read_text())
        if len(found["end_s"]) not in numbers or (names and found["smpi"] not in names)
    ]
    table = tomllib.loads(TABLE.read_text())
    with tempfile.TemporaryDirectory() as folder:
        for ranks, problem in product(numbers, WORDS):
            for spec, (theirs, mine) in product(MACHINES[ranks], table[problem].items()):
                size = SIZES.get(problem, 4096)
                if names and f"{problem}:{theirs}" not in names:
                    continue
                try:
                    found = measure(problem, theirs, mine, size, ranks, spec, Path(folder))
                    error = error_of(found)
                except (RuntimeError, LabkitError, subprocess.TimeoutExpired):  # some of SMPI's never end
                    continue
                if error < 1e-6:
                    kept.append(found)
    for found in kept:
        if np.ndim(found["begin_s"]) and not any(found["begin_s"]):
            found["begin_s"] = 0.0
    lines = ",\n".join(json.dumps(found) for found in kept)
    GOLDENS.write_text(f"[\n{lines}\n]\n")
    print(len(kept), "kept of", len({found["smpi"] for found in kept}), "algorithms")


def is_same(text: str) -> bool:
    """Whether a difference is none but rounding."""
    return text in ("refused", "unmet") or (text != "fails" and float(text) < 1e-12)


def main() -> int:
    """Compare; returns 0."""
    if sys.argv[1:2] == ["--goldens"]:
        numbers = [int(word) for word in sys.argv[2:] if word.isdigit()]
        write_goldens(numbers or list(MACHINES), [word for word in sys.argv[2:] if ":" in word])
        return 0
    ranks, node = (int(text) for text in (*sys.argv[1:3], *("16", "1")[len(sys.argv[1:3]) :]))
    table = tomllib.loads(TABLE.read_text())
    spec = f"star:{ranks // node},bw=1Gbps,lat=24us" + (f",cores={node}" if node > 1 else "")
    same = 0
    with tempfile.TemporaryDirectory() as folder:
        for problem in sys.argv[3:] or WORDS:
            sizes = [16, 4096, 100_000]
            if problem in ("bcast", "reduce", "allreduce"):
                sizes = [256, 65536, 1 << 20]
            for theirs, mine in table[problem].items():
                found = [
                    difference(problem, theirs, mine, size, ranks, spec, Path(folder))
                    for size in (sizes if problem != "barrier" else [0])
                ]
                same += all(map(is_same, found))
                print(f"{problem:15} {theirs:28} {mine:37}", *(f"{text:8}" for text in found), flush=True)
    print(f"{same} are the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
