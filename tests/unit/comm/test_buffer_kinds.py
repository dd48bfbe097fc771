"""Buffers and their specifications are taken and refused as by mpi4py: every kind in every kind of call."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

import labkit as lk
from labkit import MPI
from tests.unit.comm.buffer_kinds import CALLS, TABLE, cases, outcome
from tests.unit.comm.conversions import Scene, plain

TABLES = json.loads(TABLE.read_text())["refused"]


@pytest.mark.filterwarnings("ignore")  # of matrices, and of a file that is closed late
@pytest.mark.parametrize("call", CALLS)
def test_buffers_are_those_of_mpi4py(call, tmp_path) -> None:
    expected = {kind: said for said, kinds in TABLES.get(call, {}).items() for kind in kinds}

    def program(comm):
        scene = Scene(MPI, str(tmp_path))
        wrong, tried = defaultdict(list), 0
        for one, kind in cases():
            wanted = expected.get(kind, "accepted")
            if one != call or wanted == "left out":
                continue
            tried += 1
            said = plain(outcome(scene, call, kind))
            if said != wanted:
                wrong[f"mpi4py: {wanted}, here: {said}"].append(kind)
        return tried, dict(wrong)

    (tried, wrong), *_ = lk.run(program, 1, "star:1", isolate=False).results
    assert tried > 40
    assert wrong == {}
