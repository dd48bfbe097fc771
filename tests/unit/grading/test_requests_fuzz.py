"""Ranks that ask for random nonsense: the grader answers, refuses or ends the run, and stands."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.errors import MachineError
from labkit.grading.sandbox import Containment, Limits, Sandbox
from tests.support.refusals import raises_code

SOURCE = """
import random

WHOLE = [0, 0, 0, 1, -1, -2, 5, 10**20, "a", None, 1.5, True]
COUNTS = [None, 0, 1, 2, -1, 10**12, 10**30, [1, 1], [0, 2], [2, -1], [10**12, 1], [[1, 1], [0, 1]], "c"]
PLACES = [None, 0, 1, -3, [0, 1], [5, -5], [10**12, 0], [2**62, 2**62]]
TYPES = ["INT64_T", "DOUBLE", "BYTE", "Exception", "COMM_WORLD", "DATATYPE_NULL", "SHORT_INT", 5, None]
MOVES = "Bcast Gather Gatherv Scatter Scatterv Allgather Allgatherv Alltoall Alltoallv".split()
SUMS = ["Reduce", "Allreduce", "Scan", "Exscan", "Reduce_scatter_block", "Reduce_scatter"]
SUMS += ["Iallreduce", "Iscan", "Ireduce_scatter_block"]
MOVES += ["Ibcast", "Iallgather", "Ialltoallv", "Igatherv"]
OPERATIONS = "isend isend issend irecv iprobe requests begin end wtime compute leave make private".split()
MAKES = ["Create_cart", "Create_cart", "Sub", "Dup", "Split", "Create", "x"]
PRIVATES = ["allreduce", "Neighbor_alltoall", "x"]
OWN = {"own": 0, "commutes": True}


def a_buffer(r):
    return r.choice([[r.choice(TYPES), r.choice(COUNTS), r.choice(PLACES)], "none", "in place", 7, None, []])


def a_request(r):
    fields = ("comm", "dest", "source", "tag", "recvtag", "root", "seconds", "flops", "room")
    request = {name: r.choice(WHOLE) for name in fields if r.random() < 0.9}
    request.update(op=r.choice(OPERATIONS), name=r.choice(["x", 7, None]))
    request["mode"] = r.choice(["testall", "testany", "testsome", []])
    if request["op"] in ("make", "private"):
        request["comm"] = r.choice([-1, -1, 3, 10**9])
        request["name"] = r.choice(MAKES if request["op"] == "make" else PRIVATES)
        shapes = [[1], [1]], [[1, 1], [0, 1]], [[0]], [[10**9] * 40, []]
        request["args"] = r.choice([*shapes, [0, 0], [], None, 7])
    request["numbers"] = r.choice([[], [1], [1, 2], [1, 1], ["a"], None, [10**9]])
    request["at"] = r.choice([[1, "f"], [10**9, "g"], ["x", None], None, [5, "a b"]])
    if r.random() < 0.6:
        name = r.choice(MOVES + SUMS)
        request.update(op="collective", name=name, comm=r.choice([-1, -1, -1, 0]))
        strange = {"own": r.choice([0, -1, 10**30, "a", None]), "commutes": r.choice([True, 7])}
        last = [r.choice(["SUM", "MAXLOC", "x", 7, OWN, strange])] if name in SUMS else [r.choice(WHOLE)]
        two = [a_buffer(r), a_buffer(r)]
        request["args"] = r.choice([two, [*two, *last], two[:1], None])
        if name == "Reduce":
            request["args"] = [a_buffer(r), a_buffer(r), *last, 0]
    return request


def nonsense(comm, seed):
    r = random.Random(f"{seed}:{comm.rank}")
    comm._caller.operator(type("Op", (), {"_function": staticmethod(lambda a, b, t: None)}))
    answered = refused = 0
    for _ in range(80):
        parts = [bytes(r.choice([0, 8, 16, 16, 24, 1000])) for _ in range(r.choice([0, 1, 2, 2, 3]))]
        try:
            comm._caller.ask(a_request(r), parts)
            answered += 1
        except Exception:
            refused += 1
    return answered, refused
"""


def test_random_requests_never_break_the_grader() -> None:
    limits = Limits(cpu_s=5, idle_s=5, traffic_bytes=1 << 26)
    kinds: dict[str, int] = {}
    answered = refused = 0
    try:
        with Sandbox(limits) as sandbox:
            for seed in range(12):
                outcome = sandbox.run(SOURCE, "nonsense", 2, [(seed,)] * 2)
                kinds[outcome.kind] = kinds.get(outcome.kind, 0) + 1
                for mine in outcome.results if outcome.is_finished else ():
                    answered, refused = answered + mine[0], refused + mine[1]
            healthy = sandbox.run("def f(comm):\n    return comm.allreduce(1)\n", "f", 3, [()] * 3)
    except MachineError as error:
        pytest.skip(f"this machine cannot contain submissions: {error}")
    assert set(kinds) <= {"finished", "deadlock", "mismatch", "protocol"}, kinds
    assert healthy.results == [3, 3, 3]
    if "finished" in kinds:
        assert answered
        assert refused


def test_a_machine_that_cannot_contain_submissions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    weak: dict[str, Any] = Containment(limits=["memory"]).to_dict()
    assert not weak["is_sound"]
    monkeypatch.setattr(Sandbox, "_answer", lambda self, limit_s: dict(weak))
    with raises_code(MachineError, "not-contained"):
        Sandbox().start()
    accepted = Sandbox(accepts_weak=True)
    accepted.start()
    assert "NOT contained" in str(accepted.containment)
    accepted.close()


def test_a_machine_without_landlock_closes_all_files() -> None:
    closed = Containment(system_calls=True, files="none")
    assert closed.is_sound
    assert "none can be opened" in str(closed)
    assert not Containment(system_calls=False, files="landlock").is_sound
