"""Nonblocking collectives, persistent requests and graphs: the same on real MPI and simulated."""

from __future__ import annotations

import numpy as np

from labkit import MPI
from tests.support.same import Table

CASES = Table(ranks=(1, 2, 4, 5))
case = CASES.case


def waited(request, *buffers):
    """Wait; what the request is then, and what lies in the buffers."""
    done = request.Wait()
    return done, request == MPI.REQUEST_NULL, [np.array(buffer).tolist() for buffer in buffers]


@case
def collectives(comm):
    me, p = comm.rank, comm.size
    root = p - 1
    x, wide = np.arange(3.0) + 10 * me, np.arange(2.0 * p) + 100 * me
    counts = [1 + i % 3 for i in range(p)]
    own = np.full(counts[me], float(me))
    y3, y2, yp, y3p = (np.full(n, -1.0) for n in (3, 2, 2 * p, 3 * p))
    ragged = np.full(sum(counts), -1.0)
    is_root = me == root
    yield "Ibarrier", lambda: waited(comm.Ibarrier())
    yield "Ibcast", lambda: waited(comm.Ibcast(z := x.copy(), root), z)
    yield "Igather", lambda: waited(comm.Igather(x, y3p if is_root else None, root), y3p)
    yield "Igatherv", lambda: waited(comm.Igatherv(own, [ragged, counts] if is_root else None, root), ragged)
    yield "Iscatter", lambda: waited(comm.Iscatter(wide if is_root else None, y2, root), y2)
    yield "Iallgather", lambda: waited(comm.Iallgather(x, y3p), y3p)
    yield "Iallgather in place", lambda: waited(comm.Iallgather(MPI.IN_PLACE, z := wide.copy()), z)
    yield "Iallgatherv", lambda: waited(comm.Iallgatherv(own, [ragged, counts]), ragged)
    yield "Ialltoall", lambda: waited(comm.Ialltoall(wide, yp), yp)
    yield "Ireduce", lambda: waited(comm.Ireduce(x, y3 if is_root else None, MPI.MAX, root), y3)
    yield "Iallreduce", lambda: waited(comm.Iallreduce(x, y3), y3)
    yield "Iallreduce in place", lambda: waited(comm.Iallreduce(MPI.IN_PLACE, z := x.copy()), z)
    yield "Iscan", lambda: waited(comm.Iscan(x, y3), y3)
    yield "Iexscan", lambda: waited(comm.Iexscan(x, z := np.full(3, -1.0)), z)
    yield "Ireduce_scatter_block", lambda: waited(comm.Ireduce_scatter_block(wide, y2), y2)
    yield "Ireduce_scatter", lambda: waited(comm.Ireduce_scatter(wide, y2, [2] * p), y2)
    places, types = [16 * i for i in range(p)], [MPI.DOUBLE] * p
    message = [wide, [2] * p, places, types], [yp, ([2] * p, places), types]
    yield "Alltoallw", lambda: (comm.Alltoallw(*message), yp.tolist())
    yield "Ialltoallw", lambda: waited(comm.Ialltoallw(*message), yp)


@case
def several_at_once(comm):
    me, p = comm.rank, comm.size
    x, a, b, c = np.ones(1000), np.zeros(1000), np.zeros(p), np.full(5, float(me))

    def started():
        return [
            comm.Iallreduce(x, a),
            comm.Iallgather(np.full(1, float(me)), b),
            comm.Ibcast(c),
            comm.Ibarrier(),
        ]

    yield "Waitall", lambda: (MPI.Request.Waitall(started()), a[0], b.tolist(), c.tolist())

    def one_after_another(requests):
        found = sorted(MPI.Request.Waitany(requests) for _ in requests)
        return found, MPI.Request.Waitany(requests) == MPI.UNDEFINED

    yield "Waitany", lambda: one_after_another(started())
    yield "backwards", lambda: [request.Wait() for request in started()[::-1]]

    def statuses():
        status = [MPI.Status() for _ in range(4)]
        MPI.Request.Waitall(started(), status)
        return [one.Is_cancelled() for one in status]

    yield "statuses", statuses

    def duplicated():
        made, request = comm.Idup()
        request.Wait()
        request = made.Iallreduce(x, a)
        return MPI.Comm.Compare(comm, made) == MPI.CONGRUENT, waited(request)[:2]

    yield "Idup", duplicated


@case
def errors(comm):
    x = np.zeros(4)
    read_only = np.zeros(4)
    read_only.flags.writeable = False
    yield "root", lambda: comm.Ibcast(x, comm.size)
    yield "read only", lambda: comm.Iallreduce(x, read_only)
    yield "no buffer", lambda: comm.Iallreduce(3, x)
    yield "types", lambda: comm.Iallreduce(x, np.zeros(4, np.float32))
    yield "counts", lambda: comm.Iallreduce(x, np.zeros(3))
    yield "no operator", lambda: comm.Iallreduce(x, x.copy(), MPI.OP_NULL)
    yield "Send_init rank", lambda: comm.Send_init(x, comm.size)
    yield "Recv_init tag", lambda: comm.Recv_init(x, 0, -5)
    yield "Recv_init read only", lambda: comm.Recv_init(read_only, 0)
    yield "null Start", lambda: MPI.Prequest().Start()
    yield "w without types", lambda: comm.Alltoallw([x], [x])


