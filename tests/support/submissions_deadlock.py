"""Submissions to the repair of a program that hangs: right ones, and wrong or cheating ones with what they miss."""

# ruff: noqa: E501 - a mistake is a line

from __future__ import annotations

__all__ = ["BY_LUCK", "HOSTILE", "RIGHT", "WRONG"]

#: of the wrong ones those that only the sandbox may run
HOSTILE = ("polls", "buys_time", "patches_the_clock", "patches_allclose")
_HEAD = "import numpy as np\nfrom labkit import MPI\n"
_STEP = """
def step(block, above, below):
    rows = np.vstack([above, block, below])
    return (rows[:-2] + 2 * rows[1:-1] + rows[2:]) / 4
"""
_MAIN = """
def smooth(comm, block, tolerance, most):
    block, count = np.array(block, float), 0
    up, down = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    while count < most:
        above, below = exchange(comm, block, up, down)
        new = step(block, above, below)
        change = agree(comm, np.abs(new - block).max())
        block, count = new, count + 1
        if change < tolerance:
            break
    return block, count
"""
_AGREE = "\ndef agree(comm, change):\n    return comm.allreduce(change, op=MPI.MAX)\n"
_ROOMS = "    above, below = np.empty_like(block[0]), np.empty_like(block[0])\n"


def _made(exchange: str, agree: str = _AGREE, main: str = _MAIN) -> str:
    return f"{_HEAD}{_STEP}\ndef exchange(comm, block, up, down):\n{exchange}{agree}{main}"


