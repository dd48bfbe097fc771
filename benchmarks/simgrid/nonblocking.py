"""Nonblocking collectives beside SimGrid's: `python benchmarks/simgrid/nonblocking.py [golden.json]`.

SMPI's nonblocking collectives post all their messages in the call: a flat broadcast, gather, scatter and
all-to-all. labkit's do the same with the algorithm `linear`. With a file's name the marks of the models
without overheads of their own are written there: tests/golden/simgrid_nonblocking.json.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import driver
import numpy as np

import labkit as lk
from labkit.machines import models
from labkit.machines.xml.writer import host_file, platform_xml, smpirun_options

HERE = Path(__file__).parent
CALLS = ("Ibcast", "Igather", "Iscatter", "Ialltoall")
SIZES = (8, 10_000, 200_000)
DELAYS = ((0.0, 0.0), (1e-4, 0.0), (0.0, 1e-3), (2e-5, 2e-4))
COLL = {"bcast": "linear", "gather": "linear", "scatter": "linear", "alltoall": "linear"}


def program(comm, call, size, earlier_s, during_s):
    """Do what nonblocking.c does, in the phases start and wait."""
    late_s = earlier_s * (comm.rank * 7 % comm.size)
    one, out, into = (np.zeros(n, np.uint8) for n in (size, size * comm.size, size * comm.size))
    root = comm.rank == 0
    args = {
        "Ibcast": (one,),
        "Igather": (one, into if root else None),
        "Iscatter": (out if root else None, one),
        "Ialltoall": (out, into),
    }
    lk.compute(seconds=late_s)
    with lk.phase("start"):
        request = getattr(comm, call)(*args[call])
    lk.compute(seconds=during_s)
    with lk.phase("wait"):
        request.Wait()


def marks_of(run) -> list[list[float]]:
    """When each rank was through with its phases: reading the clock in the program would cost time."""
    ends = run.phases.pivot_table(index="rank", columns="phase", values="end_s")
    return ends[["start", "wait"]].to_numpy().tolist()


def simgrid_marks(folder: Path, ranks: int, platform, model, case) -> list[list[float]]:
    (folder / "platform.xml").write_text(platform_xml(platform, ranks))
    (folder / "hosts.txt").write_text(host_file(platform, ranks))
    command = ["smpirun", "-np", str(ranks), "-platform", "platform.xml", "-hostfile", "hosts.txt",
               "--log=root.thres:warning", *(f"--cfg={o}" for o in smpirun_options(model)), "./nonblocking",
               *map(str, case)]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    rows = sorted((line.split() for line in done.stdout.splitlines()), key=lambda row: int(row[0]))
    return [[float(mark) for mark in row[1:]] for row in rows]


def compare(folder: Path, spec: str, ranks: int, name: str) -> list[dict]:
    platform, model, rows = lk.platform(spec), models.get(name), []
    worst = 0.0
    for call, size, (earlier_s, during_s) in itertools.product(CALLS, SIZES, DELAYS):
        case = (call, size, earlier_s, during_s)
        marks = simgrid_marks(folder, ranks, platform, model, case)
        found = marks_of(lk.run(program, ranks, platform, model=model, coll=COLL, args=case))
        difference = float(np.abs(np.array(marks) - np.array(found)).max())
        worst = max(worst, difference)
        rows.append({"on": spec, "ranks": ranks, "model": name, "case": case, "marks_s": marks})
    print(f"{spec:20} p={ranks} {name:5} {len(rows)} cases, largest difference {worst:.1e} s", flush=True)
    return rows


def main() -> int:
    if not driver.is_there():
        print("smpirun and smpicc are not here: Debian's package simgrid has them")
        return 0
    kept = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        subprocess.run(
            ["smpicc", "-O1", str(HERE / "nonblocking.c"), "-o", str(folder / "nonblocking")], check=True
        )
        for spec, ranks, name in (("star", 5, "smpi"), ("torus:2x2", 4, "raw"), ("star", 5, "lab")):
            rows = compare(folder, spec, ranks, name)
            kept += [] if name == "lab" else rows
    if len(sys.argv) > 1:
        said = f"SimGrid {driver.version()}, benchmarks/simgrid/nonblocking.py"
        text = ",\n".join(json.dumps(row) for row in kept)
        Path(sys.argv[1]).write_text(f'{{"source": "{said}", "cases": [\n{text}\n]}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
