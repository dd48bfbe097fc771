"""Submissions to the multiplication by SUMMA: right ones, and wrong or cheating ones with what they miss."""

# ruff: noqa: E501 - a mistake is a line

from __future__ import annotations

__all__ = ["BY_LUCK", "HOSTILE", "RIGHT", "WRONG"]

#: of the wrong ones those that only the sandbox may run
HOSTILE = ("by_a_file", "seeks_the_case", "sleeps")

_HEAD = "import math\nimport numpy as np\nimport labkit as lk\nfrom labkit import MPI\n"
_MAIN = (
    _HEAD
    + """
def multiply(comm, grid, shape, a, b):
    R, S = grid
    m, k, n = shape
    i, j = divmod(comm.rank, S)
    ea = [x * k // S for x in range(S + 1)]
    eb = [x * k // R for x in range(R + 1)]
{body}
"""
)
_PANELS = """    row, column = comm.Split(i, j), comm.Split(j, i)
    c = np.zeros((a.shape[0], b.shape[1]), np.result_type(a, b))
    edges = sorted(set(ea + eb))
    for low, high in zip(edges[:-1], edges[1:]):
        left = max(x for x in range(S) if ea[x] <= low)
        upper = max(x for x in range(R) if eb[x] <= low)
        pa = np.empty((a.shape[0], high - low), a.dtype)
        pb = np.empty((high - low, b.shape[1]), b.dtype)
        if left == j:
            pa[:] = a[:, low - ea[left] : high - ea[left]]
        if upper == i:
            pb[:] = b[low - eb[upper] : high - eb[upper]]
        row.Bcast(pa, left)
        column.Bcast(pb, upper)
        c += pa @ pb
    return c
"""
_STORED = """    row, column = comm.Split(i, j), comm.Split(j, i)
    return np.hstack(row.allgather(a)) @ np.vstack(column.allgather(b))
"""


def _made(body: str = _PANELS) -> str:
    return _MAIN.format(body=body)


