"""Cartesian communicators and operators of a submission's own: as in-process, and nothing leaks by them."""

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

LIMITS = Limits(cpu_s=3, wall_s=60, memory_bytes=1 << 29, idle_s=2)


def grids(comm: Any, x: NDArray[np.float64]) -> Any:
    """Halo exchanges on grids with and without edges, in every style, and what a grid tells."""
    found: list[Any] = []
    dims = MPI.Compute_dims(comm.size, 2)
    cart = comm.Create_cart(dims, periods=[True, False])
    found += [cart.dims, cart.periods, cart.coords, cart.Get_topo(), cart.dim, cart.rank, cart.size]
    found += [cart.inoutedges, cart.indegree, cart.Get_topology() == MPI.CART, comm.Get_topology()]
    found.append([cart.Get_coords(r) for r in range(cart.size)])
    found.append([cart.Get_cart_rank([c, 0]) for c in range(-1, dims[0] + 1)])
    field = np.outer(np.arange(4.0), x[:4]) + cart.rank
    for direction in (0, 1):
        before, after = cart.Shift(direction, 1)
        found.append((before, after))
        halo = np.full(4, -1.0)
        cart.Sendrecv(np.ascontiguousarray(field[:, -1]), after, 1, halo, before, 1)
        found += [halo, cart.sendrecv(cart.rank, dest=before, source=after)]
        requests = [cart.Irecv(halo, before, 2), cart.Isend(field[0], after, 2)]
        MPI.Request.Waitall(requests)
        found.append(halo.copy())
    around = np.full((4, 4), -1.0)
    cart.Neighbor_allgather(field[0], around)
    found += [around.copy(), cart.neighbor_allgather(("of", cart.rank))]
    cart.Neighbor_alltoall(np.arange(8.0) + cart.rank, around[:2].ravel())
    found += [around, cart.neighbor_alltoall([f"{cart.rank} to {i}" for i in range(4)])]
    row = cart.Sub([False, True])
    found += [row.dims, row.size, row.rank, row.allreduce(cart.rank), type(row) is MPI.Cartcomm]
    twin = row.Dup()
    found += [twin.coords, twin.bcast(cart.rank, 0)]
    fewer = comm.Create_cart([comm.size - 1])
    found.append(fewer == MPI.COMM_NULL if comm.rank == comm.size - 1 else fewer.allreduce(1))
    half = comm.Split(0 if comm.rank % 2 else MPI.UNDEFINED)
    found += [bool(half), half != MPI.COMM_NULL]
    return found


def operators(comm: Any, x: NDArray[np.float64]) -> Any:
    """Maps a x + b, composed in rank order; a largest pair; and an operator that remembers."""
    seen: list[float] = []

    def compose(left: Any, right: Any, datatype: Any) -> None:
        a, b = (np.frombuffer(side, np.float64).reshape(-1, 2) for side in (left, right))
        seen.append(float(a[0, 0]))
        b[:] = np.stack([a[:, 0] * b[:, 0], a[:, 1] * b[:, 0] + b[:, 1]], axis=1)

    def longest(left: Any, right: Any, datatype: Any) -> None:
        a, b = np.frombuffer(left, np.int64), np.frombuffer(right, np.int64)
        b[:] = np.maximum(a, b)

    mine = np.stack([x[:4] + 1, x[:4] - comm.rank], axis=1)
    chain, top = MPI.Op.Create(compose), MPI.Op.Create(longest, commute=True)
    found: list[Any] = []
    for name in ("Allreduce", "Scan", "Exscan", "Reduce"):
        out = np.zeros((4, 2))
        getattr(comm, name)(mine, out, op=chain)
        found.append(out)
    keys = np.arange(3 * comm.size) * (comm.rank + 1)
    out = np.zeros(3, np.int64)
    comm.Reduce_scatter_block(keys, out, op=top)
    comm.Allreduce(MPI.IN_PLACE, keys, op=top)
    local = mine.copy()
    chain.Reduce_local(mine, local)
    found += [out, keys, local, len(seen), seen, comm.allreduce(3, op=lambda a, b: a * b)]
    chain.Free()
    return found


