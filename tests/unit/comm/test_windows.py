"""Windows: what accesses do, when they may be made, and what they take."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from tests.support.refusals import raises_code

RANKS = (1, 2, 3, 4, 5, 7, 8, 16)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("flavor", ["create", "allocate", "shared", "dynamic"])
def test_a_ring_of_puts_reaches_every_rank(flavor, ranks) -> None:
    def program(comm):
        rank, p = comm.rank, comm.size
        mine = np.full(3, -1.0)
        if flavor == "create":
            win = MPI.Win.Create(mine, 8, comm=comm)
        elif flavor == "dynamic":
            win = MPI.Win.Create_dynamic(comm=comm)
            win.Attach(mine)
        else:
            make = MPI.Win.Allocate if flavor == "allocate" else MPI.Win.Allocate_shared
            win = make(24, 8, comm=comm)
            mine = np.frombuffer(win.tomemory(), float)
        address = mine.__array_interface__["data"][0]
        places = [one + 8 if flavor == "dynamic" else 1 for one in comm.allgather(address)]
        right = (rank + 1) % p
        win.Fence()
        win.Put(np.array([rank, rank + 0.5]), right, places[right])
        win.Fence()
        got = np.zeros(2)
        win.Get(got, right, (places[right], 2, MPI.DOUBLE))
        win.Fence()
        left = mine[1:].tolist()
        win.Free()
        assert win == MPI.WIN_NULL
        return left, got.tolist()

    run = lk.run(program, ranks, f"star:1,cores={ranks}")
    for rank, (left, got) in enumerate(run.results):
        assert left == [(rank - 1) % ranks, (rank - 1) % ranks + 0.5]
        assert got == [rank, rank + 0.5]
    assert run.notes == []


def test_memory_is_what_the_others_see() -> None:
    def program(comm):
        win = MPI.Win.Allocate_shared(8 * (comm.rank + 1), 8, comm=comm)
        mine = np.frombuffer(win.tomemory(), float)
        mine[:] = comm.rank
        comm.Barrier()
        seen = []
        for rank in range(comm.size):
            memory, unit = win.Shared_query(rank)
            seen.append((np.frombuffer(memory, float).tolist(), unit))
        first = np.frombuffer(win.Shared_query(MPI.PROC_NULL)[0], float).size
        attributes = win.Get_attr(MPI.WIN_SIZE), win.flavor == MPI.WIN_FLAVOR_SHARED, win.attrs[1:]
        win.Free()
        return seen, first, attributes

    for rank, (seen, first, attributes) in enumerate(lk.run(program, 3, "star:1,cores=3").results):
        assert seen == [([float(r)] * (r + 1), 8) for r in range(3)]
        assert (first, attributes) == (1, (8 * (rank + 1), True, (8 * (rank + 1), 8)))


@pytest.mark.parametrize("ranks", RANKS)
def test_an_exclusive_lock_keeps_the_others_out(ranks) -> None:
    def program(comm):
        win = MPI.Win.Allocate(8 if comm.rank == 0 else 0, 8, comm=comm)
        for _ in range(3):
            value = np.zeros(1, np.int64)
            win.Lock(0)
            win.Get(value, 0)
            win.Flush(0)
            lk.compute(seconds=1e-5 * comm.rank)
            win.Put(value + 1, 0)
            win.Unlock(0)
        comm.Barrier()
        counted = int(np.frombuffer(win.tomemory(), np.int64)[0]) if comm.rank == 0 else 0
        win.Free()
        return counted

    run = lk.run(program, ranks, f"star:{ranks}")
    assert run.results[0] == 3 * ranks
    assert run.notes == []


def test_shared_locks_are_held_together_and_wait_for_an_exclusive_one() -> None:
    def program(comm):
        win = MPI.Win.Allocate(8, 8, comm=comm)
        if comm.rank:
            lk.compute(seconds=1e-3)
        win.Lock(0, MPI.LOCK_SHARED if comm.rank else MPI.LOCK_EXCLUSIVE)
        taken = MPI.Wtime()
        lk.compute(seconds=2e-3)
        win.Unlock(0)
        win.Free()
        return taken

    first, *others = lk.run(program, 4, "star:4").results
    assert first < 1e-4
    assert others == pytest.approx([2e-3 + first] * 3, rel=1e-3)


@pytest.mark.parametrize("ranks", RANKS)
def test_tickets_are_handed_out_once(ranks) -> None:
    def program(comm):
        win = MPI.Win.Allocate(16 if comm.rank == 0 else 0, 8, comm=comm)
        one, ticket, swapped = np.ones(1, "i8"), np.zeros(1, "i8"), np.full(1, -1, "i8")
        win.Lock_all()
        win.Fetch_and_op(one, ticket, 0, 0)
        win.Compare_and_swap(np.full(1, comm.rank + 1, "i8"), np.zeros(1, "i8"), swapped, 0, 1)
        win.Unlock_all()
        comm.Barrier()
        last = np.zeros(2, "i8")
        win.Lock(0)
        win.Get(last, 0)
        win.Unlock(0)
        win.Free()
        return int(ticket[0]), int(swapped[0]), last.tolist()

    results = lk.run(program, ranks, f"star:{ranks}").results
    assert sorted(ticket for ticket, _, _ in results) == list(range(ranks))
    winners = [rank + 1 for rank, (_, swapped, _) in enumerate(results) if swapped == 0]
    assert len(winners) == 1
    assert all(last == [ranks, winners[0]] for _, _, last in results)


def test_post_and_start_bind_the_ranks_of_their_groups() -> None:
    def program(comm):
        win = MPI.Win.Allocate(8, 8, comm=comm)
        mine = np.frombuffer(win.tomemory(), float)
        group = comm.Get_group()
        if comm.rank == 0:
            win.Post(group.Incl([1, 2]))
            while not win.Test():
                pass
            at = MPI.Wtime()
        else:
            lk.compute(seconds=1e-3 * comm.rank)
            win.Start(group.Incl([0]))
            win.Accumulate(np.array([comm.rank * 1.0]), 0)
            win.Complete()
            at = 0
        win.Free()
        return float(mine[0]), at

    value, at = lk.run(program, 3, "star:3").results[0]
    assert value == 3
    assert at >= 2e-3


def test_what_accesses_take() -> None:
    """A put and its flush are a message's flow; an exclusive lock is handed on once that is over."""
    latency_s, bandwidth, n = 2e-6, 1.25e9, 100_000

    def program(comm, how):
        win = MPI.Win.Allocate(n, comm=comm)
        data, began = np.zeros(n, np.uint8), None
        comm.Barrier()
        began = lk.program.context.simulated().calls.hub.now()
        if comm.rank == 0:
            win.Lock(1)
            getattr(win, how)(data, 1)
            called = lk.program.context.simulated().calls.hub.now() - began
            win.Flush(1)
            took = lk.program.context.simulated().calls.hub.now() - began
            win.Unlock(1)
        else:
            called = took = 0.0
        win.Free()
        return called, took

    for how in ("Put", "Get"):
        called, took = lk.run(program, 2, "star:2", model="raw", args=(how,)).results[0]
        assert called == 0
        assert took == pytest.approx(latency_s + (n + 16) / bandwidth, rel=1e-12)
    called, took = lk.run(program, 2, "star:2", model="raw", args=("Accumulate",)).results[0]
    assert [called, took] == pytest.approx([latency_s + (n + 16) / bandwidth] * 2, rel=1e-12)


