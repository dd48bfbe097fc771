"""Nonblocking collectives that are flat in SMPI, too: the same marks, with computations in between or not.

The figures are SimGrid's own: ``benchmarks/simgrid/nonblocking.py`` asked for them. Only models without
overheads of their own agree in everything: what a receive costs its processor, a rank pays in its wait in
SMPI, and what carries the collective on pays it here (see `labkit.comm.intracomm`).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nonblocking import COLL, marks_of, program

import labkit as lk

GOLDEN = json.loads((Path(__file__).parent / "simgrid_nonblocking.json").read_text())["cases"]


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: "-".join(map(str, (row["model"], *row["case"]))))
def test_marks_are_those_of_smpi(row) -> None:
    how = {"model": row["model"], "coll": COLL, "args": tuple(row["case"])}
    run = lk.run(program, row["ranks"], row["on"], **how)
    assert marks_of(run) == [pytest.approx(marks, rel=1e-12, abs=0) for marks in row["marks_s"]]
