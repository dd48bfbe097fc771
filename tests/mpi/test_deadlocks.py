"""Deadlocks on real MPI: told when all ranks wait, with the cycle; and never of ranks that may yet go on."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from mpi4py import MPI

import labkit as lk
from labkit.errors import DeadlockError, MismatchError
from tests.support.mpich import MPICH, needs_mpich

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("nothing_left")]

#: far more than a deadlock may take to be found
LIMIT_S = 120


@pytest.fixture(params=["default", pytest.param("mpich", marks=needs_mpich)])
def library(request, monkeypatch):
    """The MPI library; mpi4py makes the calls of buffers in another form under MPICH."""
    if request.param == "mpich":
        monkeypatch.setenv("LABKIT_MPI", str(MPICH))
    return request.param


def facing(comm):
    other = 1 - comm.rank
    got = comm.recv(source=other, tag=7)
    comm.send(got, other, tag=7)


def ring_of_large_sends(comm):
    comm.Ssend(np.zeros(4), (comm.rank + 1) % comm.size)
    comm.Recv(np.zeros(4), (comm.rank - 1) % comm.size)


def wrong_tag(comm):
    if comm.rank == 0:
        comm.send("x", 1, tag=1)
    else:
        comm.recv(source=0, tag=2)


def one_leaves_early(comm):
    if comm.rank > 0:
        comm.Barrier()


def in_a_part_of_the_world(comm):
    half = comm.Split(comm.rank % 2)
    request = half.Irecv(np.zeros(1), source=1 - half.rank)
    request.Wait()


def others_in_a_collective(comm):
    if comm.rank == 0:
        comm.recv(source=1)
    comm.Allreduce(np.zeros(1), np.zeros(1))


def one_of_three_never_comes(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    requests = [comm.Isend(np.zeros(4), right, 1), *(comm.Irecv(np.zeros(4), left, tag) for tag in (1, 2))]
    MPI.Request.Waitall(requests)


def sent_long_ago(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sent, got = np.zeros(1 << 17), np.zeros(1 << 17)
    if comm.rank == 0:
        MPI.Request.Waitall([comm.Isend(sent, right), *(comm.Irecv(got.copy(), left) for _ in range(2))])
    else:  # their sends are complete, and nobody waits for them
        requests = [comm.Isend(sent, right), *(comm.Irecv(got.copy(), left) for _ in range(2))]
        for one in reversed(requests):
            one.Wait()


def sent_more_than_once(comm):
    other = 1 - comm.rank
    sent = [comm.Isend(np.zeros(1), other, 5) for _ in range(40)]
    for _ in sent:
        comm.Recv(np.zeros(1), other, 5)
    comm.Recv(np.zeros(1), other, 5)  # those that were sent would fit


def waits_for_one_beside_a_send(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.Isend(large := np.zeros(1 << 17), right)
    for _ in range(2):
        MPI.Request.Waitall([comm.Irecv(large.copy(), left)])


def shifts_by_a_wrong_source(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for _ in range(2):
        comm.Sendrecv(np.zeros(1 << 16), right, 0, np.zeros(1 << 16), right if comm.rank == 0 else left, 0)


def exchanges_a_number_by_a_wrong_tag(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(2):
        comm.Sendrecv(np.zeros(1), right, step, np.zeros(1), left, 2 * step)


def one_half_does_a_round_more(comm):
    half = comm.Split(comm.rank // 2)
    for _ in range(2 - comm.rank // 2):
        half.Allgather(np.zeros(1), np.zeros(half.size))
        half.Ialltoall(np.zeros(half.size), np.zeros(half.size)).Wait()
        comm.Reduce(np.zeros(1), np.zeros(1) if comm.rank == 1 else None, root=1)


CASES = {
    facing: (2, ["rank 0: recv from rank 1, tag 7 at ", "cycle: rank 0 waits for rank 1 waits for rank 0"]),
    ring_of_large_sends: (3, ["rank 0: Ssend to rank 1, tag 0, 32 B", "waits for rank 2 waits for rank 0"]),
    wrong_tag: (2, ["rank 1: recv from rank 0, tag 2", "1 of 2 ranks have finished: no rank is left"]),
    one_leaves_early: (3, ["ranks 1-2: Barrier, waiting for rank 0 at "]),
    in_a_part_of_the_world: (4, ["rank 0: Wait from rank 2, tag any", "rank 1: Wait from rank 3"]),
    one_of_three_never_comes: (
        2,
        [
            "rank 0: Waitall from rank 1, tag 2 at",
            "rank 1: Waitall from rank 0, tag 2 at",
            "cycle: rank 0 waits for rank 1 waits for rank 0",
        ],
    ),
    sent_long_ago: (3, ["rank 0: Waitall from rank 2, tag any at", "rank 2: Wait from rank 1, tag any at"]),
    sent_more_than_once: (2, ["rank 0: Recv from rank 1, tag 5", "rank 0 waits for rank 1 waits for rank 0"]),
    waits_for_one_beside_a_send: (
        3,
        ["rank 0: Waitall from rank 2, tag any at", "rank 2: Waitall from rank"],
    ),
    shifts_by_a_wrong_source: (5, ["rank 0: Sendrecv from rank 1, tag 0 at", "rank 0 waits for rank 1"]),
    exchanges_a_number_by_a_wrong_tag: (
        3,
        ["rank 0: Sendrecv from rank 2, tag 2 at", "rank 0 waits for rank 2 waits for rank 1"],
    ),
    one_half_does_a_round_more: (4, ["rank 1: Reduce, waiting for ranks 2-3 at "]),
    others_in_a_collective: (3, ["ranks 1-2: Allreduce, waiting for rank 0", "rank 0: recv from rank 1"]),
}

#: of them, what is called with buffers
BUFFERS = [one for one in CASES if one not in (facing, wrong_tag, one_leaves_early)]


@pytest.mark.slow
@pytest.mark.parametrize("program", CASES, ids=lambda one: one.__name__)
def test_a_deadlock_is_told_with_ranks_calls_and_lines(program):
    tells(program)


@needs_mpich
@pytest.mark.parametrize("program", BUFFERS, ids=lambda one: one.__name__)
def test_a_deadlock_is_told_under_mpich(program, monkeypatch):
    monkeypatch.setenv("LABKIT_MPI", str(MPICH))
    tells(program)


def tells(program):
    ranks, said = CASES[program]
    with pytest.raises(DeadlockError) as caught:
        lk.run(program, ranks, "mpi", timeout_s=LIMIT_S)
    text = str(caught.value)
    for one in said:
        assert one in text, text
    assert f"{__file__}:" in text
    assert f" in {program.__name__}" in text


def unlike(comm):
    print("before")
    if comm.rank == 0:
        comm.Barrier()
    else:
        comm.bcast(1, root=1)
        comm.recv(source=0)


def unlike_with_buffers(comm):
    print("before")
    if comm.rank == 0:
        comm.Allreduce(np.zeros(1), np.zeros(1))
    else:
        comm.Reduce(np.zeros(1), None, root=0)
        comm.Recv(np.zeros(1), source=0)


@pytest.mark.parametrize("program", [unlike, unlike_with_buffers], ids=lambda one: one.__name__)
def test_collectives_that_do_not_match_are_told(program, library):

    with pytest.raises((MismatchError, DeadlockError)) as caught:
        lk.run(program, 2, "mpi", timeout_s=LIMIT_S)
    assert "rank 0" in str(caught.value)
    assert caught.value.output == ["before\n", "before\n"]


OTHER_CALLS = {
    "allreduce": lambda comm: comm.allreduce(1),
    "exscan": lambda comm: comm.exscan(1),
    "alltoall": lambda comm: comm.alltoall([1] * comm.size),
    "Dup": lambda comm: comm.Dup(),
    "Ialltoall": lambda comm: comm.Ialltoall(np.zeros(comm.size), np.zeros(comm.size)).Wait(),
    "gather": lambda comm: comm.gather(1),  # MPI's call is complete on rank 1, which goes on
}


@pytest.mark.parametrize("name", OTHER_CALLS)
def test_a_mismatch_names_the_call_that_the_program_made(name):
    called = OTHER_CALLS[name]

    def program(comm):
        if comm.rank == 0:
            comm.Reduce_scatter_block(np.zeros(comm.size), np.zeros(1))
        else:
            called(comm)
        comm.recv(source=1 - comm.rank)

    with pytest.raises(MismatchError) as caught:
        lk.run(program, 2, "mpi", timeout_s=LIMIT_S)
    root = " with root 0" if name == "gather" else ""
    assert f"rank 1 calls {name}{root} where rank 0 called Reduce_scatter_block" in str(caught.value)


@pytest.mark.slow
def test_ranks_that_may_go_on_are_never_blamed():
    def program(comm):
        pause_s = 4.0  # more than twice what nothing may happen in
        if comm.rank == 0:
            time.sleep(pause_s)  # waits on the outside
        comm.Barrier()
        if comm.rank == 1:
            end = time.monotonic() + pause_s
            while time.monotonic() < end:  # computes
                sum(range(1000))
        comm.bcast(None, root=1)
        if comm.rank == 0:
            thread = threading.Thread(target=lambda: (time.sleep(pause_s), comm.send("late", 1, tag=3)))
            thread.start()
            comm.recv(source=1, tag=4)  # waits, while its thread will send
            thread.join()
        else:
            comm.recv(source=0, tag=3)
            comm.send("answer", 0, tag=4)
        return comm.rank

    assert lk.run(program, 2, "mpi", timeout_s=LIMIT_S).results == [0, 1]


def test_a_message_of_several_may_be_late(library):
    def program(comm):
        pause_s = 2.2  # more than nothing may happen in
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        long, got, short = np.full(1 << 16, float(comm.rank)), np.zeros(1 << 16), np.zeros(1)
        sent, received = comm.Isend(long, right, 1), comm.Irecv(got, left, 1)
        last = comm.Irecv(short, left, 2)
        if comm.rank == 0:
            MPI.Request.Waitall([sent, received])
            time.sleep(pause_s)
            comm.Send(np.full(1, 9.0), right, 2)
            last.Wait()
            time.sleep(pause_s)
        else:
            statuses = [MPI.Status() for _ in range(3)]
            MPI.Request.Waitall([last, sent, received], statuses)
            assert [statuses[0].tag, statuses[2].tag, statuses[2].count] == [2, 1, got.nbytes]
            comm.Send(short, right, 2)
        status = MPI.Status()
        comm.Sendrecv(long, right, 3, got, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        return short[0], got[0], status.source, status.tag, status.count

    found = lk.run(program, 3, "mpi", timeout_s=LIMIT_S).results
    assert found == [(9.0, left, left, 3, 8 << 16) for left in (2, 0, 1)]


def test_errors_of_messages_that_come_late_are_those_of_the_library(library):
    def program(comm):
        other, said, statuses = 1 - comm.rank, [], [MPI.Status(), MPI.Status()]
        requests = [comm.Irecv(np.zeros(4), other, 1), comm.Irecv(np.zeros(4), other, 2)]
        comm.Barrier()
        time.sleep(0.1)  # longer than a Waitall is tested as a whole
        comm.Send(np.zeros(8), other, 1)
        try:
            MPI.Request.Waitall(requests, statuses)
        except MPI.Exception as error:
            said += [error.Get_error_class(), *(MPI.Get_error_class(one.error) for one in statuses)]
        comm.Barrier()
        comm.Send(np.zeros(4), other, 2)
        requests[1].Wait()
        try:
            comm.Sendrecv(np.zeros(8), other, 0, np.zeros(4), other, 0)
        except MPI.Exception as error:
            said.append(error.Get_error_class())
        return said == [MPI.ERR_IN_STATUS, MPI.ERR_TRUNCATE, MPI.ERR_PENDING, MPI.ERR_TRUNCATE]

    assert lk.run(program, 2, "mpi", timeout_s=LIMIT_S).results == [True, True]


def test_a_script_that_imports_mpi_itself_is_watched_too(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import mpi4py.rc\nmpi4py.rc.finalize = True\nfrom mpi4py import MPI\n"
        "comm = MPI.COMM_WORLD\ncomm.recv(source=1 - comm.rank)\n"
    )
    with pytest.raises(DeadlockError, match=r"rank 0: recv from rank 1, tag any at .*script\.py:5"):
        lk.run(script, 2, "mpi", timeout_s=LIMIT_S)


@pytest.mark.slow
def test_engines_tell_deadlocks_too_and_blame_nobody_who_may_go_on():
    pytest.importorskip("ipyparallel")

    def patient(comm):
        pause_s = 3.0  # longer than nothing may happen
        if comm.rank == 0:
            time.sleep(pause_s)
        comm.Barrier()
        if comm.rank == 0:
            thread = threading.Thread(target=lambda: (time.sleep(pause_s), print("a thread lives")))
            thread.start()
            comm.recv(source=1, tag=4)  # might be ended by the thread
            thread.join()
        elif comm.rank == 1:
            time.sleep(pause_s)
            comm.send("answer", 0, tag=4)
        return comm.rank

    with lk.cluster(5) as cluster:
        assert lk.run(patient, 3, cluster, timeout_s=LIMIT_S).results == [0, 1, 2]
        for program, (ranks, said) in CASES.items():
            with pytest.raises(DeadlockError) as caught:
                lk.run(program, ranks, cluster, timeout_s=LIMIT_S)
            assert not [one for one in said if one not in str(caught.value)], str(caught.value)
            assert f"{__file__}:" in str(caught.value)
        assert lk.run(patient, 2, cluster, timeout_s=LIMIT_S).results == [0, 1]