def test_a_rank_that_polls_lets_the_others_go_on() -> None:
    def program(comm, how):
        win = MPI.Win.Allocate(8, 8, comm=comm)
        mine = np.frombuffer(win.tomemory(), np.int64)
        if comm.rank == 1:
            lk.compute(seconds=1e-5)
            win.Lock(0, MPI.LOCK_SHARED)
            win.Put(np.ones(1, "i8"), 0)
            win.Unlock(0)
        elif how == "Sync":
            win.Lock_all()
            while not mine[0]:
                win.Sync()
            win.Unlock_all()
        else:
            seen = 0
            while not seen:
                win.Lock(0)
                seen = mine[0]
                win.Unlock(0)
        win.Free()

    for how in ("Sync", "Lock"):
        assert lk.run(program, 2, "star:2", args=(how,), timeout_s=20).makespan_s < 1e-3


def test_memory_is_shared_within_a_host_only() -> None:
    def program(comm):
        with pytest.raises(MPI.Exception, match="on 2 hosts") as caught:
            MPI.Win.Allocate_shared(8, comm=comm)
        return caught.value.Get_error_class() == MPI.ERR_RMA_SHARED

    assert lk.run(program, 2, "star:2").results == [True, True]


def test_traced_runs_have_the_calls_on_windows() -> None:
    def program(comm):
        win = MPI.Win.Allocate(8, 8, comm=comm)
        win.Fence()
        win.Put(np.zeros(1), (comm.rank + 1) % comm.size)
        win.Fence()
        win.Free()

    run = lk.run(program, 2, "star:2", trace=True)
    mine = run.trace.calls.query("rank == 0")
    assert mine["call"].tolist() == ["Allocate", "Fence", "Put", "Fence", "Free"]
    assert mine["place"].str.contains("test_windows.py:").all()
    assert run.makespan_s == lk.run(program, 2, "star:2").makespan_s


