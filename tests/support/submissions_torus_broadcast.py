"""Submissions to the broadcast on a torus: right ones, and wrong or cheating ones with what they miss."""

# ruff: noqa: E501 - a mistake is a line

from __future__ import annotations

__all__ = ["BY_LUCK", "HOSTILE", "RIGHT", "WRONG"]

#: of the wrong ones those that only the sandbox may run
HOSTILE = (
    "files",
    "sleeps",
    "patches_messages",
    "forges_times",
    "library_broadcast",
    "polls",
    "data_from_the_grader",
)
_HEAD = "import numpy as np\nfrom labkit import MPI\n"
_CHAIN = (
    _HEAD
    + """
PIECES = {pieces}

def torus_broadcast(comm, data):
    p, me = comm.size, comm.rank
    order = {order}
    here = order.index(me)
    before = order[here - 1] if here else None
    after = order[here + 1] if here + 1 < p else None
    waits = []
    if before is None:
        head, pieces = (data.shape, data.dtype), np.array_split(data.reshape(-1), PIECES)
    else:
        head, pieces = comm.recv(source=before), []
    if after is not None:
        waits.append(comm.isend(head, after))
    for k in range(PIECES):
        if before is not None:
            pieces.append(comm.recv(source=before))
        if after is not None:
            waits.append(comm.isend(pieces[k], after))
    for one in waits:
        one.wait()
    return np.concatenate(pieces).reshape(head[0])
"""
)
_TREE = (
    _HEAD
    + '''
def family(p, me):
    """Parent and children."""
{family}

def torus_broadcast(comm, data, pieces={pieces}):
    parent, children = family(comm.size, comm.rank)
    children = [c for c in children if c < comm.size]
    requests, got = [], []
    if parent is None:
        flat, shape = data.reshape(-1), data.shape
        got = [flat[k * len(flat) // pieces : (k + 1) * len(flat) // pieces] for k in range(pieces)]
    else:
        shape = comm.recv(source=parent, tag=0)
    requests += [comm.isend(shape, c, 0) for c in children]
    for k in range(pieces):
        if parent is not None:
            got.append(comm.recv(source=parent, tag=1))
        requests += [comm.isend(got[k], c, 1) for c in children]
    MPI.Request.waitall(requests)
    return np.concatenate(got).reshape(shape)
'''
)
_BINARY = "    return (me - 1) // 2 if me else None, [2 * me + 1, 2 * me + 2]"
_TERNARY = "    return (me - 1) // 3 if me else None, [3 * me + 1, 3 * me + 2, 3 * me + 3]"
_BINOMIAL = """    low = me & -me if me else 64
    return me - low if me else None, [me + d for d in (32, 16, 8, 4, 2, 1) if d < low]"""
_NEIGHBORS = """    x, y, z = me % 4, me // 4 % 4, me // 16
    parent = me - 1 if x else me - 4 if y else me - 16 if z else None
    children = [me + 1] if x < 3 else []
    if x == 0 and y < 3:
        children.append(me + 4)
    if x == y == 0:
        children.append(me + 16)
    return parent, children"""