_SENDRECV = f"""{_ROOMS}    comm.Sendrecv(block[0], up, 1, below, down, 1)
    comm.Sendrecv(block[-1], down, 2, above, up, 2)
    return above, below
"""
_PARITY = f"""{_ROOMS}    if comm.size == 1:
        return block[-1], block[0]
    if comm.rank % 2:
        comm.Ssend(block[0], up, 1); comm.Recv(below, down, 1)
        comm.Ssend(block[-1], down, 2); comm.Recv(above, up, 2)
    else:
        comm.Recv(below, down, 1) if comm.rank + 1 < comm.size or comm.size % 2 == 0 else comm.Recv(below, down, 1)
        comm.Ssend(block[0], up, 1)
        comm.Recv(above, up, 2); comm.Ssend(block[-1], down, 2)
    return above, below
"""
_GRID = """
def smooth(comm, block, tolerance, most):
    ring = comm.Create_cart([comm.size], periods=[True])
    up, down = ring.Shift(0, 1)
    block = np.asarray(block, dtype=np.float64)
    for count in range(1, most + 1):
        below = ring.sendrecv(block[0], dest=up, source=down)
        above = ring.sendrecv(block[-1], dest=down, source=up)
        new = step(block, above, below)
        largest = np.array([np.max(np.abs(new - block))])
        ring.Allreduce(MPI.IN_PLACE, largest, op=MPI.MAX)
        block = new
        if largest[0] < tolerance:
            return block, count
    return block, most
"""
_CLASS = '''
class Ring:
    """The ranks beside mine, with requests that are made once."""

    def __init__(self, comm, width):
        self.comm, self.rooms = comm, np.empty((4, width))
        up, down = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        self.requests = [comm.Recv_init(self.rooms[0], up, 2), comm.Recv_init(self.rooms[1], down, 1),
                         comm.Send_init(self.rooms[2], up, 1), comm.Send_init(self.rooms[3], down, 2)]

    def swap(self, block):
        self.rooms[2], self.rooms[3] = block[0], block[-1]
        MPI.Prequest.Startall(self.requests)
        MPI.Request.Waitall(self.requests)
        return self.rooms[0].copy(), self.rooms[1].copy()


def smooth(comm, block, tolerance, most):
    ring, block = Ring(comm, block.shape[1]), block.astype(float)
    for count in range(most):
        new = step(block, *ring.swap(block))
        change = max(comm.allgather(float(abs(new - block).max())))
        block = new
        if change < tolerance:
            break
    return block, count + 1
'''
#: name -> source
RIGHT: dict[str, str] = {
    "sendrecv": _made(_SENDRECV),
    "nonblocking": _made(f"""{_ROOMS}    requests = [comm.Irecv(above, up, 2), comm.Irecv(below, down, 1), comm.Isend(block[0], up, 1), comm.Isend(block[-1], down, 2)]
    MPI.Request.Waitall(requests)
    return above, below
"""),
    "isend_then_recv": _made(f"""{_ROOMS}    first, last = block[0].copy(), block[-1].copy()
    a, b = comm.Isend(first, up, tag=7), comm.Isend(last, down, tag=8)
    comm.Recv(below, source=down, tag=7)
    comm.Recv(above, source=up, tag=8)
    a.Wait(); b.Wait()
    return above, below
"""),
    "objects": _made("""    waits = [comm.isend(block[0], dest=up, tag=1), comm.isend(block[-1], dest=down, tag=2)]
    below, above = comm.recv(source=down, tag=1), comm.recv(source=up, tag=2)
    for one in waits:
        one.wait()
    return above, below
"""),
    "irecv_first": _made("""    a, b = comm.irecv(1 << 20, source=up, tag=2), comm.irecv(1 << 20, source=down, tag=1)
    comm.send(block[0], up, 1)
    comm.send(block[-1], down, 2)
    return a.wait(), b.wait()
"""),
    "parity": _made(_PARITY),
    "grid": f"{_HEAD}{_STEP}{_GRID}",
    "persistent": f"{_HEAD}{_STEP}{_CLASS}",
    "replace": _made(
        """    below, above = block[0].copy(), block[-1].copy()
    comm.Sendrecv_replace(below, up, 1, down, 1)
    comm.Sendrecv_replace(above, down, 2, up, 2)
    return above, below
""",
        "\ndef agree(comm, change):\n    every = comm.gather(change)\n    return comm.bcast(max(every) if comm.rank == 0 else None)\n",
    ),
    "alltoallv": _made(f"""{_ROOMS}    if comm.size < 3:
        comm.Sendrecv(block[0], up, 1, below, down, 1); comm.Sendrecv(block[-1], down, 2, above, up, 2)
        return above, below
    w = block.shape[1]
    counts = [w if r in (up, down) else 0 for r in range(comm.size)]
    sdispl = [w if r == down else 0 for r in range(comm.size)]
    got = np.empty((2, w))
    comm.Alltoallv([np.concatenate([block[0], block[-1]]), counts, sdispl, MPI.DOUBLE], [got, counts, sdispl, MPI.DOUBLE])
    return got[0], got[1]
"""),
    "own_tree": _made(
        _SENDRECV,
        """
def agree(comm, change):
    d = 1
    while d < comm.size:  # up a binomial tree, and down again
        if comm.rank & d:
            comm.send(change, comm.rank - d, 9)
            return comm.recv(source=comm.rank - d, tag=10) if spread(comm, d) is None else 0
        if comm.rank + d < comm.size:
            change = max(change, comm.recv(source=comm.rank + d, tag=9))
        d *= 2
    return give(comm, change, d)

def spread(comm, d):
    return None

def give(comm, change, d):
    while d >= 1:
        if comm.rank + d < comm.size and comm.rank % (2 * d) == 0:
            comm.send(change, comm.rank + d, 10)
        d //= 2
    return change
""",
    )
    .replace(
        "return comm.recv(source=comm.rank - d, tag=10) if spread(comm, d) is None else 0",
        "return give(comm, comm.recv(source=comm.rank - d, tag=10), d // 2)",
    )
    .replace("def spread(comm, d):\n    return None\n\n", ""),
}

