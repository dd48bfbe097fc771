"""A submission's ranks run in processes of their own, and the engine counts the same as in-process."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import labkit as lk
from labkit import MPI
from labkit.errors import MachineError
from labkit.grading.sandbox import Limits, Sandbox
from labkit.process.confinement import containment, seccomp
from tests.support.refusals import raises_code

LIMITS = Limits(cpu_s=3, wall_s=60, memory_bytes=1 << 29)


def everything(comm: Any, keys: NDArray[np.int64]) -> Any:
    """Every kind of call once, with what the ranks learn from it."""
    p, me = comm.size, comm.rank
    right, left = (me + 1) % p, (me - 1) % p
    with lk.phase("objects"):
        found = [comm.allreduce(me), comm.bcast({"of": me}, p - 1), comm.allgather(str(me))]
        found += [comm.gather(me, 0), comm.scatter(list(range(p)) if me == 0 else None), comm.exscan(1)]
        found += [comm.scan(me, lambda a, b: max(a, b)), comm.alltoall([me * j for j in range(p)])]
    with lk.phase("messages"):
        request = comm.irecv(source=left, tag=3)
        comm.send((me, "x" * me), right, 3)
        found.append(request.wait())
        found.append(comm.sendrecv(me, right, source=left))
        into = np.empty(4, np.int64)
        status = MPI.Status()
        requests = [comm.Irecv(into, left, 5), comm.Isend(keys[:4], right, 5)]
        MPI.Request.Waitall(requests)
        comm.Sendrecv(keys[:4], right, 6, into, left, 6, status)
        found += [into.copy(), status.Get_source(), status.Get_tag(), status.Get_count(MPI.INT64_T)]
        comm.ssend(1, right) if me % 2 else comm.recv(source=left)
        comm.recv(source=left) if me % 2 else comm.ssend(1, right)
    with lk.phase("buffers"):
        for name in ("Allreduce", "Scan", "Exscan"):
            out = np.full(4, -1)
            getattr(comm, name)(keys[:4], out, op=MPI.MAX)
            found.append(out)
        out = np.full((p, 4), -1)
        comm.Allgather(keys[:4], out)
        mine = np.arange(p) * me
        comm.Alltoall(MPI.IN_PLACE, mine)
        counts = np.arange(p)
        sent, received = np.arange(counts.sum()) + me, np.full(me * p, -1)
        comm.Alltoallv([sent, counts], [received, np.full(p, me)])
        total = np.full(1, -1)
        comm.Reduce_scatter_block(np.arange(p), total)
        everybody = np.empty(counts.sum())
        comm.Allgatherv(np.full(me, 0.5 * me), [everybody, counts])
        found += [out, mine, received, total, everybody]
    half = comm.Split(me % 2, -me)
    found += [half.size, half.rank, half.allreduce(me)]
    lk.compute(seconds=1e-5 * me)
    comm.Barrier()
    return found


SOURCE = "import numpy as np\nimport labkit as lk\nfrom mpi4py import MPI\nfrom typing import Any\n" + (
    "from numpy.typing import NDArray\n" + inspect.getsource(everything)
)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_same_results_counts_and_times_as_in_process(sandbox: Sandbox, ranks: int) -> None:
    keys = [np.arange(8) * (rank + 1) for rank in range(ranks)]
    ours = sandbox.run(SOURCE, "everything", ranks, [(k,) for k in keys], on="torus:4x4", trace=True)
    theirs = lk.run(lambda comm: everything(comm, keys[comm.rank]), ranks, on="torus:4x4", trace=True)
    assert ours.kind == "finished", ours.message
    assert (ours.makespan_s, ours.messages, ours.bytes) == (theirs.makespan_s, theirs.messages, theirs.bytes)
    assert ours.trace.messages.equals(theirs.trace.messages)
    for mine, other in zip(ours.results, theirs.results, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_equal(a, b)


def test_a_deadlock_is_reported_with_the_submissions_lines(sandbox: Sandbox) -> None:
    source = "def f(comm):\n    other = 1 - comm.rank\n    comm.recv(source=other)\n    comm.send(1, other)\n"
    outcome = sandbox.run(source, "f", 2, [()] * 2)
    assert outcome.kind == "deadlock"
    assert "submission.py:3 in f" in outcome.message
    assert "cycle: rank 0 waits for rank 1 waits for rank 0" in outcome.message


def test_an_exception_is_reported_with_the_submissions_lines_only(sandbox: Sandbox) -> None:
    source = "def f(comm):\n    print('so far')\n    if comm.rank == 1:\n        comm.send(1, dest=7)\n"
    outcome = sandbox.run(source, "f", 2, [()] * 2)
    assert (outcome.kind, outcome.rank) == ("error", 1)
    assert 'File "submission.py", line 4, in f' in outcome.message
    assert "remote_comm" not in outcome.message
    assert outcome.output == ["so far\n", "so far\n"] or outcome.output[1] == "so far\n"


def test_ranks_that_disagree_are_told_so(sandbox: Sandbox) -> None:
    source = "def f(comm):\n    comm.Barrier() if comm.rank else comm.bcast(1)\n"
    outcome = sandbox.run(source, "f", 2, [()] * 2)
    assert outcome.kind == "mismatch"
    assert "Barrier" in outcome.message
    assert "Bcast" in outcome.message


def test_collectives_can_be_excluded(sandbox: Sandbox) -> None:
    for call in (
        "comm.bcast(1)",
        "comm.allreduce(1)",
        "comm.Allgather(np.ones(1), np.ones(2))",
        "comm.Split(0)",
    ):
        source = f"import numpy as np\ndef f(comm):\n    comm.Barrier()\n    {call}\n"
        outcome = sandbox.run(source, "f", 2, [()] * 2, only_messages=True)
        assert outcome.kind == "forbidden", (call, outcome)
        assert "submission.py:4 in f" in outcome.message


def test_random_numbers_are_those_of_a_run_with_this_seed(sandbox: Sandbox) -> None:
    source = "import numpy as np, random\n"
    source += "def f(comm):\n    return [random.random(), np.random.default_rng().random()]\n"

    def program(comm: Any) -> Any:
        import random

        return [random.random(), np.random.default_rng().random()]

    outcome = sandbox.run(source, "f", 3, [()] * 3, seed=5)
    assert outcome.results == lk.run(program, 3, seed=5).results


@pytest.mark.skipif(not seccomp.is_known(), reason="no list of system calls for this kind of machine")
def test_a_machine_that_refuses_the_list_of_calls_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its refusal is the same error as that of a call which the list does not have."""
    assert containment.probe()

    def refused(policy: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(seccomp, "install_filter", refused)
    assert not containment.probe()


def test_a_python_that_may_not_be_executed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*words: Any, **how: Any) -> None:
        raise PermissionError(13, "Permission denied", "/no/python")

    monkeypatch.setattr("labkit.grading.sandbox.sandbox.ChildProcess", refused)
    with raises_code(MachineError, "not-started", "no/python"):
        Sandbox.look()


