"""Ranks that start while a job goes on: their world, their parents, what they cost, and what is refused."""

from __future__ import annotations

import sys

import pytest

import labkit as lk
from labkit import MPI
from tests.support.refusals import raises_code

PARENT = """
import sys
from mpi4py import MPI
comm, codes = MPI.COMM_WORLD, []
assert MPI.Comm.Get_parent() == MPI.COMM_NULL
words = [__file__.replace("parent", "child"), "a b"]
children = comm.Spawn(sys.executable, words if comm.rank == 1 else None, 3, root=1, errcodes=codes)
assert (children.size, children.remote_size, codes) == (2, 3, [0, 0, 0])
children.bcast("work", root=MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL)
print(children.gather(None, root=MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL))
everybody = children.Merge()
print(comm.rank, everybody.rank, everybody.allgather(comm.rank))
comm.Barrier()
children.Disconnect()
"""
CHILD = """
import os, sys
from mpi4py import MPI
comm, parents = MPI.COMM_WORLD, MPI.Comm.Get_parent()
task = parents.bcast(None, root=0)
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
got = comm.sendrecv(comm.rank, right, source=left)
total = comm.allreduce(comm.rank)
split = comm.Split(comm.rank % 2)
parents.gather((task, comm.rank, comm.size, got, total, split.size, sys.argv[1:]), root=0)
everybody = parents.Merge(high=True)
everybody.allgather(comm.rank)
assert comm.rank == int(os.environ["OMPI_COMM_WORLD_RANK"])
window = MPI.Win.Allocate(8, comm=comm)
window.Free()
parents.Disconnect()
assert parents == MPI.COMM_NULL == MPI.Comm.Get_parent()
print("child", comm.rank)
"""


@pytest.fixture
def run(tmp_path):
    def call(body, ranks=1, child=CHILD, **how):
        (tmp_path / "parent.py").write_text(body)
        (tmp_path / "child.py").write_text(child)
        return lk.run(tmp_path / "parent.py", ranks, "star", **how)

    return call


def test_spawned_ranks_have_a_world_of_their_own(run):
    ended = run(PARENT, 2)
    told = [("work", rank, 3, (rank - 1) % 3, 3, 2 - rank % 2, ["a b"]) for rank in range(3)]
    assert ended.output == [
        f"{told}\n0 0 [0, 1, 0, 1, 2]\n",
        "None\n1 1 [0, 1, 0, 1, 2]\n",
        *(f"child {rank}\n" for rank in range(3)),
    ]


def test_a_start_costs_its_messages(run, monkeypatch, tmp_path):
    """The words go there and an answer comes back; to tell nobody else takes no time."""
    monkeypatch.chdir(tmp_path)
    body = "from mpi4py import MPI\nMPI.COMM_SELF.Spawn('child.py', None, 1)\nprint(repr(MPI.Wtime()))"
    run(body, child="")
    ended = lk.run(tmp_path / "parent.py", 1, "star:2")

    def as_messages(comm):
        if comm.rank == 0:
            comm.send(("child.py",), 1)
            comm.recv(source=1)
        else:
            comm.recv(source=0)
            comm.send(None, 0)
        return MPI.Wtime()

    assert float(ended.output[0]) == lk.run(as_messages, 2, "star:2").results[0]


POOL = """
import time
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor
from mpi4py.util.pool import Pool

def square(x):
    return x * x, MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank >= 0

if __name__ == "__main__":
    with MPIPoolExecutor(max_workers=3) as pool:
        print(pool.num_workers, sorted(pool.map(square, range(5))))
    with Pool(1) as waited_for_by_an_event:
        print(waited_for_by_an_event.apply_async(square, (3,)).get())
        print(type(MPIPoolExecutor().submit(lambda: 1).exception()).__name__)
    left_alone = MPIPoolExecutor()
    print(left_alone.submit(square, 7).result())
"""


@pytest.mark.slow
def test_a_pool_spawns_its_workers(run):
    said = run(POOL).output[0].splitlines()
    squares = [(x * x, 3, True) for x in range(5)]
    assert said == [f"3 {squares}", "(9, 1, True)", "PicklingError", "(49, 1, True)"]


REFUSED = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
for words in (
    ("/bin/true", None, 1), ("missing.py",), ("child.py", None, 5000), ("child.py", None, 0),
    (["child.py"], None, [1, 1]),
):
    try:
        (comm.Spawn if isinstance(words[0], str) else comm.Spawn_multiple)(*words)
    except Exception as error:
        print(error)
comm.Spawn("child.py", "x").Barrier()
"""
SENTENCES = (
    "Spawn of '/bin/true': ranks of a simulated run are Python programs",
    "Spawn: there is no file 'missing.py'",
    "room for 4096 spawned ranks, and 5000 more",
    "maxprocs=0: at least 1 rank",
    "expecting 1 items",
)


def test_what_cannot_be_spawned_is_refused_and_who_fails_is_named(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with raises_code(lk.errors.RankError, "rank-failed", "rank 1", "ZeroDivisionError") as failed:
        run(REFUSED, child="1 / 0")
    for line, said in zip(failed.value.output[0].splitlines(), SENTENCES, strict=True):
        assert said in line


@pytest.mark.slow
def test_a_deadlock_between_worlds_is_told(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    body = "from mpi4py import MPI\nMPI.COMM_WORLD.Spawn('child.py').recv()"
    child = "from mpi4py import MPI\nMPI.Comm.Get_parent().recv()"
    with raises_code(lk.errors.DeadlockError, "deadlock"):
        run(body, child=child)


@pytest.mark.parametrize("hints", ["MPI.INFO_NULL", "[MPI.INFO_NULL, MPI.Info.Create({'wdir': '.'})]"])
def test_commands_have_one_hint_or_one_each(run, monkeypatch, tmp_path, hints):
    monkeypatch.chdir(tmp_path)
    body = f"""