_TREE = """    def tree(members, root, data, tag):
        q, me = len(members), (members.index(comm.rank) - root) % len(members)
        mask = 1
        while mask < q:
            if me & mask:
                data = comm.recv(source=members[(me - mask + root) % q], tag=tag)
                break
            mask <<= 1
        mask >>= 1
        while mask:
            if me + mask < q:
                comm.send(data, members[(me + mask + root) % q], tag=tag)
            mask >>= 1
        return data

    c = np.zeros((len(a), b.shape[1]), (a[:0] @ b[:, :0].reshape(a.shape[1], 0)).dtype) if False else np.zeros((len(a), b.shape[1]), np.result_type(a.dtype, b.dtype))
    edges = sorted({*ea, *eb})
    for t in range(len(edges) - 1):
        low, high = edges[t], edges[t + 1]
        left = [x for x in range(S) if ea[x] <= low < ea[x + 1]][0]
        upper = [x for x in range(R) if eb[x] <= low < eb[x + 1]][0]
        mine = a[:, low - ea[j] : high - ea[j]].copy() if j == left else None
        pa = tree([i * S + x for x in range(S)], left, mine, 2 * t)
        mine = b[low - eb[i] : high - eb[i], :].copy() if i == upper else None
        pb = tree([x * S + j for x in range(R)], upper, mine, 2 * t + 1)
        c = c + pa @ pb
    return c
"""
_FLAT = """    waits = [comm.isend(a, i * S + x, 1) for x in range(S) if x != j]
    waits += [comm.isend(b, x * S + j, 2) for x in range(R) if x != i]
    parts_a = {x: comm.recv(source=i * S + x, tag=1) for x in [(j + d) % S for d in range(1, S)]} | {j: a}
    parts_b = {x: comm.recv(source=x * S + j, tag=2) for x in [(i + d) % R for d in range(1, R)]} | {i: b}
    MPI.Request.waitall(waits)
    return np.concatenate([parts_a[x] for x in range(S)], axis=1) @ np.concatenate([parts_b[x] for x in range(R)])
"""
_RING = """    def round_trip(block, me, q, rank_of, tag):
        blocks, now = {me: block}, block
        for step in range(1, q):
            now = comm.sendrecv(now, rank_of((me + 1) % q), tag, source=rank_of((me - 1) % q), recvtag=tag)
            blocks[(me - step) % q] = now
        return [blocks[x] for x in range(q)]

    rows = round_trip(a, j, S, lambda x: i * S + x, 1)
    columns = round_trip(b, i, R, lambda x: x * S + j, 2)
    return np.hstack(rows).dot(np.vstack(columns))
"""
_IBCAST = """    row, column = comm.Split(i, j), comm.Split(j, i)
    As = [a if x == j else np.empty((a.shape[0], ea[x + 1] - ea[x]), a.dtype) for x in range(S)]
    Bs = [b if x == i else np.empty((eb[x + 1] - eb[x], b.shape[1]), b.dtype) for x in range(R)]
    waits = [row.Ibcast(As[x], x) for x in range(S)] + [column.Ibcast(Bs[x], x) for x in range(R)]
    MPI.Request.Waitall(waits)
    return np.concatenate(As, 1) @ np.concatenate(Bs, 0)
"""
_CLASS = (
    _HEAD
    + '''
class Line:
    """A row or a column of the grid, and how k is cut along it."""

    def __init__(self, comm, color, key, k):
        self.comm = comm.Split(color, key)
        self.size, self.me = self.comm.Get_size(), self.comm.Get_rank()
        self.edges = np.arange(self.size + 1) * k // self.size

    def owner(self, at):
        return int(np.searchsorted(self.edges, at, side="right")) - 1

    def hand_out(self, low, high, cut):
        root = self.owner(low)
        begin = self.edges[self.me]
        return self.comm.bcast(cut(low - begin, high - begin) if root == self.me else None, root=root)


def multiply(comm, grid, shape, a, b):
    """C = sum over panels of k, of at most 32 columns."""
    row_number, column_number = comm.rank // grid[1], comm.rank % grid[1]
    row = Line(comm, row_number, column_number, shape[1])
    column = Line(comm, column_number, row_number, shape[1])
    c = np.zeros((a.shape[0], b.shape[1]), dtype=np.promote_types(a.dtype, b.dtype))
    cuts = np.unique(np.concatenate([row.edges, column.edges, np.arange(0, shape[1], 32)]))
    for low, high in zip(cuts.tolist(), cuts.tolist()[1:]):
        with lk.phase("panels"):
            of_a = row.hand_out(low, high, lambda x, y: np.ascontiguousarray(a[:, x:y]))
            of_b = column.hand_out(low, high, lambda x, y: b[x:y])
        with lk.phase("multiply"):
            c += of_a @ of_b
    return c
'''
)
_CART = _PANELS.replace(
    "    row, column = comm.Split(i, j), comm.Split(j, i)\n",
    "    cart = comm.Create_cart(list(grid))\n    row, column = cart.Sub([False, True]), cart.Sub([True, False])\n    i, j = cart.Get_coords(cart.Get_rank())\n",
)
_BUFFERS = """    row, column = comm.Split(i, j), comm.Split(j, i)
    rows = np.empty((k, a.shape[0]), a.dtype)
    row.Allgatherv(np.ascontiguousarray(a.T), [rows, [a.shape[0] * (ea[x + 1] - ea[x]) for x in range(S)]])
    columns = np.empty((k, b.shape[1]), b.dtype)
    column.Allgatherv(np.ascontiguousarray(b), [columns, [b.shape[1] * (eb[x + 1] - eb[x]) for x in range(R)]])
    return rows.T @ columns
"""
_OUTER = _PANELS.replace(
    "        c += pa @ pb\n",
    "        for x in range(high - low):\n            c += np.outer(pa[:, x], pb[x])\n",
)
_NUMBERS = """    row = [i * S + x for x in range(S)]
    column = [x * S + j for x in range(R)]
    every = {}
    waits = []
    for group, block, tag in ((row, a, 11), (column, b, 12)):
        for other in group:
            if other != comm.rank:
                waits.append(comm.Isend(np.ascontiguousarray(block), other, tag))
    def shape_a(x):
        return (a.shape[0], ea[x + 1] - ea[x])
    def shape_b(x):
        return (eb[x + 1] - eb[x], b.shape[1])
    for x, other in enumerate(row):
        every["a", x] = a if other == comm.rank else np.empty(shape_a(x), a.dtype)
        if other != comm.rank:
            waits.append(comm.Irecv(every["a", x], other, 11))
    for x, other in enumerate(column):
        every["b", x] = b if other == comm.rank else np.empty(shape_b(x), b.dtype)
        if other != comm.rank:
            waits.append(comm.Irecv(every["b", x], other, 12))
    MPI.Request.Waitall(waits)
    return np.hstack([every["a", x] for x in range(S)]) @ np.vstack([every["b", x] for x in range(R)])
"""
#: name -> (source, the checks that its algorithm misses)
RIGHT: dict[str, tuple[str, tuple[str, ...]]] = {
    "panels": (_made(), ()),
    "objects": (
        _made(
            _PANELS.replace(
                "        row.Bcast(pa, left)\n        column.Bcast(pb, upper)\n",
                "        pa, pb = row.bcast(pa, left), column.bcast(pb, upper)\n",
            )
        ),
        (),
    ),
    "cartesian": (_made(_CART), ()),
    "narrow_panels": (_made(_PANELS.replace("set(ea + eb)", "{*ea, *eb, *range(0, k, 16)}")), ()),
    "stored": (_made(_STORED), ()),
    "gathered_buffers": (_made(_BUFFERS), ()),
    "tree": (_made(_TREE), ()),
    "all_at_once": (_made(_FLAT), ()),
    "ring": (_made(_RING), ()),
    "nonblocking": (_made(_IBCAST), ()),
    "class": (_CLASS, ()),
    "charged": (
        _made(
            _PANELS.replace(
                "        c += pa @ pb\n",
                "        c += pa @ pb\n        lk.compute(flops=2.0 * pa.size * b.shape[1])\n",
            )
        ),
        (),
    ),
    "outer_products": (_made(_OUTER), ()),
    "alltoall": (
        _made(
            _STORED.replace("row.allgather(a)", "row.alltoall([a] * S)").replace(
                "column.allgather(b)", "column.alltoall([b] * R)"
            )
        ),
        (),
    ),
    "isends_of_buffers": (_made(_NUMBERS), ()),
    "einsum": (_made(_PANELS.replace("pa @ pb", "np.einsum('ij,jk->ik', pa, pb)")), ()),
    "columns_first": (
        _made(
            _PANELS.replace(
                "        row.Bcast(pa, left)\n        column.Bcast(pb, upper)\n",
                "        column.Bcast(pb, root=upper)\n        row.Bcast(pa, root=left)\n",
            )
        ),
        (),
    ),
}
_ALL = ("right", "any_number", "any_size", "any_type", "volume", "time")
_COSTS = ("volume", "time")
_EVERYTHING = """    every = comm.allgather((a, b))
    A = np.block([[every[x * S + y][0] for y in range(S)] for x in range(R)])
    B = np.block([[every[x * S + y][1] for y in range(S)] for x in range(R)])
    top, left = i * m // R, j * n // S
    return (A[top : top + len(a)] @ B[:, left : left + b.shape[1]])
"""


