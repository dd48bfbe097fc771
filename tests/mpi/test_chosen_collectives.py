"""Collectives of real MPI take the algorithms that a run asks for: labkit's own, or the library's."""

from __future__ import annotations

import re

import numpy as np
import pytest

import labkit as lk
from labkit.errors import LabkitError, RankError
from labkit.selector import Situation
from tests.contract.same import collectives, nonblocking, reductions
from tests.support.mpich import MPICH, needs_mpich
from tests.support.same import attempts

pytestmark = pytest.mark.mpi

CASES = {
    (module.__name__, name): function
    for module in (collectives, reductions, nonblocking)
    for name, function in module.CASES.items()
    if 4 in module.CASES.ranks
}


#: a call that labkit's algorithms refuse, and classes that stand for mpi4py's: they take any communicator
OTHER = ("strided array", "no graph", "another kind")


@pytest.mark.slow
def test_every_call_gives_what_mpi4py_gives():
    """Every form and operator, right and wrong."""
    own, chosen = (lk.run(attempts, 4, "mpi", args=(CASES,), coll=coll) for coll in (None, "default"))
    assert len({at.operation for at in chosen.collectives}) > 8
    for mine, theirs in zip(chosen.results, own.results, strict=True):
        differ = [key for key in theirs if repr(mine[key]) != repr(theirs[key])]
        assert [what for _, what in differ if not what.endswith(OTHER)] == []


def gaps_at_the_root(comm):
    every_third = lk.MPI.DOUBLE.Create_vector(4, 1, 3).Commit()
    data = np.arange(10.0) if comm.rank == 0 else np.zeros(4)
    comm.Bcast(data if comm.rank else [data, every_third])
    return data[:: 1 if comm.rank else 3].tolist()


def test_gaps_in_the_data_of_a_rank_do_not_count(tmp_path):
    (tmp_path / "long.toml").write_text('rules = [{operation = "bcast", bytes_from = 64, use = "binomial"}]')
    run = lk.run(gaps_at_the_root, 3, "mpi", coll=tmp_path / "long.toml")
    assert run.results == [[0, 3, 6, 9]] * 3


def on_many_communicators(comm):
    text = bytes(range(91)) * 11
    data = bytearray(len(text)) if comm.rank else text  # the root's cannot be written
    comm.Bcast(data)
    grid = comm.Create_cart([comm.size], [True])
    part = comm.Split(comm.rank % 2, comm.rank)
    merged = part.Create_intercomm(0, comm, 1 - comm.rank % 2).Merge()
    given = [comm, comm.Dup(), part, grid, grid.Sub([True]), merged]
    sums = []
    for one in given:
        total = np.empty(100)
        one.Allreduce(np.full(100, 1.0 + one.rank), total)
        one.Barrier()
        sums.append(float(total[0]) == one.size * (one.size + 1) / 2 and one.allreduce(1) == one.size)
        if one is not comm:
            one.Free()
    return sums, isinstance(given[3], lk.MPI.Cartcomm), comm == lk.MPI.COMM_WORLD, data == text


def test_communicators_and_traces():
    coll = "allreduce=ring,barrier=tree,bcast=scatter_ring_allgather"
    run = lk.run(on_many_communicators, 3, "mpi", coll=coll, trace=True)
    assert run.results == [([True] * 6, True, True, True)] * 3
    taken = {(at.operation, at.ranks, at.n_bytes): name for at, name in run.collectives.items()}
    assert taken == {
        ("allreduce", 3, 800): "ring", ("barrier", 3, 0): "tree",
        ("allreduce", 2, 800): "ring", ("barrier", 2, 0): "tree",
        ("bcast", 3, 1001): "scatter_ring_allgather",
    }  # fmt: skip
    assert set(run.collectives) == {
        Situation(*at, machine="mpi", ranks_per_node=at[1]) for at in taken
    }  # all on this host


def broadcasts(comm):
    for _ in range(7):
        comm.Bcast(np.zeros(1000))


def test_the_library_is_forced(tmp_path, monkeypatch):
    """Open MPI's own monitoring counts the root's bytes: once down a chain, twice down a binomial tree."""
    for key, value in {"enable": "1", "enable_output": "3", "filename": str(tmp_path / "mon")}.items():
        monkeypatch.setenv(f"OMPI_MCA_pml_monitoring_{key}", value)
    monkeypatch.setenv("OMPI_MCA_pml", "")
    run = lk.run(broadcasts, 4, "mpi", coll="bcast=library:chain:chains=1")
    assert "bcast takes the library's own chain:chains=1, by its switch" in run.notes
    profile = (tmp_path / "mon.0.prof").read_text()
    sent = re.findall(r"^E\t0\t\d+\t(\d+) bytes", profile, re.MULTILINE)
    assert sum(map(int, sent)) // 8000 == 7


def scans(comm):
    for _ in range(7):
        comm.Scan(np.zeros(1000), np.zeros(1000))


@pytest.mark.slow
def test_scans_of_the_library_are_forced(tmp_path, monkeypatch):
    """Recursive doubling sends rank 0's elements to rank 2, too."""
    monkeypatch.setenv("OMPI_MCA_pml", "")
    for key, value in {"enable": "1", "enable_output": "3"}.items():
        monkeypatch.setenv(f"OMPI_MCA_pml_monitoring_{key}", value)
    for name, most in (("linear", 0), ("recursive_doubling", 56_000)):
        monkeypatch.setenv("OMPI_MCA_pml_monitoring_filename", str(tmp_path / name))
        lk.run(scans, 3, "mpi", coll=f"scan=library:{name}")
        profile = (tmp_path / f"{name}.0.prof").read_text()
        assert re.findall(r"^E\t0\t2\t(\d+) bytes", profile, re.MULTILINE) == [str(most)]


