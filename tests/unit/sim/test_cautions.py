"""What fails on real MPI is in the notes of a simulated run, and nothing is said of right programs."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit import MPI
from tests.support.refusals import raises_code
from tests.support.right_programs import RIGHT

RENDEZVOUS = "would deadlock with rendezvous"


def cautions(program, ranks=4, **options) -> list[str]:
    notes = lk.run(program, ranks, "star", **options).notes
    ends = ("which was never received", "nothing came", "these calls were made")
    known = (
        "overlap",
        "elements",
        "changed before",
        "requires the same type",
        "depends on timing",
        "before its Wait",
        "before the Wait",
        RENDEZVOUS,
    )
    return [note for note in notes if note.endswith(ends) or any(word in note for word in known)]


# --- sends that rely on buffering ---------------------------------------------------------------------


def sends_first(comm):
    comm.Send(np.ones(2), (comm.rank + 1) % comm.size)
    comm.Recv(np.empty(2), (comm.rank - 1) % comm.size)


def sends_objects_first(comm):
    comm.send("text", (comm.rank + 1) % comm.size)
    return comm.recv()


def waits_for_the_send_first(comm):
    comm.Isend(np.ones(2), (comm.rank + 1) % comm.size).Wait()
    comm.Recv(np.empty(2), (comm.rank - 1) % comm.size)


def waits_for_all_sends_first(comm):
    MPI.Request.Waitall([comm.Isend(np.ones(2), peer) for peer in range(comm.size) if peer != comm.rank])
    for peer in range(comm.size):
        if peer != comm.rank:
            comm.Recv(np.empty(2), peer)


def sends_to_itself(comm):
    comm.Send(np.ones(2), comm.rank)
    comm.Recv(np.empty(2), comm.rank)


def receives_in_another_order(comm):
    if comm.rank == 0:
        comm.send(1, 1, tag=1)
        comm.send(2, 1, tag=2)
    elif comm.rank == 1:
        comm.recv(source=0, tag=2)
        comm.recv(source=0, tag=1)


def receives_behind_a_barrier(comm):
    if comm.rank == 0:
        comm.send(1, 1)
    comm.Barrier()
    if comm.rank == 1:
        comm.recv(source=0)


def receives_behind_a_broadcast_of_the_sender(comm):
    if comm.rank == 0:
        comm.send(1, comm.size - 1)
    comm.bcast("news" if comm.rank == 0 else None)
    if comm.rank == comm.size - 1:
        comm.recv(source=0)


def asks_a_third_rank_first(comm):
    """Rank 1 receives what rank 0 sent it only after a message that rank 0 sends rank 2 later."""
    if comm.rank == 0:
        comm.send("a", 1)
        comm.send("b", 2)
    elif comm.rank == 1:
        comm.recv(source=2)
        comm.recv(source=0)
    elif comm.rank == 2:
        comm.recv(source=0)
        comm.send("c", 1)


def meets_in_a_nonblocking_barrier(comm):
    if comm.rank == 0:
        comm.send(1, 1)
    comm.Ibarrier().Wait()
    if comm.rank == 1:
        comm.recv(source=0)


@pytest.mark.parametrize(
    "program",
    [
        *(
            sends_first,
            sends_objects_first,
            waits_for_the_send_first,
            waits_for_all_sends_first,
            sends_to_itself,
        ),
        *(receives_in_another_order, receives_behind_a_barrier, receives_behind_a_broadcast_of_the_sender),
        *(asks_a_third_rank_first, meets_in_a_nonblocking_barrier),
    ],
)
@pytest.mark.parametrize("ranks", [3, 8])
def test_sends_that_rely_on_buffers(program, ranks) -> None:
    found = cautions(program, ranks)
    assert len(found) >= 1
    assert all(RENDEZVOUS in note for note in found), found
    assert f"{__file__}:" in found[0]


@st.composite
def scripts(draw):
    """Calls by rank of a run that is over where sends are buffered: each receive stands behind its send."""
    ranks, calls = draw(st.integers(2, 4)), {rank: [] for rank in range(4)}
    under_way, requests = [], []
    for number in range(draw(st.integers(1, 12))):
        kind = draw(
            st.sampled_from(["send", "send", "isend", "post", "receive", "receive", "wait", "barrier"])
        )
        if kind in ("send", "isend", "post"):
            source, dest = draw(st.integers(0, ranks - 1)), draw(st.integers(0, ranks - 1))
            if kind == "post":  # the receive is posted first, and waited for later
                calls[dest].append(("irecv", source, number))
                calls[source].append(("send", dest, number))
                requests.append((dest, number))
                continue
            calls[source].append((kind, dest, number))
            under_way.append((source, dest, number))
            if kind == "isend":
                requests.append((source, number))
        elif kind == "receive" and under_way:
            source, dest, tag = under_way.pop(draw(st.integers(0, len(under_way) - 1)))
            calls[dest].append(("recv", source, tag))
        elif kind == "wait" and requests:
            rank, tag = requests.pop(draw(st.integers(0, len(requests) - 1)))
            calls[rank].append(("wait", 0, tag))
        elif kind == "barrier":
            for rank in range(ranks):
                calls[rank].append(("barrier", 0, 0))
    for source, dest, tag in under_way:
        calls[dest].append(("recv", source, tag))
    for rank, tag in requests:
        calls[rank].append(("wait", 0, tag))
    return ranks, calls


def carried_out(comm, calls, mode):
    requests = {}
    for kind, peer, tag in calls[comm.rank]:
        if kind == "send":
            getattr(comm, f"{mode}send")(tag, peer, tag)
        elif kind == "isend":
            requests[tag] = getattr(comm, f"i{mode}send")(tag, peer, tag)
        elif kind == "irecv":
            requests[tag] = comm.irecv(source=peer, tag=tag)
        elif kind == "recv":
            assert comm.recv(source=peer, tag=tag) == tag
        elif kind == "wait":
            requests.pop(tag).wait()
        else:
            comm.Barrier()


@settings(max_examples=60, deadline=None)
@given(scripts())
def test_the_oracle_is_the_run_whose_sends_are_synchronous(script) -> None:
    """It deadlocks exactly where sends are said to rely on buffers."""
    ranks, calls = script
    said = [note for note in lk.run(carried_out, ranks, "star", args=(calls, "")).notes if RENDEZVOUS in note]
    try:
        lk.run(carried_out, ranks, "star", args=(calls, "s"))
    except lk.errors.DeadlockError:
        assert said
    else:
        assert not said


# --- the others ---------------------------------------------------------------------------------------


def overlapping_scan(comm):
    values = np.arange(4.0)
    comm.Scan(values, values)


def overlapping_parts(comm):
    values = np.zeros(4 * comm.size)
    comm.Allgather(values[:4], values)


def overlapping_tables(comm):
    values = np.zeros(comm.size)
    counts = [1] * comm.size
    comm.Alltoallv([values, counts], [values, counts])


def overlapping_exchange(comm):
    values = np.zeros(8)
    comm.Sendrecv(values[:4], comm.rank ^ 1, 0, values[3:7], comm.rank ^ 1)


def overlapping_and_nonblocking(comm):
    values = np.zeros(4)
    comm.Iscan(values, values).Wait()


@pytest.mark.parametrize(
    "program",
    [
        overlapping_scan,
        overlapping_parts,
        overlapping_tables,
        overlapping_exchange,
        overlapping_and_nonblocking,
    ],
)
def test_buffers_that_overlap(program) -> None:
    for _ in range(2):
        (found,) = cautions(program)
        assert "overlap" in found
        assert "test_cautions.py:" in found


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        (np.zeros(4, "i4"), np.zeros(2)),
        (np.zeros(4, "f4"), np.zeros(4, "i4")),
        ([np.zeros(4), 2, MPI.DOUBLE], [np.zeros(4, "i8"), 2, MPI.INT64_T]),
        (np.zeros(4, "i8"), [np.zeros(8, "i4"), MPI.INT]),
    ],
)
def test_elements_of_another_type(sent, taken) -> None:
    def program(comm):
        if comm.rank == 0:
            comm.Send(sent, 1)
        elif comm.rank == 1:
            comm.Recv(taken, 0)

    (found,) = cautions(program, 2)
    assert "requires the same type" in found


COLLECTIVES = {
    "Bcast": lambda comm, a, b: comm.Bcast(a if comm.rank == 0 else b),
    "Ibcast": lambda comm, a, b: comm.Ibcast(a if comm.rank == 0 else b).Wait(),
    "Gather": lambda comm, a, b: comm.Gather(a[:1], b if comm.rank == 0 else None),
    "Scatter": lambda comm, a, b: comm.Scatter(a if comm.rank == 0 else None, b[:1]),
    "Allgather": lambda comm, a, b: comm.Allgather(a[:1], b),
    "Allgatherv": lambda comm, a, b: comm.Allgatherv(a[:1], [b, [1] * comm.size]),
    "Alltoall": lambda comm, a, b: comm.Alltoall(a, b),
    "Gatherv": lambda comm, a, b: comm.Gatherv(a[:1], [b, [1] * comm.size] if comm.rank == 0 else None),
    "Alltoallv": lambda comm, a, b: comm.Alltoallv([a, [1] * comm.size], [b, [1] * comm.size]),
}


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("p", [2, 4])
def test_elements_of_another_type_in_a_collective(name: str, p: int) -> None:
    def program(comm, kinds):
        a, b = (np.zeros(comm.size, kind) for kind in kinds)
        for _ in range(3):  # the second call takes the short way
            COLLECTIVES[name](comm, a, b)

    (found,) = cautions(partial(program, kinds=("i8", "f8")), p)
    assert "the same type" in found
    assert name in found
    for kinds in ("i8", "u8"), ("f8", "f8"), ("i4", "i4"):
        assert not cautions(partial(program, kinds=kinds), p)


def test_bytes_go_with_elements_of_any_type_in_a_collective() -> None:
    def program(comm):
        values = np.zeros(comm.size)
        comm.Bcast(values if comm.rank else [values, MPI.BYTE])
        comm.Allgather([values[:1], MPI.BYTE] if comm.rank else values[:1], values.copy())

    assert not cautions(program, 4)


def test_a_buffer_changed_before_its_wait() -> None:
    def program(comm):
        values = np.zeros(100)
        if comm.rank == 0:
            request = comm.Isend(values, 1)
            values[:] = 1
            request.Wait()
        else:
            comm.Recv(values, 0)

    (found,) = cautions(program, 2)
    assert "changed before its Wait" in found


# --- races: what is sent before a receive from any source is complete could have come first ----------


def both_are_there(comm):
    if comm.rank:
        comm.isend(str(comm.rank), 0)
    comm.Barrier()
    if comm.rank == 0:
        for _ in range(comm.size - 1):
            comm.recv(source=MPI.ANY_SOURCE)


def receives_are_there_first(comm):
    if comm.rank == 0:
        for _ in range(comm.size - 1):
            comm.recv(source=MPI.ANY_SOURCE)
    else:
        lk.compute(seconds=1e-3)
        comm.ssend(str(comm.rank), 0)


def receives_are_pending(comm):
    if comm.rank == 0:
        rooms = [np.zeros(1) for _ in range(comm.size - 1)]
        MPI.Request.Waitall([comm.Irecv(room, MPI.ANY_SOURCE) for room in rooms])
    else:
        comm.Ssend(np.full(1, 0.5 * comm.rank), 0)


def the_other_receive_names_its_source(comm):
    """The first one could take what the second one waits for."""
    if comm.rank == 0:
        comm.recv(source=MPI.ANY_SOURCE)
        comm.recv(source=2)
    elif comm.rank < 3:
        comm.ssend(str(comm.rank), 0)


def long_messages(comm):
    if comm.rank == 0:
        for _ in range(comm.size - 1):
            comm.Recv(np.empty(100_000), MPI.ANY_SOURCE)
    else:
        comm.Send(np.full(100_000, 0.5 * comm.rank), 0)


@pytest.mark.parametrize(
    "program",
    [
        *(both_are_there, receives_are_there_first, receives_are_pending),
        *(the_other_receive_names_its_source, long_messages),
    ],
)
@pytest.mark.parametrize("ranks", [3, 5, 8])
def test_races_between_messages(program, ranks) -> None:
    (found,) = cautions(program, ranks)
    assert "depends on timing" in found
    assert found.startswith("rank 0 at ")


def names_itself(comm):
    if comm.rank == 0:
        for _ in range(3 * (comm.size - 1)):
            comm.recv(source=MPI.ANY_SOURCE)
    else:
        for message in (comm.rank, (comm.rank, "b"), {"from": comm.rank}):
            comm.ssend(message, 0)


def begins_with_its_rank(comm):
    if comm.rank == 0:
        for _ in range(comm.size - 1):
            comm.Recv(np.empty(3, "i8"), MPI.ANY_SOURCE)
    else:
        comm.Ssend(np.array([comm.rank, 7, 8]), 0)


def one_after_the_other(comm):
    """The receiver decides who sends next."""
    if comm.rank == 0:
        for next_one in range(1, comm.size):
            comm.send("go", next_one)
            comm.recv(source=MPI.ANY_SOURCE)
    else:
        comm.recv(source=0)
        comm.send(str(comm.rank), 0)


def a_tag_for_each(comm):
    if comm.rank == 0:
        for tag in range(1, comm.size):
            comm.recv(source=MPI.ANY_SOURCE, tag=tag)
    else:
        comm.send(str(comm.rank), 0, comm.rank)


def a_communicator_for_each(comm):
    other = comm.Dup()
    if comm.rank == 0:
        other.recv(source=MPI.ANY_SOURCE)
        comm.recv(source=MPI.ANY_SOURCE)
    elif comm.rank < 3:
        (comm, other)[comm.rank % 2].ssend(str(comm.rank), 0)


def all_alike(comm):
    if comm.rank == 0:
        for _ in range(comm.size - 1):
            comm.recv(source=MPI.ANY_SOURCE)
    else:
        comm.send("done", 0)


@pytest.mark.parametrize(
    "program",
    [
        *(names_itself, begins_with_its_rank, one_after_the_other),
        *(a_tag_for_each, a_communicator_for_each, all_alike),
    ],
)
@pytest.mark.parametrize("ranks", [3, 5, 8])
def test_receives_from_any_source_that_do_not_race(program, ranks) -> None:
    assert cautions(program, ranks) == []


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 1)), min_size=2, max_size=6),
    st.integers(0, 2**20),
)
def test_a_race_is_one_that_other_times_show(sends, seed) -> None:
    """A receive that is said to race gets other messages in some legal order of the run."""

    def program(comm):
        mine = [(late, tag) for rank, late, tag in sends if rank == comm.rank]
        for late, tag in mine:
            lk.compute(seconds=late * 1e-4)
            comm.send(f"{comm.rank} {tag}", 0, tag)
        if comm.rank == 0:
            return [
                comm.recv(source=MPI.ANY_SOURCE, tag=tag) for _, _, tag in sorted(sends, key=lambda s: s[2])
            ]
        return None

    if not cautions(program, 4):
        return
    run = lk.run(program, 4, "star", explore=40, seed=seed)
    assert run.exploration.differences


# --- memory of requests that have not been waited for ------------------------------------------------


def reads_where_a_receive_writes(comm):
    values = np.zeros(4)
    request = comm.Irecv(values, (comm.rank - 1) % comm.size)
    comm.Send(values[2:], (comm.rank + 1) % comm.size)
    request.Wait()


def exchanges_where_a_receive_writes(comm):
    values, right, left = np.zeros(8), (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    request = comm.Irecv(values[:4], left, 1)
    comm.Isend(np.ones(4), right, 1)
    comm.Sendrecv(np.ones(4), right, 2, [values[3:7], 4, MPI.DOUBLE], left, 2)
    request.Wait()


def receives_where_a_send_reads(comm):
    values = np.zeros(4)
    request = comm.Isend([values, 4, MPI.DOUBLE], (comm.rank + 1) % comm.size)
    other = comm.Irecv(values, (comm.rank - 1) % comm.size)
    MPI.Request.Waitall([request, other])


def started_where_a_receive_writes(comm):
    values = np.zeros(4)
    requests = [comm.Recv_init(values, (comm.rank - 1) % comm.size)]
    requests += [comm.Send_init(values, (comm.rank + 1) % comm.size)]
    for _ in range(3):
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)


def reduces_where_a_receive_writes(comm):
    values = np.zeros(4)
    request = comm.Irecv(values, (comm.rank - 1) % comm.size)
    comm.Allreduce(MPI.IN_PLACE, values)
    comm.Send(np.ones(4), (comm.rank + 1) % comm.size)
    request.Wait()


def receives_two_into_one(comm):
    values = np.zeros(4)
    if comm.rank == 0:
        MPI.Request.Waitall([comm.Irecv(values, source) for source in (1, 2)])
    elif comm.rank < 3:
        comm.Send(np.full(4, float(comm.rank)), 0)


@pytest.mark.parametrize(
    "program",
    [
        *(reads_where_a_receive_writes, exchanges_where_a_receive_writes, receives_where_a_send_reads),
        *(started_where_a_receive_writes, reduces_where_a_receive_writes, receives_two_into_one),
    ],
)
@pytest.mark.parametrize("ranks", [3, 4])
def test_memory_of_requests(program, ranks) -> None:
    (found,) = cautions(program, ranks)
    assert "before its Wait" in found or "before their Wait" in found
    assert "test_cautions.py:" in found
    assert cautions(program, ranks, warnings=False) == []


def a_window_of_messages_into_one_buffer(comm):
    """As programs that measure bandwidth do: nobody reads what comes."""
    sent, room = np.ones(4), np.zeros(4)
    for step in range(3):
        sent[:] = step
        if comm.rank == 0:
            MPI.Request.Waitall([comm.Isend(sent, 1) for _ in range(8)])
        elif comm.rank == 1:
            MPI.Request.Waitall([comm.Irecv(room, 0) for _ in range(8)])


def arrays_that_are_dropped(comm):
    """The memory of one may be that of the next."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    requests = []
    for step in range(20):
        requests += [comm.Irecv(np.empty(64), left, step), comm.Isend(np.full(64, float(step)), right, step)]
        if step % 5 == 4:
            MPI.Request.Waitall(requests)
            requests = []