from mpi4py import MPI
children = MPI.COMM_SELF.Spawn_multiple(["child.py", "child.py"], [["a"], ["b"]], [1, 2], {hints})
print(children.gather(None, root=MPI.ROOT))
"""
    child = "import sys; from mpi4py import MPI; MPI.Comm.Get_parent().gather(sys.argv[1:], root=0)"
    assert run(body, child=child).output[0] == "[['a'], ['b'], ['b']]\n"


def test_functions_spawn_nothing():
    with raises_code(lk.errors.RankError, "unsupported"):
        lk.run(lambda comm: comm.Spawn(sys.executable, ["child.py"]), 1, "star")


LATER = """
import sys
from mpi4py import MPI
import labkit as lk
comm = MPI.COMM_WORLD
lk.compute(seconds=1.0)
with lk.phase("start"):
    children = comm.Spawn(sys.executable, [__file__.replace("parent", "child")], 3)
children.bcast("work", root=MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL)
"""
WORKER = """
from mpi4py import MPI
import labkit as lk
comm = MPI.COMM_WORLD
with lk.phase("work"):
    MPI.Comm.Get_parent().bcast(None, root=0)
    comm.bcast(bytes(100), root=1)
    lk.compute(seconds=1.0 + comm.rank)
lk.count("done", comm.rank)
"""


def test_traced_and_counted_runs_have_the_spawned_ranks_too(run):
    plain = run(LATER, 2, child=WORKER)
    ended = run(LATER, 2, child=WORKER, trace=True, count=True)
    assert (plain.makespan_s, plain.messages) == (ended.makespan_s, ended.messages)
    assert ended.makespan_s == pytest.approx(4, abs=0.01)
    assert ended.all_ranks == len(ended.trace.ends_s) == 5
    assert ended.trace.begins_s == pytest.approx([0, 0, 1, 1, 1], abs=1e-3)
    assert set(ended.trace.messages["source"]) | set(ended.trace.messages["destination"]) == set(range(5))
    collectives = ended.trace.calls[ended.trace.calls["call"] == "bcast"]
    assert sorted(collectives.loc[collectives["joint"] >= 0, "rank"]) == [2, 3, 4]
    assert set(collectives.loc[collectives["joint"] >= 0, "root"]) == {3}
    whole = ended.counts[ended.counts["phase"] == ""]
    assert whole["done"].tolist() == [0, 0, 0, 1, 2]
    for given, taken in (("messages", "received"), ("bytes", "received_bytes")):
        assert whole[given].sum() == whole[taken].sum()
    assert whole["messages"].sum() == ended.messages


def test_phases_of_spawned_ranks_are_summed_up(run):
    ended = run(LATER, 2, child=WORKER)
    (name, entries, largest, mean, _) = ended.phase_rows()[-1]
    assert (name, entries) == ("work", 3)
    assert (largest, 5 * mean) == pytest.approx((3, 6), abs=0.01)
    assert ended.outside_phases() == pytest.approx((4, (4 + 4 + 3 + 2 + 1) / 5), abs=0.02)
    assert "work" in repr(ended)


@pytest.mark.slow
def test_the_analysis_has_the_spawned_ranks_and_leads_over_the_spawn_to_who_did_it(run, tmp_path):
    ended = run(LATER, 2, child=WORKER, trace=True)
    waiting = ended.waits()
    assert waiting.ranks == ended.report().ranks == 5
    assert set(ended.profile()["rank"]) == set(range(5))
    cost = waiting.delays["direct_s"].sum() + waiting.delays["indirect_s"].sum()
    assert cost == pytest.approx(waiting.seconds)
    path = waiting.critical
    assert path["rank"].iloc[-1] == 4
    assert path["rank"].iloc[0] == 0  # its children begin when it has computed for a second
    assert path["begin_s"].tolist() == [0.0, *path["end_s"].iloc[:-1]]
    assert ended.explain().path["kind"].eq("start").sum() == 0
    tried = ended.what_if(phase="work", factor=0.5, ranks=[4])
    assert (tried.won_s, tried.predicted_s) == pytest.approx((1.0, 1.5), abs=0.01)
    for name in ("x.json", "x.cubex", "x.prv", "x.csv", "x.paje"):
        assert ended.export(tmp_path / name)
    with raises_code(lk.errors.RankError, "unsupported", "Spawn"):
        run(LATER, 2, child=WORKER, trace_ti=tmp_path / "t.txt")


@pytest.mark.slow
def test_a_time_line_has_a_row_for_each_of_them(run):
    drawn = lk.plot.gantt(run(LATER, 2, child=WORKER, trace=True))
    assert "5 ranks, 4 s: ended already 45%, computing 40%, not yet begun 15%" in drawn.alt
    assert "Rank 4 is busy the longest, 75% of the run, rank 1 the least, 25%" in drawn.alt
    phases = lk.plot.gantt(run(LATER, 2, child=WORKER))
    for figure in (drawn, phases):
        bars = [one for one in _parts(figure.layout) if one.yaxis[0].axis_label == "rank"]
        assert [(one.y_range.start, one.y_range.end) for one in bars] == [(4.6, -0.6)]


def _parts(layout):
    from bokeh.models import Plot

    return list(layout.select({"type": Plot})) or [layout]


def test_measured_computation_of_spawned_ranks_is_not_repeated(run):
    ended = run(LATER, 2, child=WORKER, compute="measured")
    assert ended.notes[-1].endswith("that of spawned ranks cannot be charged again")
    with raises_code(lk.errors.MachineError, "not-comparable", "5", "2"):
        run(LATER, 2, child=WORKER, compute=ended)
