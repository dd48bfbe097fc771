"""Recorded runs of real MPI that fail, or that cannot be recorded."""

import os
import re

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.errors import DataError, MachineError, RankError
from tests.support.refusals import raises_code

pytestmark = pytest.mark.mpi


@pytest.mark.slow
def test_a_call_that_cannot_be_recorded_is_refused_by_name(tmp_path, real):
    def program(comm):
        said = []
        for call in (
            lambda: comm.Ibarrier(),
            lambda: comm.Bcast_init(np.ones(1)),
            lambda: MPI.Win.Allocate(8),
            lambda: MPI.COMM_SELF.Spawn("true"),
            lambda: comm.Alltoallw(None, None),
        ):
            try:
                call()
            except Exception as error:
                said.append(str(error))
        MPI.File.Open(MPI.COMM_SELF, "/dev/null").Close()
        return said

    run = lk.run(program, 2, real, trace_ti=tmp_path / "t", compute="none")
    for said in run.results:
        assert [text.split(" cannot be recorded: ")[0] for text in said] == [
            "MPI.Comm.Ibarrier", "MPI.Comm.Bcast_init", "MPI.Win.Allocate", "MPI.Comm.Spawn",
            "MPI.Comm.Alltoallw",
        ]  # fmt: skip
        assert all("leave trace_ti out" in text for text in said)
    assert run.notes[-1] == "trace: MPI.File: what files take and move is not in the trace (ranks 0, 1)"


def test_a_rank_that_fails_leaves_what_there_was_marked_as_incomplete(tmp_path, real):
    def program(comm):
        comm.Barrier()
        if comm.rank == 1:
            for other in (0, 2):  # which have left the barrier, then
                comm.Recv(np.empty(1), other)
            raise ValueError("no luck")
        comm.Send(np.empty(1), 1)
        comm.Recv(np.empty(1), 1)

    with raises_code(RankError, "rank-failed", "no luck") as failed:
        lk.run(program, 3, real, trace_ti=tmp_path / "t.txt", compute="none")
    left = tmp_path / "t.txt.incomplete"
    assert str(left) in failed.value.__notes__[-1]
    head, *lines = left.read_text().splitlines()
    assert head == "#+ incomplete rank 1 failed: ValueError: no luck"
    assert lines == sorted(lines, key=lambda line: line[0])
    calls = [[line.split()[1] for line in lines if line[0] == str(rank)] for rank in range(3)]
    assert calls[1] == ["init", "barrier", "recv", "recv"]
    for of_other in (calls[0], calls[2]):  # it was ended before or after its Send was written
        assert of_other in (["init", "barrier"], ["init", "barrier", "send"])
    assert not (tmp_path / "t.txt").exists()
    with raises_code(DataError, "invalid-value", "line 1", "rank 1", "ValueError: no luck"):
        lk.replay(left)


def test_a_run_that_hangs_leaves_what_there_was(tmp_path, real):
    def program(comm):
        comm.Barrier()
        comm.recv(source=1 - comm.rank)

    with pytest.raises((lk.errors.DeadlockError, lk.errors.TimeLimitError)) as hung:
        lk.run(program, 2, real, trace_ti=tmp_path / "t.txt", compute="none", timeout_s=100)
    assert __file__ in str(hung.value)
    assert "recorder" not in str(hung.value)
    assert re.search(r"0 barrier\n1 init\n1 barrier\n$", (tmp_path / "t.txt.incomplete").read_text())


def test_a_rank_that_fails_inside_a_recorded_call_shows_its_own_lines_only(real):
    def program(comm):
        comm.recv(source=comm.size)

    with pytest.raises(RankError) as failed:
        lk.run(program, 2, real, trace=True)
    assert "comm.recv(source=comm.size)" in str(failed.value)
    assert f"{os.sep}recorder{os.sep}" not in str(failed.value)


def test_options_are_refused_before_anything_starts(tmp_path, real):
    def program(comm):
        raise AssertionError("it ran")

    with raises_code(MachineError, "unknown-name", "guessed", '"measured"'):
        lk.run(program, 2, real, trace_ti=tmp_path / "t", compute="guessed")
    with raises_code(MachineError, "conflicting-options", "repeats=3"):
        lk.run(program, 2, real, trace_ti=tmp_path / "t", repeats=3)
    with raises_code(DataError, "unwritable-file"):
        lk.run(program, 2, real, trace_ti=tmp_path / "no" / "t")
    with raises_code(MachineError, "conflicting-options"):
        lk.run(program, 2, real, compute="measured")
