"""Programs with a delay that is known: what wait state it makes, whose it is, and how long who waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import labkit as lk
from labkit import MPI

Late = Callable[[], None]


@dataclass(frozen=True)
class Planted:
    """A pattern.

    Attributes
    ----------
    body : callable
        ``body(comm, late)``; the ranks that are late call ``late()``.
    state : str
        The wait state that it makes.
    late : callable
        From the number of ranks to the rank that the waiting goes back to.
    waiting : callable
        From the number of ranks to those that wait for the whole delay in this state.
    """

    body: Callable[[Any, Late], None]
    state: str
    late: Callable[[int], int]
    waiting: Callable[[int], list[int]]


PLANTED: dict[str, Planted] = {}


def planted(state: str, late: Callable[[int], int], waiting: Callable[[int], list[int]]) -> Any:
    def known(body: Callable[[Any, Late], None]) -> Callable[[Any, Late], None]:
        PLANTED[body.__name__] = Planted(body, state, late, waiting)
        return body

    return known


def last(p: int) -> int:
    return p - 1


def only(rank: int) -> Callable[[int], list[int]]:
    return lambda p: [rank]


def others(late: int) -> Callable[[int], list[int]]:
    return lambda p: [rank for rank in range(p) if rank != late % p]


@planted("late sender", last, only(0))
def late_sender(comm: Any, late: Late) -> None:
    data = np.zeros(1)
    if comm.rank == comm.size - 1:
        late()
        comm.Send(data, 0)
    elif comm.rank == 0:
        comm.Recv(data, comm.size - 1)


@planted("late sender", last, only(0))
def late_sender_of_objects(comm: Any, late: Late) -> None:
    if comm.rank == comm.size - 1:
        late()
        comm.send({"of": "objects"}, 0, tag=3)
    elif comm.rank == 0:
        comm.recv(source=comm.size - 1, tag=3)


@planted("late sender", last, only(0))
def late_sender_behind_wait(comm: Any, late: Late) -> None:
    data = np.zeros(1)
    if comm.rank == comm.size - 1:
        late()
        comm.Isend(data, 0).Wait()
    elif comm.rank == 0:
        comm.Irecv(data, comm.size - 1).Wait()


@planted("late sender", last, only(0))
def late_sender_behind_waitall(comm: Any, late: Late) -> None:
    source, data = comm.size - 1, np.zeros(2)
    if comm.rank == 0:
        requests = [comm.Irecv(data[i : i + 1], source, i) for i in range(2)]
        type(requests[0]).Waitall(requests)
    elif comm.rank == source:
        late()
        for i in range(2):
            comm.Send(data[i : i + 1], 0, i)


@planted("late sender", last, only(0))
def late_sender_behind_probe(comm: Any, late: Late) -> None:
    data = np.zeros(1)
    if comm.rank == comm.size - 1:
        late()
        comm.Send(data, 0)
    elif comm.rank == 0:
        comm.Probe(comm.size - 1)
        comm.Recv(data, comm.size - 1)


@planted("late sender", last, only(0))
def late_sender_behind_matched_probe(comm: Any, late: Late) -> None:
    if comm.rank == comm.size - 1:
        late()
        comm.Send(np.zeros(1), 0)
    elif comm.rank == 0:
        comm.Mprobe(tag=0).Recv(np.zeros(1))


@planted("late sender", lambda p: 0, only(1))
def late_halo(comm: Any, late: Late) -> None:
    if comm.rank == 0:
        late()
    got = np.zeros(1)
    if comm.rank < 2:
        requests = [comm.Irecv(got, 1 - comm.rank), comm.Isend(np.zeros(1), 1 - comm.rank)]
        type(requests[0]).Waitall(requests)


@planted("late sender", lambda p: 0, only(1))
def late_shift(comm: Any, late: Late) -> None:
    if comm.rank == 0:
        late()
    got = np.zeros(1)
    if comm.rank < 2:
        comm.Sendrecv(np.zeros(1), 1 - comm.rank, 0, got, 1 - comm.rank, 0)


@planted("late receiver", last, only(0))
def late_receiver(comm: Any, late: Late) -> None:
    data = np.zeros(1)
    if comm.rank == 0:
        comm.Ssend(data, comm.size - 1)
    elif comm.rank == comm.size - 1:
        late()
        comm.Recv(data, 0)


@planted("late receiver", last, only(0))
def late_receiver_of_shift(comm: Any, late: Late) -> None:
    last_rank, much = comm.size - 1, np.zeros(1 << 14)
    if comm.rank == 0:
        comm.Sendrecv(much, last_rank, 0, np.zeros(1), MPI.PROC_NULL, 0)  # at the border of the ranks
    elif comm.rank == last_rank:
        late()
        comm.Recv(much, 0)


@planted("late receiver", last, only(0))
def late_receiver_behind_wait(comm: Any, late: Late) -> None:
    data = np.zeros(1)
    if comm.rank == 0:
        comm.Issend(data, comm.size - 1).Wait()
    elif comm.rank == comm.size - 1:
        late()
        comm.Irecv(data, 0).Wait()


@planted("late sender, wrong order (same source)", lambda p: 1, only(0))
def wrong_order_of_one(comm: Any, late: Late) -> None:
    data = np.zeros(1)
    if comm.rank == 1:
        comm.Send(data, 0, tag=1)
        late()
        comm.Send(data, 0, tag=2)
    elif comm.rank == 0:
        comm.Recv(data, 1, tag=2)
        comm.Recv(data, 1, tag=1)


@planted("late sender, wrong order (other source)", lambda p: 1, only(0))
def wrong_order_of_two(comm: Any, late: Late) -> None:
    data = np.zeros(1)
    if comm.rank == 1:
        late()
    if comm.rank in (1, 2):
        comm.Send(data, 0)
    elif comm.rank == 0:
        comm.Recv(data, 1)
        comm.Recv(data, 2)


@planted("early reduce", lambda p: 1, only(0))
def early_reduce(comm: Any, late: Late) -> None:
    pair = comm.Split(comm.rank // 2, comm.rank)
    if comm.rank == 1:
        late()
    if comm.rank < 2:
        pair.Reduce(np.zeros(1), np.zeros(1), root=0)


@planted("wait at n-to-1", last, only(0))
def late_gather(comm: Any, late: Late) -> None:
    if comm.rank == comm.size - 1:
        late()
    comm.Gather(np.zeros(1), np.zeros(comm.size) if comm.rank == 0 else None, root=0)


@planted("early scan", lambda p: 0, others(0))
def early_scan(comm: Any, late: Late) -> None:
    if comm.rank == 0:
        late()
    comm.Scan(np.zeros(1), np.zeros(1))


@planted("late broadcast", lambda p: 0, others(0))
def late_broadcast(comm: Any, late: Late) -> None:
    if comm.rank == 0:
        late()
    comm.Bcast(np.zeros(1), root=0)


@planted("late broadcast", lambda p: 1, others(1))
def late_scatter(comm: Any, late: Late) -> None:
    if comm.rank == 1:
        late()
    comm.Scatter(np.zeros(comm.size) if comm.rank == 1 else None, np.zeros(1), root=1)


@planted("wait at nxn", lambda p: p // 2, lambda p: others(p // 2)(p))
def late_allreduce(comm: Any, late: Late) -> None:
    if comm.rank == comm.size // 2:
        late()
    comm.Allreduce(np.zeros(1), np.zeros(1))


@planted("wait at nxn", last, others(-1))
def late_alltoall(comm: Any, late: Late) -> None:
    if comm.rank == comm.size - 1:
        late()
    comm.Alltoall(np.zeros(comm.size), np.zeros(comm.size))


@planted("wait at nxn", lambda p: 1, others(1))
def late_iallreduce(comm: Any, late: Late) -> None:
    if comm.rank == 1:
        late()
    comm.Iallreduce(np.zeros(1), np.zeros(1)).Wait()


@planted("wait at barrier", lambda p: 1, others(1))
def late_barrier(comm: Any, late: Late) -> None:
    if comm.rank == 1:
        late()
    comm.Barrier()


@planted("wait at barrier", lambda p: 2, others(2))
def late_ibarrier(comm: Any, late: Late) -> None:
    if comm.rank == 2:
        late()
    comm.Ibarrier().Wait()


@planted("wait at neighbors", lambda p: 2, lambda p: sorted({1, 3 % p}))
def late_neighbor(comm: Any, late: Late) -> None:
    ring = comm.Create_cart([comm.size], periods=[True])
    if comm.rank == 2:
        late()
    ring.Neighbor_allgather(np.zeros(1), np.zeros(2))


@planted("wait at neighbors", lambda p: 2, lambda p: sorted({1, 3 % p}))
def late_ineighbor(comm: Any, late: Late) -> None:
    ring = comm.Create_cart([comm.size], periods=[True])
    if comm.rank == 2:
        late()
    ring.Ineighbor_alltoall(np.zeros(2), np.zeros(2)).Wait()


@planted("wait at nxn", lambda p: 1, others(1))
def late_persistent_allreduce(comm: Any, late: Late) -> None:
    request = comm.Allreduce_init(np.zeros(1), np.zeros(1))
    for is_second in (False, True):
        comm.Barrier()
        if comm.rank == 1 and is_second:
            late()
        request.Start()
        request.Wait()
    request.Free()


@planted("late broadcast", lambda p: 1, others(1))
def late_persistent_broadcast(comm: Any, late: Late) -> None:
    turned = comm.Split(0, -comm.rank)  # rank 1 is the last but one
    request = turned.Bcast_init(np.zeros(4), root=comm.size - 2)
    if comm.rank == 1:
        late()
    request.Start()
    request.Wait()
    request.Free()


@planted("wait at neighbors", lambda p: 2, lambda p: sorted({1, 3 % p}))
def late_persistent_neighbor(comm: Any, late: Late) -> None:
    ring = comm.Create_cart([comm.size], periods=[True])
    first = ring.Barrier_init()
    requests = [first, ring.Neighbor_allgather_init(np.zeros(1), np.zeros(2))]
    first.Start()
    first.Wait()
    if comm.rank == 2:
        late()
    type(first).Startall(requests[1:])
    type(first).Waitall(requests[1:])
    for request in requests:
        request.Free()


@planted("late sender", lambda p: 0, only(1))
def late_persistent_halo(comm: Any, late: Late) -> None:
    if comm.rank > 1:
        return
    other = 1 - comm.rank
    requests = [comm.Recv_init(np.zeros(4), other), comm.Send_init(np.zeros(4), other)]
    for is_second in (False, True):
        if comm.rank == 0 and is_second:
            late()
        type(requests[0]).Startall(requests)
        type(requests[0]).Waitall(requests)


@planted("late sender", last, only(0))
def late_to_any_source(comm: Any, late: Late) -> None:
    if comm.rank == comm.size - 1:
        late()
    if comm.rank in (1, comm.size - 1):
        comm.Send(np.zeros(1), 0, tag=comm.rank)
    elif comm.rank == 0:
        for _ in range(2):
            comm.Recv(np.zeros(1), MPI.ANY_SOURCE, MPI.ANY_TAG)


@planted("late sender", last, only(0))
def late_sender_behind_polled_probe(comm: Any, late: Late) -> None:
    if comm.rank == comm.size - 1:
        late()
        comm.Send(np.zeros(1), 0)
    elif comm.rank == 0:
        while not comm.Iprobe(comm.size - 1):
            pass
        comm.Recv(np.zeros(1), comm.size - 1)


@planted("late receiver", last, only(0))
def late_receiver_behind_polls(comm: Any, late: Late) -> None:
    if comm.rank == 0:
        request = comm.Issend(np.zeros(1), comm.size - 1)
        while not request.Test():
            pass
    elif comm.rank == comm.size - 1:
        late()
        comm.Recv(np.zeros(1), 0)


@planted("wait at nxn", lambda p: 1, others(1))
def late_iallreduce_behind_polls(comm: Any, late: Late) -> None:
    if comm.rank == 1:
        late()
    request = comm.Iallreduce(np.zeros(1), np.zeros(1))
    while not request.Test():
        pass


@planted("wait at nxn", lambda p: 1, lambda p: list(range(3, p, 2)))
def late_in_half_of_the_ranks(comm: Any, late: Late) -> None:
    half = comm.Split(comm.rank % 2, comm.rank)
    if comm.rank == 1:
        late()
    half.Allgather(MPI.IN_PLACE, np.zeros(half.size))


#: algorithms by which nobody but the root waits for the one that is late
DIRECT = {"gather": "linear"}


def spend(seconds: float, is_real: bool) -> None:
    if is_real:
        time.sleep(seconds)
    else:
        lk.compute(seconds=seconds)


def program(comm: Any, names: list[str], delay_s: float, work_s: float, is_real: bool) -> None:
    """Run patterns one after the other, each in a phase of its name; the delay is a phase ``late`` in it."""

    def late() -> None:
        if delay_s > 0:
            with lk.phase("late"):
                spend(delay_s, is_real)

    for name in names:
        comm.Barrier()
        with lk.phase(name):
            spend(work_s, is_real)
            PLANTED[name].body(comm, late)


def disturbance_s(run: Any, name: str, delay_s: float, work_s: float) -> float:
    """Return by how much the host kept a rank of a real run from being where the pattern wants it, when.

    Ranks begin the pattern together, work for so long and call; the one that is late is so for the delay.
    """
    phases, calls = run.phases, run.trace.calls
    own = phases[phases["phase"] == name].set_index("rank")
    inside = phases[(phases["phase"] == "late") & phases["rank"].map(own["begin_s"]).le(phases["begin_s"])]
    inside = inside[inside["rank"].map(own["end_s"]).ge(inside["end_s"])]
    found = [float(own["begin_s"].max() - own["begin_s"].min())]
    for rank, begin, end in zip(own.index, own["begin_s"], own["end_s"], strict=True):
        of_rank = calls[(calls["rank"] == rank) & calls["begin_s"].between(begin, end)]
        begins = of_rank["begin_s"]
        # in its calls it waits for the delay, or for nothing
        meant = delay_s if rank in PLANTED[name].waiting(run.ranks) else 0.0
        in_calls = float((of_rank["end_s"] - begins).sum())
        late = inside[inside["rank"] == rank]
        found.append(in_calls - meant)
        if len(of_rank) and late.empty:  # between its calls it does nothing
            found.append(float(of_rank["end_s"].max() - begins.min()) - in_calls)
        for since, until in zip(late["begin_s"], late["end_s"], strict=True):
            before = begins[begins < since]
            came = begins[begins >= until]
            found += [until - since - delay_s, *(came[:1] - until)]
            if before.empty:
                found.append(since - begin - work_s)
        if len(begins) and (late.empty or begins.iloc[0] < late["begin_s"].iloc[0]):
            found.append(begins.iloc[0] - begin - work_s)
    return max(found)
