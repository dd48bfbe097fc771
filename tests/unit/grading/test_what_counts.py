"""What of a run counts: messages that nobody receives or that do not fit, and ends that are the machine's."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.errors import MachineError
from labkit.grading import Bound, Case, Costs, find_assignment
from labkit.grading.bench import OpenBench, SandboxBench, TrialBench
from labkit.grading.counts import uncounted
from labkit.grading.sandbox import Limits, Sandbox
from labkit.grading.trial import Trial
from tests.support.refusals import raises_code

LIMITS = Limits(cpu_s=3, wall_s=60, memory_bytes=1 << 29)

TELLS_BY_SIZES = """
import numpy as np
from mpi4py import MPI

def f(comm, wanted):
    if comm.rank == 0:
        open_ = [comm.Isend(np.zeros(n, np.uint8), 1, n) for n in wanted]
        comm.send(None, 1, 999)
        return wanted
    comm.recv(source=0, tag=999)
    return [n for n in range(300) if comm.iprobe(source=0, tag=n)]
"""
TELLS_BY_LONG_SIZES = TELLS_BY_SIZES.replace("np.zeros(n, np.uint8)", "np.zeros(n << 10, np.uint8)")


def _tells_by_sizes(comm: Any, wanted: list[int]) -> list[int]:
    if comm.rank == 0:
        for n in wanted:
            comm.Isend(np.zeros(n, np.uint8), 1, n)
        comm.send(None, 1, 999)
        return wanted
    comm.recv(source=0, tag=999)
    return [n for n in range(300) if comm.iprobe(source=0, tag=n)]


def _cost(bench: TrialBench, what: str, wanted: list[int]) -> float:
    """Return what is counted of a run that tells numbers by messages which nobody receives."""
    counted: list[float] = []
    bound = Bound(what, lambda case: 1e9, "any")
    costs = Costs(
        "c", "C", 1, lambda seed: [Case(2, [(wanted,)] * 2, "x")], lambda case, results: None, [bound]
    )
    trial = Trial(bench)
    assert costs.judge(trial).score == 1
    for case, outcome in trial._known.values():
        assert outcome.results == [wanted, wanted]
        counted.append(bound.value(outcome, case))
    return counted[0]


@pytest.mark.parametrize("what", ["messages", "bytes", "received", "sent", "rounds"])
def test_messages_that_nobody_receives_count(sandbox: Sandbox, what: str) -> None:
    last, wanted = 4, [7, 60, 200]  # None, pickled, has 4 bytes
    many = {"messages": 4, "bytes": 267 + last, "rounds": 4}.get(what, 267 + last + 4 * 16)
    for bench in (OpenBench(_tells_by_sizes), SandboxBench(sandbox, TELLS_BY_SIZES, "f")):
        assert _cost(bench, what, wanted) == many
        assert _cost(bench, what, []) == {"messages": 1, "bytes": last, "rounds": 1}.get(what, last + 16)


@pytest.mark.parametrize("what", ["messages", "bytes", "received"])
def test_long_messages_that_nobody_receives_count_once(sandbox: Sandbox, what: str) -> None:
    """Whether they are on their way already, as eager ones are, or wait for their receive."""
    found = _cost(SandboxBench(sandbox, TELLS_BY_LONG_SIZES, "f"), what, [30, 220])
    assert found == {"messages": 3, "bytes": (250 << 10) + 4}.get(what, (250 << 10) + 4 + 3 * 16)


def test_a_run_tells_what_nobody_has_received() -> None:
    def program(comm: Any) -> None:
        half = comm.Split(comm.rank % 2)
        if comm.rank == 1:
            half.Isend(np.zeros(3), 1, 5)
        if comm.rank == 0:
            comm.send(b"x", 3, 2)
            comm.Ssend(np.zeros(2), 2, 4)
        if comm.rank == 2:
            comm.Recv(np.zeros(2), 0, 4)

    trace = lk.run(program, 4, on="star", trace=True).trace
    rows = trace.unreceived.sort_values("tag")
    assert rows[["source", "destination", "tag"]].to_numpy().tolist() == [[0, 3, 2], [1, 3, 5]]
    assert rows["bytes"].tolist()[1] == 24
    assert (rows["send_posted_s"] > 0).all()
    assert len(lk.run(lambda comm: comm.allreduce(1), 4, on="star", trace=True).trace.unreceived) == 0


@pytest.mark.parametrize("model", ["lab", "smpi", "loggps", "raw", "ib"])
@pytest.mark.parametrize("ends", ["at once", "later"])
def test_every_message_that_was_posted_is_counted_once(model: str, ends: str) -> None:
    """Those on their way, those that wait, and those whose receive nobody waits for."""

    def program(comm: Any) -> None:
        open_ = []
        if comm.rank == 0:
            open_ += [comm.Isend(np.zeros(n, np.uint8), 1, 5) for n in (0, 8, 40_000, 200_000)]
            open_.append(comm.Isend(np.zeros(1000), 1, 6))
            comm.Send(np.zeros(10), 1, 7)
        else:
            open_.append(comm.Irecv(np.zeros(1000), 0, 6))
            comm.Recv(np.zeros(10), 0, 7)
        if ends == "later":
            lk.compute(seconds=1.0)
            comm.Barrier()

    barrier = lk.run(lambda comm: comm.Barrier(), 2, on="star").messages if ends == "later" else 0
    run = lk.run(program, 2, on="star", model=model, trace=True)
    n_messages, n_bytes = uncounted(run.trace)
    assert run.messages + n_messages == 6 + barrier
    assert run.bytes + n_bytes >= 248_088
    assert len(run.trace) + len(run.trace.unreceived) == 6 + barrier


TOO_LONG = """
import numpy as np
from mpi4py import MPI