def rows_of_one_array(comm):
    table = np.zeros((4, comm.size, 3))
    requests = [comm.Irecv(table[step, peer], peer, step) for step in range(4) for peer in range(comm.size)]
    own = np.ones(3)
    requests += [comm.Isend(own, peer, step) for step in range(4) for peer in range(comm.size)]
    MPI.Request.Waitall(requests)


def requests_that_are_dropped(comm):
    values = np.zeros(4)
    comm.Isend(values, (comm.rank + 1) % comm.size)
    comm.Recv(values, (comm.rank - 1) % comm.size)


@pytest.mark.parametrize(
    "program",
    [
        *(a_window_of_messages_into_one_buffer, arrays_that_are_dropped),
        *(rows_of_one_array, requests_that_are_dropped),
    ],
)
def test_memory_that_is_free(program) -> None:
    assert cautions(program, 4) == []


def test_more_elements_than_a_c_int_counts() -> None:
    def program(comm):
        many = lk.sized(3 * 2**30)
        if comm.rank == 0:
            comm.Send(many, 1)
        else:
            comm.Recv(many, 0)
        comm.Bcast(many)

    found = cautions(program, 2)
    assert len([note for note in found if "3,221,225,472 elements" in note]) >= 2


def test_counts_and_displacements_of_specifications() -> None:
    most = 2**31 + 5
    gaps = MPI.BYTE.Create_vector(2, 1, 2).Commit()
    whole = MPI.BYTE.Create_contiguous(1 << 20).Commit()

    def program(comm):
        many = lk.sized(4 * most)
        for sent, taken in (
            ((most, MPI.BYTE), (most, MPI.BYTE)),
            ((most, gaps), (2 * most, MPI.BYTE)),
            ((4096, whole), (4096, whole)),
        ):
            if comm.rank == 0:
                comm.Send([many, *sent], 1)
            else:
                comm.Recv([many, *taken], 0)
        places = [most * rank for rank in range(comm.size)]
        comm.Allgatherv([many, 8, MPI.BYTE], [many, [8] * comm.size, places, MPI.BYTE])

    found = [note for note in cautions(program, 2) if "2,147,483,647" in note]
    assert (
        len([note for note in found if "a message of 2,147,483,653 elements" in note]) == 1
    )  # both lines are one
    assert len([note for note in found if "a block begins 2,147,483,653 elements" in note]) == 1
    assert len(found) == 2


