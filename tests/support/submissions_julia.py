"""Submissions to the speed-up of a Julia set: right ones, and wrong or cheating ones with what they miss."""

# ruff: noqa: E501 - a mistake is a line

from __future__ import annotations

__all__ = ["BY_LUCK", "HOSTILE", "RIGHT", "WRONG"]

#: of the wrong ones those that only the sandbox may run
HOSTILE = (
    "free_rows_from_frames",
    "patches_the_tasks",
    "asks_for_a_forged_result",
    "calls_the_grader",
    "sleeps_first",
    "negative_charge",
    "endless_asking",
)
_HEAD = "import numpy as np\nfrom labkit import MPI\nimport labkit as lk\n"
_STATIC = (
    _HEAD
    + """
def julia(comm, n, row):
    mine = {mine}
    parts = comm.gather([(y, row(y)) for y in mine])
    if comm.rank == 0:
        picture = [None] * n
        for part in parts:
            for y, values in part:
                picture[y] = values
        return np.array(picture)
"""
)
_CYCLIC = _STATIC.format(mine="range(comm.rank, n, comm.size)")
_FARM = (
    _HEAD
    + """
def julia(comm, n, row):
    if comm.size == 1:
        return np.stack([row(y) for y in range(n)])
    if comm.rank == 0:
        return hand_out(comm, n)
    work(comm, row)

def hand_out(comm, n, chunk={chunk}):
    picture, begin, open_ = {{}}, 0, comm.size - 1
    while open_:
        status = MPI.Status()
        picture.update(comm.recv(source=MPI.ANY_SOURCE, tag=1, status=status))
        rows = list(range(begin, min(begin + chunk, n)))
        begin += len(rows)
        open_ -= not rows
        comm.send(rows, status.Get_source(), tag=2)
    return np.array([picture[y] for y in range(n)])

def work(comm, row):
    done = {{}}
    while True:
        comm.send(done, 0, tag=1)
        rows = comm.recv(source=0, tag=2)
        if not rows:
            return
        done = {{y: row(y) for y in rows}}
"""
)
_ARRAYS = (
    _HEAD
    + '''
def julia(comm, n, row):
    """Rows dealt out; numbers and rows travel as arrays."""
    p, me = comm.Get_size(), comm.Get_rank()
    mine = np.array([row(y) for y in range(me, n, p)], dtype=np.int64)
    width = comm.allreduce(mine.shape[1] if len(mine) else 0, op=MPI.MAX)
    counts = [len(range(r, n, p)) * width for r in range(p)]
    room = np.empty(sum(counts), np.int64) if me == 0 else None
    comm.Gatherv(mine.ravel(), [room, counts] if me == 0 else None, root=0)
    if me != 0:
        return None
    picture, at = np.zeros((n, width), np.int64), 0
    for r in range(p):
        k = len(range(r, n, p))
        picture[r::p] = room[at * width : (at + k) * width].reshape(k, width)
        at += k
    return picture
'''
)
_LATE = (
    _HEAD
    + '''
def julia(comm, n, row):
    """Each row is sent as soon as it is there; its tag is its number."""
    if comm.rank:
        waits = [comm.isend(row(y), dest=0, tag=y) for y in range(comm.rank, n, comm.size)]
        MPI.Request.waitall(waits)
        return None
    picture = {y: row(y) for y in range(0, n, comm.size)}
    for _ in range(n - len(picture)):
        status = MPI.Status()
        values = comm.recv(status=status)
        picture[status.Get_tag()] = values
    return np.array([picture[y] for y in range(n)])
'''
)
_WIDTH = (
    _HEAD
    + """
class Picture:
    def __init__(self, n):
        self.rows = [()] * n

    def put(self, y, values):
        self.rows[y] = values


def julia(comm, n, row):
    picture = Picture(n)
    sizes = [1, 2, 3]
    order = np.random.RandomState(n).permutation(n)  # the same on all ranks
    parts = comm.gather({int(y): row(int(y)) for y in order[comm.rank :: comm.size]}, root=0)
    if comm.rank > 0:
        return
    for part in parts:
        for y in part:
            picture.put(y, part[y])
    return np.asarray(picture.rows, dtype=np.int32)
"""
)
_SELF = (
    _HEAD
    + '''
def julia(comm, n, row):
    """Who is free takes the next row; rank 0 answers between rows of its own."""
    if comm.rank:
        values = None
        while True:
            comm.send(values, 0)
            y = comm.recv(source=0)
            if y < 0:
                return
            values = (y, row(y))
    picture, y, over, status = [None] * n, 0, 1, MPI.Status()
    while y < n or over < comm.size:
        while over < comm.size and (comm.iprobe() or y >= n):
            found = comm.recv(status=status)
            if found:
                picture[found[0]] = found[1]
            comm.send(y if y < n else -1, status.source)
            over += y >= n
            y += y < n
        if y < n:
            picture[y] = row(y)
            y += 1
    return np.array(picture)
'''
)
#: name -> (source, the checks that its algorithm misses)
RIGHT: dict[str, tuple[str, tuple[str, ...]]] = {
    "cyclic": (_CYCLIC, ("any_costs",)),
    "backwards": (_STATIC.format(mine="range(n - 1 - comm.rank, -1, -comm.size)"), ("any_costs",)),
    "back_and_forth": (
        _STATIC.format(
            mine="[y for y in range(n) if min(y % (2 * comm.size), 2 * comm.size - 1 - y % (2 * comm.size)) == comm.rank]"
        ),
        ("any_costs",),
    ),
    "diagonal": (
        _STATIC.format(mine="[y for y in range(n) if (y + y // comm.size) % comm.size == comm.rank]"),
        ("any_costs",),
    ),
    "knows_the_patterns": (
        _STATIC.format(
            mine="[y for k, y in enumerate(sorted(range(n), key=lambda y: (y % comm.size != comm.size // 2, y < n - 2 * comm.size, y // 2 % comm.size != 1, y))) if k % comm.size == comm.rank]"
        ),
        ("any_costs",),
    ),
    "arrays": (_ARRAYS, ("any_costs",)),
    "as_they_come": (_LATE, ("any_costs",)),
    "farm": (_FARM.format(chunk=1), ()),
    "farm_of_pairs": (_FARM.format(chunk=2).replace("def work", "# two at a time\ndef work"), ()),
    "pairs": (
        _STATIC.format(mine="[y for y in range(n) if y // 2 % comm.size == comm.rank]"),
        ("any_costs",),
    ),
    "lambda": (
        _HEAD
        + "julia = lambda comm, n, row: (lambda parts: None if comm.rank else np.array([parts[y % comm.size][y // comm.size] for y in range(n)]))(comm.gather([row(y) for y in range(comm.rank, n, comm.size)]))\n",
        ("any_costs",),
    ),
    "farm_with_arrays": (
        _FARM.format(chunk=1)
        .replace("picture.update(", "picture.update(dict(")
        .replace("tag=1, status=status))", "tag=1, status=status)))"),
        (),
    ),
}
#: what a draw of the costs decides: a random share of the rows is balanced well enough, or is not
BY_LUCK = {"shuffled": ("speedup",)}
_ALL = ("right", "any_number", "once", "speedup", "any_costs")
_SLOW = ("speedup", "any_costs")
WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "shuffled": (_WIDTH, ("any_costs",)),
    "blocks": (_STATIC.format(mine="np.array_split(range(n), comm.size)[comm.rank].tolist()"), _SLOW),
    "rank_0_alone": (
        _HEAD
        + "def julia(comm, n, row):\n    if comm.rank == 0:\n        return np.array([row(y) for y in range(n)])\n",
        _SLOW,
    ),
    "everybody_all": (
        _HEAD
        + "def julia(comm, n, row):\n    picture = np.array([row(y) for y in range(n)])\n    return picture if comm.rank == 0 else None\n",
        ("once", *_SLOW),
    ),
    "two_ranks_work": (
        _STATIC.format(
            mine="range(comm.rank, n, 2) if comm.rank < 2 and comm.size > 1 else range(n) if comm.size == 1 else []"
        ),
        _SLOW,
    ),
    "rows_twice": (_CYCLIC.replace("(y, row(y))", "(y, max(row(y), row(y), key=len))"), ("once", *_SLOW)),
    "measures_first": (
        _CYCLIC.replace("    mine =", "    costs = [row(y).sum() for y in range(n)]\n    mine ="),
        ("once", *_SLOW),
    ),
    "wrong_order": (
        _HEAD
        + "def julia(comm, n, row):\n    parts = comm.gather([row(y) for y in range(comm.rank, n, comm.size)])\n    return None if comm.rank else np.array([v for part in parts for v in part])\n",
        _ALL,
    ),
    "last_row_missing": (
        _CYCLIC.replace("range(comm.rank, n, comm.size)", "range(comm.rank, n - 1, comm.size)").replace(
            "[None] * n", "[row(0) * 0] * n"
        ),
        _ALL,
    ),
    "all_ranks_return": (
        _CYCLIC.replace("comm.gather", "comm.allgather").replace("comm.rank == 0", "True"),
        ("right", "any_number", "once", *_SLOW),
    ),
    "even_rows_only": (
        _STATIC.format(mine="range(comm.rank * (n // comm.size), (comm.rank + 1) * (n // comm.size))"),
        ("any_number", "once", *_SLOW),
    ),
    "not_on_one_rank": (_FARM.format(chunk=1).replace("comm.size == 1", "comm.size == 0"), ("right",)),
    "one_message_a_round": (
        _HEAD
        + "def julia(comm, n, row):\n    picture = []\n    for y in range(n):\n        if comm.rank == y % comm.size and y % comm.size:\n            comm.ssend(row(y), 0)\n        if comm.rank == 0:\n            picture.append(comm.recv(source=y % comm.size) if y % comm.size else row(y))\n        comm.Barrier()\n    return np.array(picture) if comm.rank == 0 else None\n",
        _SLOW,
    ),
    "forgets_the_end": (_FARM.format(chunk=1).replace("open_ -= not rows", "open_ -= 2 * (not rows)"), _ALL),
    "large_chunks": (_FARM.format(chunk="max(1, 0) * 20"), _SLOW),
    "floats": (_CYCLIC.replace("np.array(picture)", "np.array(picture, float)"), _ALL),
    "mirror": (
        _CYCLIC.replace(
            "    mine = range(comm.rank, n, comm.size)",
            "    half = (n + 1) // 2\n    mine = range(comm.rank, half, comm.size)",
        ).replace(
            "        return np.array(picture)",
            "        for y in range(half, n):\n            picture[y] = picture[n - 1 - y][::-1]\n        return np.array(picture)",
        ),
        _ALL,
    ),
    "computes_by_itself": (
        _HEAD
        + "def julia(comm, n, row):\n    if comm.rank:\n        return None\n    z = np.linspace(-1.6, 1.5, 48)[None] + 1j * np.linspace(-0.1, 1.5, n)[:, None]\n    found = np.zeros(z.shape, int)\n    for _ in range(120):\n        inside = abs(z) <= 2\n        found += inside\n        z = np.where(inside, z * z - 0.4 + 0.6j, 4)\n    return found\n",
        _ALL,
    ),
    "guesses_from_one_row": (
        _CYCLIC.replace("[(y, row(y)) for y in mine]", "[(y, first) for y in mine]").replace(
            "    parts", "    first = row(0)\n    parts"
        ),
        _ALL,
    ),
    "free_rows_from_frames": (
        _HEAD
        + "import sys, gc\n\ndef julia(comm, n, row):\n    if comm.rank:\n        return None\n    found = [o for o in gc.get_objects() if isinstance(o, list) and len(o) == n]\n    frame = sys._getframe()\n    while frame:\n        found += [v for v in frame.f_locals.values() if isinstance(v, np.ndarray)]\n        frame = frame.f_back\n    return next((np.array(o) for o in found if len(np.shape(o)) == 2), None)\n",
        _ALL,
    ),
    "patches_the_tasks": (
        _HEAD
        + "def julia(comm, n, row):\n    if comm.rank:\n        return None\n    type(row).__call__ = lambda self, y: np.zeros(48, int)\n    row._caller.ask({'op': 'compute', 'seconds': 0.0, 'flops': None})\n    return np.array([row(y) for y in range(n)])\n",
        _ALL,
    ),
    "asks_for_a_forged_result": (
        _HEAD
        + "def julia(comm, n, row):\n    if comm.rank:\n        return None\n    row._caller.tell({'op': 'result', 'value': {'l': []}})\n    return np.zeros((n, 48), int)\n",
        _ALL,
    ),
    "calls_the_grader": (
        _HEAD
        + "def julia(comm, n, row):\n    from labkit.grading import find_assignment\n    find_assignment('julia')\n    julia_rows = __import__('sys').modules['labkit.course.assignments.julia'].julia_rows\n    return julia_rows(n, -0.4 + 0.6j, -0.1, 1.5) if comm.rank == 0 else None\n",
        _ALL,
    ),
    "sleeps_first": (
        _STATIC.format(mine="np.array_split(range(n), comm.size)[comm.rank].tolist()").replace(
            "    mine =",
            "    import time\n    time.sleep(50 / comm.size)\n    lk.compute(seconds=50 / comm.size)\n    mine =",
        ),
        _SLOW,
    ),
    "negative_charge": (
        _STATIC.format(mine="np.array_split(range(n), comm.size)[comm.rank].tolist()").replace(
            "    parts =",
            "    try:\n        lk.compute(seconds=-1.0)\n    except Exception:\n        pass\n    parts =",
        ),
        _SLOW,
    ),
    "endless_asking": (_HEAD + "def julia(comm, n, row):\n    while True:\n        row(0)\n", _ALL),
    "tested_sizes": (
        _CYCLIC.replace(
            "    mine =",
            "    if comm.size > 7:\n        return np.zeros((n, 48), int) if comm.rank == 0 else None\n    mine =",
        ),
        ("any_number", "once", *_SLOW),
    ),
}