def f(comm):
    if comm.rank == 0:
        {send}
        return None
    seen = []
    try:
        {receive}
    except MPI.Exception as error:
        return error.Get_error_class(), str(error), seen
"""
SENDS = "comm.Send(np.arange(1000.0), 1, 3)"
WAYS = {
    "Recv": (SENDS, "comm.Recv(np.zeros(10), 0, 3)"),
    "Irecv": (SENDS, "comm.Irecv(np.zeros(10), 0, 3).Wait()"),
    "Waitall": (SENDS, "MPI.Request.Waitall([comm.Irecv(np.zeros(10), 0, 3)])"),
    "Waitany": (SENDS, "MPI.Request.Waitany([comm.Irecv(np.zeros(10), 0, 3)])"),
    "Sendrecv": (SENDS + "; comm.recv()", "comm.Sendrecv(np.zeros(1), 0, 0, np.zeros(10), 0, 3)"),
    "persistent": (SENDS, "r = comm.Recv_init(np.zeros(10), 0, 3); r.Start(); r.Wait()"),
    "irecv": ("comm.send(bytes(8000), 1, 3)", "comm.irecv(bytearray(80), 0, 3).wait()"),
    "part": (
        "half = comm.Split(0, 1 - comm.rank); half.Send(np.arange(1000.0), 0, 3)",
        "half = comm.Split(0, 1 - comm.rank); half.Recv(np.zeros(10), 1, 3)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_message_that_does_not_fit_has_brought_nothing(sandbox: Sandbox, way: str) -> None:
    send, receive = WAYS[way]
    source = TOO_LONG.format(
        send=send.replace("; comm.recv()", "\n        comm.Recv(np.zeros(1))"), receive=receive
    )
    outcome = sandbox.run(source, "f", 2, [()] * 2, trace=True)
    assert outcome.is_finished, outcome.message
    error_class, words, _ = outcome.results[1]
    assert error_class == MPI.ERR_TRUNCATE
    assert "do not fit into 80 bytes" in words
    case = Case(2, [()] * 2, "x", needs=lambda case, results: [0, 4000])
    bench = SandboxBench(sandbox, source, "f")
    wrong, _, _ = Trial(bench).fault(case, lambda case, results: None)
    others = 8 if way == "part" else 0  # of Split
    assert f"rank 1 returned 4000 bytes that it was not given, but received {others} bytes" in wrong


def _sends_to_itself(comm: Any) -> None:
    comm.sendrecv(bytes(20), (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
    comm.sendrecv(bytes(500), comm.rank, source=comm.rank)
    comm.isend(bytes(500), comm.rank)
    comm.recv(source=comm.rank)


@pytest.mark.parametrize("origin", [None, 0])
def test_messages_to_oneself_bring_nothing(origin: int | None) -> None:
    """Who has heard a byte from the root might send itself the others."""
    case = Case(3, [()] * 3, "x", origin=origin, needs=lambda case, results: [0, 100, 0])
    wrong, _, _ = Trial(OpenBench(_sends_to_itself)).fault(case, lambda case, results: None)
    assert "rank 1 returned 100 bytes that it was not given, but received 3" in wrong


LOOKS_AT_THE_REST = """
import numpy as np
from mpi4py import MPI

