"""Groups, communicators made from them, and grids: the same on real MPI and simulated."""

from __future__ import annotations

import numpy as np

from labkit import MPI
from tests.support.same import Table

CASES = Table(ranks=(1, 2, 4, 6))
case = CASES.case


@case
def dimensions(comm):
    numbers = [*range(1, 65), 72, 96, 100, 128, 210, 256, 360, 997, 1000, 1024, 4096]
    for ndims in (1, 2, 3, 4):
        yield f"{ndims}", lambda ndims=ndims: [MPI.Compute_dims(n, ndims) for n in numbers]
    for given in (
        [0, 2, 0],
        [0, 0, 3],
        (0, 6, 0),
        [2, 2],
        [4, 0],
        [5, 0],
        [2, 1],
        [-1, 0],
        [],
        [6, 4],
        0,
        -1,
    ):
        yield f"24 as {given}", lambda given=given: MPI.Compute_dims(24, given)
    yield "one rank in no dimension", lambda: MPI.Compute_dims(1, [])
    yield "nobody", lambda: MPI.Compute_dims(0, 2)
    yield "less", lambda: MPI.Compute_dims(-4, 2)
    yield "no number", lambda: MPI.Compute_dims(4, 1.5)


def described(cart):
    """Return what a rank can ask of its grid."""
    if cart == MPI.COMM_NULL:
        return None
    coords = [cart.Get_coords(rank) for rank in range(cart.size)]
    return (
        (type(cart).__name__, cart.Get_dim(), cart.dim, cart.ndim, cart.dims, cart.periods, cart.coords),
        (cart.Get_topo(), cart.topo, cart.rank, cart.size, cart.is_topo, cart.Get_topology() == MPI.CART),
        (coords, [cart.Get_cart_rank(place) for place in coords]),
        [nobody(cart.Shift(d, k)) for d in range(cart.dim) for k in (-5, -2, -1, 0, 1, 2, 7)],
        (cart.degrees, cart.indegree, cart.outdegree, nobody(cart.inedges), nobody(cart.outedges)),
    )


def nobody(ranks):
    return ["nobody" if rank == MPI.PROC_NULL else rank for rank in ranks]


@case
def grids(comm):
    p = comm.size
    shapes = [[p], [1], [p, 1], [1, p], MPI.Compute_dims(p, 2), MPI.Compute_dims(p, 3)]
    for dims in shapes:
        for periods in (None, True, False, [True] + [False] * (len(dims) - 1)):
            yield f"{dims} {periods}", lambda d=dims, r=periods: described(comm.Create_cart(d, periods=r))
    yield "keywords", lambda: described(comm.Create_cart(dims=[p], periods=[1], reorder=True))
    yield "map", lambda: comm.Cart_map([p])
    yield "no dimensions", lambda: described(comm.Create_cart([]))
    yield "too large", lambda: comm.Create_cart([p + 1])
    for dims in ([0], [-1], [p, -1], [1, 0], [0, p + 1]):
        yield f"dims {dims}", lambda dims=dims: comm.Create_cart(dims)
    for peer in (p, -5):
        yield f"from {peer}", lambda peer=peer: comm.Create_dist_graph_adjacent([peer], [0])
        yield f"to {peer}", lambda peer=peer: comm.Create_dist_graph_adjacent([0], [peer])
        yield f"edge to {peer}", lambda peer=peer: comm.Create_dist_graph([comm.rank], [1], [peer])
    yield "few periods", lambda: comm.Create_cart([p, 1], [True])
    yield "none of a plain one", lambda: (comm.is_topo, comm.topology == MPI.UNDEFINED)
    yield "plain as a grid", lambda: MPI.Cartcomm(comm)
    yield "plain as a topology", lambda: MPI.Topocomm(comm)
    yield "no dims of a plain one", lambda: comm.dims
    cart = comm.Create_cart(MPI.Compute_dims(p, 2), [True, False])
    yield "outside", lambda: cart.Get_cart_rank([0, 99])
    yield "around", lambda: [cart.Get_cart_rank([k, 0]) for k in (-7, -1, 99)]
    yield "few coords", lambda: cart.Get_cart_rank([0])
    yield "rank below", lambda: cart.Get_coords(-1)
    yield "direction below", lambda: cart.Shift(-1, 1)
    yield "copy", lambda: MPI.Cartcomm(cart) == cart
    yield "general", lambda: MPI.Intracomm(cart).is_topo
    yield "duplicate", lambda: described(cart.Dup())
    yield "clone", lambda: described(cart.Clone())
    yield "split", lambda: (type(s := cart.Split(0)).__name__, s.is_topo)
    for keeps in ([True, False], [False, True], [1, 1], [0, 0]):
        yield f"sub {keeps}", lambda keeps=keeps: described(cart.Sub(keeps))
    yield "sub of few", lambda: cart.Sub([True])
    yield "free", lambda: (cart.Free(), cart == MPI.COMM_NULL)