def one_number(comm):
    total = np.zeros(1)
    comm.Allreduce(np.ones(1), total)
    return total[0]


@needs_mpich
def test_mpich_is_forced_and_says_where_it_cannot(monkeypatch):
    """A number cannot be scattered over three ranks."""
    monkeypatch.setenv("LABKIT_MPI", str(MPICH))
    for name, says in (("recursive_doubling", False), ("rabenseifner", True)):
        run = lk.run(one_number, 3, "mpi", coll=f"allreduce=library:{name}")
        assert (run.results, "not usable" in "".join(run.output)) == ([3.0] * 3, says)
    with pytest.raises(
        LabkitError, match="MPICH has no switch for allreduce=swing; it has recursive_doubling"
    ):
        lk.run(one_number, 3, "mpi", coll="allreduce=library:swing")


#: where collectives of any kind stand in the program: blocks of any sizes, objects, two under way at once
EVERYWHERE = {
    "allreduce": "ring", "gatherv": "binomial", "scatterv": "two_level_direct:node=2", "allgatherv": "bruck",
    "alltoallv": "ring", "barrier": "tree", "bcast": "chain", "gather": "binomial", "scatter": "binomial",
    "allgather": "ring", "alltoall": "pairwise", "reduce_scatter": "pairwise",
}  # fmt: skip


def everywhere(comm):
    me, p = comm.rank, comm.size
    counts = np.arange(p) + 3
    wanted = np.repeat(np.arange(p, dtype="f4"), counts).tolist()
    first, second = np.empty(50_000), np.empty(3)
    requests = [comm.Iallreduce(np.full(50_000, 1.0), first), comm.Iallreduce(np.full(3, 2.0), second)]
    if me == 0:  # waits for the first one and for a message, rank 1 for the second one before it sends that
        requests[0].Wait()
        comm.recv(source=1)
    elif me == 1:
        requests[1].Wait()
        comm.send("second", 0)
    lk.MPI.Request.Waitall(requests)
    right = [set(first) == {p}, set(second) == {2 * p}]
    mine, every = np.full(counts[me], me, "f4"), np.empty(sum(counts), "f4")
    request = comm.Igatherv(mine, [every, counts] if me == p - 1 else None, p - 1)
    while not request.Test():
        pass
    right.append(me < p - 1 or every.tolist() == wanted)
    comm.Allgatherv(mine, [every, counts])
    room = np.empty(counts[me] + 4, "f4")  # more than is sent
    comm.Scatterv([every, counts] if me == 1 else None, room, 1)
    right += [every.tolist() == wanted, set(room[: counts[me]]) == {me}]
    sent, got = np.repeat(np.arange(p) + 10 * me, counts), np.empty(p * counts[me], int)
    comm.Alltoallv([sent, counts], [got, np.full(p, counts[me])])
    part = np.empty(counts[me], "f4")
    comm.Reduce_scatter(every, part, counts)
    right += [got.tolist() == np.repeat(np.arange(p) * 10 + me, counts[me]).tolist(), set(part) == {p * me}]
    right.append(comm.gather({me: "x"}, root=1) == ([{r: "x"} for r in range(p)] if me == 1 else None))
    right.append(comm.scatter([(r,) for r in range(p)] if me == 0 else None) == (me,))
    right.append(comm.alltoall([10 * me + r for r in range(p)]) == [10 * r + me for r in range(p)])
    right += [comm.bcast("all" if me == 0 else None) == "all", comm.allgather(me) == list(range(p))]
    comm.barrier()
    return all(right) or right


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_every_kind_of_call_takes_what_was_chosen(ranks):
    run = lk.run(everywhere, ranks, "mpi", coll=EVERYWHERE, timeout_s=60)
    assert run.results == [True] * ranks
    assert {at.operation: name for at, name in run.collectives.items()} == EVERYWHERE


def too_little_room_later(comm):
    counts = [4] * comm.size
    room = np.empty(4 if comm.rank else 2)
    comm.Iscatterv([np.zeros(4 * comm.size), counts] if comm.rank == 0 else None, room).Wait()


def test_what_goes_wrong_in_a_thread_is_the_ranks_own():
    with pytest.raises(RankError, match="rank 0 failed"):
        lk.run(too_little_room_later, 3, "mpi", coll="scatterv=linear", timeout_s=30)


def too_small_at_the_root(comm):
    comm.Gather(np.ones(4), np.empty(6) if comm.rank == 0 else None)


def gapped(comm):
    kind = lk.MPI.DOUBLE.Create_vector(2, 1, 2).Commit()
    comm.Bcast([np.zeros(4), 1, kind])


def test_what_cannot_be_is_refused():
    def words(coll, on="mpi", program=broadcasts):
        with pytest.raises(LabkitError) as caught:
            lk.run(program, 2, on, coll=coll)
        return str(caught.value)

    assert "which needs a simulated machine" in words("best")
    assert "those of neighbors are no schedules: lk.tune.neighborhood" in words("neighbor_alltoall=ring")
    assert "Open MPI has no switch for allreduce=swing; it has" in words("allreduce=library:swing")
    assert "bcast has no switch for radix" in words("bcast=library:knomial:radix=2")
    assert "labkit's: bcast=linear" in words("bcast=library:linear", "star:2")
    with pytest.raises(RankError, match="predefined datatypes"):
        lk.run(gapped, 2, "mpi", coll="bcast=linear")
    with pytest.raises(RankError, match=r"rank 0 failed.*at the root send 4 elements of float64 and recv 6"):
        lk.run(too_small_at_the_root, 2, "mpi", coll="gather=linear")