def test_an_object_longer_than_the_room_of_irecv() -> None:
    def program(comm):
        if comm.rank == 0:
            comm.send(b"x" * 40_000, 1)
        else:
            comm.irecv(source=0).wait()

    with raises_code(lk.errors.RankError, "rank-failed", "32768"):
        lk.run(program, 2, "star")


def test_a_keyword_turns_them_off() -> None:
    assert cautions(sends_first) != []
    assert cautions(sends_first, warnings=False) == []


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_right_programs_are_left_alone(name, ranks) -> None:
    assert cautions(RIGHT[name], ranks) == []


def test_messages_of_windows_are_not_the_program_s() -> None:
    def program(comm):
        win = MPI.Win.Allocate(8, comm=comm)
        group = comm.Get_group()
        for _ in range(2):
            win.Post(group)
            win.Start(group)
            win.Put(np.ones(1), (comm.rank + 1) % comm.size)
            win.Complete()
            win.Wait()
        group.Free()
        win.Free()

    assert cautions(program, 3) == []


# --- arrays that nobody keeps until the Wait ------------------------------------------------------------


#: what mpi4py 4.1 keeps no reference to, found by counting the references of both arrays
FORGETFUL = {
    "Ireduce": lambda comm, own, out: comm.Ireduce(own, out, root=1),
    "Iallreduce": lambda comm, own, out: comm.Iallreduce(own, out),
    "Iscan": lambda comm, own, out: comm.Iscan(own, out),
    "Iexscan": lambda comm, own, out: comm.Iexscan([own, MPI.DOUBLE], out),
    "Iallgatherv": lambda comm, own, out: comm.Iallgatherv(own[:1], [out, [1] * comm.size]),
    "Ireduce_scatter_block": lambda comm, own, out: comm.Ireduce_scatter_block(own, out[:1]),
    "Ireduce_scatter": lambda comm, own, out: comm.Ireduce_scatter(sendbuf=own, recvbuf=out[:1]),
}
KEPT = {
    "Iallgather": lambda comm, own, out: comm.Iallgather(own[:1], out),
    "Ialltoall": lambda comm, own, out: comm.Ialltoall(own, out),
    "Ibcast": lambda comm, own, out: comm.Ibcast(own),
    "Igather": lambda comm, own, out: comm.Igather(own[:1], out),
}