@case
def persistent(comm):
    me, p = comm.rank, comm.size
    right, left = (me + 1) % p, (me - 1) % p
    out, into, status = np.zeros(4), np.zeros(4), MPI.Status()

    def rounds(kind):
        requests = [comm.Recv_init(into, left, 3), getattr(comm, kind)(out, right, 3)]
        seen = [bool(request) for request in requests]
        for k in range(3):
            out[:] = 10 * k + me
            MPI.Prequest.Startall(requests)
            MPI.Prequest.Waitall(requests)
            seen.append(into.tolist())
        seen.append([request.Test() for request in requests])
        for request in requests:
            request.Free()
        return seen, [request == MPI.REQUEST_NULL for request in requests]

    for kind in ("Send_init", "Ssend_init"):
        yield kind, lambda kind=kind: rounds(kind)
    yield (
        "of nobody",
        lambda: (r := comm.Recv_init(None, MPI.PROC_NULL), r.Start(), r.Wait(status), status)[3:],
    )
    yield (
        "inactive",
        lambda: (r := comm.Recv_init(into, left), r.Wait(status), r.Test(), bool(r), r.Free())[1:],
    )
    yield (
        "type",
        lambda: (r := comm.Send_init(out, right), type(r).__name__, isinstance(r, MPI.Request), r.Free())[
            1:3
        ],
    )

    def collective():
        request, seen = comm.Allreduce_init(out, into), []
        for k in range(3):
            out[:] = k + me
            request.Start()
            request.Wait()
            seen.append(into.tolist())
        request.Free()
        return seen, bool(request)

    yield "Allreduce_init", collective


@case
def exchanges(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    status, into = MPI.Status(), np.zeros(2)
    x = np.full(2, float(comm.rank))
    yield (
        "Isendrecv",
        lambda: (comm.Isendrecv(x, right, 1, into, left, 1).Wait(status), into, status.source, status.tag),
    )
    yield "Isendrecv_replace", lambda: (comm.Isendrecv_replace(z := x.copy(), right, 2, left, 2).Wait(), z)
    yield "with nobody", lambda: comm.Isendrecv(x, MPI.PROC_NULL, 1, into, MPI.PROC_NULL, 1).Wait()


def described(comm):
    return type(comm).__name__, comm.is_topo, comm.inedges, comm.outedges, comm.degrees


@case
def graphs(comm):
    me, p = comm.rank, comm.size
    index = [2 * (i + 1) for i in range(p)]
    edges = [peer for i in range(p) for peer in ((i - 1) % p, (i + 1) % p)]
    graph = comm.Create_graph(index, edges)
    yield "graph", lambda: (described(graph), graph.Get_topology() == MPI.GRAPH, graph.dims, graph.topo)
    yield "neighbors", lambda: [(graph.Get_neighbors(i), graph.Get_neighbors_count(i)) for i in range(p)]
    yield "mapped", lambda: comm.Graph_map(index, edges)
    yield "too many", lambda: comm.Create_graph([1] * (p + 1), [0])
    yield "allgather", lambda: graph.neighbor_allgather(me)
    sources, targets = [(me - 1) % p, (me - 2) % p], [(me + 1) % p, (me + 2) % p]
    dist = comm.Create_dist_graph_adjacent(sources, targets, [1, 2], [3, 4])
    yield "adjacent", lambda: (described(dist), dist.Get_dist_neighbors(), dist.Get_dist_neighbors_count())
    yield "unweighted", lambda: comm.Create_dist_graph_adjacent(sources, None).Get_dist_neighbors()
    yield "kind", lambda: (dist.Get_topology() == MPI.DIST_GRAPH, dist.Dup().Get_dist_neighbors_count())
    yield "alltoall", lambda: dist.neighbor_alltoall([(me, k) for k in range(2)])
    into = np.zeros(4)
    yield "Neighbor_allgather", lambda: (dist.Neighbor_allgather(np.full(2, float(me)), into), into)
    yield "Ineighbor_alltoall", lambda: waited(dist.Ineighbor_alltoall(np.arange(4.0) + 10 * me, into), into)
    made = comm.Create_dist_graph([me], [2], [(me + 1) % p, (me + 3) % p], [5, 6])
    yield "from edges", lambda: (sorted(made.inedges), sorted(made.outedges), made.Get_dist_neighbors_count())
    yield (
        "bad weights",
        lambda: comm.Create_dist_graph_adjacent([0], [0], MPI.WEIGHTS_EMPTY, MPI.WEIGHTS_EMPTY),
    )
    yield "no graph", lambda: MPI.Graphcomm(comm)
    yield "another kind", lambda: MPI.Cartcomm(graph)