def objects(comm: Any, x: NDArray[np.float64]) -> Any:
    """Collectives of objects; functions of objects that take time, communicate, fail and are caught."""

    def slow(left: Any, right: Any) -> Any:
        lk.compute(seconds=1e-3)
        return {**left, **right}

    def sends(left: Any, right: Any) -> Any:
        waits.append(comm.isend(left, comm.size - 1, tag=7))
        return left + right

    waits: list[Any] = []
    last, mine = comm.size - 1, {comm.rank: x}
    found = [comm.allreduce(mine, op=slow), comm.exscan([comm.rank]), comm.scan((comm.rank,))]
    found += [comm.reduce(str(comm.rank), root=last), comm.allreduce(comm.rank, op=MPI.MAX)]
    found.append(comm.allreduce(comm.rank, op=sends))
    MPI.Request.waitall(waits)
    if comm.rank == last:
        found += [comm.recv(tag=7) for _ in range(comm.size - 1)]
    found += [comm.bcast(mine, root=last), comm.gather(mine, root=last), comm.allgather(None)]
    found += [comm.scatter(None if comm.rank else [mine] * comm.size), comm.alltoall(None)]
    for wrong in (lambda: comm.send(1, 99), lambda: comm.isend(1, 0, tag=-1), lambda: comm.irecv(source=99),
                  lambda: comm.bcast(1, root=99), lambda: comm.alltoall([1] * 99),
                  lambda: comm.allreduce(1, op=None)):  # fmt: skip
        try:
            wrong()
        except (MPI.Exception, TypeError, ValueError) as error:
            found.append(str(error))
    return found


SOURCE = "import numpy as np\nimport labkit as lk\nfrom mpi4py import MPI\nfrom typing import Any\n" + (
    "from numpy.typing import NDArray\n" + "\n".join(map(inspect.getsource, (grids, operators, objects)))
)


@pytest.mark.parametrize("ranks", [2, 6])
@pytest.mark.parametrize("program", [grids, operators, objects])
def test_same_results_counts_and_times_as_in_process(sandbox: Sandbox, program: Any, ranks: int) -> None:
    x = [np.linspace(rank, rank + 1, 8) for rank in range(ranks)]
    ours = sandbox.run(SOURCE, program.__name__, ranks, [(v,) for v in x], on="torus:3x2", trace=True)
    theirs = lk.run(lambda comm: program(comm, x[comm.rank]), ranks, on="torus:3x2", trace=True)
    assert ours.kind == "finished", ours.message
    for mine, other in zip(ours.results, theirs.results, strict=True):
        np.testing.assert_equal(mine, other)
    assert ours.trace.messages.equals(theirs.trace.messages)
    assert (ours.makespan_s, ours.messages, ours.bytes) == (theirs.makespan_s, theirs.messages, theirs.bytes)


def test_an_operator_is_shown_its_own_ranks_operands_only() -> None:
    """In-process, too: each rank's operands go through that rank's operator, as on real MPI."""

    def program(comm: Any) -> Any:
        seen: list[int] = []

        def add(left: Any, right: Any, datatype: Any) -> None:
            a, b = np.frombuffer(left, np.int64), np.frombuffer(right, np.int64)
            seen.append(int(a[0]))
            b += a

        out = np.zeros(1, np.int64)
        comm.Reduce(np.array([10**comm.rank]), out, op=MPI.Op.Create(add), root=0)
        return int(out[0]), seen

    run = lk.run(program, 4, on="star:4", coll={"reduce": "linear"})
    assert run.results[0][0] == 1111
    assert [seen for _, seen in run.results[1:]] == [[], [], []]


OPERATOR = """
import os
import numpy as np
from mpi4py import MPI

def f(comm):
    def op(left, right, datatype):
        {line}
    out = np.zeros(1)
    try:
        comm.Allreduce(np.ones(1), out, op=MPI.Op.Create(op))
    except Exception:
        pass
    return float(out[0])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("raise RuntimeError('no')", "error", "submission.py, line 8, in op"),
        ("right[:] = left[:4]", "error", "ValueError"),
        ("comm.send(1, 0)", "protocol", "operator of the program's own communicates"),
        ("comm._caller.tell({'op': 'combined'}, [b'x' * 9])", "protocol", "operator"),
        ("comm._caller.tell({'op': 'result', 'value': 7})", "protocol", "operator"),
        ("os._exit(0)", "ended", "ended"),
        ("while True: pass", "time", ""),
        ("return 5 / 0", "error", "ZeroDivisionError"),
    ],
)
def test_what_an_operator_does_wrong_ends_the_run(sandbox: Sandbox, line: str, kind: str, words: str) -> None:
    outcome = sandbox.run(OPERATOR.format(line=line), "f", 3, [()] * 3)
    assert outcome.kind == kind, outcome
    assert words in outcome.message.replace('"', ""), outcome.message
    healthy = sandbox.run(
        OPERATOR.format(line="np.frombuffer(right)[:] += np.frombuffer(left)"), "f", 3, [()] * 3
    )
    assert healthy.results == [3.0] * 3, healthy


FUNCTION = """
import os

