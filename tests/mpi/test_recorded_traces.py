"""A run of real MPI, recorded: the same lines as the simulator records of the same program."""

import re
import shutil
import subprocess

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.machines.models import get
from labkit.machines.xml.writer import host_file, platform_xml, smpirun_options

pytestmark = pytest.mark.mpi


def _lines(path):
    """Lines of a trace but what simulated tests, probes and clocks cost, which real ones do not say."""
    return [line for line in path.read_text().split("\n") if " sleep " not in line]


def _messages(comm):
    rank, p = comm.rank, comm.size
    right, left = (rank + 1) % p, (rank - 1) % p
    x, y = np.arange(1000.0) + rank, np.empty(1000)
    MPI.Request.Waitall([comm.Isend(x, right, 3), comm.Irecv(y, left, 3)])
    assert y[0] == left
    comm.Sendrecv(x, right, 1, y, left, 1)
    comm.Sendrecv(x, rank, 0, y, rank, 0)
    comm.Sendrecv_replace([x, 500, MPI.DOUBLE], right, 2, left, 2)
    assert comm.sendrecv({"rank": rank}, right, 4, None, left, 4) == {"rank": left}
    comm.Sendrecv(x, MPI.PROC_NULL, 0, y, MPI.PROC_NULL, 0)
    comm.Send(x, MPI.PROC_NULL)
    comm.irecv(source=MPI.PROC_NULL).wait()
    if rank == 0:
        comm.ssend(list(range(500)), 1, tag=5)
        comm.bsend("buffered", 1, tag=6)
        comm.Ssend([x, 7], 1, 7)
        comm.Rsend(x[:10], 1, 8)
        comm.Send([np.ones(100, "i4"), (20, 30), "i"], 1, 9)
        comm.send(None, dest=1, tag=10)
        comm.Issend(x[:3], 1, 11).Wait()
        comm.ibsend((1, 2), 1, 12).wait()
    elif rank == 1:
        assert comm.recv(source=0, tag=5) == list(range(500))
        comm.Probe(0, 6)
        status = MPI.Status()
        assert comm.recv(source=MPI.ANY_SOURCE, tag=6, status=status) == "buffered"
        assert (status.source, status.tag) == (0, 6)
        comm.Mprobe(0, 7).Recv(np.empty(1000))
        comm.Recv(np.empty(50), 0, MPI.ANY_TAG)
        comm.Recv([np.empty(99, "i4"), MPI.INT], 0, 9)
        assert comm.mprobe(0, 10).recv() is None
        requests = [comm.Irecv(np.empty(3), MPI.ANY_SOURCE, 11), comm.irecv(1000, source=0, tag=12)]
        assert MPI.Request.waitall(requests)[1] == (1, 2)
    posted = [comm.Irecv(np.empty(100), left, tag) for tag in range(4)]
    sent = [comm.isend([tag] * 50, right, tag) for tag in range(4)]
    MPI.Request.Waitall(sent[1:3])
    sent[3].Wait()
    posted[2].Wait()
    sent[0].Wait()
    assert MPI.Request.Waitany([posted[1]]) == 0
    MPI.Request.Waitall(posted)
    orphan = comm.Irecv(np.empty(1), left, 99)
    orphan.Cancel()
    orphan.Wait()
    if rank == 0:
        for source in range(1, p):
            comm.recv(source=source, tag=20)
    else:
        comm.send("x" * rank, 0, tag=20)


