"""Calls of MPI before Init and after Finalize are refused with a sentence that names the line."""

from __future__ import annotations

import pytest

import labkit as lk
from tests.support.refusals import raises_code

AFTER = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
MPI.Finalize()
assert MPI.Is_finalized() and MPI.Is_initialized()
{call}
"""
BEFORE = """
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
comm = MPI.COMM_WORLD
assert not MPI.Is_initialized()
{call}
"""
GOOD = """
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
MPI.Init()
print(MPI.COMM_WORLD.allreduce(1))
MPI.Finalize()
"""
CALLS = [
    "comm.Get_rank()", "comm.size", "comm.Barrier()", "comm.allreduce(1)", "comm.send(1, 0)", "comm.recv()",
    "comm.Dup()", "comm.Iprobe()", "comm.Ibarrier()",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("text", "why"), [(AFTER, "has called MPI.Finalize() at"), (BEFORE, "MPI is not initialized yet")]
)
def test_calls_are_refused(tmp_path, text, why, call) -> None:
    path = tmp_path / "prog.py"
    path.write_text(text.format(call=call))
    with raises_code(lk.errors.RankError, "rank-failed", why, call):
        lk.run(path, ranks=2, on="star:2")


def test_in_time_they_work(tmp_path) -> None:
    path = tmp_path / "prog.py"
    path.write_text(GOOD)
    assert lk.run(path, ranks=2, on="star:2").output == ["2\n", "2\n"]