@case
def halo(comm):
    """Rows and columns go around a grid; beyond an edge there is nobody."""
    cart = comm.Create_cart(MPI.Compute_dims(comm.size, 2), [False, True])
    for direction in (0, 1):
        for disp in (1, -1):
            source, dest = cart.Shift(direction, disp)
            here = np.full(3, float(cart.rank))
            yield (
                f"Sendrecv {direction} {disp}",
                lambda s=source, d=dest, x=here: (y := np.full(3, -1.0), cart.Sendrecv(x, d, 0, y, s, 0))[0],
            )
            yield (
                f"sendrecv {direction} {disp}",
                lambda s=source, d=dest: cart.sendrecv(cart.coords, d, 0, None, s, 0),
            )
            yield (
                f"Sendrecv_replace {direction} {disp}",
                lambda s=source, d=dest: (
                    y := np.full(3, 1.0 * cart.rank),
                    cart.Sendrecv_replace(y, d, 0, s, 0),
                )[0],
            )
            yield (
                f"Isend {direction} {disp}",
                lambda s=source, d=dest, x=here: (
                    y := np.full(3, -1.0),
                    MPI.Request.Waitall([cart.Irecv(y, s), cart.Isend(x, d)]),
                )[0],
            )


@case
def neighbors(comm):
    for periods in (True, False):
        cart = comm.Create_cart(MPI.Compute_dims(comm.size, 2), periods)
        n = cart.indegree
        me = cart.rank
        yield f"gather {periods}", lambda c=cart, me=me: c.neighbor_allgather({"rank": me})
        yield f"all {periods}", lambda c=cart, me=me, n=n: c.neighbor_alltoall([(me, i) for i in range(n)])
        blocks = np.arange(2.0 * n) + 100 * me
        out = np.full(2 * n, -1.0), np.full(2 * n, -1.0)
        yield (
            f"Gather {periods}",
            lambda c=cart, x=blocks, n=n: (y := np.full(2 * n, -1.0), c.Neighbor_allgather(x[:2], y))[0],
        )
        yield (
            f"All {periods}",
            lambda c=cart, x=blocks, n=n: (y := np.full(2 * n, -1.0), c.Neighbor_alltoall(x, y))[0],
        )
        counts = [1 + i % 2 for i in range(n)]
        theirs = [1 + (i ^ 1) % 2 for i in range(n)]
        yield (
            f"Allv {periods}",
            lambda c=cart, x=blocks, y=out[0], a=counts, b=theirs: (
                c.Neighbor_alltoallv([x, a], [y, b]),
                y,
            ),
        )
        yield (
            f"Gatherv {periods}",
            lambda c=cart, x=blocks, y=out[1], n=n: (c.Neighbor_allgatherv(x[:2], [y, [2] * n]), y),
        )
        yield f"few {periods}", lambda c=cart: c.neighbor_alltoall([1])


@case
def groups(comm):
    p = comm.size
    group = comm.Get_group()
    empty, null = MPI.GROUP_EMPTY, MPI.GROUP_NULL
    backwards = group.Incl(list(range(p - 1, -1, -1)))
    even = group.Incl(range(0, p, 2))
    first, rest = group.Incl([0]), group.Excl([0])

    def seen(g):
        return g.size, g.rank == MPI.UNDEFINED or g.rank, g.Translate_ranks()

    yield "whole", lambda: (seen(group), group.Get_size(), group.Get_rank(), type(comm.group).__name__)
    yield "parts", lambda: [seen(g) for g in (backwards, even, first)]
    yield "rest", lambda: (rest.size, rest.rank == MPI.UNDEFINED or rest.rank)
    yield "union", lambda: [seen(MPI.Group.Union(a, b)) for a, b in ((rest, first), (even, backwards))]
    yield "union is ordered", lambda: MPI.Group.Union(rest, first).Compare(group) == MPI.SIMILAR or p
    yield (
        "intersection",
        lambda: [seen(MPI.Group.Intersection(backwards, even)), MPI.Group.Intersect(first, rest).size],
    )
    yield "difference", lambda: seen(MPI.Group.Difference(backwards, rest))
    yield "compare", lambda: [group.Compare(g) for g in (group, backwards, even, empty)]
    yield "compare class", lambda: MPI.Group.Compare(group, group.Dup()) == MPI.IDENT
    yield (
        "truth",
        lambda: (bool(group), bool(empty), bool(null), MPI.Group() == null, MPI.Group(empty) == empty),
    )
    yield "empty", lambda: (empty.size, empty.rank == MPI.UNDEFINED, group.Incl([]) == empty)
    yield "everybody out", lambda: group.Excl(list(range(p))) == empty
    yield (
        "ranges",
        lambda: [seen(group.Range_incl(r)) for r in ([(0, p - 1, 2)], [(p - 1, 0, -1)], [(0, 0, 1)])],
    )
    yield "ranges out", lambda: seen(group.Range_excl([(1, p - 1, 1)])) if p > 1 else None
    yield "no ranges", lambda: (group.Range_incl([]).size, group.Range_excl([]).size)
    yield "beyond", lambda: group.Incl([p])
    yield "below", lambda: group.Incl([-1])
    yield "out beyond", lambda: group.Excl([p])
    # One beyond the last passes the check of Open MPI, which then reads behind its array: by chance.
    yield "range beyond", lambda: group.Range_incl([(0, p + 1, 1)])
    yield "no stride", lambda: group.Range_incl([(0, p - 1, 0)])
    yield "wrong way", lambda: group.Range_incl([(p - 1, 0, 1)]) if p > 1 else None
    yield "range of two", lambda: group.Range_incl([(0, 1)])
    yield (
        "into another",
        lambda: [r if r != MPI.UNDEFINED else "nobody" for r in group.Translate_ranks(None, even)],
    )
    yield "nobody", lambda: group.Translate_ranks([MPI.PROC_NULL], even) == [MPI.PROC_NULL]
    yield "null size", lambda: null.size
    yield "null free", lambda: null.Free()
    yield "not a group", lambda: comm.Create(5)
    yield "freed", lambda: (g := group.Incl([0]), g.Free(), g == null)[1:]