#: what a rank returns -> the plain value that arrives, or the kind of failure: its methods run in its process
LYING = {
    "type('I', (int,), {'__eq__': lambda s, o: True, '__hash__': None, '__index__': lambda s: 9})(3)": 3,
    "type('F', (float,), {'__eq__': lambda s, o: True, '__float__': lambda s: 9.0})(3.5)": 9.0,
    "type('S', (str,), {'__eq__': lambda s, o: True, '__hash__': None})('a')": "a",
    "type('L', (list,), {'__len__': lambda s: 10**12, '__eq__': lambda s, o: True})([1, 2])": [1, 2],
    "type('L', (list,), {'__iter__': lambda s: iter(int, 1)})()": "error",
    "type('D', (dict,), {'items': lambda s: (one for one in iter(object, 1))})()": "error",
    "(one for one in iter(int, 1))": "error",
    "type('A', (), {'__array__': lambda s, *_, **__: [1], '__len__': lambda s: 1})()": "error",
    "type('R', (), {'__reduce__': lambda s: (exit, ())})()": "error",
}


@pytest.mark.parametrize("text", LYING)
def test_a_result_arrives_as_a_plain_value_whatever_its_methods_say(sandbox: Sandbox, text: str) -> None:
    outcome = sandbox.run(f"def f(comm):\n    return {text}\n", "f", 1, [[]])
    if LYING[text] == "error":
        assert outcome.kind == "error"
        return
    (found,) = outcome.results
    assert type(found) in (int, float, str, list)
    assert found == LYING[text]
