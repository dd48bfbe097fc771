"""A late side is found though its message was waited for behind others, which were on time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.trace.waiting import Waiting

DELAY_S, LATE = 2e-3, 2
#: in doubles: 4 kB and 3.2 MB, sent eagerly and by rendezvous
EAGER, RENDEZVOUS = 500, 400_000
#: on which the messages of the ring do not hold each other
MACHINES = [(4, "star:4"), (5, "star:5"), (8, "star:8"), (4, "torus:4x1"), (8, "torus:4x2")]


def sendrecv(comm: Any, mine: Any, got: Any, right: int, left: int) -> None:
    comm.Sendrecv(mine, right, 0, got, left, 0)


def sendrecv_replace(comm: Any, mine: Any, got: Any, right: int, left: int) -> None:
    comm.Sendrecv_replace(mine, right, 0, left, 0)


def isend_recv_wait(comm: Any, mine: Any, got: Any, right: int, left: int) -> None:
    request = comm.Isend(mine, right)
    comm.Recv(got, left)
    request.Wait()


def irecv_send_wait(comm: Any, mine: Any, got: Any, right: int, left: int) -> None:
    request = comm.Irecv(got, left)
    comm.Send(mine, right)
    request.Wait()


def irecv_isend_waitall(comm: Any, mine: Any, got: Any, right: int, left: int) -> None:
    MPI.Request.Waitall([comm.Irecv(got, left), comm.Isend(mine, right)])


def isend_irecv_waits(comm: Any, mine: Any, got: Any, right: int, left: int) -> None:
    requests = [comm.Isend(mine, right), comm.Irecv(got, left)]
    for request in requests:
        request.Wait()


FORMS = [
    sendrecv, sendrecv_replace, isend_recv_wait, irecv_send_wait, irecv_isend_waitall, isend_irecv_waits,
]  # fmt: skip


def ring(comm: Any, form: Any, count: int, late_s: list[float]) -> None:
    """Pass a block to the right; some ranks compute longer before they do."""
    with lk.phase("work"):
        lk.compute(seconds=2e-3)
        if late_s[comm.rank]:
            with lk.phase("late"):
                lk.compute(seconds=late_s[comm.rank])
    with lk.phase("ring"):
        form(comm, np.zeros(count), np.zeros(count), (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size)
    comm.Barrier()


def run_ring(form: Any, ranks: int, on: str, count: int, late_s: dict[int, float]) -> Any:
    by_rank = [late_s.get(rank, 0.0) for rank in range(ranks)]
    return lk.run(ring, ranks, on=on, trace=True, args=(form, count, by_rank))


def ends_of_ring(run: Any) -> Any:
    """When each rank has left the ring."""
    return run.phases[run.phases["phase"] == "ring"].sort_values("rank")["end_s"].to_numpy()


def check_sums(waiting: Waiting) -> None:
    costs = waiting.delays["direct_s"].sum() + waiting.delays["indirect_s"].sum()
    assert costs == pytest.approx(waiting.seconds, rel=1e-9)
    for _, own in waiting.waits[~waiting.waits["state"].str.contains("completion")].groupby("rank"):
        assert (own["begin_s"].to_numpy()[1:] >= own["end_s"].to_numpy()[:-1] - 1e-15).all()


@pytest.mark.slow
@pytest.mark.parametrize("count", [EAGER, RENDEZVOUS])
@pytest.mark.parametrize(("ranks", "on"), MACHINES)
@pytest.mark.parametrize("form", FORMS)
def test_a_late_rank_of_a_ring_is_blamed(form: Any, ranks: int, on: str, count: int) -> None:
    run = run_ring(form, ranks, on, count, {LATE: DELAY_S})
    waiting = run.waits()
    check_sums(waiting)
    lost_s = ends_of_ring(run) - ends_of_ring(run_ring(form, ranks, on, count, {}))
    own = waiting.waits[waiting.waits["phase"] == "ring"]
    meant = {(LATE + 1) % ranks: "late sender"} | ({LATE - 1: "late receiver"} if count == RENDEZVOUS else {})
    long = own[own["seconds"] > 0.1 * DELAY_S]
    assert dict(zip(long["rank"], long["state"], strict=True)) == meant
    assert set(long["cause"]) == {LATE}
    assert long["seconds"].to_numpy() == pytest.approx(lost_s[long["rank"]], rel=0.01)
    assert waiting.seconds == pytest.approx((ranks - 1) * DELAY_S, rel=0.02)  # the others at the barrier
    first = waiting.causes("rank", "phase").iloc[0]
    assert (first["rank"], first["phase"]) == (LATE, "work > late")
    assert first["cost_s"] == pytest.approx((ranks - 1) * DELAY_S, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.5, 1e-9])
@pytest.mark.parametrize(("ranks", "on"), MACHINES)
@pytest.mark.parametrize("form", FORMS)
def test_what_it_costs_is_what_can_be_won(form: Any, ranks: int, on: str, factor: float) -> None:
    trial = run_ring(form, ranks, on, RENDEZVOUS, {LATE: DELAY_S}).what_if("late", factor)
    assert trial.predicted_s == pytest.approx((1 - factor) * DELAY_S, rel=1e-6)
    assert trial.won_s == pytest.approx(trial.predicted_s, rel=0.05)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [EAGER, RENDEZVOUS])
def test_a_ring_without_a_late_rank_claims_nothing(form: Any, count: int) -> None:
    run = run_ring(form, 8, "torus:4x2", count, {})
    assert run.waits().seconds < 0.01 * 8 * run.makespan_s


def test_two_late_ranks_do_not_count_the_same_time_twice() -> None:
    """Rank 2 is between two that are late, one longer than the other: it waits as long as the longer one."""
    run = run_ring(irecv_isend_waitall, 6, "star:6", RENDEZVOUS, {1: DELAY_S, 3: 2 * DELAY_S})
    waiting = run.waits()
    check_sums(waiting)
    own = waiting.waits[(waiting.waits["rank"] == 2) & (waiting.waits["phase"] == "ring")]
    assert own["seconds"].sum() == pytest.approx(2 * DELAY_S, rel=0.01)
    assert own.groupby("cause")["seconds"].sum()[3] >= 0.99 * DELAY_S


@pytest.mark.parametrize("form", [form for form in FORMS if form is not sendrecv_replace])  # of two sizes
def test_a_late_rank_behind_a_longer_message_costs_only_what_it_blocks(form: Any) -> None:
    """What the late rank gets is short, and over soon after what was on time: hardly anything is lost."""

    def program(comm: Any) -> None:
        lk.compute(seconds=2e-3 + (DELAY_S if comm.rank == 2 else 0.0))
        if comm.rank == 0:
            comm.Send(np.zeros(RENDEZVOUS), 1)
        elif comm.rank == 1:
            form(comm, np.zeros(RENDEZVOUS // 2), np.zeros(RENDEZVOUS), 2, 0)
        elif comm.rank == 2:
            comm.Recv(np.zeros(RENDEZVOUS // 2), 1)

    late = lk.run(program, 3, on="star:3", trace=True)
    waiting = late.waits()
    check_sums(waiting)
    row = waiting.waits[waiting.waits["rank"] == 1]
    transfer_s = RENDEZVOUS // 2 * 8 / 1.25e9
    on_time_s = late.trace.messages["end_s"].min()
    blocked_s = late.makespan_s - on_time_s
    assert 0 < blocked_s < DELAY_S < 2 * transfer_s
    if form in (irecv_send_wait, isend_irecv_waits):  # the send is waited for first, and alone
        assert row["seconds"].sum() == pytest.approx(DELAY_S, rel=0.01)
    else:
        assert row["seconds"].sum() == pytest.approx(blocked_s, rel=0.01)


def test_what_was_sent_after_another_exchange_is_not_late() -> None:
    """A receive is posted early; all ranks exchange something else, and only then send."""

    def program(comm: Any) -> None:
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        mine, got = np.zeros(RENDEZVOUS), np.zeros((2, RENDEZVOUS))
        for _ in range(3):
            lk.compute(seconds=1e-3)
            first = comm.Irecv(got[0], left, 1)
            comm.Sendrecv(mine, right, 2, got[1], left, 2)
            MPI.Request.Waitall([first, comm.Isend(mine, right, 1)])

    run = lk.run(program, 6, on="star:6", trace=True)
    assert run.waits().seconds < 0.001 * 6 * run.makespan_s


def test_what_computation_hides_is_not_waited_for() -> None:
    """A receive is posted before the work; its message is sent after the sender's, longer one."""

    def program(comm: Any) -> None:
        got = np.zeros(RENDEZVOUS)
        if comm.rank == 0:
            request = comm.Irecv(got, 1)
            lk.compute(seconds=5e-3)
            request.Wait()
        else:
            lk.compute(seconds=4.5e-3)  # later than the receive, before the wait
            comm.Send(got, 0)

    assert lk.run(program, 2, on="star:2", trace=True).waits().seconds == 0.0


