"""Measuring programs of three and four ranks: what messages of others cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from labkit.calibration.experiments import TAG, Row

__all__ = ["measure_opposed", "measure_shares"]


def measure_opposed(
    comm: Any, sizes: tuple[int, ...], repeats: int, count: int, seed: int = 0
) -> dict[str, Any]:
    """Measure what messages one way cost messages the other way, on connections of their own.

    Ranks 0 and 2 are on one host, 1 and 3 on the other. ``alone`` times messages from rank 0 to rank 1,
    ``opposed`` the same while rank 3 sends as many to rank 2. An exchange between two ranks would not tell:
    the acknowledgements of one direction then travel with the messages of the other.

    Parameters
    ----------
    comm : communicator
        Of four ranks.
    sizes : tuple of int
        Payloads in bytes: large ones.
    repeats, count : int
        Rounds, and messages that each sends in a row.
    seed : int
        Of the order.

    Returns
    -------
    dict
        At rank 0 ``rows``, as of `measure`: seconds are those of a message.
    """
    rank, peer = comm.Get_rank(), comm.Get_rank() ^ 1
    from labkit import MPI  # this rank's: mpi4py's or the simulated one

    clock: Callable[[], float] = MPI.Wtime
    buffer, token = np.ones(max(sizes), np.uint8), np.zeros(0, np.uint8)
    items = [(name, size) for name in ("alone", "opposed") for size in sizes]
    rows: list[Row] = []
    for number, name, size in _rounds(comm, items, repeats, seed):
        begin = clock()
        is_busy = rank < 2 or name == "opposed"
        for _ in range(count if is_busy else 0):
            if rank in (0, 3):
                comm.Send(buffer[:size], dest=peer, tag=TAG)
            else:
                comm.Recv(buffer[:size], source=peer, tag=TAG)
        if rank == 1:
            comm.Send(token, dest=0, tag=TAG)
        elif rank == 0:
            comm.Recv(token, source=1, tag=TAG)
            if number >= 0:
                rows.append((name, size, number, (clock() - begin) / count, 0.0, 0.0))
    return {"rows": rows}


def measure_shares(
    comm: Any, sizes: tuple[int, ...], nbytes: int, repeats: int, count: int = 2, seed: int = 0
) -> dict[str, Any]:
    """Measure how a link is shared by messages from near and from far.

    Rank 1 is near to rank 0, rank 2 is far from it. ``near`` and ``far`` are halves of round trips of small
    messages; ``share`` lets both send to rank 0 at once, and notes when the last message of each is there.

    Parameters
    ----------
    comm : communicator
        Of three ranks.
    sizes : tuple of int
        Payloads of the round trips, in bytes: small ones.
    nbytes : int
        Payload of the messages that meet: a large one.
    repeats, count : int
        Rounds, and messages that each sends at once.
    seed : int
        Of the order.

    Returns
    -------
    dict
        At rank 0 ``rows``, as of `measure`; of ``share``, sender_s is when the near rank's messages were
        there, receiver_s when those of the far one were.
    """
    bench = _Shares(comm, max(nbytes, *sizes), count)
    items = [(name, size) for name in ("near", "far") for size in sizes] + [("share", nbytes)]
    rows: list[Row] = []
    for number, name, size in _rounds(comm, items, repeats, seed):
        near_s, far_s = bench.share(size) if name == "share" else bench.trip(name, size)
        if number >= 0:
            rows.append((name, size, number, near_s, far_s, 0.0))
    return {"rows": rows} if comm.Get_rank() == 0 else {}


def _rounds(
    comm: Any, items: Sequence[tuple[str, int]], repeats: int, seed: int
) -> Iterator[tuple[int, str, int]]:
    """Yield every item once a round, each behind a barrier, in an order of the round's own.

    Round -1 comes first and warms up.
    """
    rng = np.random.default_rng(seed)
    for number in range(-1, repeats):
        for index in rng.permutation(len(items)):
            comm.Barrier()
            yield number, *items[index]


class _Shares:
    """One rank's side of `measure_shares`: seconds are rank 0's."""

    def __init__(self, comm: Any, most: int, count: int) -> None:
        self.comm, self.rank, self.count = comm, comm.Get_rank(), count
        self.out, self.token = np.ones(most, np.uint8), np.zeros(0, np.uint8)
        self.into = np.ones((2 * count, most), np.uint8)
        from labkit import MPI  # this rank's: mpi4py's or the simulated one

        self.clock: Callable[[], float] = MPI.Wtime

    def trip(self, name: str, size: int) -> tuple[float, float]:
        """Half a round trip between rank 0 and the near or the far rank."""
        partner = 1 if name == "near" else 2
        out, into = self.out[:size], self.into[0, :size]
        if self.rank == 0:
            self.comm.Recv(self.token, source=partner, tag=TAG)  # it has left the barrier, too
        begin = self.clock()
        if self.rank == 0:
            self.comm.Send(out, dest=partner, tag=TAG)
            self.comm.Recv(into, source=partner, tag=TAG)
        elif self.rank == partner:
            self.comm.Send(self.token, dest=0, tag=TAG)
            self.comm.Recv(into, source=0, tag=TAG)
            self.comm.Send(out, dest=0, tag=TAG)
        return float(self.clock() - begin) / 2, 0.0

    def share(self, size: int) -> tuple[float, float]:
        """Receive from both at once; return when each was done."""
        if self.rank != 0:
            self.comm.Recv(self.token, source=0, tag=TAG)
            sends = [self.comm.Isend(self.out[:size], dest=0, tag=TAG) for _ in range(self.count)]
            for send in sends:
                send.Wait()
            return 0.0, 0.0
        receives = [
            self.comm.Irecv(self.into[slot, :size], source=1 + slot % 2, tag=TAG)
            for slot in range(2 * self.count)
        ]
        for partner in (1, 2):
            self.comm.Send(self.token, dest=partner, tag=TAG)
        begin, over = self.clock(), [0.0, 0.0]
        for _ in receives:
            slot = type(receives[0]).Waitany(receives)
            over[slot % 2] = float(self.clock() - begin)
        return over[0], over[1]
