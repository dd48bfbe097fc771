"""What a run prints, how it ends and what comes back, scripts: the same on real MPI and simulated."""

from __future__ import annotations

import sys

import pytest

import labkit as lk

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("ranks", [1, 3])
def test_output_and_phases(ranks):
    def program(comm):
        with lk.phase("talk"):
            print("rank", comm.rank)
            print("aside", file=sys.stderr)
        with lk.phase("empty"):
            pass
        with lk.phase("talk"):
            comm.barrier()

    real, simulated = (lk.run(program, ranks, on) for on in ("mpi", "star"))
    assert simulated.output == real.output
    for run in (real, simulated):
        frame = run.phases.sort_values(["rank", "begin_s"], kind="stable")
        assert frame["rank"].tolist() == [rank for rank in range(ranks) for _ in range(3)]
        assert sorted(frame["phase"].tolist()) == sorted(["talk", "empty", "talk"] * ranks)
        assert (frame["end_s"] <= run.makespan_s).all()
    assert simulated.phases.dtypes.tolist() == real.phases.dtypes.tolist()
    assert simulated.phase_table().columns.tolist() == real.phase_table().columns.tolist()


def raises(comm):
    if comm.rank == 1:
        raise ValueError("a bad splitter")
    comm.recv(source=1)


def exits(comm):
    if comm.rank == 1:
        sys.exit(3)
    comm.recv(source=1)


def fails_in_mpi(comm):
    if comm.rank == 1:
        comm.send(1, dest=99)
    comm.barrier()


@pytest.mark.parametrize("program", [raises, exits, fails_in_mpi])
def test_failures_name_the_same_rank(program):
    errors = []
    for on in ("mpi", "star"):
        with pytest.raises(lk.errors.RankError) as caught:
            lk.run(program, 3, on, timeout_s=30)
        errors.append(caught.value)
    assert [error.rank for error in errors] == [1, 1]
    line = {"raises": 'raise ValueError("a bad splitter")', "exits": "sys.exit(3)", "fails_in_mpi": "dest=99"}
    assert all(line[program.__name__] in error.traceback for error in errors)


def facing(comm):
    return comm.recv(source=1 - comm.rank)  # both wait here


def test_facing_receives_end_on_both():
    with pytest.raises(lk.errors.DeadlockError) as real:
        lk.run(facing, 2, "mpi", timeout_s=60)
    with pytest.raises(lk.errors.DeadlockError) as simulated:
        lk.run(facing, 2, "star", timeout_s=30)
    line = facing.__code__.co_firstlineno + 1
    assert str(simulated.value).count(f"{__file__}:{line} in facing") == 2
    assert str(real.value) == str(simulated.value)


def test_leaving_with_status_zero_is_an_ordinary_end():
    def program(comm):
        if comm.rank == 0:
            sys.exit()
        return comm.rank

    assert lk.run(program, 2, "mpi").results == lk.run(program, 2, "star").results == [None, 1]


class Point:
    def __init__(self, x):
        self.x = x


def test_classes_of_the_caller_travel_and_come_back():
    def program(comm):
        point = comm.bcast(Point(comm.rank) if comm.rank == 0 else None)
        assert type(point) is Point
        return comm.allgather(Point(comm.rank))

    for on in ("mpi", "star"):
        results = lk.run(program, 2, on).results
        assert [[(type(one), one.x) for one in result] for result in results] == [
            [(Point, 0), (Point, 1)]
        ] * 2


def sends_a_local_class(comm):
    class Local:
        pass

    comm.bcast(Local())


def sends_a_lambda(comm):
    comm.bcast(lambda: 1)


@pytest.mark.parametrize("program", [sends_a_local_class, sends_a_lambda])
def test_what_pickle_refuses_in_a_script_is_refused_on_both(program):
    for on in ("mpi", "star"):
        with pytest.raises(lk.errors.RankError, match=r"[Cc]an't (get|pickle) local object|attribute lookup"):
            lk.run(program, 2, on)


SCRIPT = """
import sys
from mpi4py import MPI
import beside
comm = MPI.COMM_WORLD
beside.seen.append(comm.rank)
comm.barrier()
print(comm.rank, comm.size, sys.argv[1:], beside.seen, __name__, comm.allreduce(1, op=MPI.SUM))
"""


def test_script(tmp_path):
    script = tmp_path / "prog.py"
    script.write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("seen = []\n")
    real, simulated = (lk.run(script, 3, on, args=["a", "b"]) for on in ("mpi", "star"))
    assert simulated.output == real.output
    assert simulated.results == real.results == [None] * 3
    assert simulated.program == real.program == "prog.py"
