"""One-sided communication beside SimGrid's: `python benchmarks/simgrid/one_sided.py [golden.json]`.

With a file's name SimGrid's figures are written there: tests/golden/simgrid_one_sided.json.
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
from labkit import MPI
from labkit.machines import models
from labkit.machines.xml.writer import host_file, platform_xml, smpirun_options

HERE = Path(__file__).parent
COLL = {"barrier": "dissemination", "allgather": "ring"}
OPTIONS = ("--cfg=smpi/barrier:ompi_bruck", "--cfg=smpi/allgather:NTSLR")
PINGPONGS = ("put_pingpong", "get_pingpong", "fop_pingpong", "cas_pingpong")
MANY = ("fence_halo", "fence_get", "pscw", "counter", "accumulate", "put_flush", "get_flush")
#: what is kept where it is the same: SMPI's locks of its lists make PSCW and accumulates differ
KEPT = (*PINGPONGS, "fence_halo", "fence_get", "counter", "put_flush", "get_flush")
CONTENDED = ("counter", "accumulate", "put_flush", "get_flush")
SIZES = (8, 10_000, 200_000)


def program(comm, what, size, repeats, late_s):  # noqa: C901
    """Do what one_sided.c does, each repetition in a phase."""
    rank, p = comm.rank, comm.size
    late_s *= rank * 7 % p
    memory, mine = np.zeros(2 * (size + 8), np.uint8), np.zeros(2 * (size + 8), np.uint8)
    one, before, zero = np.ones(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)
    win = MPI.Win.Create(memory, 1, comm=comm)
    left, right, peer = (rank - 1) % p, (rank + 1) % p, 1 - rank
    others = comm.group.Incl(sorted({left, right}))
    is_active = what in ("fence_halo", "fence_get", "pscw")
    if what in ("fence_halo", "fence_get"):
        win.Fence(MPI.MODE_NOPRECEDE)
    if not is_active:
        win.Lock_all()
    first, second = mine[:size], mine[size : 2 * size]
    for i in range(repeats):
        with lk.phase(f"{i:03}"):
            lk.program.context.simulated().sleep(late_s)
            if what in PINGPONGS:
                for turn in range(2):
                    if turn == rank:
                        if what == "put_pingpong":
                            win.Put(first, peer)
                        if what == "get_pingpong":
                            win.Get(first, peer)
                        if what == "fop_pingpong":
                            win.Fetch_and_op(one, before, peer)
                        if what == "cas_pingpong":
                            win.Compare_and_swap(one, zero, before, peer)
                        win.Flush(peer)
                        comm.Send(bytearray(), peer)
                    elif rank < 2:
                        comm.Recv(bytearray(), peer)
            if what == "fence_halo":
                win.Put(first, left, size)
                win.Put(first, right, 0)
                win.Fence()
            if what == "fence_get":
                win.Get(first, left, 0)
                win.Get(second, right, size)
                win.Fence()
            if what == "pscw":
                win.Post(others)
                win.Start(others)
                win.Put(first, left, size)
                win.Put(first, right, 0)
                win.Complete()
                win.Wait()
            if what == "counter":
                win.Fetch_and_op(one, before, 0)
            if what == "accumulate":
                win.Accumulate(first.view(np.int64), 0)
            if what == "put_flush" and rank:
                win.Put(first, 0)
                win.Flush(0)
            if what == "get_flush" and rank:
                win.Get(first, 0)
                win.Flush(0)
    with lk.phase("end"):
        if not is_active:
            comm.Barrier()
            win.Unlock_all()
        win.Free()


def marks_of(run) -> list[list[float]]:
    """When each rank was through with its phases."""
    return run.phases.pivot_table(index="rank", columns="phase", values="end_s").to_numpy().tolist()


def simgrid_marks(folder: Path, ranks: int, platform, model, case) -> list[list[float]]:
    (folder / "platform.xml").write_text(platform_xml(platform, ranks))
    (folder / "hosts.txt").write_text(host_file(platform, ranks))
    command = ["smpirun", "-np", str(ranks), "-platform", "platform.xml", "-hostfile", "hosts.txt",
               "--log=root.thres:critical", *OPTIONS, *(f"--cfg={o}" for o in smpirun_options(model)),
               "--cfg=surf/precision:1e-13", "./one_sided", *map(str, case)]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    rows = sorted((line.split() for line in done.stdout.splitlines()), key=lambda row: int(row[0]))
    return [[float(mark) for mark in row[1:]] for row in rows]


def cases(ranks: int):
    calls = PINGPONGS if ranks == 2 else MANY
    for what, size, late_s in itertools.product(calls, SIZES, (0.0, 1e-6, 1e-5)):
        if late_s == 0 and what in CONTENDED:
            continue  # who comes first of those that come at once is chance
        if what in ("fop_pingpong", "cas_pingpong", "counter") and size != SIZES[0]:
            continue
        yield what, size, 3, late_s


def compare(folder: Path, spec: str, ranks: int, name: str) -> list[dict]:
    platform, model, rows = lk.platform(spec), models.get(name), []
    worst = 0.0
    for case in cases(ranks):
        try:
            marks = simgrid_marks(folder, ranks, platform, model, case)
        except subprocess.CalledProcessError as error:
            print(f"   {case}: SMPI fails ({error.returncode})", flush=True)
            continue
        found = marks_of(lk.run(program, ranks, platform, model=model, coll=COLL, args=case))
        error = float((np.abs(np.array(marks) - np.array(found)) / np.array(marks)).max())
        if error > 1e-6:
            print(f"   {case}: {error:.1e}", flush=True)
        worst = max(worst, error)
        if error <= 1e-6 and case[0] in KEPT:
            rows.append({"on": spec, "ranks": ranks, "model": name, "case": case, "marks_s": marks})
    print(
        f"{spec:24} p={ranks} {name:5} {len(rows)} cases, largest relative difference {worst:.1e}", flush=True
    )
    return rows


def main() -> int:
    if not driver.is_there():
        print("smpirun and smpicc are not here: Debian's package simgrid has them")
        return 0
    kept: list[dict] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source, binary = HERE / "one_sided.c", folder / "one_sided"
        subprocess.run(["smpicc", "-O1", str(source), "-o", str(binary)], check=True)
        for spec, ranks, name in (
            ("star:2", 2, "smpi"),
            ("star:2,bw=1Gbps,lat=24us", 2, "lab"),
            ("star:5", 5, "smpi"),
            ("star:8,bw=1Gbps,lat=24us", 8, "lab"),
            ("torus:2x2x2", 8, "raw"),
            ("star:4,cores=2,loopback_bw=6GBps,loopback_lat=100ns", 8, "lv08"),
        ):
            kept += compare(folder, spec, ranks, name)
    if len(sys.argv) > 1:
        said = f"SimGrid {driver.version()}, benchmarks/simgrid/one_sided.py"
        text = ",\n".join(json.dumps(row) for row in kept)
        Path(sys.argv[1]).write_text(f'{{"source": "{said}", "cases": [\n{text}\n]}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