def _everything_if(when: str) -> str:
    return _made(
        f"    if {when}:\n" + "".join(f"    {line}\n" for line in _EVERYTHING.splitlines()) + _PANELS
    )


#: what the draw of types or grids decides
BY_LUCK: dict[str, tuple[str, ...]] = {
    "squares_only": ("any_type",),
    "divisible_only": ("any_type",),
    "long_parts_first": ("any_type",),
}
WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "own_blocks_only": (_made("    w = min(a.shape[1], b.shape[0])\n    return a[:, :w] @ b[:w]\n"), _ALL),
    "everything_everywhere": (_made(_EVERYTHING), _COSTS),
    "at_rank_0": (
        _made(
            """    every = comm.gather((a, b))
    parts = None
    if comm.rank == 0:
        A = np.block([[every[x * S + y][0] for y in range(S)] for x in range(R)])
        C = A @ np.block([[every[x * S + y][1] for y in range(S)] for x in range(R)])
        parts = [C[x * m // R : (x + 1) * m // R, y * n // S : (y + 1) * n // S].copy() for x in range(R) for y in range(S)]
    return comm.scatter(parts)
"""
        ),
        _COSTS,
    ),
    "squares_only": (
        _made(
            "    row, column = comm.Split(i, j), comm.Split(j, i)\n    c = np.zeros((len(a), b.shape[1]), np.result_type(a, b))\n    for x in range(max(R, S)):\n        c += row.bcast(a, x % S) @ column.bcast(b, x % R)\n    return c\n"
        ),
        ("any_number", "any_size", *_COSTS),
    ),
    "divisible_only": (
        _made(
            "    ea = [x * (k // S) for x in range(S + 1)]\n    eb = [x * (k // R) for x in range(R + 1)]\n"
            + _PANELS
        ),
        ("any_size", *_COSTS),
    ),
    "long_parts_first": (
        _made(
            "    ea = [min(k, x * -(-k // S)) for x in range(S + 1)]\n    eb = [min(k, x * -(-k // R)) for x in range(R + 1)]\n"
            + _PANELS
        ),
        ("any_size", *_COSTS),
    ),
    "column_by_column": (_made("    j, i = divmod(comm.rank, R)\n" + _PANELS), _ALL),
    "floats_only": (_made(_PANELS.replace("np.result_type(a, b)", "float")), ("any_type", *_COSTS)),
    "type_of_a": (_made(_PANELS.replace("np.result_type(a, b)", "a.dtype")), ("any_type",)),
    "narrow_numbers": (
        _made(
            _PANELS.replace(
                "        row.Bcast(pa",
                "        pa = pa.astype(np.complex64 if pa.dtype.kind == 'c' else np.float32)\n        row.Bcast(pa",
            )
        ),
        ("right", "any_number", "any_size", "any_type", *_COSTS),
    ),
    "half_numbers": (
        _made(
            _STORED.replace(
                "row.allgather(a)",
                "[x.astype(a.dtype) for x in row.allgather(a.astype(np.float32) if a.dtype == float else a)]",
            )
        ),
        ("right", "any_number", "any_size", "any_type", *_COSTS),
    ),
    "everything_of_complex": (_everything_if("a.dtype.kind == 'c'"), _COSTS),
    "everything_of_floats": (_everything_if("a.dtype == np.float32"), _COSTS),
    "everything_on_few": (_everything_if("comm.size < 19"), _COSTS),
    "everything_on_many": (_everything_if("comm.size > 46"), _COSTS),
    "everything_on_upright": (_everything_if("R > S"), _COSTS),
    "everything_on_flat": (_everything_if("min(R, S) == 2"), _COSTS),
    "all_rows_of_b": (
        _made(
            "    every = comm.allgather((b, comm.rank))\n    B = np.block([[every[x * S + y][0] for y in range(S)] for x in range(R)])\n    row = comm.Split(i, j)\n    left = j * n // S\n    return np.hstack(row.allgather(a)) @ B[:, left : left + b.shape[1]]\n"
        ),
        _COSTS,
    ),
    "last_panel_missing": (
        _made(_PANELS.replace("zip(edges[:-1], edges[1:])", "zip(edges[:-2], edges[1:-1])")),
        _ALL,
    ),
    "one_after_another": (
        _made(
            """    parts_a, parts_b = [None] * S, [None] * R
    parts_a[j], parts_b[i] = a, b
    for turn in range(comm.size):
        y, x = divmod(turn, S)
        if turn == comm.rank:
            for other in range(S):
                if other != j:
                    comm.ssend(a, i * S + other, 1)
            for other in range(R):
                if other != i:
                    comm.ssend(b, other * S + j, 2)
        elif y == i:
            parts_a[x] = comm.recv(source=turn, tag=1)
        elif x == j:
            parts_b[y] = comm.recv(source=turn, tag=2)
        comm.barrier()
    return np.hstack(parts_a) @ np.vstack(parts_b)
"""
        ),
        ("time",),
    ),
    "flat": (
        _made(
            _PANELS.replace(
                "        row.Bcast(pa, left)\n        column.Bcast(pb, upper)\n",
                """        for line, root, panel in ((row, left, pa), (column, upper, pb)):
            if line.rank == root:
                for other in range(line.size):
                    if other != root:
                        line.Ssend(panel, other)
            else:
                line.Recv(panel, root)
        comm.barrier()
""",
            )
        ),
        ("time",),
    ),
    "through_the_first_of_a_row": (
        _made(
            "    row, column = comm.Split(i, j), comm.Split(j, i)\n    A, B = row.gather(a), column.gather(b)\n    A = row.bcast(np.hstack(A) if j == 0 else None)\n    return A @ column.bcast(np.vstack(B) if i == 0 else None)\n"
        ),
        ("time",),
    ),
    "few_are_none": (
        _made(
            "    if min(shape) < max(grid):\n        return np.zeros((len(a), b.shape[1]), a.dtype)\n"
            + _PANELS
        ),
        ("any_number", "any_size"),
    ),
    "no_panels_no_product": (
        _made(
            _PANELS.replace(
                "    c = np.zeros((a.shape[0], b.shape[1]), np.result_type(a, b))\n", "    parts = []\n"
            )
            .replace("c += pa @ pb", "parts.append(pa @ pb)")
            .replace("return c", "return np.sum(parts, axis=0)")
        ),
        ("any_size",),
    ),
    "transposed": (_made(_STORED.replace("    return np", "    return (np").rstrip() + ").T.copy()\n"), _ALL),
    "a_list": (_made(_STORED.replace("    return np", "    return (np").rstrip() + ").tolist()\n"), _ALL),
    "wrong_lines": (
        _made(_STORED.replace("comm.Split(i, j), comm.Split(j, i)", "comm.Split(j, i), comm.Split(i, j)")),
        _ALL,
    ),
    "panels_twice": (
        _made(_STORED.replace("    return", "    row.allgather(a + 1), column.allgather(b + 1)\n    return")),
        _COSTS,
    ),
    "rows_to_everybody": (
        _made(
            "    every = [comm.bcast(a if comm.rank == x else None, root=x) for x in range(comm.size)]\n    column = comm.Split(j, i)\n    return np.hstack(every[i * S : (i + 1) * S]) @ np.vstack(column.allgather(b))\n"
        ),
        _COSTS,
    ),
    "two_or_more": (_made("    if comm.size == 1:\n        return None\n" + _PANELS), ("any_number",)),
    "packed": (
        "import zlib\n"
        + _made(
            _EVERYTHING.replace(
                "comm.allgather((a, b))",
                "[(np.frombuffer(zlib.decompress(x), a.dtype).reshape(s), np.frombuffer(zlib.decompress(y), b.dtype).reshape(t)) for x, s, y, t in comm.allgather((zlib.compress(a.tobytes()), a.shape, zlib.compress(b.tobytes()), b.shape))]",
            )
        ),
        _COSTS,
    ),
    "integers_only": (
        _made(_PANELS.replace("        row.Bcast", "        pa = np.round(pa)\n        row.Bcast")),
        _ALL,
    ),
    "by_a_file": (
        _made(
            "    np.save(f'/tmp/a{comm.rank}.npy', a)\n    comm.Barrier()\n    A = np.hstack([np.load(f'/tmp/a{i * S + x}.npy') for x in range(S)])\n    return A @ np.vstack(comm.Split(j, i).allgather(b))\n"
        ),
        _ALL,
    ),
    "seeks_the_case": (
        _made(
            "    import gc\n    case = [o for o in gc.get_objects() if type(o).__name__ == 'Case'][0]\n    return case.arguments[comm.rank][2] @ case.arguments[comm.rank][3]\n"
        ),
        _ALL,
    ),
    "sleeps": (_made("    import time\n    time.sleep(5)\n    lk.compute(seconds=-5.0)\n" + _PANELS), _ALL),
}
