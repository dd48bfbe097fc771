"""Arguments are converted as by mpi4py: every method, every parameter, every kind of value."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

import labkit as lk
from labkit import MPI
from tests.unit.comm.conversions import SPECS, TABLE, Scene, cases, outcome, plain

TABLES = json.loads(TABLE.read_text())
GROUPS = sorted({full.partition(".")[0] for full in [*TABLES["signatures"], *SPECS]})


@pytest.mark.parametrize("group", GROUPS)
def test_conversions_are_those_of_mpi4py(group, tmp_path) -> None:
    expected = {
        (full, name, kind): said
        for full, names in TABLES["refused"].items()
        for name, errors in names.items()
        for said, kinds in errors.items()
        for kind in kinds
    }

    def program(comm):
        scene = Scene(MPI, str(tmp_path))
        wrong = defaultdict(list)
        tried = 0
        for case in cases(TABLES["signatures"]):
            wanted = expected.get(case, "accepted")
            if not case[0].startswith(f"{group}.") or wanted == "left out":
                continue
            tried += 1
            said = plain(outcome(scene, *case, TABLES["signatures"]))
            if said != wanted:
                wrong[f"mpi4py: {wanted}, here: {said}"].append(" ".join(case))
        return tried, dict(wrong)

    (tried, wrong), *_ = lk.run(program, 1, "star:1", isolate=False).results
    assert tried > 20
    assert wrong == {}
