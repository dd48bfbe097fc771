"""Persistent requests: described once, started again and again."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.errors import DeadlockError
from tests.support.refusals import raises_code

SENDS = ["Send_init", "Ssend_init", "Bsend_init", "Rsend_init"]


@pytest.mark.parametrize("kind", SENDS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_a_ring_of_persistent_messages_takes_as_long_as_its_nonblocking_twin(kind, ranks) -> None:
    def program(comm, is_persistent):
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        out, into = np.zeros(1000), np.zeros(1000)
        twin = "I" + kind.removesuffix("_init").lower()
        if is_persistent:
            requests = [comm.Recv_init(into, left, 7), getattr(comm, kind)(out, right, 7)]
        seen = []
        for k in range(4):
            out[:] = 10 * k + comm.rank  # read at the time of the start
            if is_persistent:
                MPI.Prequest.Startall(requests)
            else:
                requests = [comm.Irecv(into, left, 7), getattr(comm, twin)(out, right, 7)]
            MPI.Request.Waitall(requests)
            seen.append(into[-1])
        assert seen == [10 * k + left for k in range(4)]

    persistent, twin = (lk.run(program, ranks, args=(way,)) for way in (True, False))
    assert persistent.makespan_s == twin.makespan_s
    assert persistent.messages == twin.messages


def test_between_two_starts_it_is_inactive() -> None:
    def program(comm):
        x, status = np.zeros(1), MPI.Status()
        request = comm.Recv_init(x, MPI.ANY_SOURCE, MPI.ANY_TAG)
        assert type(request) is MPI.Prequest
        assert request
        assert request.Test(status) is True
        assert (status.source, status.tag, status.count) == (MPI.ANY_SOURCE, MPI.ANY_TAG, 0)
        assert request.Wait() is True
        assert MPI.Request.Waitany([request]) == MPI.UNDEFINED
        assert MPI.Request.Waitsome([request]) is None
        assert MPI.Request.Testsome([request]) is None
        assert MPI.Request.Testall([request, MPI.REQUEST_NULL])
        for k in range(3):
            request.Start()
            with pytest.raises(MPI.Exception, match="started once"):
                request.Start()
            comm.Send(np.full(1, float(k)), comm.rank, k)
            assert MPI.Request.Waitany([MPI.REQUEST_NULL, request], status) == 1
            assert (status.source, status.tag, x[0]) == (comm.rank, k, k)
        request.Free()
        assert request == MPI.REQUEST_NULL
        with pytest.raises(MPI.Exception):
            request.Start()
        with pytest.raises(MPI.Exception):
            request.Free()

    lk.run(program, 2)


def test_a_started_receive_can_be_cancelled_and_started_again() -> None:
    def program(comm):
        x, status = np.zeros(1), MPI.Status()
        request = comm.Recv_init(x, comm.rank, 3)
        with pytest.raises(MPI.Exception, match="not started"):
            request.Cancel()
        request.Start()
        request.Cancel()
        request.Wait(status)
        assert status.Is_cancelled()
        request.Start()
        comm.Send(np.ones(1), comm.rank, 3)
        request.Wait(status)
        return status.Is_cancelled(), x[0]

    assert lk.run(program, 2).results == [(False, 1.0)] * 2


@pytest.mark.parametrize(
    ("args", "error"), [((9, 0), MPI.ERR_RANK), ((-7, 0), MPI.ERR_RANK), ((0, -3), MPI.ERR_TAG)]
)
@pytest.mark.parametrize("kind", [*SENDS, "Recv_init"])
def test_what_is_wrong_is_said_when_it_is_described(kind, args, error) -> None:
    def program(comm):
        with pytest.raises(MPI.Exception) as caught:
            getattr(comm, kind)(np.zeros(1), *args)
        return caught.value.Get_error_class() == error

    assert lk.run(program, 2).results == [True, True]


def test_nobody_is_needed_for_messages_to_nobody() -> None:
    def program(comm):
        requests = [getattr(comm, kind)(None, MPI.PROC_NULL) for kind in [*SENDS, "Recv_init"]]
        for _ in range(2):
            MPI.Prequest.Startall(requests)
            MPI.Prequest.Waitall(requests)

    assert lk.run(program, 2).messages == 0


def test_a_receive_that_is_not_started_gets_nothing() -> None:
    def program(comm):
        request = comm.Recv_init(np.zeros(1), 1 - comm.rank)
        comm.Ssend(np.zeros(1), 1 - comm.rank)
        request.Start()

    with raises_code(DeadlockError, "deadlock"):
        lk.run(program, 2)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_persistent_collectives_may_be_started_in_other_orders(ranks) -> None:
    def program(comm):
        p, me = comm.size, comm.rank
        x, y = np.zeros(3), np.zeros(3)
        z, gathered = np.zeros(1), np.zeros(p)
        requests = [comm.Allreduce_init(x, y), comm.Allgather_init(z, gathered), comm.Barrier_init()]
        seen = []
        for k in range(3):
            x[:], z[:] = me + k, 100 * k + me
            for request in requests if (me + k) % 2 else requests[::-1]:
                request.Start()
            MPI.Request.Waitall(requests)
            seen.append((y.tolist(), gathered.tolist()))
        everybody = range(p)
        assert seen == [
            ([float(sum(r + k for r in everybody))] * 3, [100.0 * k + r for r in everybody]) for k in range(3)
        ]
        for request in requests:
            request.Free()

    lk.run(program, ranks)


def test_in_place_is_read_at_every_start() -> None:
    def program(comm):
        x = np.ones(2)
        request = comm.Allreduce_init(MPI.IN_PLACE, x)
        for _ in range(3):
            request.Start()
            request.Wait()
        return x.tolist()

    assert lk.run(program, 3).results == [[27.0, 27.0]] * 3


def test_persistent_messages_can_be_recorded(tmp_path) -> None:
    def program(comm):
        out, into = np.zeros(100), np.zeros(100)
        send, receive = comm.Send_init(out, 1 - comm.rank), comm.Recv_init(into, 1 - comm.rank)
        for _ in range(3):
            MPI.Prequest.Startall([receive, send])
            MPI.Prequest.Waitall([receive, send])

    recorded = lk.run(program, 2, on="star", trace_ti=tmp_path / "trace")
    assert lk.replay(tmp_path / "trace", on="star").makespan_s == pytest.approx(
        recorded.makespan_s, rel=1e-12
    )