def held_by_a_member(comm: Any) -> None:
    """Of the tree of a broadcast one with a child is late; its own part ends where its next call begins."""
    lk.compute(seconds=2e-3)
    if comm.rank == 2:
        with lk.phase("late"):
            lk.compute(seconds=DELAY_S)
    with lk.phase("tree"):
        comm.Bcast(np.zeros(4), root=0)
    comm.Barrier()


def held_by_a_scan(comm: Any) -> None:
    """The exchanges of a scan hold ranks before the late one as well."""
    lk.compute(seconds=2e-3)
    if comm.rank == 6:
        with lk.phase("late"):
            lk.compute(seconds=DELAY_S)
    with lk.phase("scan"):
        comm.exscan(1)
    comm.Barrier()


@pytest.mark.parametrize(("program", "late"), [(held_by_a_member, 2), (held_by_a_scan, 6)])
@pytest.mark.parametrize("ranks", [7, 8, 14, 16])
def test_who_is_late_inside_a_collective_is_blamed_for_all_that_it_holds(
    program: Any, late: int, ranks: int
) -> None:
    waiting = lk.run(program, ranks, on=f"star:{ranks}", trace=True).waits()
    check_sums(waiting)
    first = waiting.causes("rank", "phase").iloc[0]
    assert (first["rank"], first["phase"]) == (late, "late")
    assert first["share"] > 0.97
    assert waiting.seconds == pytest.approx((ranks - 1) * DELAY_S, rel=0.03)
