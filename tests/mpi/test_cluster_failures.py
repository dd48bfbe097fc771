"""Programs that fail on a cluster: one clear error each, and the next program runs as if nothing had been."""

from __future__ import annotations

import os
import signal
import sys
import threading

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DeadlockError, MachineError, RankError, TimeLimitError
from tests.support.refusals import raises_code

pytest.importorskip("ipyparallel")

pytestmark = pytest.mark.mpi

ENGINES = 3
#: passes when the ranks are where they hang, see `limit_when`
LIMIT_S = 300


@pytest.fixture(scope="module")
def started():
    with lk.cluster(ENGINES) as cluster:
        yield cluster


def check_usable(cluster):
    def program(comm, value):
        part = comm.Split(comm.rank % 2)
        numbers = np.zeros(3)
        comm.Allreduce(np.full(3, value), numbers)
        return comm.allgather(comm.rank), part.size, numbers.tolist()

    run = lk.run(program, ENGINES, cluster, args=(2.0,), timeout_s=60)
    assert run.results == [([0, 1, 2], 2 - rank % 2, [6.0] * 3) for rank in range(ENGINES)]


@pytest.fixture
def machine(started):
    yield started
    check_usable(started)


def test_exception_names_the_rank_and_shows_its_traceback_while_others_wait(machine):
    def program(comm):
        print("before")
        comm.barrier()
        if comm.rank == 2:
            raise ValueError("a bad splitter")
        comm.Barrier()

    with pytest.raises(RankError) as caught:
        lk.run(program, ENGINES, machine)
    assert caught.value.rank == 2
    assert 'raise ValueError("a bad splitter")' in caught.value.traceback
    assert caught.value.traceback.rstrip().endswith("ValueError: a bad splitter")
    assert "cluster_engine" not in caught.value.traceback
    assert list(caught.value.output) == ["before\n"] * ENGINES


def test_error_of_mpi_is_shown_without_labkits_frames(machine):
    def program(comm):
        comm.Send(np.zeros(1), dest=17)

    with pytest.raises(RankError, match=r"MPI_ERR_RANK|[Ii]nvalid rank") as caught:
        lk.run(program, 1, machine)
    assert "labkit/launch" not in caught.value.traceback


def test_facing_receives_meet_the_limit_and_every_line_is_shown(machine, marks, limit_when):
    def program(comm):
        if comm.rank == 0:
            return marks.make(0) or comm.recv(source=1)  # rank 0 waits here
        if comm.rank == 1:
            return marks.make(1) or comm.Recv(np.zeros(1), source=0)  # rank 1 waits here
        marks.make(2)
        while True:
            pass

    limit_when(lambda: marks.are_there(0, 1, 2))
    with pytest.raises(TimeLimitError) as caught:
        lk.run(program, ENGINES, machine, timeout_s=LIMIT_S)
    message = str(caught.value)
    assert f"within {LIMIT_S} s" in message
    first, rest = message.split("rank 1:")
    second, third = rest.split("rank 2:")
    assert "rank 0 waits here" in first
    assert "rank 1 waits here" in second
    assert "in program" in third
    assert "labkit/launch" not in message


def test_stopped_rank_is_reported_as_stopped(machine, marks, limit_when):
    def program(comm):
        if comm.rank == 1:
            marks.make(1) or os.kill(os.getpid(), signal.SIGSTOP)  # stops here
        marks.make(comm.rank) or comm.recv(source=1)

    limit_when(lambda: marks.are_there(0, 1))
    with pytest.raises(TimeLimitError) as caught:
        lk.run(program, 2, machine, timeout_s=LIMIT_S)
    first, second = str(caught.value).split("rank 1:")
    assert "stopped by a signal" not in first
    assert second.startswith(" was stopped by a signal")
    assert "stops here" in second