def f(comm):
    def op(left, right):
        {line}
    try:
        return comm.allreduce(comm.rank, op=op)
    except Exception:
        pass
"""


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("return left.no", "protocol", "ended within a collective, after submission.py:8"),
        ("return comm.allreduce(1, op=op)", "mismatch", "allreduce"),
        ("comm._caller.tell({'op': 'combined'})", "protocol", "does not exist"),
        ("comm._caller.post({'op': 'irecv', 'comm': 7, 'source': 0, 'tag': 0, 'room': 1})", "error", "exist"),
        ("os._exit(0)", "ended", "ended"),
    ],
)
def test_what_a_function_of_objects_does_wrong_ends_the_run(
    sandbox: Sandbox, line: str, kind: str, words: str
) -> None:
    outcome = sandbox.run(FUNCTION.format(line=line), "f", 3, [()] * 3)
    assert outcome.kind == kind, outcome
    assert words in outcome.message, outcome.message
    assert sandbox.run(FUNCTION.format(line="return left + right"), "f", 3, [()] * 3).results == [3] * 3


def test_what_collectives_of_objects_give_all_ranks_counts_as_traffic(sandbox: Sandbox) -> None:
    source = "def f(comm, n):\n    return len(comm.allgather(bytes(n)))"
    assert sandbox.run(source, "f", 16, [(1 << 19,)] * 16).results == [16] * 16
    outcome = sandbox.run(source, "f", 16, [(1 << 21,)] * 16)
    assert (outcome.kind, "MiB in all" in outcome.message) == ("budget", True)


def test_operands_that_are_too_long_for_the_line_are_the_submissions_fault() -> None:
    source = (
        "import numpy as np\nfrom mpi4py import MPI\ndef f(comm):\n    x = np.ones(5 << 20)\n"
        "    comm.Allreduce(MPI.IN_PLACE, x, op=MPI.Op.Create(lambda a, b, t: None))\n"
    )
    try:
        with Sandbox(Limits(cpu_s=10, wall_s=60, memory_bytes=1 << 30)) as roomy:
            outcome = roomy.run(source, "f", 2, [()] * 2)
    except MachineError as error:
        pytest.skip(f"this machine cannot contain submissions: {error}")
    assert outcome.kind == "budget", outcome
    assert "is more than may be sent" in outcome.message


@pytest.mark.parametrize(
    "request_",
    [
        {"name": "Create_cart", "args": [[2, 1] * 20, [1] * 40]},
        {"name": "Create_cart", "args": [[1 << 61, 1 << 61], [1, 0]]},
        {"name": "Create_cart", "args": [["2"], [True]]},
        {"name": "Create_cart", "args": [2, 1]},
        {"name": "Create_cart", "args": "ab"},
        {"name": "Create_cart", "args": []},
        {"name": "Sub", "args": [[1]]},
        {"name": "Create", "args": [[1]]},
    ],
)
def test_nonsense_about_grids_is_refused(sandbox: Sandbox, request_: Any) -> None:
    source = (
        f"def f(comm):\n    comm._caller.ask({{'op': 'make', 'comm': 0, **{request_!r}}})\n    return 1\n"
    )
    outcome = sandbox.run(source, "f", 2, [()] * 2)
    assert outcome.kind in ("error", "protocol"), outcome


def test_neighbors_are_collectives_where_these_are_excluded(sandbox: Sandbox) -> None:
    begin = "def f(comm):\n    cart = comm.Create_cart([comm.size])\n    "
    allowed = sandbox.run(f"{begin}return cart.Shift(0, 1)[1]\n", "f", 2, [()] * 2, only_messages=True)
    assert allowed.results == [1, -2] or allowed.results == [1, int(MPI.PROC_NULL)]
    refused = sandbox.run(f"{begin}cart.neighbor_allgather(1)\n", "f", 2, [()] * 2, only_messages=True)
    assert refused.kind == "forbidden", refused


@pytest.mark.slow
def test_what_is_not_there_is_refused_by_name(sandbox: Sandbox) -> None:
    for line, words in (
        ("comm.Create_graph([1], [1])", "comm.Create_graph is not there in graded runs"),
        ("comm.Get_sice()", "has no attribute 'Get_sice'"),
    ):
        outcome = sandbox.run(f"def f(comm):\n    {line}\n", "f", 1, [()])
        assert outcome.kind == "error"
        assert words in outcome.message
