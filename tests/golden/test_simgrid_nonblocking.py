"""Nonblocking collectives that are flat in SMPI, too: the same marks, with computations in between or not.

The figures are SimGrid's own: ``benchmarks/simgrid/nonblocking.py`` asked for them. Only models without
overheads of their own agree in everything: what a receive costs its processor, a rank pays in its wait in
SMPI, and what carries the collective on pays it here (see `labkit.comm.nonblocking`).
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import labkit as lk

GOLDEN = json.loads((Path(__file__).parent / "simgrid_nonblocking.json").read_text())["cases"]
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


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: "-".join(map(str, (row["model"], *row["case"]))))
def test_marks_are_those_of_smpi(row) -> None:
    how = {"model": row["model"], "coll": COLL, "args": tuple(row["case"])}
    run = lk.run(program, row["ranks"], row["on"], **how)
    assert marks_of(run) == [pytest.approx(marks, rel=1e-12, abs=0) for marks in row["marks_s"]]