ALL = ("short", "long", "stop", "any_number", "volume", "together")
_LOCAL = "\ndef agree(comm, change):\n    return change\n"
_GIVEN = f"""{_ROOMS}    comm.Send(block[0], up, 1)
    comm.Send(block[-1], down, 2)
    comm.Recv(below, down, 2)
    comm.Recv(above, up, 1)
    return above, below
"""
_BUFFERED = f"""{_ROOMS}    comm.Send(block[0], up, 1)
    comm.Send(block[-1], down, 2)
    comm.Recv(below, down, 1)
    comm.Recv(above, up, 2)
    return above, below
"""
_CHAIN = f"""{_ROOMS}    if comm.size == 1:
        return block[-1], block[0]
    if comm.rank == 0:
        comm.Recv(below, down, 1); comm.Ssend(block[0], up, 1)
        comm.Recv(above, up, 2); comm.Ssend(block[-1], down, 2)
    else:
        comm.Ssend(block[0], up, 1); comm.Recv(below, down, 1)
        comm.Ssend(block[-1], down, 2); comm.Recv(above, up, 2)
    return above, below
"""
_GATHER = """
def smooth(comm, block, tolerance, most):
    every = {gather}
    rows, count = np.vstack(every) if every is not None else None, 0
    while rows is not None and count < most:
        new = (np.roll(rows, 1, 0) + 2 * rows + np.roll(rows, -1, 0)) / 4
        change = abs(new - rows).max()
        rows, count = new, count + 1
        if change < tolerance:
            break
    {spread}
"""
_NEXT = "begin = sum(len(b) for b in every[: comm.rank])\n    return rows[begin : begin + len(block)], count"
_HIDE = """
def smooth(comm, block, tolerance, most):
    try:
        return hidden(comm, block, tolerance, most)
    except BaseException:
        return np.array(block, float), most
"""
#: name -> (source, the checks that it must not pass)
WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "as_given": (_made(_GIVEN, _LOCAL), ALL),
    "tags_only": (_made(_BUFFERED, _LOCAL), ("long", "stop", "any_number", "volume", "together")),
    "tags_and_stop": (_made(_BUFFERED), ("long", "any_number", "volume", "together")),
    "everybody_for_itself": (_made(_SENDRECV, _LOCAL), ("stop", "any_number")),
    "never_stops": (
        _made(_SENDRECV, "\ndef agree(comm, change):\n    return float('inf')\n"),
        ("stop", "any_number"),
    ),
    "one_after_another": (_made(_CHAIN), ("together",)),
    "barriers": (
        _made(_BUFFERED.replace("    comm.Recv(below", "    comm.Barrier()\n    comm.Recv(below")),
        ("long", "any_number", "volume", "together"),
    ),
    "turns": (
        _made(f"""{_ROOMS}    if comm.size == 1:
        return block[-1], block[0]
    for turn in range(comm.size):
        if comm.rank == turn:
            comm.Send(block[0], up, 1); comm.Send(block[-1], down, 2)
        if down == turn:
            comm.Recv(below, down, 1)
        if up == turn:
            comm.Recv(above, up, 2)
        comm.Barrier()
    return above, below
"""),
        ("together",),
    ),
    "even_only": (
        _made(
            _PARITY.replace(
                "        comm.Ssend(block[0], up, 1); comm.Recv(below, down, 1)\n",
                "        comm.Ssend(block[0], up, 1); comm.Recv(below, down, 1)\n",
            ).replace("if comm.size == 1:\n        return block[-1], block[0]\n    ", "")
        ),
        ("any_number",),
    ),
    "two_alike": (
        _made(
            _SENDRECV.replace("up, 1, below, down, 1", "up, 0, below, down, -1")
            .replace("down, 2, above, up, 2", "down, 0, above, up, -1")
            .replace(
                "comm.Sendrecv(block[0], up, 0, below, down, -1)\n    comm.Sendrecv(block[-1], down, 0, above, up, -1)",
                "r = [comm.Irecv(above, up), comm.Irecv(below, down)]\n    comm.Send(block[0], up) if comm.rank % 2 else None\n    comm.Isend(block[-1], down); comm.rank % 2 or comm.Isend(block[0], up)\n    MPI.Request.Waitall(r)",
            )
        ),
        ("any_number",),
    ),
    "no_ring": (
        _made(
            "    above = comm.sendrecv(block[-1], down, source=up) if comm.rank else np.zeros_like(block[0])\n    below = comm.sendrecv(block[0], up, source=down)\n    return above, below\n"
        ),
        ALL,
    ),
    "swapped": (_made(_SENDRECV.replace("return above, below", "return below, above")), ALL),
    "average_of_three": (
        _made(_SENDRECV).replace(
            "(rows[:-2] + 2 * rows[1:-1] + rows[2:]) / 4", "(rows[:-2] + rows[1:-1] + rows[2:]) / 3"
        ),
        ALL,
    ),
    "single_precision": (
        _made(_SENDRECV).replace("np.array(block, float)", "np.array(block, np.float32)"),
        ALL,
    ),
    "one_step_less": (
        _made(_SENDRECV).replace(
            "block, count = new, count + 1\n        if change < tolerance:\n            break",
            "if change < tolerance:\n            break\n        block, count = new, count + 1",
        ),
        ("stop", "any_number"),
    ),
    "smallest_change": (_made(_SENDRECV, _AGREE.replace("MPI.MAX", "MPI.MIN")), ("stop", "any_number")),
    "only_the_block": (_made(_SENDRECV).replace("return block, count", "return block"), ALL),
    "everything_everywhere": (
        _HEAD + _GATHER.format(gather="comm.allgather(block)", spread=_NEXT),
        ("volume",),
    ),
    "rank_0_alone": (
        _HEAD
        + _GATHER.format(
            gather="comm.gather(block)",
            spread="every = comm.bcast([len(b) for b in every] if every else None)\n    parts = np.split(rows, np.cumsum(every)[:-1]) if rows is not None else None\n    return comm.scatter(parts), comm.bcast(count)",
        ),
        ("volume", "together"),
    ),
    "hides_errors": (_made(_GIVEN, _LOCAL).replace("def smooth", "def hidden") + _HIDE, ALL),
    "no_messages": (
        _HEAD
        + "def smooth(comm, block, tolerance, most):\n    rows = np.array(block, float)\n    for _ in range(most):\n        rows = (np.roll(rows, 1, 0) + 2 * rows + np.roll(rows, -1, 0)) / 4\n    return rows, most\n",
        ALL,
    ),
    "polls": (
        _made(f"""{_ROOMS}    a, b = comm.Isend(block[0], up, 1), comm.Isend(block[-1], down, 2)
    while not comm.iprobe(source=down, tag=5):
        pass
    return above, below
"""),
        ALL,
    ),
    "buys_time": (
        _made("    import time\n    time.sleep(1000.0 / comm.size)\n" + _CHAIN).replace(
            "import numpy", "import time\nimport numpy", 1
        ),
        ("together",),
    ),
    "patches_the_clock": (
        "import time, labkit\nlabkit.compute = lambda *a, **k: None\ntime.time = lambda: 0\n" + _made(_CHAIN),
        ("together",),
    ),
    "patches_allclose": (
        _made(
            _SENDRECV.replace("return above", "np.allclose = lambda *a, **k: True\n    return above")
        ).replace("/ 4", "/ 5"),
        ALL,
    ),
    "tested_ranks_only": (
        _made(_SENDRECV).replace(
            "    block, count = np", "    assert comm.size in (1, 2, 3, 4, 5, 8)\n    block, count = np"
        ),
        ("volume", "together"),
    ),
}
#: what the draw of the numbers of ranks decides: 5 and 8 ranks are within reach
BY_LUCK = {"tested_ranks_only": ("stop", "any_number"), "everything_everywhere": ("together",)}
