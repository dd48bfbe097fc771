"""A simulated run, recorded and replayed on the same machine, takes the same time to the last bit."""

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.errors import DataError, MachineError
from tests.support.refusals import raises_code


def _point_to_point(comm):
    rank, p = comm.rank, comm.size
    right, left = (rank + 1) % p, (rank - 1) % p
    x, y = np.ones(1000 * (1 + rank % 2)), np.empty(9000)
    MPI.Request.Waitall([comm.Isend(x, right, 3), comm.Irecv(y, MPI.ANY_SOURCE, MPI.ANY_TAG)])
    lk.compute(seconds=1e-4 * (rank + 1) / 3)
    if rank == 0:
        comm.ssend([1] * 1000, 1)
        comm.bsend(np.ones(20_000), 1, tag=8)
        comm.send(2, 1, tag=7)
    if rank == 1:
        early = comm.irecv(50_000, source=0)
        while not early.test()[0]:
            lk.compute(flops=1e4)
        comm.Probe(0, 7)
        lk.compute(flops=5e5)
        comm.recv(source=0, tag=7)
        comm.recv(source=MPI.ANY_SOURCE, tag=8)
    posted = [comm.Irecv(np.empty(9000), left, tag) for tag in range(4)]
    sent = [comm.Isend(np.ones(9000), right, tag) for tag in range(4)]
    while posted:
        posted.pop(MPI.Request.Waitany(posted))
        lk.compute(seconds=1e-5)
    MPI.Request.Waitall(sent[1:3])
    sent[3].Wait()
    sent[0].Wait()
    comm.Sendrecv(x, right, recvbuf=y, source=left)
    comm.Sendrecv(x, rank, recvbuf=y, source=rank)
    while comm.Iprobe():
        comm.recv()
    return MPI.Wtime()