@case
def communicators_from_groups(comm):
    p, me = comm.size, comm.rank
    group = comm.Get_group()
    halves = group.Incl(range(p // 2)), group.Incl(range(p // 2, p))
    mine = halves[me >= p // 2]

    def told(c):
        return None if c == MPI.COMM_NULL else (type(c).__name__, c.rank, c.size, c.allgather(me))

    yield "of all", lambda: told(comm.Create(group))
    yield "of one", lambda: told(comm.Create(group.Incl([p - 1])))
    yield "backwards", lambda: told(comm.Create(group.Incl(range(p - 1, -1, -1))))
    yield "of nobody", lambda: told(comm.Create(MPI.GROUP_EMPTY))
    yield "of halves", lambda: told(comm.Create(mine))
    yield "by halves alone", lambda: told(comm.Create_group(mine, tag=3))
    yield "again", lambda: told(comm.Create_group(mine, tag=3))
    yield "alone", lambda: told(comm.Create_group(group.Incl([me])))
    yield "called by all", lambda: told(comm.Create_group(group.Incl([0])))
    yield "called by all for nobody", lambda: told(comm.Create_group(MPI.GROUP_EMPTY))
    yield "of no group by each", lambda: told(comm.Create_group(MPI.GROUP_NULL))
    yield "of no group", lambda: told(comm.Create(MPI.GROUP_NULL))
    yield "duplicate of it", lambda: told(comm.Create_group(mine).Dup())
    yield "split", lambda: told(comm.Split(me % 2, -me))
    yield "split off", lambda: told(comm.Split(MPI.UNDEFINED if me == 0 else 4))
    yield "split of split", lambda: told(comm.Split(me % 2).Split(0, -me))
    yield "split by type", lambda: told(comm.Split_type(MPI.UNDEFINED))
    yield "bad type", lambda: comm.Split_type(99)
    yield "bad color", lambda: comm.Split(-3)
    yield "compare", lambda: [MPI.Comm.Compare(comm, c) for c in (comm, comm.Dup(), comm.Split(0, -me))]
    yield "compare method", lambda: comm.Compare(comm.Dup())
    yield "self", lambda: MPI.Comm.Compare(comm, MPI.COMM_SELF) == MPI.UNEQUAL or p == 1
    yield "free the world", lambda: (comm.free(), comm == MPI.COMM_WORLD)
    yield "free", lambda: (c := comm.Dup(), c.Free(), c == MPI.COMM_NULL, bool(c))[1:]
    yield "use after", lambda: (c := comm.Dup(), c.Free(), c.Get_size())


@case
def names_and_attributes(comm):
    made = comm.Dup()
    yield "names", lambda: (comm.Get_name(), MPI.COMM_SELF.name, MPI.COMM_NULL.Get_name(), made.name)
    yield "named", lambda: (made.Set_name("mine"), made.name, setattr(made, "name", "his"), made.Get_name())
    yield "for itself", lambda: (comm.Dup().name, MPI.Intracomm(made).name)
    yield (
        "kinds",
        lambda: [
            type(comm.Get_attr(k)).__name__ for k in (MPI.TAG_UB, MPI.IO, MPI.APPNUM, MPI.UNIVERSE_SIZE)
        ],
    )
    yield "tags", lambda: comm.Get_attr(MPI.TAG_UB)
    window = MPI.Win.Allocate(8, comm=comm)
    keys = MPI.TAG_UB, MPI.IO, MPI.APPNUM, MPI.UNIVERSE_SIZE, MPI.LASTUSEDCODE, MPI.WIN_SIZE
    for name, it in {
        "world": MPI.COMM_WORLD, "self": MPI.COMM_SELF, "duplicate": made, "duplicate of it": made.Dup(),
        "part": comm.Split(), "of self": MPI.COMM_SELF.Dup(), "grid": comm.Create_cart([comm.size]),
        "type": MPI.INT, "window": window,
    }.items():  # fmt: skip
        for key in keys:
            yield f"key {key} of {name}", lambda it=it, key=key: it.Get_attr(key) is None
    window.Free()
    yield "clock", lambda: 0 < MPI.Wtick() <= 1e-6
    yield "host", lambda: len(MPI.Get_processor_name()) > 0
