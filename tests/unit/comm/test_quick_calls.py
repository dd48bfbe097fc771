"""The short way of collective calls does what the general way does, and refuses what that refuses.

Arrays and messages such as ``[buf, count, type]`` have a short way. One with a displacement of 0,
``[buf, count, 0, type]``, always goes the general way: it is the oracle.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.errors import DeadlockError, MismatchError, RankError
from tests.support.refusals import raises_code

ROUNDS = 3


def typing(way, datatype):
    """Return how a way writes a message of n elements."""
    return {
        "array": lambda a, n: a,
        "list": lambda a, n: [a, n, datatype],
        "tuple": lambda a, n: (a, n, datatype),
        "general": lambda a, n: [a, n, 0, datatype],
    }[way]


def forms(comm, way):
    """Every method with a short way, some rounds each: what it leaves in all buffers."""
    p, me = comm.size, comm.rank
    typed = typing(way, MPI.INT64_T)
    left = []
    for i in range(ROUNDS):
        x = np.arange(6, dtype=np.int64) + 100 * me + i
        wide = np.arange(6 * p, dtype=np.int64) * (me + 1) + i
        out, all_out = np.full(6, -1, np.int64), np.full(6 * p, -1, np.int64)
        root = i % p
        comm.Barrier()
        comm.Bcast(typed(x, 6), root=root)
        comm.Reduce(typed(x, 6), typed(out, 6) if me == root else None, MPI.MAX, root)
        left += [x.copy(), out.copy()]
        comm.Allreduce(typed(x, 6), typed(out, 6), op=MPI.SUM)
        left.append(out.copy())
        comm.Scan(typed(x, 6), typed(out, 6))
        left.append(out.copy())
        comm.Exscan(typed(x, 6), typed(out, 6), MPI.BXOR)
        left.append(out.copy())
        comm.Gather(typed(x, 6), typed(all_out, 6) if me == root else None, root)
        left.append(all_out.copy())
        comm.Scatter(typed(wide, 6) if me == root else None, typed(out, 6), root)
        left.append(out.copy())
        comm.Allgather(typed(out, 6), typed(all_out, 6))
        left.append(all_out.copy())
        comm.Alltoall(typed(wide, 6), typed(all_out, 6))
        left.append(all_out.copy())
        comm.Reduce_scatter_block(typed(wide, 6), typed(out, 6), MPI.SUM)
        left.append(out.copy())
    return np.concatenate(left), comm.Get_size()


def in_place(comm, way):
    p, me = comm.size, comm.rank
    typed = typing(way, MPI.DOUBLE)
    left = []
    for i in range(ROUNDS):
        x = np.arange(2.0) + me + i
        wide = np.arange(2.0 * p) + 10 * me + i
        comm.Allreduce(MPI.IN_PLACE, typed(x, 2))
        comm.Scan(MPI.IN_PLACE, typed(x, 2))
        comm.Exscan(None, typed(x, 2))
        left.append(x.copy())
        if me == i % p:
            comm.Reduce(MPI.IN_PLACE, typed(x, 2), root=i % p)
            comm.Gather(MPI.IN_PLACE, typed(wide, 2), root=i % p)
        else:
            comm.Reduce(typed(x, 2), None, root=i % p)
            comm.Gather(typed(x, 2), None, root=i % p)
        left += [x.copy(), wide.copy()]
        comm.Allgather(MPI.IN_PLACE, typed(wide, 2))
        left.append(wide.copy())
        comm.Alltoall(MPI.IN_PLACE, typed(wide, 2))
        left.append(wide.copy())
        comm.Reduce_scatter_block(MPI.IN_PLACE, typed(wide, 2))
        left.append(wide[:2].copy())
    return np.concatenate(left)


@pytest.mark.parametrize("ranks", [1, 2, 5, 8])
def test_both_ways_leave_the_same_at_the_same_time(ranks):
    for program in (forms, in_place):
        general = lk.run(program, ranks, args=("general",), on="star")
        for way in ("array", "list", "tuple"):
            quick = lk.run(program, ranks, args=(way,), on="star")
            for mine, oracle in zip(quick.results, general.results, strict=True):
                np.testing.assert_array_equal(mine[0], oracle[0])
            assert quick.makespan_s == general.makespan_s
            assert (quick.messages, quick.bytes) == (general.messages, general.bytes)


def tables(comm, way, seed):
    """Every call on blocks of any sizes, blocking or not: of sizes that change; what it leaves."""
    p, me = comm.size, comm.rank
    left = []

    def call(name, *arguments):
        method = getattr(type(comm), name if seed < 4 else f"I{name.lower()}")
        request = (method.__wrapped__ if way == "general" else method)(comm, *arguments)
        if request is not None:
            arguments = None  # the request holds what it needs
            request.Wait()

    def message(buffer, counts, begins, is_gapless):
        if way == "array":
            return [buffer, (np.array(counts), np.array(begins))]
        if is_gapless:
            return [buffer, counts, MPI.INT64_T]
        return [buffer, counts, begins, MPI.INT64_T] if seed % 2 else (buffer, (counts, begins))

    for i in range(ROUNDS + 2):
        rng = np.random.default_rng([seed, i // 2])  # the same sizes twice
        sizes = rng.integers(0, 4, (p, p))
        sizes[:, 0] += 1  # nobody sends nothing at all, which has no short way
        gap = int(rng.integers(0, 2))
        root = int(rng.integers(0, p))

        def table(counts, gap=gap):
            begins = [sum(counts[:j]) + j * gap for j in range(p)]
            return np.full(sum(counts) + p * gap + 1, -1, np.int64), counts, begins, gap == 0

        def full(counts, table=table, i=i):
            buffer, *rest = table(counts)
            buffer[:] = np.arange(len(buffer)) + 1000 * me + i
            return buffer, *rest

        one = sizes[0].tolist()
        mine = np.arange(one[me], dtype=np.int64) + 100 * me + i
        into = table(one)
        call("Gatherv", mine, message(*into) if me == root else None, root)
        left.append(into[0])
        into = table(one)
        call("Allgatherv", mine, message(*into))
        left.append(into[0])
        out = np.full(one[me], -1, np.int64)
        call("Scatterv", message(*full(one)) if me == root else None, out, root)
        left.append(out)
        into = table(sizes[:, me].tolist())
        call("Alltoallv", message(*full(sizes[me].tolist())), message(*into))
        left.append(into[0])
        out = np.full(one[me], -1, np.int64)
        data = np.arange(sum(one), dtype=np.int64) * (me + 1)
        call("Reduce_scatter", data, out, np.array(one) if way == "array" else one, MPI.SUM)
        left.append(out)
    return np.concatenate(left)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("seed", range(6))
def test_blocks_of_any_sizes_arrive_the_same_at_the_same_time(ranks, seed):
    general = lk.run(tables, ranks, args=("general", seed), on="star")
    for way in ("array", "list"):
        quick = lk.run(tables, ranks, args=(way, seed), on="star")
        for mine, oracle in zip(quick.results, general.results, strict=True):
            np.testing.assert_array_equal(mine, oracle)
        assert quick.makespan_s == general.makespan_s
        assert (quick.messages, quick.bytes) == (general.messages, general.bytes)


def begun(comm, way):
    """Every nonblocking method with a short way, two under way together; what it leaves in all buffers."""
    p, me = comm.size, comm.rank
    typed = typing(way, MPI.INT64_T)
    left = []
    for i in range(ROUNDS):
        root = i % p
        x, wide = np.arange(6) + 100 * me + i, np.arange(6 * p) * (me + 1) + i
        for name, sent, received, rest in (
            ("Ireduce", x, 6, (MPI.MAX, root)),
            ("Iallreduce", x, 6, (MPI.SUM,)),
            ("Iscan", x, 6, ()),
            ("Iexscan", x, 6, (MPI.BXOR,)),
            ("Igather", x, 6 * p, (root,)),
            ("Iscatter", wide, 6, (root,)),
            ("Iallgather", x, 6 * p, ()),
            ("Ialltoall", wide, 6 * p, ()),
            ("Ireduce_scatter_block", wide, 6, (MPI.SUM,)),
        ):
            outs = [np.full(received, -1) for _ in range(2)]
            data = [sent.copy(), sent + 1]
            requests = [
                getattr(comm, name)(typed(one, 6), typed(out, 6), *rest)
                for one, out in zip(data, outs, strict=True)
            ]
            requests.append(comm.Ibcast(typed(x, 6), root))
            MPI.Request.Waitall(requests)
            left += [*outs, x.copy()]
        out = x.copy()
        comm.Iallreduce(MPI.IN_PLACE, typed(out, 6)).Wait()
        comm.Ibarrier().Wait()
        left.append(out)
    return np.concatenate(left)


@pytest.mark.parametrize("ranks", [1, 2, 5, 8])
def test_nonblocking_calls_leave_the_same_at_the_same_time(ranks):
    general = lk.run(begun, ranks, args=("general",), on="star")
    for way in ("array", "list", "tuple"):
        quick = lk.run(begun, ranks, args=(way,), on="star")
        np.testing.assert_array_equal(quick.results, general.results)
        assert quick.makespan_s == general.makespan_s
        assert (quick.messages, quick.bytes) == (general.messages, general.bytes)


def test_a_request_holds_the_buffers_of_its_call():
    """Also those that stand in lists and count their views; the program lets go of all of them."""

    def program(comm):
        seen = []
        for _ in range(ROUNDS):
            target = bytearray(8 * comm.size)
            request = comm.Iallgather([bytearray([comm.rank] * 8), MPI.BYTE], [target, 8, MPI.BYTE])
            with pytest.raises(BufferError):
                target.append(1)  # it would move
            request.Wait()
            target.append(1)
            seen.append(bytes(target[::8]))
        return seen

    assert lk.run(program, 4, on="star").results == [[bytes([0, 1, 2, 3, 1])] * ROUNDS] * 4


def test_the_first_rank_chooses_the_algorithm_by_its_sizes_either_way():
    """Short and long blocks in turn, first seen by different ranks: the choice changes with them."""

    def program(comm, is_general):
        method = type(comm).Alltoallv
        method = method.__wrapped__ if is_general else method
        for i in range(12):
            comm.Barrier()
            lk.compute(1e-3 * ((comm.rank + i) % comm.size))
            counts = [(1, 50_000)[i % 3 == 0]] * comm.size
            send, receive = np.ones(sum(counts)), np.zeros(sum(counts))
            method(comm, [send, counts], [receive, counts])

    runs = [lk.run(program, 8, args=(is_general,), on="star") for is_general in (False, True)]
    assert runs[0].makespan_s == runs[1].makespan_s
    assert (runs[0].messages, runs[0].bytes) == (runs[1].messages, runs[1].bytes)


def _after_good_tables(bad):
    def program(comm):
        x, counts = np.ones(2 * comm.size), [2] * comm.size
        for _ in range(2):
            out = np.empty(2 * comm.size)
            comm.Alltoallv([x, counts], [out, counts])
            comm.Allgatherv(x[:2], [out, counts])
            comm.Gatherv(x[:2], [out, counts])
            comm.Scatterv([x, counts], out[:2])
            comm.Reduce_scatter(x, out[:2], counts)
        bad(comm, x, out, counts)

    return program


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        (lambda c, x, out, n: c.Allgatherv(x[:2], [out, [9, *n[1:]]]), RankError, "message"),
        (lambda c, x, out, n: c.Allgatherv(x[:2], [out, n[1:]]), RankError, "expecting 3 counts"),
        (lambda c, x, out, n: c.Allgatherv(x[:2], [out, [-1, *n[1:]]]), RankError, "counts are 0 or more"),
        (lambda c, x, out, n: c.Alltoallv([x, n], [out, (n, [-1, 2, 4])]), RankError, "negative displ"),
        (lambda c, x, out, n: c.Alltoallv([x, n], [out, (n, [0, 2, 5])]), RankError, "message"),
        (lambda c, x, out, n: c.Alltoallv([x, (n, [2**62, 2, 4])], [out, n]), RankError, "message"),
        (lambda c, x, out, n: c.Alltoallv([x, n], [out, [1, 1, 1]]), RankError, "sends 16 bytes to itself"),
        (lambda c, x, out, n: c.Gatherv(x[:2], [out, [2, 2, 1]], 1), RankError, "longer than its place"),
        (lambda c, x, out, n: c.Gatherv(x[:2], [out, n], c.rank % 2), MismatchError, "root"),
        (lambda c, x, out, n: c.Gatherv(x[:2], [out, n], 7), RankError, "root=7"),
        (lambda c, x, out, n: c.Allgatherv(x[:2], [out, n if c.rank else [2, 2, 1]]), MismatchError, "bytes"),
        (lambda c, x, out, n: c.Scatterv([x, n], bytes(16)), RankError, "read-only"),
        (lambda c, x, out, n: c.Scatterv([x, n, MPI.DATATYPE_NULL], out[:2]), RankError, "DATATYPE_NULL"),
        (lambda c, x, out, n: c.Reduce_scatter(x, out[:2], [3, 2, 2]), RankError, "mismatch"),
        (
            lambda c, x, out, n: c.Reduce_scatter(x, out[:2], n, [MPI.MAX, MPI.MIN][c.rank % 2]),
            MismatchError,
            "op",
        ),
    ],
)
def test_blocks_that_the_general_way_refuses_stay_refused(bad, error, words):
    with pytest.raises(error, match=words):
        lk.run(_after_good_tables(bad), 3, on="star")


def test_lists_mean_what_their_counts_and_types_say():
    """The same buffer with another count, another type, or neither is another message."""

    def program(comm, way):
        left = []
        for _ in range(ROUNDS):
            for count, datatype in (
                (4, MPI.DOUBLE),
                (2, MPI.DOUBLE),
                (8, MPI.FLOAT),
                (32, MPI.BYTE),
                (0, MPI.INT),
            ):
                x, out = np.arange(4.0) + comm.rank, np.zeros(4 * comm.size)
                comm.Allgather(typing(way, datatype)(x, count), typing(way, datatype)(out, count))
                left.append(out)
            x, out = np.arange(4.0) + comm.rank, np.zeros(4)
            comm.Allreduce([x, 2] if way == "list" else [x, 2, 0, MPI.DOUBLE], [out, 2, MPI.DOUBLE])
            comm.Bcast([x, MPI.DOUBLE] if way == "list" else [x, 4, 0, MPI.DOUBLE], 1)
            left += [out, x]
        return np.concatenate(left)

    quick, general = (lk.run(program, 4, args=(way,), on="star") for way in ("list", "general"))
    np.testing.assert_array_equal(quick.results, general.results)
    assert (quick.makespan_s, quick.bytes) == (general.makespan_s, general.bytes)


def test_a_list_may_change_while_its_rank_waits():
    def program(comm, shared):
        for i in range(ROUNDS):
            shared[comm.rank][:] = [np.full(2, i + 1.0), 2, MPI.DOUBLE]
            out = np.empty(2)
            if comm.rank == comm.size - 1:  # all others wait by now
                for message in shared[:-1]:
                    message[0] = None
            comm.Allreduce(shared[comm.rank], [out, 2, MPI.DOUBLE])
            assert out.tolist() == [3 * (i + 1.0)] * 2

    lk.run(program, 3, args=([[], [], []],), on="star", isolate=False)


def test_ranks_of_one_call_may_come_either_way():
    def program(comm):
        x, out = np.full(3, comm.rank + 1.0), np.empty(3)
        for i in range(6):
            is_general = (comm.rank + i) % 3 == 0
            send, receive = ([x, 3, 0, MPI.DOUBLE], [out, MPI.DOUBLE]) if is_general else (x, [out, 3])
            comm.Allreduce(send, receive)
        return out.tolist()

    assert lk.run(program, 7, on="star").results == [[28.0] * 3] * 7


def test_communicators_have_forms_of_their_own():
    def program(comm):
        sums = []
        row, out = comm.Split(comm.rank % 2, comm.rank), np.empty(1)
        for c in (comm, row, MPI.COMM_SELF, row, comm):
            c.Allreduce(np.full(1, comm.rank + 1.0), out)
            sums.append(out[0])
        return sums

    assert lk.run(program, 4, on="star").results[1] == [10, 6, 2, 6, 10]


def test_bytes_of_another_type_are_cut_as_the_first_rank_says():
    """The datatypes of a broadcast may differ as long as the bytes agree."""

    def program(comm):
        for i in range(4):
            is_bytes = (comm.rank + i) % 2
            data = np.zeros(24, np.uint8) if is_bytes else np.zeros(3)
            if comm.rank == 0:
                data.view(np.uint8)[:] = np.arange(24) + i
            comm.Bcast(data)
            assert data.view(np.uint8).tolist() == [*range(i, 24 + i)]

    lk.run(program, 5, on="star", coll={"bcast": "ring"})


def _after_good_calls(bad):
    def program(comm):
        x, out = np.ones(2), np.empty(2)
        for _ in range(2):
            comm.Allreduce(x, out)
            comm.Bcast(x)
        bad(comm, x, out)

    return program


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        (lambda c, x, out: c.Bcast(x, c.rank % 2), MismatchError, "root"),
        (lambda c, x, out: c.Bcast(x) if c.rank else c.Allreduce(x, out), MismatchError, "Bcast"),
        (lambda c, x, out: c.Allreduce(x, out, MPI.MAX if c.rank else MPI.SUM), MismatchError, "op"),
        (lambda c, x, out: c.Allreduce(x[: c.rank + 1], out[: c.rank + 1]), MismatchError, "bytes"),
        (lambda c, x, out: c.Bcast(x.astype("i4") if c.rank else x), MismatchError, "bytes"),
        (lambda c, x, out: c.Allreduce(x, bytes(16)), RankError, "read-only"),
        (lambda c, x, out: c.Bcast(bytes(16)), RankError, "read-only"),
        (lambda c, x, out: c.Allreduce(x, out[:1]), RankError, "mismatch in send count"),
        (lambda c, x, out: c.Allreduce(x, np.empty(2, "i8")), RankError, "mismatch"),
        (lambda c, x, out: c.Bcast(x, 9), RankError, "root=9"),
        (lambda c, x, out: c.Bcast(x, rot=0), RankError, "rot"),
        (lambda c, x, out: c.Allreduce(x), RankError, "recvbuf"),
        (lambda c, x, out: c.Allreduce(x, out, MPI.SUM, 3), RankError, "argument"),
        (lambda c, x, out: c.Bcast(np.ones(4)[::2]), RankError, "contiguous"),
        (lambda c, x, out: c.Bcast([x, 3, MPI.DOUBLE]), RankError, "message"),
        (lambda c, x, out: c.Bcast([x, -1, MPI.DOUBLE]), RankError, "count"),
        (lambda c, x, out: c.Bcast([x, True, 2, 3, 4]), RankError, "message"),
        (lambda c, x, out: c.Bcast([x, 1 + c.rank % 2, MPI.DOUBLE]), MismatchError, "bytes"),
        (lambda c, x, out: c.Bcast([x, MPI.DATATYPE_NULL]), RankError, "DATATYPE_NULL"),
        (lambda c, x, out: c.Allreduce(x, out, max), RankError, "Op"),
        (lambda c, x, out: c.Allreduce(np.ones(2) * 1j, np.ones(2) * 1j, MPI.MAX), RankError, "not defined"),
    ],
)
def test_what_the_general_way_refuses_stays_refused(bad, error, words):
    with pytest.raises(error, match=words):
        lk.run(_after_good_calls(bad), 3, on="star")


def test_an_operator_of_the_program_is_asked_anew_each_time():
    def program(comm):
        power = [1]
        op = MPI.Op.Create(
            lambda a, b, t: np.copyto(np.frombuffer(b, float), np.frombuffer(a, float) * power[0]), False
        )
        out, seen = np.empty(1), []
        for power[0] in (1, 2, 3):
            comm.Allreduce(np.full(1, comm.rank + 1.0), out, op)
            seen.append(out[0])
        op.Free()
        with pytest.raises(MPI.Exception):
            comm.Allreduce(np.ones(1), out, op)
        return seen

    assert lk.run(program, 2, on="star").results == [[1, 2, 3]] * 2


def test_buffers_of_a_size_only_and_real_ones_do_not_mix():
    def program(comm):
        for _ in range(2):
            comm.Allreduce(lk.sized(1 << 30), lk.sized(1 << 30), MPI.BOR)
            comm.Allreduce(MPI.IN_PLACE, lk.sized(1 << 30), MPI.BOR)
        comm.Allreduce(np.zeros(1 << 4, np.uint8), lk.sized(1 << 4), MPI.BOR)

    with raises_code(RankError, "rank-failed"):
        lk.run(program, 2, on="star")


def test_a_deadlock_names_who_is_missing():
    def program(comm):
        for _ in range(3):
            comm.Barrier()
        if comm.rank != 2:
            comm.Barrier()

    with raises_code(DeadlockError, "deadlock", "rank 2", "test_quick_calls.py"):
        lk.run(program, 4, on="star")


def test_the_methods_look_like_the_functions_they_are():
    method = MPI.COMM_WORLD.Allreduce
    assert list(inspect.signature(method).parameters) == ["sendbuf", "recvbuf", "op"]
    assert method.__name__ == "Allreduce"
    assert "every rank" in inspect.getdoc(method)
    assert inspect.isroutine(type(MPI.COMM_WORLD).Allreduce)
    with raises_code(lk.errors.UnsupportedError, "unsupported"):
        method(np.zeros(1), np.zeros(1))


def test_a_derived_class_may_call_the_method_it_overrides():
    def program(comm):
        class Counting(MPI.Intracomm):
            calls = 0

            def Barrier(self):  # noqa: N802
                type(self).calls += 1
                super().Barrier()

        mine = Counting(comm)
        for _ in range(3):
            mine.Barrier()
        return mine.calls

    assert lk.run(program, 3, on="star").results == [3, 3, 3]
