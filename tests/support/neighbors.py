"""Exchanges with neighbors and what NumPy says must come of them; run by ranks, real or simulated."""

from __future__ import annotations

import numpy as np

import labkit as lk


def halos(comm, dims, periods, shape, width, forms):
    """Return the forms of a grid's exchange that leave another array than the oracle's."""
    grid = comm.Create_cart(dims, periods=periods)
    n = [shape[d] - 2 * width if d < len(dims) else shape[d] for d in range(len(shape))]
    low = [width if d < len(dims) else 0 for d in range(len(shape))]
    place = [*grid.coords, *[0] * (len(shape) - len(dims))]
    total = [n[d] * (dims[d] if d < len(dims) else 1) for d in range(len(shape))]
    field = np.arange(np.prod(total), dtype=float).reshape(total)  # the same everywhere
    at = [np.arange(shape[d]) - low[d] + place[d] * n[d] for d in range(len(shape))]
    inner = tuple(slice(low[d], low[d] + n[d]) for d in range(len(shape)))
    wrapped = field[np.ix_(*(index % total[d] for d, index in enumerate(at)))]
    wanted = np.full(shape, -1.0)
    wanted[inner] = wrapped[inner]
    for d in range(len(dims)):
        for rank, cells in zip(
            grid.Shift(d, 1), (slice(0, width), slice(shape[d] - width, None)), strict=True
        ):
            if rank >= 0:
                face = (*inner[:d], cells, *inner[d + 1 :])
                wanted[face] = wrapped[face]
    wrong = []
    for form in forms:
        array = np.full(shape, -1.0)
        array[inner] = wrapped[inner]
        with lk.tune.neighborhood(grid, array, width=width, use=form) as exchange:
            exchange(array)
            array[inner] *= 1.0
            exchange.start().wait()
        if not (array == wanted).all():
            wrong.append(form)
    return wrong


def edges(comm, forms):
    """Return the forms that go wrong on a graph: two edges to the next rank, one to the next but one."""
    p, me = comm.size, comm.rank
    before, two_before = (me - 1) % p, (me - 2) % p
    graph = comm.Create_dist_graph_adjacent(
        [before, before, two_before], [(me + 1) % p, (me + 1) % p, (me + 2) % p]
    )
    send = [(slice(0, 1), slice(0, 2)), (slice(1, 2), slice(1, 4)), slice(2, 3)]
    recv = [(slice(3, 4), slice(0, 2)), (slice(4, 5), slice(1, 4)), slice(5, 6)]
    own = np.arange(12.0).reshape(3, 4)
    wanted = np.full((6, 4), -1.0)
    wanted[:3], wanted[3, :2], wanted[4, 1:] = (
        100 * me + own,
        100 * before + own[0, :2],
        100 * before + own[1, 1:],
    )
    wanted[5] = 100 * two_before + own[2]
    wrong = []
    for form in forms:
        array = np.full((6, 4), -1.0)
        array[:3] = 100 * me + own
        with lk.tune.neighborhood(graph, array, send=send, recv=recv, use=form) as exchange:
            exchange()
        if not (array == wanted).all():
            wrong.append(form)
    return wrong
