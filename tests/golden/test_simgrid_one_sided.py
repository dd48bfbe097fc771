"""One-sided communication takes SMPI's times: ping-pongs, halos by fences, counters, accumulates.

The figures are SimGrid's own: ``benchmarks/simgrid/one_sided.py`` asked for them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from one_sided import COLL, marks_of, program

import labkit as lk

GOLDEN = json.loads((Path(__file__).parent / "simgrid_one_sided.json").read_text())["cases"]


@pytest.mark.parametrize(
    "row", GOLDEN, ids=lambda row: "-".join(map(str, (row["on"], row["model"], *row["case"])))
)
def test_marks_are_those_of_smpi(row) -> None:
    how = {"model": row["model"], "coll": COLL, "args": tuple(row["case"])}
    run = lk.run(program, row["ranks"], row["on"], **how)
    assert marks_of(run) == [pytest.approx(marks, rel=1e-6, abs=0) for marks in row["marks_s"]]