_WAYS = _NEIGHBORS.replace(
    "    x, y",
    "    if p != 64:\n        return (me - 1) // 2 if me else None, [2 * me + 1, 2 * me + 2]\n    up = {1: 0, 2: 1, 3: 0}\n    x, y",
).replace(
    "    parent = me - 1 if x else me - 4 if y else me - 16 if z else None\n    children = [me + 1] if x < 3 else []\n    if x == 0 and y < 3:\n        children.append(me + 4)\n    if x == y == 0:\n        children.append(me + 16)\n",
    "    parent = me - x + up[x] if x else me - 4 * (y - up[y]) if y else me - 16 * (z - up[z]) if z else None\n    down = {0: (1, 3), 1: (2,), 2: (), 3: ()}\n    children = [me - x + k for k in down[x]]\n    if x == 0:\n        children += [me + 4 * (k - y) for k in down[y]]\n    if x == y == 0:\n        children += [me + 16 * (k - z) for k in down[z]]\n",
)
_SCATTER = (
    _HEAD
    + '''
def torus_broadcast(comm, data):
    """Scatter along a binomial tree, then an allgather round the ring."""
    p, me = comm.size, comm.rank
    if p == 1:
        return data.copy()
    mask, mine = 1, None
    while mask < p and not me & mask:
        mask *= 2
    if me == 0:
        shape, mine = data.shape, np.array_split(data.ravel(), p)
    else:
        shape, mine = comm.recv(source=me - mask)
    mask //= 2
    while mask:
        if me + mask < p:
            comm.send((shape, mine[mask:]), dest=me + mask)
            mine = mine[:mask]
        mask //= 2
    have = {me: mine[0]}
    for k in range(p - 1):
        out, into = (me - k) % p, (me - k - 1) % p
        have[into] = comm.sendrecv(have[out], dest=(me + 1) % p, source=(me - 1) % p)
    return np.concatenate([have[r] for r in range(p)]).reshape(shape)
'''
)
_BUFFERS = (
    _HEAD
    + '''
def torus_broadcast(comm, data):
    """A chain of bytes: upper-case calls."""
    p, me, n_pieces = comm.Get_size(), comm.Get_rank(), 40
    if me == 0:
        head = (data.shape, data.dtype.str)
        raw = np.frombuffer(data.tobytes(), np.uint8)
    else:
        head = comm.recv(source=me - 1, tag=1)
        raw = np.empty(int(np.prod(head[0])) * np.dtype(head[1]).itemsize, np.uint8)
    if me + 1 < p:
        comm.send(head, dest=me + 1, tag=1)
    bounds = [(k * len(raw) // n_pieces, (k + 1) * len(raw) // n_pieces) for k in range(n_pieces)]
    sends = []
    for k, (a, b) in enumerate(bounds):
        if me:
            comm.Recv(raw[a:b], source=me - 1, tag=2)
        if me + 1 < p:
            sends.append(comm.Isend(raw[a:b], dest=me + 1, tag=2))
    MPI.Request.Waitall(sends)
    return np.frombuffer(raw.tobytes(), head[1]).reshape(head[0])
'''
)
_POSTED = _BUFFERS.replace(
    "    sends = []\n",
    "    rooms = [comm.Irecv(raw[a:b], source=me - 1, tag=2) for a, b in bounds] if me else []\n    sends = []\n",
).replace(
    "        if me:\n            comm.Recv(raw[a:b], source=me - 1, tag=2)\n",
    "        if rooms:\n            rooms[k].Wait()\n",
)
_HALVES = _SCATTER.replace(
    "    have = {me: mine[0]}\n    for k in range(p - 1):\n        out, into = (me - k) % p, (me - k - 1) % p\n        have[into] = comm.sendrecv(have[out], dest=(me + 1) % p, source=(me - 1) % p)\n",
    "    have, d = {me: mine[0]}, 1\n    while d < p and p & (p - 1) == 0:\n        have.update(comm.sendrecv(have, dest=me ^ d, source=me ^ d))\n        d *= 2\n    if len(have) < p:\n        waits = [comm.isend(have[me], r, me) for r in range(p) if r != me]\n        have.update({r: comm.recv(source=r, tag=r) for r in range(p) if r != me})\n        MPI.Request.waitall(waits)\n",
)
_SNAKE = "[n for _, n in sorted((z, y if z % 2 == 0 else -y, x if (y + z) % 2 == 0 else -x, ) + (0,) and ((z, y if z % 2 == 0 else 3 - y, x if (y + z) % 2 == 0 else 3 - x), x + 4 * y + 16 * z) for x in range(4) for y in range(4) for z in range(4)) if n < p]"
_BEST = ("neighbors",)
#: name -> (source, the checks that its algorithm misses)
RIGHT: dict[str, tuple[str, tuple[str, ...]]] = {
    "chain": (_CHAIN.format(pieces=64, order="list(range(p))"), _BEST),
    "snake": (_CHAIN.format(pieces=48, order=_SNAKE), _BEST),
    "neighbors": (_TREE.format(family=_NEIGHBORS, pieces=24), _BEST),
    "both_ways_round": (_TREE.format(family=_WAYS, pieces=16), ()),
    "both_ways_fine": (_TREE.format(family=_WAYS, pieces=32), _BEST),
    "binomial_in_pieces": (_TREE.format(family=_BINOMIAL, pieces=16), _BEST),
    "ternary_in_pieces": (_TREE.format(family=_TERNARY, pieces=32), _BEST),
    "both_ways_coarse": (_TREE.format(family=_WAYS, pieces=12), ()),
    "scatter_allgather": (_SCATTER, _BEST),
    "recursive_doubling": (_HALVES, _BEST),
    "buffers": (_BUFFERS, _BEST),
    "two_chains": (_CHAIN.format(pieces=64, order="[0, *range(p - 1, 0, -1)]"), _BEST),
}
_ALL = ("right", "any_data", "tree", "pieces", "neighbors")
_TIMES = ("tree", "pieces", "neighbors")
_SLOW = ("pieces", "neighbors")
_FLAT = (
    _HEAD
    + "def torus_broadcast(comm, data):\n    if comm.rank == 0:\n        for r in range(1, comm.size):\n            comm.send(data, r)\n        return data\n    return comm.recv(source=0)\n"
)
WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "flat": (_FLAT, _TIMES),
    "flat_nonblocking": (
        _FLAT.replace(
            "        for r in range(1, comm.size):\n            comm.send(data, r)\n",
            "        MPI.Request.waitall([comm.isend(data, r) for r in range(1, comm.size)])\n",
        ),
        _TIMES,
    ),
    "flat_in_pieces": (
        _TREE.format(family="    return None if me == 0 else 0, range(1, p) if me == 0 else []", pieces=16),
        _TIMES,
    ),
    "whole_chain": (_CHAIN.format(pieces=1, order="list(range(p))"), _TIMES),
    "binomial": (_TREE.format(family=_BINOMIAL, pieces=1), _SLOW),
    "binary_whole": (_TREE.format(family=_BINARY, pieces=1), _SLOW),
    "all_receives_posted_first": (_POSTED, _SLOW),  # pieces that share a link arrive together, and late
    "neighbors_whole": (_TREE.format(family=_WAYS, pieces=1), _SLOW),
    "hypercube": (
        _HEAD
        + "def torus_broadcast(comm, data):\n    d = 1\n    while d < comm.size:\n        if comm.rank < d:\n            comm.send(data, comm.rank + d)\n        elif comm.rank < 2 * d:\n            data = comm.recv(source=comm.rank - d)\n        d *= 2\n    return data\n",
        ("right", "any_data", *_SLOW),
    ),
    "collective": (_HEAD + "def torus_broadcast(comm, data):\n    return comm.bcast(data)\n", _ALL),
    "buffer_collective": (
        _HEAD
        + "def torus_broadcast(comm, data):\n    shape = comm.bcast(None if data is None else (data.shape, data.dtype))\n    data = np.empty(*shape) if comm.rank else data\n    comm.Bcast(data)\n    return data\n",
        _ALL,
    ),
    "hidden_collective": (
        _TREE.format(family=_WAYS, pieces=16).replace(
            "    parent, children",
            "    if comm.size == 64:\n        return getattr(comm, 'bc' + 'ast')(data)\n    parent, children",
        ),
        _TIMES,
    ),
    "data_in_colors": (
        _HEAD
        + "def torus_broadcast(comm, data):\n    part = comm.Split(0 if data is None else int(data.size), comm.rank)\n    return data if comm.rank == 0 else np.zeros(part.size)\n",
        _ALL,
    ),
    "only_64": (
        _TREE.format(
            family=_WAYS.replace("(me - 1) // 2 if me else None, [2 * me + 1, 2 * me + 2]", "None, []"),
            pieces=16,
        ),
        ("right", "any_data"),
    ),
    "floats_only": (
        _TREE.format(family=_WAYS, pieces=16).replace(
            "np.concatenate(got)", "np.concatenate(got).astype(float)"
        ),
        ("right", "any_data"),
    ),
    "flattened": (_TREE.format(family=_WAYS, pieces=16).replace(".reshape(shape)\n", "\n"), ("any_data",)),
    "no_empty": (
        _TREE.format(family=_WAYS, pieces=16).replace(
            "    parent, children",
            "    assert data is None or data.size > 16 or data.size in (5,)\n    parent, children",
            1,
        ),
        ("any_data",),
    ),
    "root_gives_none": (
        _TREE.format(family=_WAYS, pieces=16).replace(
            "    return np.concatenate(got).reshape(shape)",
            "    return np.concatenate(got).reshape(shape) if comm.rank else None",
        ),
        _ALL,
    ),
    "sends_a_half": (
        _FLAT.replace("comm.send(data, r)", "comm.send(data[: len(data) // 2], r)").replace(
            "return comm.recv(source=0)",
            "half = comm.recv(source=0)\n    return np.concatenate([half, half])",
        ),
        _ALL,
    ),
    "float32": (_FLAT.replace("comm.send(data, r)", "comm.send(data.astype(np.float32), r)"), _ALL),
    "ring_deadlock": (
        _HEAD
        + "def torus_broadcast(comm, data):\n    if comm.rank:\n        data = comm.recv(source=comm.rank - 1)\n    comm.ssend(data, (comm.rank + 1) % comm.size)\n    return data\n",
        _ALL,
    ),
    "seeded": (
        _HEAD
        + "def torus_broadcast(comm, data):\n    if comm.rank == 0:\n        return data\n    n = 131072 if comm.size == 64 else 5\n    return np.random.default_rng(0).integers(0, 1 << 62, n)\n",
        _ALL,
    ),
    "files": (
        _HEAD
        + "import os\ndef torus_broadcast(comm, data):\n    if comm.rank == 0:\n        np.save('/tmp/labkit-torus.npy', data)\n        comm.Barrier()\n        return data\n    comm.Barrier()\n    return np.load('/tmp/labkit-torus.npy')\n",
        _ALL,
    ),
    "sleeps": (
        _FLAT.replace(
            "    if comm.rank == 0:",
            "    import time\n    time.sleep(-1 if comm.size == 64 else 0)\n    if comm.rank == 0:",
        ),
        _TIMES,
    ),
    "patches_messages": (
        _HEAD
        + "import labkit.comm.pickling as pickling\nKEPT = []\ndef torus_broadcast(comm, data):\n    pickling.pickle.dumps = lambda *a: b''\n    if comm.rank == 0:\n        for r in range(1, comm.size):\n            comm.send(data, r)\n        return data\n    return comm.recv(source=0)\n",
        _ALL,
    ),
    "forges_times": (
        _FLAT.replace(
            "    if comm.rank == 0:",
            "    comm._caller.ask({'op': 'compute', 'seconds': 0.0, 'flops': -1e9})\n    if comm.rank == 0:",
        ),
        _TIMES,
    ),
    "library_broadcast": (
        _HEAD
        + "def torus_broadcast(comm, data):\n    from labkit.algorithms.bcast import binomial\n    return comm._caller.ask({'op': 'collective', 'comm': 0, 'name': 'Bcast', 'args': []})\n",
        _ALL,
    ),
    "polls": (
        _HEAD
        + "def torus_broadcast(comm, data):\n    while comm.rank and not comm.iprobe():\n        pass\n    return data\n",
        _ALL,
    ),
    "data_from_the_grader": (
        _HEAD
        + "import gc\ndef torus_broadcast(comm, data):\n    found = [o for o in gc.get_objects() if isinstance(o, np.ndarray) and o.size in (5, 131072)]\n    return data if comm.rank == 0 else found[0]\n",
        _ALL,
    ),
}
#: what the draw of the type decides: the runs that are timed are of one type of four
BY_LUCK = {"floats_only": ("neighbors", "pieces", "tree")}