def test_phantoms_are_put_without_bytes() -> None:
    """Phantoms are moved without bytes, by one-sided calls as well."""

    def program(comm):
        win = MPI.Win.Create(lk.sized(10**9), comm=comm)
        win.Fence()
        win.Put(lk.sized(10**9), (comm.rank + 1) % comm.size)
        win.Fence()
        win.Free()

    plain, checked = (lk.run(program, 2, "star:2", check=check) for check in (False, True))
    assert plain.makespan_s == checked.makespan_s > 0.5
    assert checked.notes == []


@pytest.mark.parametrize("op", [MPI.SUM, MPI.REPLACE])
def test_accumulates_take_derived_datatypes_of_one_basic_type(op) -> None:
    """Every second element, from two ranks with the type and with single elements: added, and no race."""

    def program(comm):
        win = MPI.Win.Allocate(8 * 6, 8, comm=comm)
        mine = np.frombuffer(win, "i8")
        mine[:] = 100
        every_second = MPI.INT64_T.Create_vector(3, 1, 2).Commit()
        win.Fence()
        values = np.arange(1, 4)
        if comm.rank == 1:
            win.Accumulate([values, 3, MPI.INT64_T], 0, [1, 1, every_second], op)
        if comm.rank == 2 and op == MPI.SUM:
            win.Accumulate(values[:1], 0, 3, op)
        win.Fence()
        before = np.zeros(3, "i8")
        if comm.rank == 1:
            win.Get_accumulate(values, [before, 3, MPI.INT64_T], 0, [1, 1, every_second], op)
        win.Fence()
        win.Free()
        every_second.Free()
        return mine.tolist(), before.tolist()

    run = lk.run(program, 3, "star:3")
    if op == MPI.SUM:
        assert run.results[1][1] == [101, 103, 103]
        assert run.results[0][0] == [100, 102, 100, 105, 100, 106]
    else:
        assert run.results[1][1] == [1, 2, 3]
        assert run.results[0][0] == [100, 1, 100, 2, 100, 3]
    assert run.notes == []


def test_an_error_at_the_end_of_a_transfer_fails_the_run(monkeypatch) -> None:
    def broken(place, data):
        raise ValueError("no room")

    def program(comm):
        win = MPI.Win.Allocate(8, 8, comm=comm)
        win.Fence()
        win.Put(np.zeros(1), 1 - comm.rank)
        win.Fence()

    monkeypatch.setattr("labkit.comm.rma.transfers.unpack", broken)
    with raises_code(lk.errors.RankError, "rank-failed"):
        lk.run(program, 2, "star:2")


def test_a_part_of_an_element_is_put_and_got_as_far_as_it_goes() -> None:
    def program(comm):
        memory = np.arange(6.0)
        gaps = MPI.DOUBLE.Create_vector(3, 1, 2).Commit()
        win = MPI.Win.Create(memory, 8, comm=comm)
        got = np.full(6, -1.0)
        win.Fence()
        if comm.rank == 0:
            win.Put(np.full(2, 7.0), 1, (0, 1, gaps))
            win.Get([got, 1, gaps], 1, (3, 2, MPI.DOUBLE))
        win.Fence()
        win.Free()
        gaps.Free()
        return memory.tolist(), got.tolist()

    run = lk.run(program, 2, on="star:2")
    assert run.notes == []
    assert run.results[1][0] == [7, 1, 7, 3, 4, 5]
    assert run.results[0][1] == [3, -1, 4, -1, -1, -1]


def test_accesses_of_two_memories_of_a_dynamic_window_are_no_race():
    def program(comm):
        window = MPI.Win.Create_dynamic(comm=comm)
        memories = [np.zeros(4), np.zeros(4)]
        for memory in memories:
            window.Attach(memory)
        addresses = comm.allgather([MPI.Get_address(memory) for memory in memories])
        window.Fence()
        for address in addresses[1 - comm.rank]:
            window.Put(np.full(4, comm.rank + 1.0), 1 - comm.rank, (address, 4, MPI.DOUBLE))
        window.Fence()
        for memory in memories:
            window.Detach(memory)
        window.Free()
        return [memory.tolist() for memory in memories]

    run = lk.run(program, 2, on="star")
    assert run.results == [[[2.0] * 4] * 2, [[1.0] * 4] * 2]
    assert not [note for note in run.notes if "race" in note]
