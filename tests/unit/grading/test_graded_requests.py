"""Nonblocking collectives and persistent requests of a submission: as in-process, to the bit."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import labkit as lk
from labkit import MPI
from labkit.grading.sandbox import Limits, Sandbox

LIMITS = Limits(cpu_s=3, wall_s=60, memory_bytes=1 << 29, idle_s=2)


def collectives(comm: Any, x: NDArray[np.float64]) -> Any:
    """Every nonblocking collective, several under way at once, waited for in other orders."""
    p, me = comm.size, comm.rank
    total, top, first = np.zeros(4), np.zeros(4), x[:4].copy()
    requests = [comm.Iallreduce(x[:4], total), comm.Ibcast(first, p - 1), comm.Ibarrier()]
    lk.compute(seconds=1e-5 * me)
    requests.append(comm.Iallreduce(x[4:], top, op=MPI.MAX))
    MPI.Request.Waitall(requests[::-1])
    found: list[Any] = [total.copy(), top.copy(), first]
    everybody, mine = np.full((p, 2), -1.0), np.full(2, -1.0)
    requests = [comm.Iallgather(x[:2], everybody), comm.Iscatter(np.arange(2.0 * p), mine, root=0)]
    places = [MPI.Request.Waitany(requests), MPI.Request.Waitany(requests), MPI.Request.Waitany(requests)]
    found += [everybody, mine, sorted(places[:2]), places[2] == MPI.UNDEFINED]
    at_root = np.full((p, 2), -1.0) if me == 0 else None
    summed = np.zeros(2)
    for request in (comm.Igather(x[:2], at_root, root=0), comm.Ireduce(x[:2], summed, op=MPI.SUM, root=0)):
        while not request.Test():
            lk.compute(seconds=1e-6)
    found += [at_root, summed]
    counts = np.arange(p)
    received = np.full(me * p, -1)
    comm.Ialltoallv([np.arange(counts.sum()) + me, counts], [received, np.full(p, me)]).Wait()
    swapped = np.arange(p) * me
    comm.Ialltoall(MPI.IN_PLACE, swapped).wait()
    prefix, before, block = np.zeros(2), np.full(2, 7.0), np.zeros(1)
    open_ = [comm.Iscan(x[:2], prefix), comm.Iexscan(x[:2], before), comm.Ireduce_scatter_block(x[:p], block)]
    over: list[int] = []
    while len(over) < 3:
        over += MPI.Request.Waitsome(open_)
    found += [received, swapped, prefix, before, block, sorted(over)]
    counts = np.full(p, 1)
    comm.Ireduce_scatter(x[:p], block, counts, op=MPI.PROD).Wait()
    gathered = np.full(p, -1.0)
    comm.Iallgatherv(x[:1], [gathered, counts]).Wait()
    seen: list[float] = []

    def least(left: Any, right: Any, datatype: Any) -> None:
        a, b = np.frombuffer(left), np.frombuffer(right)
        seen.append(float(a[0]))
        b[:] = np.minimum(a, b)

    low = np.zeros(4)
    request = comm.Iallreduce(x[:4], low, op=MPI.Op.Create(least, commute=True))
    lk.compute(seconds=1e-4)
    request.Wait()
    return [*found, block, gathered, low, seen]


def halo(comm: Any, x: NDArray[np.float64]) -> Any:
    """Persistent halo exchanges on a line with edges, and tests of several requests."""
    line = comm.Create_cart([comm.size])
    left, right = line.Shift(0, 1)
    field = np.concatenate([[0.0], x[:4], [0.0]])
    requests = [line.Recv_init(field[:1], left, 1), line.Recv_init(field[5:], right, 2)]
    requests += [line.Send_init(field[4:5], right, 1), line.Ssend_init(field[1:2], left, 2)]
    assert all(requests)
    for _ in range(3):
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        field[1:5] = (field[:4] + field[2:]) / 2
    MPI.Request.Waitall(requests)
    found: list[Any] = [field]
    inbox = np.zeros(2)
    open_ = [comm.irecv(source=MPI.ANY_SOURCE, tag=4), comm.Irecv(inbox, MPI.ANY_SOURCE, 5)]
    found.append(MPI.Request.testany(open_)[:2])
    comm.send(("to", comm.rank), (comm.rank + 1) % comm.size, 4)
    comm.Send(x[:2], (comm.rank + 1) % comm.size, 5)
    found.append(open_[0].wait())
    index, flag = MPI.Request.Testany(open_)
    while not flag:
        lk.compute(seconds=1e-6)
        index, flag = MPI.Request.Testany(open_)
    found += [index, inbox, MPI.Request.Testany(open_) == (MPI.UNDEFINED, True)]
    found += [MPI.Request.Testsome(open_), MPI.Request.testall(open_)[0], open_[0].Test(), bool(open_[0])]
    for request in requests:
        request.Free()
    return [*found, any(requests)]


SOURCE = "import numpy as np\nimport labkit as lk\nfrom mpi4py import MPI\nfrom typing import Any\n" + (
    "from numpy.typing import NDArray\n" + inspect.getsource(collectives) + "\n" + inspect.getsource(halo)
)


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("program", [collectives, halo])
def test_same_results_counts_and_times_as_in_process(sandbox: Sandbox, program: Any, ranks: int) -> None:
    x = [np.linspace(rank + 1, 2 * rank + 5, 8) for rank in range(ranks)]
    ours = sandbox.run(SOURCE, program.__name__, ranks, [(v,) for v in x], on="torus:4x2", trace=True)
    theirs = lk.run(lambda comm: program(comm, x[comm.rank]), ranks, on="torus:4x2", trace=True)
    assert ours.kind == "finished", ours.message
    for mine, other in zip(ours.results, theirs.results, strict=True):
        np.testing.assert_equal(mine, other)
    assert (ours.makespan_s, ours.messages, ours.bytes) == (theirs.makespan_s, theirs.messages, theirs.bytes)
    assert ours.trace.messages.equals(theirs.trace.messages)


def test_collectives_that_are_excluded_are_so_nonblocking_too(sandbox: Sandbox) -> None:
    source = "import numpy as np\ndef f(comm):\n    comm.Barrier()\n    {}\n"
    for call in ("comm.Ibarrier()", "comm.Ibcast(np.ones(1))", "comm.Iallreduce(np.ones(1), np.ones(1))"):
        outcome = sandbox.run(source.format(call), "f", 2, [()] * 2, only_messages=True)
        assert outcome.kind == "forbidden", (call, outcome)
        assert "submission.py:4 in f" in outcome.message


def test_an_operator_that_fails_beside_the_rank_ends_the_run(sandbox: Sandbox) -> None:
    """Whether the rank waits for its collective, or goes on and returns."""
    source = (
        "import numpy as np\nfrom mpi4py import MPI\nimport labkit as lk\n"
        "def f(comm):\n    def op(left, right, datatype):\n        raise RuntimeError('no')\n"
        "    request = comm.Iallreduce(np.ones(1), np.ones(1), op=MPI.Op.Create(op))\n"
        "    lk.compute(seconds=1)\n    {}\n    return 1\n"
    )
    for end in ("request.Wait()", "comm.Barrier()"):
        outcome = sandbox.run(source.format(end), "f", 3, [()] * 3)
        assert outcome.kind == "error", outcome
        assert "RuntimeError: no" in outcome.message


def test_a_collective_that_nobody_waits_for_gives_nothing(sandbox: Sandbox) -> None:
    source = (
        "import numpy as np\nimport labkit as lk\ndef f(comm):\n    out = np.zeros(1)\n"
        "    comm.Iallreduce(np.ones(1), out)\n    lk.compute(seconds=1)\n    return float(out[0])\n"
    )
    outcome = sandbox.run(source, "f", 2, [()] * 2)
    assert outcome.kind != "finished" or outcome.results == [0.0, 0.0]