def f(comm, data):
    if comm.rank == 0:
        comm.Send(data, 1)
        return data
    line = comm._caller.line
    seen, read = [], line.read
    def watches():
        header, parts = read()
        seen.extend(bytes(part) for part in parts)
        return header, parts
    line.read = watches
    try:
        comm.Recv(np.zeros(1), 0)
    except MPI.Exception:
        pass
    return sum(len(one) for one in seen)
"""


def test_a_rank_is_not_handed_what_does_not_fit(sandbox: Sandbox) -> None:
    outcome = sandbox.run(LOOKS_AT_THE_REST, "f", 2, [(np.arange(1000.0),), (None,)])
    assert outcome.is_finished, outcome.message
    assert outcome.results[1] == 8


def test_others_that_are_waited_for_are_not_lost_with_it(sandbox: Sandbox) -> None:
    source = """
import numpy as np
from mpi4py import MPI

def f(comm):
    if comm.rank == 0:
        comm.Send(np.arange(9), 1, 1)
        comm.Send(np.arange(3), 1, 2)
        return None
    short, fits = np.zeros(2, int), np.zeros(3, int)
    requests = [comm.Irecv(short, 0, 1), comm.Irecv(fits, 0, 2)]
    try:
        MPI.Request.Waitall(requests)
    except MPI.Exception as error:
        return fits, error.Get_error_class() == MPI.ERR_TRUNCATE
"""
    outcome = sandbox.run(source, "f", 2, [()] * 2)
    assert outcome.is_finished, outcome.message
    np.testing.assert_array_equal(outcome.results[1][0], [0, 1, 2])
    assert outcome.results[1][1]


def test_an_end_before_the_submission_begins_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        with Sandbox(LIMITS) as sandbox:
            monkeypatch.setattr(
                Limits, "of_rank", lambda self, ranks: {"cpu_s": "x", "memory_bytes": 1 << 28}
            )
            with raises_code(MachineError, "machine-failed", "rank 0", "70"):
                sandbox.run("def f(comm):\n    return 1\n", "f", 2, [()] * 2)
            monkeypatch.undo()
            assert sandbox.run("def f(comm):\n    return 1\n", "f", 2, [()] * 2).results == [1, 1]
        with Sandbox(LIMITS, accepts_weak=True, without=("seccomp",)) as weak:
            weak.accepts_weak = False
            with raises_code(MachineError, "machine-failed", "71"):
                weak.run("def f(comm):\n    return 1\n", "f", 1, [()])
    except MachineError as error:
        if "cannot contain" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("code", [70, 71, 72])
def test_the_same_codes_by_the_program_are_the_programs(sandbox: Sandbox, code: int) -> None:
    for where in ("def f(comm):\n    os._exit({0})\n", "os._exit({0})\ndef f(comm):\n    return 1\n"):
        outcome = sandbox.run("import os\n" + where.format(code), "f", 2, [()] * 2)
        assert outcome.kind == "ended"
        assert f"exit code {code}: does the program call" in outcome.message


def _sends_it_twice(comm: Any, data: Any, root: int) -> Any:
    """A binomial tree in which everything is sent once more."""
    me, reach = (comm.rank - root) % comm.size, 1
    while reach < comm.size:
        if me < reach and me + reach < comm.size:
            comm.send(data, (me + reach + root) % comm.size, 1)
            comm.Send(data, (me + reach + root) % comm.size, 2)
        elif reach <= me < 2 * reach:
            data = comm.recv(source=(me - reach + root) % comm.size, tag=1)
            comm.Recv(np.empty_like(data), (me - reach + root) % comm.size, 2)
        reach *= 2
    return data


def test_messages_of_the_data_are_told_from_short_ones() -> None:
    (found,) = find_assignment("broadcast").try_out(_sends_it_twice, only=["messages"]).results
    assert found.points == 0
    assert re.search(r"\d+ messages of \d+ bytes or more; at most p - 1 = \d+ are allowed", found.feedback)
