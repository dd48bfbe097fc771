"""Point-to-point calls on simulated ranks, as MPI defines them."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from tests.support.refusals import raises_code

RANKS = [1, 2, 3, 4, 5, 7, 8, 16]


def results(program, ranks, *args, **how):
    return lk.run(program, ranks, args=args, **how).results


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("n", [0, 1, 1000, 20_000])
def test_a_ring_of_buffers_moves_every_byte(ranks: int, n: int) -> None:
    def program(comm, n):
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        sent, got = np.arange(n) + 1000 * comm.rank, np.full(n, -1)
        status = MPI.Status()
        request = comm.Isend(sent, right, tag=comm.rank)
        comm.Recv(got, left, MPI.ANY_TAG, status)
        request.Wait()
        return got, status.source, status.tag, status.Get_count(MPI.INT64_T), status.Get_elements(MPI.BYTE)

    for rank, (got, *status) in enumerate(results(program, ranks, n)):
        left = (rank - 1) % ranks
        assert (got == np.arange(n) + 1000 * left).all()
        assert status == [left, left, n, 8 * n]


@pytest.mark.parametrize("ranks", RANKS)
def test_objects_arrive_as_copies(ranks: int) -> None:
    def program(comm):
        mine = {"rank": comm.rank, "list": [1]}
        theirs = comm.sendrecv(mine, (comm.rank + 1) % comm.size, 3, None, (comm.rank - 1) % comm.size, 3)
        theirs["list"].append(2)
        return theirs, mine

    for rank, (theirs, mine) in enumerate(results(program, ranks)):
        assert theirs == {"rank": (rank - 1) % ranks, "list": [1, 2]}
        assert mine == {"rank": rank, "list": [1]}


def test_messages_of_one_sender_keep_their_order_and_tags_choose() -> None:
    def program(comm):
        if comm.rank == 0:
            for i in range(10):
                comm.send(i, 1, tag=i % 2)
            return None
        odd = [comm.recv(source=0, tag=1) for _ in range(5)]
        return odd, [comm.recv(source=0) for _ in range(5)]

    assert results(program, 2)[1] == ([1, 3, 5, 7, 9], [0, 2, 4, 6, 8])


@pytest.mark.parametrize("ranks", RANKS[1:])
def test_any_source_takes_each_message_once(ranks: int) -> None:
    def program(comm):
        if comm.rank:
            comm.send(comm.rank, 0, tag=comm.rank)
            return None
        status = MPI.Status()
        seen = []
        for _ in range(comm.size - 1):
            value = comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
            assert value == status.Get_source() == status.Get_tag()
            seen.append(value)
        return sorted(seen)

    assert results(program, ranks)[0] == list(range(1, ranks))


@pytest.mark.parametrize("method", ["Send", "Ssend", "Bsend", "Rsend"])
@pytest.mark.parametrize("n", [4, 40_000])
def test_every_kind_of_send(method: str, n: int) -> None:
    def program(comm, method, n):
        data = np.full(n, 7.0)
        if comm.rank == 0:
            getattr(comm, method)(data, dest=1)
            data[:] = 0  # the call is over: the buffer is the program's again
            return None
        got = np.zeros(n)
        request = comm.Irecv(got, 0)
        request.Wait()
        return float(got.sum())

    assert results(program, 2, method, n)[1] == 7.0 * n


def test_a_synchronous_send_waits_for_its_receive_and_a_small_standard_one_does_not() -> None:
    def program(comm, method):
        if comm.rank == 0:
            getattr(comm, method)(1, 1)
            return MPI.Wtime()
        lk.compute(seconds=1.0)
        comm.recv(source=0)
        return MPI.Wtime()

    assert results(program, 2, "send")[0] < 0.01
    assert results(program, 2, "ssend")[0] >= 1.0


def test_proc_null_and_self() -> None:
    def program(comm):
        status = MPI.Status()
        comm.send("nobody", MPI.PROC_NULL)
        comm.Recv(np.zeros(1), MPI.PROC_NULL, status=status)
        assert (status.source, status.tag, status.count) == (MPI.PROC_NULL, MPI.ANY_TAG, 0)
        assert comm.irecv(source=MPI.PROC_NULL).wait() is None
        request = comm.isend("me", comm.rank)
        assert comm.recv(source=comm.rank) == "me"
        request.wait()
        return comm.sendrecv("both", comm.rank, source=comm.rank)

    assert results(program, 3) == ["both"] * 3


@pytest.mark.parametrize("n", [100, 100_000])
def test_a_message_longer_than_its_buffer_is_an_error_and_a_shorter_one_is_not(n: int) -> None:
    def program(comm, n):
        if comm.rank == 0:
            comm.Send(np.ones(n), 1)
            comm.Send(np.ones(n), 1)
            return None
        long = np.zeros(2 * n)
        comm.Recv(long, 0)
        assert long.sum() == n
        with pytest.raises(MPI.Exception, match="truncated") as caught:
            comm.Recv(np.zeros(n // 2), 0)
        return caught.value.Get_error_class() == MPI.ERR_TRUNCATE

    assert results(program, 2, n, isolate=False)[1] is True


def test_irecv_has_mpi4pys_room_of_32_kib() -> None:
    def program(comm):
        if comm.rank == 0:
            comm.send(b"x" * 100_000, 1)
            comm.send(b"x" * 100_000, 1)
            return None
        with pytest.raises(MPI.Exception, match="truncated"):
            comm.irecv(source=0).wait()
        return len(comm.irecv(200_000, source=0).wait())

    assert results(program, 2, isolate=False)[1] == 100_000


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((np.zeros(1), 9), MPI.Exception, "dest=9"),
        ((np.zeros(1), -5), MPI.Exception, "dest=-5"),
        ((np.zeros(1), 0, -3), MPI.Exception, "tag=-3"),
        (([np.zeros(3), 5, MPI.DOUBLE], 0), ValueError, "40 of a buffer of 24"),
        ((np.zeros((4, 4))[:, 1], 0), BufferError, "contiguous"),
        ((np.array([object()]), 0), KeyError, "cannot map"),
        (("text", 0), TypeError, "expecting buffer"),
    ],
)
def test_what_real_mpi_refuses_is_refused(arguments, error, text) -> None:
    def program(comm):
        with pytest.raises(error, match=text):
            comm.Send(*arguments)
        return comm.sendrecv("still usable", 0, source=0)

    assert results(program, 1, isolate=False) == ["still usable"]


def test_message_specifications() -> None:
    def program(comm):
        data = np.arange(10, dtype="i4")
        got = np.zeros(4, "i4")
        for spec in ([data, (4, 2), MPI.INT], [data, 4, 2, "i"], (data[2:6], MPI.INT), [data[2:6], 4]):
            got[:] = 0
            comm.Sendrecv(spec, 0, 0, [got, MPI.INT], 0, 0)
            assert got.tolist() == [2, 3, 4, 5]
        fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        back = np.zeros(6)
        comm.Sendrecv(fortran, 0, 0, back, 0, 0)
        return back.tolist()

    assert results(program, 1) == [[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]]


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_waiting_for_many(ranks: int) -> None:
    def program(comm):
        if comm.rank:
            lk.compute(seconds=1.0 / comm.rank)
            for tag in range(3):
                comm.isend((comm.rank, tag), 0, tag)
            return None
        others = range(1, comm.size)
        first = [comm.irecv(source=r, tag=0) for r in others]
        index, value = MPI.Request.waitany(first)
        assert value == (comm.size - 1, 0)
        assert index == comm.size - 2
        rest = [r for r in first if r]
        assert sorted(MPI.Request.waitall(rest)) == [(r, 0) for r in others][:-1]
        some = [comm.irecv(source=r, tag=1) for r in others]
        got = []
        while (found := MPI.Request.waitsome(some))[0] is not None:
            got += found[1]
        assert sorted(got) == [(r, 1) for r in others]
        left = [comm.irecv(source=r, tag=2) for r in others]
        while not (result := MPI.Request.testall(left))[0]:
            pass
        assert not any(left)
        return sorted(result[1])

    assert results(program, ranks)[0] == [(r, 2) for r in range(1, ranks)]


def test_a_polling_loop_lets_time_pass_under_every_model() -> None:
    def program(comm):
        if comm.rank == 0:
            lk.compute(seconds=0.01)
            comm.send(1, 1)
            return None
        request = comm.irecv(source=0)
        polls = 0
        while not request.test()[0]:
            polls += 1
        while comm.iprobe():
            raise AssertionError("nothing more was sent")
        return polls

    for model in ("lab", "smpi", "raw"):
        assert 50 < results(program, 2, model=model)[1] < 200


def test_probes_and_matched_probes() -> None:
    def program(comm):
        if comm.rank == 0:
            comm.Send(np.arange(5.0), 1, tag=4)
            comm.send("second", 1, tag=4)
            return None
        status = MPI.Status()
        assert comm.Probe(0, 4, status) is True
        assert status.Get_count(MPI.DOUBLE) == 5
        message = comm.Mprobe(0, 4)
        assert comm.recv(source=0, tag=4) == "second"  # the first is out of the queue
        assert comm.Improbe(0, 4) is None
        got = np.zeros(5)
        message.Recv(got)
        assert not message
        return got.tolist()

    assert results(program, 2)[1] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_cancel_takes_back_what_is_not_matched() -> None:
    def program(comm):
        status = MPI.Status()
        request = comm.irecv(source=0, tag=99)
        request.Cancel()
        request.Wait(status)
        assert status.Is_cancelled()
        return comm.sendrecv(1, 0, 99, None, 0, 99)

    assert results(program, 1) == [1]


def test_other_communicators() -> None:
    def program(comm):
        twin = comm.Dup()
        if comm.rank == 0:
            twin.send("twin", 1)
            comm.send("world", 1)
        elif comm.rank == 1:
            assert comm.recv(source=0) == "world"
            assert twin.recv(source=0) == "twin"
        half = comm.Split(comm.rank % 2, -comm.rank)
        members = half.allgather(comm.rank)
        assert members == sorted(range(comm.rank % 2, comm.size, 2), reverse=True)
        assert half.rank == members.index(comm.rank)
        assert half.sendrecv(half.rank, (half.rank + 1) % half.size) == (half.rank - 1) % half.size
        assert comm.Split(MPI.UNDEFINED) == MPI.COMM_NULL
        twin.Free()
        assert twin == MPI.COMM_NULL
        return MPI.COMM_SELF.allreduce(comm.rank)

    assert results(program, 6) == list(range(6))


def test_the_world_alone_outside_a_run() -> None:
    assert (MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size) == (0, 1)
    with raises_code(lk.errors.UnsupportedError, "unsupported", "labkit.MPI"):
        MPI.COMM_WORLD.Send(np.zeros(1), 0)