@pytest.mark.parametrize("is_view", [False, True])
@pytest.mark.parametrize("name", FORGETFUL)
def test_an_array_that_is_gone_before_the_wait(name, is_view) -> None:
    def program(comm):
        out = np.zeros(comm.size)
        for _ in range(3):  # from the second time on, calls take their short way
            own = np.ones(2 * comm.size)[::1][: comm.size] if is_view else np.ones(comm.size)
            request = FORGETFUL[name](comm, own, out)
            del own
            request.Wait()

    (note,) = cautions(program)
    assert name in note
    assert note.startswith("ranks 0-3 at ")


@pytest.mark.parametrize("name", FORGETFUL)
def test_an_array_that_somebody_keeps(name) -> None:
    def program(comm):
        whole, out = np.ones(2 * comm.size), np.zeros(comm.size)
        for _ in range(3):
            FORGETFUL[name](comm, whole[: comm.size], out).Wait()
            own = np.ones(comm.size)
            MPI.Request.Waitall([FORGETFUL[name](comm, own, out)])

    assert cautions(program) == []


@pytest.mark.parametrize("name", KEPT)
def test_an_array_that_the_request_keeps(name) -> None:
    def program(comm):
        out = np.zeros(comm.size)
        for _ in range(3):
            KEPT[name](comm, np.ones(comm.size), out).Wait()

    assert cautions(program) == []


def test_arrays_that_nothing_is_read_from_may_go() -> None:
    def program(comm):
        out = np.zeros(0)
        for _ in range(3):
            comm.Iallreduce(np.zeros(0), out).Wait()
            comm.Ireduce(MPI.IN_PLACE if comm.rank == 0 else whole, whole if comm.rank == 0 else None).Wait()

    whole = np.ones(4)
    assert cautions(program, 1) == []


def test_a_receive_buffer_that_is_gone() -> None:
    def program(comm):
        own = np.ones(4)
        comm.Iallreduce(own, np.zeros(4)).Wait()

    (note,) = cautions(program)
    assert "Iallreduce" in note


@pytest.mark.parametrize("many", [False, True])
def test_a_returned_request_is_named(many: bool) -> None:
    def program(comm):
        request = comm.ibarrier() if hasattr(comm, "ibarrier") else comm.Ibarrier()
        return [request] if many else request

    notes = lk.run(program, 2, on="star").notes
    assert [note for note in notes if "returned a request" in note] == [
        "rank 0 returned a request that may not be complete; call its wait() first, and return what it has "
        "received"
    ]