def _halves(comm):
    comm.Split(comm.rank // 2).Allreduce(np.zeros(10), np.zeros(10))  # the part of rank 2 is whole
    comm.Dup().bcast(1, root=2)


def _requests(comm):
    from mpi4py import MPI

    buffers = [np.zeros(1000) for _ in range(3)]
    MPI.Request.Waitall([comm.Irecv(buffer, source=0, tag=5) for buffer in buffers])


def _large_send(comm):
    comm.Send(np.zeros(1_000_000), dest=2)  # too large to go without its receive


def _stubborn(comm):
    try:
        comm.barrier()
    except KeyboardInterrupt:
        comm.barrier()


def _making(comm):
    comm.Create_cart([comm.size]).Sub([True])


@pytest.mark.parametrize("hang", [_halves, _requests, _large_send, _stubborn, _making])
def test_what_can_hang_can_be_ended(machine, hang):
    def program(comm):
        if comm.rank != 2:
            hang(comm)

    with pytest.raises(DeadlockError) as caught:
        lk.run(program, ENGINES, machine, timeout_s=60)
    assert (caught.value.ranks, set(caught.value.waits)) == (3, {0, 1})
    assert all(f"in {hang.__name__}" in text for text, _ in caught.value.waits.values())


def test_exit_abort_and_results_that_cannot_travel(machine):
    def leaving(comm, code):
        if comm.rank == 1:
            sys.exit(code)
        return comm.rank

    assert lk.run(leaving, 2, machine, args=(None,)).results == [0, None]
    with raises_code(RankError, "rank-failed", "sys.exit(4)"):
        lk.run(leaving, 2, machine, args=(4,))

    def aborting(comm):
        if comm.rank == 1:
            comm.Abort(7)
        comm.barrier()

    def catching(comm):
        try:
            aborting(comm)
        finally:
            return "went on"  # noqa: B012 - what nothing may do

    for way in (aborting, catching):
        with raises_code(RankError, "aborted", "rank 1") as caught:
            lk.run(way, 2, machine)
        assert caught.value.abort_code == 7

    def returning(comm):
        return (k for k in range(3)) if comm.rank == 1 else 0

    with raises_code(RankError, "rank-failed", "rank 1", "generator"):
        lk.run(returning, 2, machine)


def test_endless_output_is_stopped(machine):
    def program(comm):
        while True:
            print("x" * 1000)

    with raises_code(MachineError, "too-large", "50000"):
        lk.run(program, 2, machine, output_limit_bytes=100_000)


def test_users_interrupt_stops_the_run(machine, marks):
    def program(comm):
        marks.make(comm.rank)
        comm.recv()

    def interrupt():
        marks.wait(*range(ENGINES))
        os.kill(os.getpid(), signal.SIGINT)

    # Started in the background by a shell, this process would ignore the signal.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    watcher = threading.Thread(target=interrupt)
    watcher.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            lk.run(program, ENGINES, machine, timeout_s=120)
    finally:
        watcher.join()
        signal.signal(signal.SIGINT, previous)


def test_killed_rank_is_named_and_a_restart_helps(started):
    def program(comm):
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        comm.barrier()

    with raises_code(RankError, "rank-failed", "signal 9", "restart()") as caught:
        lk.run(program, ENGINES, started, timeout_s=60)
    assert caught.value.rank == 1
    with raises_code(MachineError, "not-started", "restart()"):
        lk.run(program, ENGINES, started)
    started.restart()
    check_usable(started)


def test_rank_that_cannot_be_interrupted_is_told(started, monkeypatch):
    from labkit.real.engines import client as cluster_watch

    def program(comm):
        if comm.rank == 1:
            from mpi4py import MPI

            MPI.Comm.Recv(comm, bytearray(1), source=0)  # mpi4py's own: nothing can interrupt it

    monkeypatch.setattr(cluster_watch, "STOP_S", 1.0)  # nothing helps however long it is tried
    with pytest.raises(DeadlockError) as caught:
        lk.run(program, 2, started, timeout_s=60)
    assert caught.value.waits[1][1] == (0,)
    assert "rank 1 could not be interrupted" in caught.value.__notes__[0]
    with pytest.raises(MachineError, match=r"rank 1 of this cluster still hangs.*restart\(\)"):
        lk.run(program, 2, started)
