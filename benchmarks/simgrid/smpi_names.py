"""Every algorithm of SMPI next to labkit's of `datasets/selectors/smpi_names.toml`: are they the same?

``python benchmarks/simgrid/smpi_names.py [RANKS [NODE [COLLECTIVE ...]]]`` prints for each algorithm the
greatest relative difference of a rank's time for three sizes of messages on a star of RANKS/NODE hosts. Where
SMPI first makes communicators of nodes, the second of two calls counts. ``--goldens`` measures all on several
machines, writes those that are the same to `tests/golden/simgrid_collectives.json`, and the list of all to
`docs/smpi-collectives.md`. Where SMPI's is made of other collectives, those are chosen of which labkit's is
made (`INNER`).
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
from labkit.machines.models import get
from labkit.machines.platform import platform
from labkit.sim.schedules import simulate

#: collective -> word of `interpret.c`
WORDS = {
    "allreduce": "allreduce", "alltoall": "alltoall", "allgather": "allgather", "bcast": "bcast",
    "alltoallv": "alltoallv", "allgatherv": "allgatherv",
    "barrier": "barrier_dissemination", "gather": "gather_binomial", "reduce": "reduce_binomial",
    "scatter": "scatter_linear", "reduce_scatter": "reduce_scatter_block_pairwise",
}  # fmt: skip
#: SMPI's segments in bytes, where they are fixed
SEGMENT = {
    "flattree_pipeline": 8192, "NTSB": 8192, "NTSL": 8192, "NTSL_Isend": 8192, "SMP_binary": 8192,
    "SMP_linear": 8192, "smp_binomial_pipeline": 4096, "ompi_pipeline": 131072, "ompi_chain": 65536,
    "ompi_binary": 32768,
}  # fmt: skip
#: collectives that SMPI makes of others -> the ones that labkit's is made of
INNER = {
    "allreduce:redbcast": ["reduce:binomial", "bcast:binomial_tree"],
    "allreduce:rab1": ["allgather:NTSLR"],
    "allreduce:rab2": ["alltoall:ring", "allgather:NTSLR"],
    "allgather:GB": ["gather:ompi_binomial", "bcast:binomial_tree"],
    "allgatherv:GB": ["bcast:binomial_tree"],
} | {
    f"{exchange}:{kind}_{count}_barrier": ["barrier:ompi_bruck"]
    for exchange, kind, count in product(("alltoall", "alltoallv"), ("pair", "ring"), ("one", "mpi"))
}
#: SimGrid's solver without its shortcuts, and instants that are not merged
EXACT = ("surf/precision:1e-13", "network/optim:Full")
GOLDENS = Path(__file__).parents[2] / "tests" / "golden" / "simgrid_collectives.json"
SPECS = ("star:20,bw=1Gbps,lat=24us", "torus:3x3x2", "fattree:5x4:1x5:1x1")
LARGE_SPECS = ("star:64,bw=1Gbps,lat=24us", "torus:4x4x4", "fattree:8x8:1x8:1x1")
#: columns of the list: ranks and machines
COLUMNS = {
    "p = 2": (2, SPECS[:1]),
    "p = 16": (16, SPECS),
    "p = 17": (17, SPECS),
    "p = 64": (64, LARGE_SPECS),
    "cores": (16, ("star:5,bw=1Gbps,lat=24us,cores=4",)),
}
#: bytes that are compared; the goldens have the second one
SIZES = [16, 4096, 100_000]
SIZES_OF: dict[str, list[int]] = {
    "bcast": [256, 65536, 1 << 20],
    "reduce": [256, 65536, 1 << 20],
    "allreduce": [256, 16 * 17 * 256, 1 << 20],
    "barrier": [0],
    # SMPI cuts a message into parts that are rounded up, labkit into parts that differ by one
    "bcast:scatter_LR_allgather": [272, 16 * 17 * 256, 1 << 20],
    "bcast:scatter_rdb_allgather": [272, 16 * 17 * 256, 1 << 20],
    # SMPI's choices inside are those of labkit's at these sizes only
    "allgather:mvapich2_smp": [1 << 17, 1 << 16],
    "allreduce:smp_binomial_pipeline": [256, 4096],
    "bcast:mvapich2_inter_node": [256, 8192],
    "bcast:mvapich2_intra_node": [1 << 20, 16 * 17 * 2048],
    "bcast:ompi_split_bintree": [1 << 15, 1 << 16, 1 << 20],
    "gather:ompi_linear_sync": [4096, 4096, 1 << 17],
    "reduce:mvapich2_two_level": [64, 256],
}
#: relative difference of a rank's time that counts as none
TOLERANCE = 1e-6
#: the list of all
LIST = Path(__file__).parents[2] / "docs" / "smpi-collectives.md"
HEAD = """# SMPI's collective algorithms and labkit's