def _collectives(comm):
    rank, p = comm.rank, comm.size
    triangle = p * (p + 1) // 2
    comm.allreduce(rank)
    comm.Allreduce(np.ones(3000), np.empty(3000))
    comm.Allreduce(np.ones(7, np.complex128), np.empty(7, np.complex128))
    comm.Bcast(np.ones(5001, np.int16), p - 1)
    lk.compute(seconds=1e-5 * (rank % 3))
    comm.Scatterv([np.ones(triangle), list(range(1, p + 1))] if rank == 1 else None, np.empty(rank + 1), 1)
    comm.Gatherv(np.ones(rank + 1), [np.empty(triangle), list(range(1, p + 1))] if rank == 1 else None, 1)
    comm.Gather(np.ones(9), np.empty(9 * p) if rank == 2 else None, 2)
    comm.Scatter(np.ones(9 * p) if rank == 2 else None, np.empty(9), 2)
    comm.Allgather(np.ones(30), np.empty(30 * p))
    comm.Allgatherv(np.ones(rank + 1), [np.empty(triangle), list(range(1, p + 1))])
    comm.Alltoall(np.ones(20 * p), np.empty(20 * p))
    comm.Alltoallv([np.ones(p * rank), [rank] * p], [np.empty(p * (p - 1) // 2), list(range(p))])
    comm.Reduce(np.ones(2000), np.empty(2000), root=1)
    comm.Reduce_scatter_block(np.ones(p * 10), np.empty(10))
    comm.Reduce_scatter(np.ones(p), np.empty(1), [1] * p)
    comm.Scan(np.ones(30), np.empty(30))
    comm.Exscan(np.ones(30), np.empty(30))
    comm.Barrier()
    ordered = MPI.Op.Create(lambda a, b, t: None, commute=False)
    comm.Allreduce(np.ones(4000), np.empty(4000), ordered)


def _communicators(comm):
    rank, p = comm.rank, comm.size
    half = comm.Split(rank % 2, -rank)
    half.Allgather(np.ones(20), np.empty(20 * half.size))
    half.bcast({"rank": rank})
    copy = comm.Dup()
    copy.Allreduce(np.ones(5000), np.empty(5000))
    request = half.Irecv(np.empty(4), (half.rank - 1) % half.size, 5)
    world = comm.Irecv(np.empty(4), (rank - 1) % p, 5)
    comm.Send(np.ones(4), (rank + 1) % p, 5)
    half.Send(np.ones(3), (half.rank + 1) % half.size, 5)
    MPI.Request.Waitall([request])
    world.Wait()
    MPI.COMM_SELF.Allreduce(np.ones(3), np.empty(3))
    grid = comm.Create_cart([2, p // 2], periods=[True, True])
    grid.Sub([False, True]).Allreduce(np.ones(100), np.empty(100))


MACHINES = [
    ("star", "lab", {}),
    ("star:8,bw=1Gbps,lat=24us", "smpi", {"allgather": "ring", "reduce": "linear"}),
    ("torus:4x2", "lv08", {}),
    ("fattree:4x4:1x2:1x2", "lab", {"alltoall": "linear"}),
    ("star", "raw", {}),
]


@pytest.mark.parametrize(("on", "model", "coll"), MACHINES)
@pytest.mark.parametrize("program", [_point_to_point, _collectives, _communicators])
def test_the_same_makespan(tmp_path, program, on, model, coll):
    run = lk.run(program, 8, on, model=model, coll=coll, trace_ti=tmp_path / "t.txt.gz")
    again = lk.replay(tmp_path / "t.txt.gz", on, model=model, coll=coll)
    assert again.makespan_s == run.makespan_s
    assert (again.messages, again.bytes) == (run.messages, run.bytes)
    assert not again.notes


def test_a_sort_takes_the_same_time_and_other_machines_take_other_times(tmp_path):
    from labkit.algorithms.sorting.sample_sort import sample_sort

    def program(comm):
        keys = np.random.default_rng(comm.rank).integers(0, 1 << 40, 2000)
        with lk.phase("sort"):
            return len(sample_sort(comm, keys))

    run = lk.run(program, 12, "star:12", trace_ti=f"{tmp_path / 'parts'}/")
    listed = tmp_path / "parts" / "list.txt"
    assert str(listed) in run.notes[-1]
    assert len(listed.read_text().split()) == 12
    assert lk.replay(listed, "star:12").makespan_s == run.makespan_s
    slow = lk.replay(listed, "star:12,bw=100Mbps,lat=50us").makespan_s
    assert slow == lk.run(program, 12, "star:12,bw=100Mbps,lat=50us").makespan_s
    assert slow > 5 * run.makespan_s


def test_a_faster_host_computes_faster(tmp_path):
    lk.run(lambda comm: lk.compute(seconds=0.3), 2, "star:2,speed=1Gf", trace_ti=tmp_path / "t")
    assert lk.replay(tmp_path / "t", "star:2,speed=2Gf").makespan_s == pytest.approx(0.15, rel=1e-14)


def test_the_text_is_simgrids(tmp_path):
    def program(comm):
        comm.Send(np.ones(2), 0, 1) if comm.rank else comm.Recv(np.ones(2), 1, 1)
        comm.Allreduce(np.ones(5), np.empty(5))
        lk.compute(seconds=0.25)

    lk.run(program, 2, "star:2,speed=1Gf", trace_ti=tmp_path / "t")
    assert (tmp_path / "t").read_text().split("\n") == [
        "0 init", "0 recv 1 1 16 6", "0 allreduce 5 0 0", "0 compute 2.5e+08", "0 finalize",
        "1 init", "1 send 0 1 16 6", "1 allreduce 5 0 0", "1 compute 2.5e+08", "1 finalize", "",
    ]  # fmt: skip


def test_a_place_that_cannot_be_written_is_refused_before_the_run(tmp_path):
    def program(comm):
        raise AssertionError("it ran")

    with raises_code(DataError, "unwritable-file"):
        lk.run(program, 2, trace_ti=tmp_path / "no" / "such")
    with raises_code(MachineError, "conflicting-options"):
        lk.run(program, 2, trace_ti=tmp_path / "t", repeats=2)


class _Numbers(np.ndarray):
    pass


def _forms(comm, general):
    """Blocking calls with arrays; `general`: in forms that only the methods in Python read."""
    me, other = comm.rank, 1 - comm.rank
    sizes, got = (1, 5, 0, 1000), MPI.Status()
    if me == 0:
        for tag, (name, size) in enumerate(zip(("Send", "Ssend", "Rsend", "Send"), sizes, strict=True)):
            comm.recv(source=other)  # a Rsend needs its receive
            data = np.ones(size).view(_Numbers) if general else np.ones(size)
            getattr(comm, name)(data, other, tag) if general else getattr(comm, name)(
                data, dest=other, tag=tag
            )
        comm.Send(np.ones(3), 1)
        comm.Send(np.ones(3), MPI.PROC_NULL)
        with pytest.raises(MPI.Exception):
            comm.Send(np.ones(3), 7)
        with pytest.raises(TypeError):
            comm.Send(np.ones(3), 1, size=3)
        comm.Recv(np.empty(2), MPI.PROC_NULL)
    else:
        for tag, size in enumerate(sizes):
            room = np.empty(size + 1).view(_Numbers) if general else np.empty(size + 1)
            source = (other, MPI.ANY_SOURCE)[tag % 2]
            later = comm.Irecv(room, source, tag) if tag == 2 else None
            comm.send("ready", other)
            if later:
                later.Wait(got)
            elif tag == 3:
                comm.Recv(room, status=got)
            else:
                comm.Recv(room, source, tag, got)
            assert (got.source, got.tag, got.count) == (other, tag, 8 * size)
        comm.Recv(np.empty(3))


@pytest.mark.mpi
def test_compiled_methods_note_what_those_in_python_do():
    tables = []
    for general in (False, True):
        trace = lk.run(_forms, 2, "mpi", args=(general,), trace=True).trace
        messages = trace.messages.sort_values(["send_posted_s"])
        calls = trace.calls.sort_values(["rank", "begin_s"])
        tables.append((
            messages[["source", "destination", "tag", "context", "bytes"]].to_numpy().tolist(),
            calls[["rank", "call", "bytes", "joint"]].to_numpy().tolist(),
        ))  # fmt: skip
    assert tables[0] == tables[1]
    assert len(tables[0][0]) == 9


@pytest.mark.mpi
def test_compiled_methods_look_like_those_of_mpi4py():
    def program(comm):
        import inspect

        return str(inspect.signature(comm.Send)), str(inspect.signature(type(comm).Recv)), comm.Send.__name__

    plain, traced = (lk.run(program, 1, "mpi", trace=trace).results[0] for trace in (False, True))
    assert traced[2] == plain[2] == "Send"
    assert (
        traced[:2] == ("(buf, dest, tag=0)", "(self, buf, source=-1, tag=-1, status=None)") or traced == plain
    )