def _collectives(comm):
    rank, p = comm.rank, comm.size
    triangle = p * (p + 1) // 2
    counts = list(range(1, p + 1))
    comm.Allreduce(np.ones(3000), np.empty(3000))
    comm.Allreduce(MPI.IN_PLACE, np.ones(30, np.float32), MPI.MAX)
    comm.Allreduce(np.ones(7, np.complex128), np.empty(7, np.complex128), op=MPI.PROD)
    pairs = np.ones(3, np.dtype([("value", "f8"), ("index", "i4")], align=True))
    comm.Allreduce([pairs, MPI.DOUBLE_INT], [pairs.copy(), MPI.DOUBLE_INT], MPI.MAXLOC)
    comm.Bcast(np.ones(5001, np.int16), p - 1)
    comm.Bcast([bytearray(99), 33, MPI.CHAR], root=1)
    comm.Scatterv([np.ones(triangle), counts] if rank == 1 else None, np.empty(rank + 1), 1)
    comm.Gatherv(np.ones(rank + 1), [np.empty(triangle), counts] if rank == 1 else None, 1)
    comm.Gatherv(np.ones(3, "i4"), [np.empty(3 * p, "i4"), 3] if rank == 0 else None)
    comm.Gather(np.ones(9), np.empty(9 * p) if rank == 2 else None, 2)
    comm.Gather(MPI.IN_PLACE if rank == 0 else np.ones(4), np.empty(4 * p) if rank == 0 else None)
    comm.Scatter(np.ones(9 * p) if rank == 2 else None, np.empty(9), 2)
    comm.Allgather(np.ones(30), np.empty(30 * p))
    comm.Allgather(MPI.IN_PLACE, np.empty(5 * p))
    comm.Allgatherv(np.ones(rank + 1), [np.empty(triangle), counts])
    comm.Alltoall(np.ones(20 * p), np.empty(20 * p))
    comm.Alltoall([np.ones(20 * p), 7, MPI.DOUBLE], [np.ones(20 * p), 7, MPI.DOUBLE])
    comm.Alltoallv([np.ones(p * rank), [rank] * p], [np.empty(p * (p - 1) // 2), list(range(p))])
    comm.Reduce(np.ones(2000), np.empty(2000) if rank == 1 else None, root=1)
    comm.Reduce_scatter_block(np.ones(p * 10), np.empty(10))
    comm.Reduce_scatter(np.ones(p), np.empty(1), [1] * p)
    comm.Reduce_scatter(np.ones(triangle), np.empty(rank + 1))
    comm.Scan(np.ones(30), np.empty(30))
    comm.Exscan(np.ones(30, np.int64), np.empty(30, np.int64))
    comm.Barrier()
    ordered = MPI.Op.Create(lambda a, b, t: None, commute=False)
    comm.Allreduce(np.ones(4000), np.empty(4000), ordered)
    comm.barrier()
    assert comm.bcast({"from": rank}, p - 1) == {"from": p - 1}
    comm.gather(list(range(rank)), 2)
    comm.scatter([[i] * i for i in range(p)] if rank == 1 else None, root=1)
    comm.allgather("x" * rank)
    comm.alltoall([(rank, i) for i in range(p)])
    comm.reduce([rank], root=p - 1)
    comm.reduce(rank, MPI.MAX)
    assert comm.allreduce(rank) == p * (p - 1) // 2
    comm.scan((rank,))
    comm.exscan([rank] * 30)


def _communicators(comm):
    rank, p = comm.rank, comm.size
    with lk.phase("halves of comm=8"):
        half = comm.Split(rank % 2, -rank)
    half.Allgather(np.ones(20), np.empty(20 * half.size))
    half.bcast({"rank": rank})
    half.allreduce(rank)
    copy = comm.Dup()
    copy.Allreduce(np.ones(5000), np.empty(5000))
    copy.Clone().Barrier()
    request = half.Irecv(np.empty(4), (half.rank - 1) % half.size, 5)
    world = comm.Irecv(np.empty(4), (rank - 1) % p, 5)
    comm.Send(np.ones(4), (rank + 1) % p, 5)
    half.Send(np.ones(3), (half.rank + 1) % half.size, 5)
    MPI.Request.Waitall([request])
    world.Wait()
    MPI.COMM_SELF.Allreduce(np.ones(3), np.empty(3))
    MPI.COMM_SELF.sendrecv(3, 0)
    some = comm.Create(comm.Get_group().Incl([2, 0]))
    if some != MPI.COMM_NULL:
        some.Sendrecv(np.ones(3), 1 - some.rank, recvbuf=np.empty(3), source=1 - some.rank)
        some.Free()
    if rank in (1, 3):
        members = comm.Get_group().Incl([3, 1])
        comm.Create_group(members, 7).Bcast(np.ones(3), 1)
        comm.Create_group(members, 7).bcast(3)
    nobody = comm.Split(MPI.UNDEFINED if rank == 3 else 0)
    assert (nobody == MPI.COMM_NULL) == (rank == 3)
    grid = comm.Create_cart([2, p // 2], periods=[True, False])
    row = grid.Sub([False, True])
    row.Allreduce(np.ones(100), np.empty(100))
    degree = len(grid.inedges)
    grid.neighbor_allgather("x" * rank)
    grid.neighbor_alltoall([rank] * degree)
    grid.Neighbor_allgather(np.ones(3), np.empty(3 * degree))
    grid.Neighbor_alltoall(np.ones(2 * degree), np.empty(2 * degree))
    grid.Neighbor_alltoallv([np.ones(degree), [1] * degree], [np.empty(degree), [1] * degree])
    left, right = grid.Shift(1, 1)
    grid.sendrecv(rank, right, source=left)


def _polls(comm):
    """Tests and probes, each of which finds what it looks for once: how often they did not is not told."""
    if comm.rank:
        requests = [comm.Isend(np.ones(10), 0, tag) for tag in range(8)]
        comm.Barrier()
        return MPI.Request.Waitall(requests)
    comm.Barrier()
    first = comm.Irecv(np.empty(10), 1, 0)
    lk.compute(seconds=1e-6)  # else a post and its wait are one receive
    while not first.Test():
        pass
    while not comm.Iprobe(1, 1):
        pass
    comm.Recv(np.empty(10), 1, 1)
    while (message := comm.Improbe(1, 2)) is None:
        pass
    message.Irecv(np.empty(10)).Wait()
    some = [comm.Irecv(np.empty(10), 1, 3)]
    lk.compute(seconds=1e-6)
    MPI.Request.Waitsome(some)
    some = [comm.Irecv(np.empty(10), 2, tag) for tag in range(4)]
    lk.compute(seconds=1e-6)
    while not MPI.Request.Testall(some):
        pass
    one = [comm.Irecv(np.empty(10), 3, 0)]
    lk.compute(seconds=1e-6)
    while not MPI.Request.Testany(one)[1]:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("program", [_messages, _collectives, _communicators])
def test_the_lines_of_the_simulated_run(tmp_path, program, real):
    simulated, noted = tmp_path / "simulated.txt", tmp_path / "real.txt"
    run = lk.run(program, 4, "star:4", trace_ti=simulated)
    recorded = lk.run(program, 4, real, trace_ti=noted, compute="none")
    assert _lines(noted) == _lines(simulated)
    assert "without computation" in recorded.notes[-1]
    again = lk.replay(noted, "star:4")
    assert (again.messages, again.bytes) == (run.messages, run.bytes)
    assert again.makespan_s == lk.replay(simulated, "star:4").makespan_s == run.makespan_s


def test_tests_and_probes_are_the_waits_that_they_ended(tmp_path, real):
    simulated, noted = tmp_path / "simulated.txt", tmp_path / "real.txt"
    lk.run(_polls, 4, "star:4", trace_ti=simulated)
    lk.run(_polls, 4, real, trace_ti=noted, compute="charged")
    assert _lines(noted) == _lines(simulated)


def test_a_sort_replays_in_the_time_of_its_simulation(tmp_path, real):
    from labkit.algorithms.sorting.sample_sort import sample_sort

    def program(comm):
        keys = np.random.default_rng(comm.rank).integers(0, 1 << 40, 2000)
        with lk.phase("sort"):
            sample_sort(comm, keys)
        lk.compute(flops=1e6)

    run = lk.run(program, 4, "torus:2x2", trace_ti=tmp_path / "simulated.txt")
    lk.run(program, 4, real, trace_ti=tmp_path / "t.txt", compute="charged")
    assert _lines(tmp_path / "t.txt") == _lines(tmp_path / "simulated.txt")
    again = lk.replay(tmp_path / "t.txt", "torus:2x2").makespan_s
    assert again == pytest.approx(run.makespan_s, rel=1e-12)  # computations in a row are one


SCRIPT = """
import mpi4py
{early}
from mpi4py import MPI
from mpi4py.MPI import COMM_WORLD as world
import numpy as np

assert isinstance(world, MPI.Intracomm) and isinstance(MPI.COMM_WORLD.Dup(), MPI.Comm)
assert isinstance(MPI.REQUEST_NULL, MPI.Request) and MPI.COMM_WORLD == world
if world.rank == 0:
    MPI.Comm.Send(world, np.ones(100), 1)
else:
    world.Recv(np.empty(100))
print(world.allreduce(1))
"""


def test_a_script_that_starts_mpi_itself(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import mpi4py\nmpi4py.rc.initialize = False\nfrom mpi4py import MPI\n"
        "MPI.Init()\nMPI.COMM_WORLD.Barrier()\nMPI.Finalize()\n"
    )
    lk.run(script, 2, "mpi", trace_ti=tmp_path / "real.txt", compute="none")
    assert _lines(tmp_path / "real.txt") == [
        *(f"{rank} {word}" for rank in (0, 1) for word in ("init", "barrier", "finalize")), ""
    ]  # fmt: skip


@pytest.mark.parametrize("early", ["", "mpi4py.rc.threads = False"])
def test_an_unmodified_script(tmp_path, early, real):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(early=early))
    lk.run(script, 2, "star:2", trace_ti=tmp_path / "simulated.txt")
    run = lk.run(script, 2, real, trace_ti=tmp_path / "real.txt", compute="none")
    assert run.output == ["2\n", "2\n"]
    assert _lines(tmp_path / "real.txt") == _lines(tmp_path / "simulated.txt")


def test_computation_is_the_cpu_time_between_calls(tmp_path, real):
    def program(comm):
        import time

        begin = time.thread_time()
        while time.thread_time() < begin + 0.05:
            pass
        comm.Barrier()
        time.sleep(0.1)  # nobody's computation
        if comm.rank == 0:
            time.sleep(0.2)
        comm.Barrier()

    run = lk.run(program, 2, real, trace_ti=f"{tmp_path / 'parts'}/", compute="measured:2")
    assert "CPU time" in run.notes[-1]
    listed = tmp_path / "parts" / "list.txt"
    flops = sum(
        float(line.split()[2]) for line in _lines(tmp_path / "parts" / "rank-1.txt") if " compute " in line
    )
    assert flops >= 1e8  # 0.05 s at least, counted twice, on a machine of any load
    assert lk.replay(listed, "star:2,speed=2Gf").makespan_s >= 0.05


@pytest.mark.skipif(shutil.which("smpirun") is None, reason="SimGrid's smpirun is not installed")
def test_simgrid_replays_it_in_the_same_time(tmp_path):
    def program(comm):
        x, y = np.ones(9000), np.empty(9000)
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        lk.compute(seconds=1e-4 * (comm.rank + 1))
        comm.Sendrecv(x, right, 1, y, left, 1)
        requests = [comm.Irecv(y, left, 2), comm.isend("x" * 500, right, 2)]
        lk.compute(flops=3e5)
        MPI.Request.Waitall(requests)
        comm.Allreduce(x, y)
        comm.bcast({"a": 1})

    parts = tmp_path / "parts"
    lk.run(program, 4, "mpi", trace_ti=f"{parts}/", compute="charged")
    (tmp_path / "star.xml").write_text(platform_xml(lk.platform("star:4"), 4))
    (tmp_path / "hosts").write_text(host_file(lk.platform("star:4"), 4))
    options = [o for o in smpirun_options(get("smpi")) if not o.startswith("smpi/simulate-computation")]
    options += ["smpi/host-speed:1Gf", "smpi/allreduce:rdb", "smpi/bcast:binomial_tree"]
    command = ["smpirun", "-np", "4", "-platform", "../star.xml", "-hostfile", "../hosts", "-replay",
               "list.txt", *(f"--cfg={o}" for o in options), "--log=root.fmt:%.15r%e%m%n"]  # fmt: skip
    done = subprocess.run(command, cwd=parts, capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"^(\S+) Simulation time", done.stdout + done.stderr, re.MULTILINE)
    assert found, done.stderr
    coll = {"allreduce": "recursive_doubling", "bcast": "binomial"}
    again = lk.replay(parts / "list.txt", "star:4", model="smpi", coll=coll)
    assert again.makespan_s == pytest.approx(float(found[1]), rel=1e-6)