SMPI of SimGrid {version} has {total} collective algorithms in addition to its selectors. **{same} of them are
in labkit with the same times**: at every rank within 1e-6 of smpirun's, on a star, a torus and a fat tree,
wherever SMPI runs them, at one size each (mostly blocks of 4 kB, messages of 64 kB); the column "cores" is
a star of hosts with four ranks each. The others are listed with what differs. "2 of 3" are machines;
"refused" is SMPI's own answer for that number of ranks, "fails" a deadlock or a crash of SMPI itself.

`python benchmarks/simgrid/smpi_names.py --goldens` measures all and writes this list; the times are kept in
`tests/golden/simgrid_collectives.json`. SimGrid runs with `network/optim:Full` and `surf/precision:1e-13`:
its defaults, which merge what happens within a nanosecond and update shares of links lazily, move the ranks
of some alltoalls on tori and fat trees by 1e-6 to 1e-2 from its own full solution. Names after colons are
parameters: `--coll bcast=binary:heap=1`.

"""
TABLE = Path(__file__).parents[2] / "datasets" / "selectors" / "smpi_names.toml"


def segment_of(problem: str, theirs: str, ranks: int, size: int) -> int:
    """Return the bytes of SMPI's segments for a message of `size`."""
    if (problem, theirs) == ("reduce", "ompi_pipeline"):
        if ranks > 0.0410 / 1024 * size + 9.7128:
            return 1024
        return 32768 if ranks > 0.0033 / 1024 * size + 1.6761 else 65536
    if theirs == "ompi_split_bintree":  # segments of a half
        return 2048 if size < 370728 else 16384
    if theirs == "ompi_linear_sync":
        return 32768 if size > 92160 else 1024
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
    words += ["0"] if problem.endswith("v") else []
    words += ["0"] if problem in ("bcast", "gather", "reduce", "scatter") else []
    is_by_nodes = (
        re.match("smp|mpich_smp|loosely|mvapich2_(smp|two|int|knomial_intra)", theirs, re.IGNORECASE)
        is not None
    )
    call = f"{' '.join(words)}; mark"
    program = "*: " + (f"{call}; barrier_dissemination; mark; {call}" if is_by_nodes else call)
    marks = driver.run(program, ranks, platform(spec), get("lab"), folder, EXACT, limit_s=60).marks
    begin, end = np.array([[0.0, *mark] for mark in marks]).T[-2:]
    problem = "reduce_scatter_block" if "block" in word else problem
    node = int(spec.partition("cores=")[2] or 1)
    segments = ceil(max(size, 1) / segment_of(problem, theirs, ranks, size))
    ahead = 2 if (problem, theirs) == ("reduce", "ompi_pipeline") else 1
    values = {
        "node": node,
        "segments": segments,
        "ahead": segments if re.match("NTS|SMP_", theirs) else ahead,
    }
    values |= {"chains": max(ranks // 2, 1)} if theirs == "ompi_chain" else {}
    known = [
        key for key in registry.get(problem, mine).parameters if key in values and f":{key}=" not in mine
    ]
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


def compared(*what: Any) -> tuple[str, dict[str, Any]]:
    """Return the error as text, or what went wrong; and what was measured, if anything was."""
    found: dict[str, Any] = {}
    try:
        found = measure(*what)
        return f"{error_of(found):.0e}", found
    except RuntimeError as error:
        return "refused" if "can't be used" in str(error) else "fails", found
    except subprocess.TimeoutExpired:  # some of SMPI's never end
        return "fails", found
    except LabkitError:
        return "unmet", found


def sizes_of(problem: str, theirs: str) -> list[int]:
    """Return the sizes that are compared."""
    return SIZES_OF.get(f"{problem}:{theirs}", SIZES_OF.get(problem, SIZES))


def write_goldens() -> None:
    """Measure all on several machines and numbers of ranks, keep what is the same, and write the list."""
    kept: list[dict[str, Any]] = []
    outcomes: dict[tuple[str, str, str], list[str]] = {}
    table = tomllib.loads(TABLE.read_text())
    with tempfile.TemporaryDirectory() as folder:
        for (column, (ranks, specs)), problem in product(COLUMNS.items(), WORDS):
            for spec, (theirs, mine) in product(specs, table[problem].items()):
                size = sizes_of(problem, theirs)[:2][-1]
                outcome, found = compared(problem, theirs, mine, size, ranks, spec, Path(folder))
                outcomes.setdefault((problem, theirs, column), []).append(outcome)
                if outcome[0].isdigit() and float(outcome) < TOLERANCE:
                    kept.append(found)
            print(column, problem, flush=True)
    for found in kept:
        if np.ndim(found["begin_s"]) and not any(found["begin_s"]):
            found["begin_s"] = 0.0
    lines = ",\n".join(json.dumps(found) for found in kept)
    GOLDENS.write_text(f"[\n{lines}\n]\n")
    print(len(kept), "kept of", len({found["smpi"] for found in kept}), "algorithms")
    write_list(table, outcomes)


def write_list(table: dict[str, Any], outcomes: dict[tuple[str, str, str], list[str]]) -> None:
    """Write which of SMPI's algorithms labkit has, on how many machines they take as long, and why not."""
    rows, same = [], 0
    for problem in WORDS:
        for theirs, mine in table[problem].items():
            cells = [_cell(outcomes[problem, theirs, column]) for column in COLUMNS]
            is_same_there = [_is_whole(outcomes[problem, theirs, column]) for column in COLUMNS]
            key = f"{problem}/{theirs}"
            why = table["differs"].get(key, "" if all(is_same_there[:-1]) else "in part")
            same += not why
            if not why and not is_same_there[-1]:
                why = f"cores: {table['differs_on_cores'].get(key, 'in part')}"
            rows.append(f"| `{problem}:{theirs}` | `{problem}/{mine}` | {' | '.join(cells)} | {why} |")
    rows += [
        f"| `{name.replace('/', ':')}` | none {'| ' * len(COLUMNS)}| {why} |"
        for name, why in table["missing"].items()
    ]
    LIST.write_text(
        HEAD.format(total=len(rows), same=same, version=driver.version())
        + f"| SMPI | labkit | {' | '.join(COLUMNS)} | where it differs |\n"
        + f"|---|---|{'---|' * len(COLUMNS)}---|\n"
        + "\n".join(rows)
        + "\n"
    )
    print(same, "of", len(rows), "the same on star, torus and fat tree")


def _is_whole(outcomes: list[str]) -> bool:
    return all(not one[0].isdigit() or float(one) < TOLERANCE for one in outcomes)


def _cell(outcomes: list[str]) -> str:
    """Return on how many of the machines where SMPI runs it the times are the same."""
    ran = [float(one) for one in outcomes if one[0].isdigit()]
    return f"{sum(one < TOLERANCE for one in ran)} of {len(ran)}" if ran else outcomes[0]


def is_same(text: str) -> bool:
    """Whether a difference is none but rounding."""
    return text in ("refused", "unmet") or (text != "fails" and float(text) < TOLERANCE)


def main() -> int:
    """Compare; returns 0."""
    if sys.argv[1:2] == ["--goldens"]:
        write_goldens()
        return 0
    ranks, node = (int(text) for text in (*sys.argv[1:3], *("16", "1")[len(sys.argv[1:3]) :]))
    table = tomllib.loads(TABLE.read_text())
    spec = f"star:{ranks // node},bw=1Gbps,lat=24us" + (f",cores={node}" if node > 1 else "")
    same = 0
    with tempfile.TemporaryDirectory() as folder:
        for problem in sys.argv[3:] or WORDS:
            for theirs, mine in table[problem].items():
                sizes = sizes_of(problem, theirs)
                found = [
                    compared(problem, theirs, mine, size, ranks, spec, Path(folder))[0] for size in sizes
                ]
                same += all(map(is_same, found))
                print(f"{problem:15} {theirs:28} {mine:37}", *(f"{text:8}" for text in found), flush=True)
    print(f"{same} are the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
