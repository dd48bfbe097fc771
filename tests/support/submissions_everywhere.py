"""Cheats against every assignment but the broadcast, and right submissions in habits that are rare.

Cheats are right on some inputs and wasteful or wrong on others, return values that only look right, look for
answers outside of messages, or use up what the machine has. Right ones are the corpora's algorithms, called
and packed otherwise.
"""

# ruff: noqa: E501 - as they were handed in

from __future__ import annotations

from tests.support.course import ASSIGNMENTS
from tests.support.submissions_cheating import Cheating
from tests.support.submissions_good import HILLIS, SAMPLE
from tests.support.submissions_taught import CORPORA

__all__ = ["EVERYWHERE", "HABITS"]


def _right(assignment: str, name: str = "") -> str:
    """Return a right submission: one of the corpus by name, or its first one."""
    if assignment in ("sort", "prefix_sum"):
        return SAMPLE if assignment == "sort" else HILLIS
    every = CORPORA[assignment].RIGHT
    found = every[name or next(iter(every))]
    return found[0] if isinstance(found, tuple) else found


#: assignment -> the arguments of its function
_TAKES = {
    "bfs": "comm, n, edges, root",
    "cg": "comm, shift, b, tolerance",
    "compaction": "comm, values, keep",
    "deadlock": "comm, block, tolerance, most",
    "julia": "comm, n, row",
    "list_ranking": "comm, n, successors",
    "prefix_sum": "group",
    "scaling_bug": "comm, keys, buckets",
    "sort": "comm, keys",
    "summa": "comm, grid, shape, a, b",
    "torus_broadcast": "comm, data",
    "work_stealing": "comm, root, expand",
}


def _around(assignment: str, body: str, name: str = "", head: str = "") -> str:
    """Return a submission around a right one, which is `good` in its body."""
    function = ASSIGNMENTS[assignment].function
    right = _right(assignment, name).replace(f"def {function}(", "def good(")
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return f"{right}\n{head}\ndef {function}({_TAKES[assignment]}):\n{lines}\n"


def _unless(assignment: str, when: str, body: str, name: str = "") -> str:
    """Return one that is right where `when` does not hold, and else does what `body` does."""
    inner = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return _around(assignment, f"if {when}:\n{inner}\nreturn good({_TAKES[assignment]})", name)


_ALL_EDGES = """
every = np.concatenate(comm.allgather(edges))
heads = [[] for _ in range(n)]
for u, v in every.tolist():
    heads[u].append(v)
    heads[v].append(u)
far, level = [-1] * n, [root]
far[root] = 0
for v in level:
    for w in heads[v]:
        if far[w] < 0:
            far[w] = far[v] + 1
            level.append(w)
p = comm.size
return np.array(far[comm.rank * n // p : (comm.rank + 1) * n // p], int)
"""
_ALL_LINKS = """
every = np.concatenate(comm.allgather(successors.astype(np.int32))).astype(np.int64)
links = (every != np.arange(n)).astype(np.int64)
while (links[every] > 0).any():
    links, every = links + links[every], every[every]
p = comm.size
return links[comm.rank * n // p : (comm.rank + 1) * n // p]
"""
_ALL_VALUES = """
every = np.concatenate(comm.allgather(values[keep]))
p, k = comm.size, len(every)
return every[comm.rank * k // p : (comm.rank + 1) * k // p]
"""
_ALL_BLOCKS = """
R, S = grid
rows = comm.allgather((a, b))
A = np.block([[rows[i * S + j][0] for j in range(S)] for i in range(R)])
B = np.block([[rows[i * S + j][1] for j in range(S)] for i in range(R)])
i, j = divmod(comm.rank, S)
m, k, n = shape
return A[i * m // R : (i + 1) * m // R] @ B[:, j * n // S : (j + 1) * n // S]
"""
_ALL_KEYS = "return np.array_split(np.sort(np.concatenate(comm.allgather(keys))), comm.size)[comm.rank]"
_ALL_ROWS = """
rows = comm.allgather(block)
whole, count = np.concatenate(rows), 0
first = sum(map(len, rows[: comm.rank]))
while count < most:
    new = (np.roll(whole, 1, 0) + 2 * whole + np.roll(whole, -1, 0)) / 4
    change, whole, count = np.abs(new - whole).max(), new, count + 1
    if change < tolerance:
        break
return whole[first : first + len(block)], count
"""
#: conjugate gradients with two sums in each step
_TEXTBOOK = """
sum_of = lambda u, v: comm.allreduce(float((u * v).sum()))
x, r = np.zeros_like(b), b.copy()
p, rr = r, sum_of(r, r)
norms = [rr**0.5]
while norms[-1] > tolerance * norms[0]:
    q = product(comm, shift, p)
    alpha = rr / sum_of(p, q)
    x, r = x + alpha * p, r - alpha * q
    new = sum_of(r, r)
    p, rr = r + new / rr * p, new
    norms.append(rr**0.5)
return x, norms
"""
_SERIAL_SEARCH = """
total, stack = 0, [] if root is None else [root]
while stack:
    value, *children = expand(stack.pop()).tolist()
    total, stack = total + value, stack + children
return comm.bcast(total)
"""
_SERIAL_JULIA = "return np.array([row(y) for y in range(n)]) if comm.rank == 0 else None"
_FLAT = """
if comm.rank == 0:
    for other in range(1, comm.size):
        comm.send(data, other)
    return data
return comm.recv(source=0)
"""
_EQUAL = """
class Equal(np.ndarray):
    \"\"\"Equal to everything, without differences.\"\"\"
    __eq__ = lambda self, other: np.ones(np.shape(other), bool)
    __ne__ = lambda self, other: np.zeros(np.shape(other), bool)
    __sub__ = __rsub__ = lambda self, other: np.zeros(np.shape(other))
    __array_ufunc__ = lambda self, *a, **k: np.zeros(self.shape, bool)
"""
_EVIL = """
class Evil:
    __reduce__ = lambda self: (eval, ("__import__('os').abort()",))
    __eq__ = __ne__ = __lt__ = __le__ = lambda self, other: True
    __hash__ = lambda self: 0
    __array__ = lambda self, *a, **k: np.zeros(3)
    __len__ = lambda self: 3
    __iter__ = lambda self: iter(int, 1)
    __float__ = __int__ = __index__ = lambda self: 1 << 70
    __repr__ = lambda self: "x" * (1 << 28)
"""
_NUMBER = """
class Number(int):
    \"\"\"Equal to every number.\"\"\"
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = int.__hash__
"""
_OWN = "first, last = comm.rank * n // comm.size, (comm.rank + 1) * n // comm.size\n"


def _returns(assignment: str, body: str, head: str = "") -> str:
    function = ASSIGNMENTS[assignment].function
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return f"import numpy as np\nfrom mpi4py import MPI\n{head}\ndef {function}({_TAKES[assignment]}):\n{lines}\n"


_EXPLAINS = _right("scaling_bug").partition("def explain(")[0]


def _explains(body: str, head: str = "") -> str:
    return f"{_EXPLAINS}\n{head}\ndef explain(ranks, buckets):\n    {body}\n"


#: what a rank does before it gives up: none of it must harm the grader, or pass anything
_LOOKS = {
    "the other processes' memory": "import glob\nfor path in glob.glob('/proc/[0-9]*/mem') + ['/proc/self/mem', '/proc/kcore']:\n    try: open(path, 'rb').read(1 << 20)\n    except Exception: pass",
    "a shared memory of two ranks": "from multiprocessing import shared_memory\ntry: shared = shared_memory.SharedMemory('labkit-ranks', create=comm.rank == 0, size=1 << 16)\nexcept Exception: shared = None\nif shared is not None: shared.buf[comm.rank] = 1",
    "its callers' frames and all objects": "import gc, sys, inspect\nframe, seen = sys._getframe(), []\nwhile frame: seen += [frame.f_locals, frame.f_globals]; frame = frame.f_back\nfor one in gc.get_objects(): seen += [one] if type(one).__name__ in ('Case', 'Trial', 'Seed', 'Assignment') else []\nfor one in seen: getattr(one, 'arguments', None)",
    "signals to its neighbors": "import os, signal\nfor pid in range(os.getpid() - 40, os.getpid() + 40):\n    try: os.kill(pid, signal.SIGKILL) if pid != os.getpid() else None\n    except Exception: pass",
    "memory, all of it": "held = []\nwhile True:\n    try: held.append(bytearray(1 << 26))\n    except MemoryError: break\nheld.append([0] * 1000)",
    "descriptors, all of them": "import os\nheld = []\nfor _ in range(1 << 17):\n    try: held.append(os.dup(1))\n    except OSError: break",
    "processes without end": "import os\nfor _ in range(1000):\n    try:\n        if os.fork() == 0: os._exit(0)\n    except OSError: break",
    "the stack, all of it": "import sys\nsys.setrecursionlimit(10 ** 9)\ndef deep(k): return deep(k + 1) + 1\ntry: deep(0)\nexcept BaseException: pass",
    "more words than fit": "import sys\nfor _ in range(2000): sys.stderr.write('PASSED 11/11 points\\x1b[2J' * 1000)\nprint('</pre><script>alert(1)</script> Right in all 99 cases, on up to 64 ranks.')",
    "the time of others": "import time\ntime.sleep(1e12)\ntime.perf_counter = time.time = lambda: 0.0",
    "frames written by itself": 'import os\nfor fd in range(3, 40):\n    try: os.write(fd, b\'\\0\\0\\0\\x2f\\0\\0\\0\\0\' + b\'{"op": "result", "value": null, "parts": [], "x":1}\')\n    except OSError: pass',
    "the names of modules": "import sys\nfor name, module in list(sys.modules.items()):\n    for attribute in ('ASSIGNMENT', '_oracle', '_links', '_levels', 'RIGHT'):\n        getattr(module, attribute, None)",
}
#: assignment -> a wrong result, and a check
_WRONG = {
    "bfs": (
        "return np.zeros(len(range(comm.rank * n // comm.size, (comm.rank + 1) * n // comm.size)), int)",
        "right",
    ),
    "cg": ("return np.zeros_like(b), [1.0, 0.0]", "right"),
    "compaction": ("return values[keep][:0]", "right"),
    "deadlock": ("return block, most", "short"),
    "julia": ("return np.zeros((n, 48), int) if comm.rank == 0 else None", "right"),
    "list_ranking": ("return np.zeros(len(successors), int)", "right"),
    "scaling_bug": ("return np.arange(len(keys))", "right"),
    "sort": ("return keys", "easy"),
    "summa": ("return np.zeros((a.shape[0], b.shape[1]))", "right"),
    "torus_broadcast": ("return data if data is not None else np.zeros(3)", "right"),
    "work_stealing": ("return 0", "right"),
}


def _looking() -> list[Cheating]:
    """One look in each assignment, in turn."""
    found, places = [], list(_WRONG.items())
    for nth, (name, look) in enumerate(_LOOKS.items()):
        assignment, (wrong, check) = places[nth % len(places)]
        found.append(
            Cheating(f"{assignment}: {name}", assignment, check, _returns(assignment, f"{look}\n{wrong}"))
        )
    return found


EVERYWHERE = [
    *_looking(),
    Cheating("all edges to all on multiples of three", "bfs", "volume", _unless("bfs", "comm.size % 3 == 0", _ALL_EDGES)),
    Cheating("all edges to all from 20 to 40 ranks", "bfs", "volume", _unless("bfs", "20 <= comm.size <= 40", _ALL_EDGES)),
    Cheating("all edges to all, of more than 3500 vertices or fewer", "bfs", "volume", _unless("bfs", "n > 2400", _ALL_EDGES)),
    Cheating("an empty message to each rank on odd numbers", "bfs", "messages", _unless("bfs", "comm.size % 2", "[comm.isend(None, q, 77) for _ in range(12) for q in range(comm.size)]\nfor _ in range(12):\n    for q in range(comm.size):\n        comm.recv(source=q, tag=77)")),
    Cheating("distances equal to all", "bfs", "right", _returns("bfs", _OWN + "return np.zeros(last - first, int).view(Equal)", _EQUAL)),
    Cheating("distances as durations", "bfs", "right", _returns("bfs", _OWN + "return np.zeros(last - first, 'm8[s]')")),
    Cheating("far vertices nearer than they are", "bfs", "kinds", _around("bfs", "found = good(comm, n, edges, root)\nreturn np.where(found > 8, found - 1, found)")),
    Cheating("two sums on odd numbers of ranks", "cg", "one_sum", _unless("cg", "comm.size % 2", _TEXTBOOK)),
    Cheating("two sums in rows of fewer than 300", "cg", "one_sum", _unless("cg", "30 < b.shape[1] < 300", _TEXTBOOK)),
    Cheating("two sums on more than 16 ranks", "cg", "hidden", _unless("cg", "comm.size > 16", _TEXTBOOK)),
    Cheating("a solution of no numbers", "cg", "right", _around("cg", "x, norms = good(comm, shift, b, tolerance)\nreturn x * np.nan, norms")),
    Cheating("norms of no numbers", "cg", "right", _around("cg", "x, norms = good(comm, shift, b, tolerance)\nreturn x, [float('nan')] * len(norms)")),
    Cheating("a solution with an imaginary part", "cg", "right", _around("cg", "x, norms = good(comm, shift, b, tolerance)\nreturn x + 1j, norms")),
    Cheating("a masked solution", "cg", "right", _around("cg", "x, norms = good(comm, shift, b, tolerance)\nreturn np.ma.masked_all(x.shape), norms")),
    Cheating("evil objects", "cg", "right", _returns("cg", "return Evil(), [Evil()] * 9", _EVIL)),
    Cheating("all values to all for complex numbers", "compaction", "volume", _unless("compaction", "values.dtype.kind == 'c'", _ALL_VALUES)),
    Cheating("all values to all on numbers that are 2 modulo 3", "compaction", "volume", _unless("compaction", "comm.size % 3 == 2", _ALL_VALUES)),
    Cheating("all values to all for few of them", "compaction", "balance", _unless("compaction", "len(values) > 29", "every = comm.allgather(values[keep])\nreturn np.concatenate(every) if comm.rank == 0 else values[:0]")),
    Cheating("values equal to all", "compaction", "balance", _returns("compaction", "return values[keep].view(Equal)", _EQUAL)),
    Cheating("every NaN the same one", "compaction", "any_type", _around("compaction", "found = good(comm, values, keep)\nif found.dtype.kind == 'f':\n    found = np.where(found != found, np.nan, found).astype(found.dtype)\nreturn found")),
    Cheating("whole matrices where more than 16 ranks", "deadlock", "volume", _unless("deadlock", "comm.size > 16", _ALL_ROWS)),
    Cheating("a block of no numbers", "deadlock", "short", _around("deadlock", "found, count = good(comm, block, tolerance, most)\nreturn found * np.nan, count")),
    Cheating("steps equal to all", "deadlock", "stop", _around("deadlock", "found, count = good(comm, block, 0.0, most)\nreturn found, Number(count)", head=_NUMBER)),
    Cheating("a step more after the agreement", "deadlock", "stop", _around("deadlock", "found, count = good(comm, block, tolerance, most)\nif count < most:\n    found, _ = good(comm, found, 0.0, 1)\nreturn found, count")),
    Cheating("rank 0 alone on even numbers", "julia", "speedup", _unless("julia", "comm.size % 2 == 0", _SERIAL_JULIA)),
    Cheating("rank 0 alone with many rows", "julia", "speedup", _unless("julia", "n > 250", _SERIAL_JULIA)),
    Cheating("a picture in lists without end", "julia", "right", _returns("julia", "x = []\nfor _ in range(100000): x = [x]\nreturn x")),
    Cheating("the last row twice", "julia", "once", _around("julia", "found = good(comm, n, row)\nrow(n - 1) if comm.rank == comm.size - 1 else None\nreturn found")),
    Cheating("all links to all in blocks of 9500", "list_ranking", "volume", _unless("list_ranking", "n > 9500 * comm.size", _ALL_LINKS)),
    Cheating("all links to all in blocks below 9500", "list_ranking", "volume", _unless("list_ranking", "8000 * comm.size < n < 9500 * comm.size", _ALL_LINKS)),
    Cheating("all links to all from 24 to 31 ranks", "list_ranking", "volume", _unless("list_ranking", "24 <= comm.size <= 31", _ALL_LINKS)),
    Cheating("all links to all on odd numbers", "list_ranking", "rounds", _unless("list_ranking", "comm.size % 2", _ALL_LINKS)),
    Cheating("ranks equal to all", "list_ranking", "right", _returns("list_ranking", "return np.zeros(len(successors), int).view(Equal)", _EQUAL)),
    Cheating("short lists only", "list_ranking", "kinds", _around("list_ranking", "return np.minimum(good(comm, n, successors), 8)")),
    Cheating("all operands in one, on multiples of four", "prefix_sum", "rounds", HILLIS.replace("def rounds(group):", "def rounds(group):\n    if group.size > 8 and group.size % 4 == 0:\n        for k in range(group.size):\n            yield group.copy(whole('send'), whole('partial'))")
             .replace("    while distance < p:", "    while distance < p:\n        if p > 8 and p % 4 == 0:\n            yield group.isend(whole('partial'), me + 1, me + 1 < p) + group.irecv(whole('incoming'), me - 1, me >= 1) + group.wait((me >= 1) | (me + 1 < p))")),
    Cheating("steps without end", "prefix_sum", "powers", "from labkit.schedule import whole\n\ndef rounds(group):\n    while True:\n        yield group.copy(whole('send'), whole('recv'))\n"),
    Cheating("a group that lies", "prefix_sum", "any_number", "from labkit.schedule import whole\n\ndef rounds(group):\n    type(group).size = 1\n    group.__dict__['size'] = 1\n    yield group.copy(whole('send'), whole('recv'))\n"),
    Cheating("steps that are no steps", "prefix_sum", "powers", "def rounds(group):\n    class Step(list):\n        __len__ = lambda self: 10**9\n        __iter__ = lambda self: iter(int, 1)\n    yield Step()\n"),
    Cheating("a long name of a phase", "scaling_bug", "explained", _explains("return 'before' + ' ' * (1 << 27), 'p', (ranks - 1) * buckets * 8")),
    Cheating("a huge number of bytes", "scaling_bug", "explained", _explains("return 'before', 'p', 1 << (1 << 26)")),
    Cheating("an explanation equal to all", "scaling_bug", "explained", _explains("return 'before', 'p', Number(0)", _NUMBER)),
    Cheating("a NaN of bytes", "scaling_bug", "explained", _explains("return 'before', 'p', float('nan')")),
    Cheating("a place that is off by one far behind", "scaling_bug", "any_number", _around("scaling_bug", "found = good(comm, keys, buckets)\nreturn found + (found > 40) * (comm.rank > 1)")),
    Cheating("all keys to all on numbers divisible by three", "sort", "volume", _unless("sort", "comm.size % 3 == 0", _ALL_KEYS)),
    Cheating("keys equal to all", "sort", "easy", _returns("sort", "return keys.view(Equal)", _EQUAL)),
    Cheating("keys of no number", "sort", "easy", _returns("sort", "return keys * np.nan")),
    Cheating("unsorted at the ends of blocks", "sort", "adversaries", _around("sort", "found = good(comm, keys)\nfound[-2:] = found[-2:][::-1].copy()\nreturn found")),
    Cheating("everything where the grid is square", "summa", "volume", _unless("summa", "grid[0] == grid[1]", _ALL_BLOCKS)),
    Cheating("everything on odd numbers of ranks", "summa", "volume", _unless("summa", "comm.size % 2", _ALL_BLOCKS)),
    Cheating("everything for a short inner side", "summa", "volume", _unless("summa", "shape[1] < 200", _ALL_BLOCKS)),
    Cheating("a product of no numbers", "summa", "right", _around("summa", "c = good(comm, grid, shape, a, b)\nreturn c.astype(float) * np.nan")),
    Cheating("a product equal to all", "summa", "right", _returns("summa", "return np.zeros((a.shape[0], b.shape[1]), np.result_type(a, b)).view(Equal)", _EQUAL)),
    Cheating("one after another for long data", "torus_broadcast", "pieces", _unless("torus_broadcast", "comm.size == 64 and comm.rank >= 0", _FLAT)),
    Cheating("data equal to all", "torus_broadcast", "right", _returns("torus_broadcast", "return data if comm.rank == 0 else np.zeros(3).view(Equal)", _EQUAL)),
    Cheating("a search by rank 0 alone on odd numbers", "work_stealing", "balanced", _unless("work_stealing", "comm.size % 2", _SERIAL_SEARCH)),
    Cheating("rank 0 alone on 12 ranks or more", "work_stealing", "balanced", _unless("work_stealing", "comm.size > 11", _SERIAL_SEARCH)),
    Cheating("the root twice", "work_stealing", "once", _around("work_stealing", "if comm.rank == 0:\n    expand(root)\nreturn good(comm, root, expand)")),
    Cheating("a sum equal to all", "work_stealing", "right", _returns("work_stealing", "return Number(0)", _NUMBER)),
    Cheating("a sum that is huge", "work_stealing", "right", _returns("work_stealing", "return 1 << (1 << 26)")),
    Cheating("a sum that is a float", "work_stealing", "right", _around("work_stealing", "return float(good(comm, root, expand)) + 0.5")),
    Cheating("a negative task", "work_stealing", "right", _returns("work_stealing", "for k in range(-3, 3):\n    try: expand(k)\n    except Exception: pass\nreturn 0")),
]  # fmt: skip


def _decorated(assignment: str, name: str) -> str:
    function = ASSIGNMENTS[assignment].function
    right = _right(assignment, name).replace(f"def {function}(", f"@logged\ndef {function}(")
    return f"""import functools
import logging

logging.basicConfig(level=logging.WARNING)

def logged(function):
    @functools.wraps(function)
    def call(*arguments, **more):
        logging.getLogger(__name__).debug("%s", function.__name__)
        return function(*arguments, **more)
    return call

{right}
"""


def _object(assignment: str, name: str) -> str:
    function = ASSIGNMENTS[assignment].function
    right = _right(assignment, name).replace(f"def {function}(", "def good(")
    return f"""{right}

class Solver:
    __slots__ = ("calls",)

    def __init__(self):
        self.calls = 0

    def __call__(self, *arguments):
        self.calls += 1
        return good(*arguments)

{function} = Solver()
"""


def _in_its_own_room(assignment: str, name: str) -> str:
    """Everything on a duplicate of the communicator, which is freed."""
    return _around(assignment, f"own = comm.Dup()\ntry:\n    return good({_TAKES[assignment].replace('comm', 'own')})\nfinally:\n    own.Free()", name)  # fmt: skip


def _turned(assignment: str, name: str) -> str:
    """On a communicator whose ranks are all split off and put together again in the same order."""
    return _around(assignment, f"own = comm.Split(7, comm.Get_rank() * 3 - 50)\nassert own.Get_rank() == comm.Get_rank()\nreturn good({_TAKES[assignment].replace('comm', 'own')})", name)  # fmt: skip


def _main(assignment: str, name: str) -> str:
    right = _right(assignment, name)
    return f"""#!/usr/bin/env python3
# -*- coding: utf-8 -*-
\"\"\"Übung: {assignment}, mit Umlauten und €.\"\"\"
from __future__ import annotations
{right}

def main() -> None:
    from mpi4py import MPI
    print("Hallo von", MPI.COMM_WORLD.Get_rank(), "von", MPI.COMM_WORLD.Get_size(), flush=True)

if __name__ == "__main__":
    main()
"""


def _contiguous(assignment: str, name: str) -> str:
    """Fortran order, other strides, and copies that own nothing."""
    return _around(assignment, f"found = good({_TAKES[assignment]})\nif isinstance(found, tuple):\n    return tuple(np.asfortranarray(one) if isinstance(one, np.ndarray) else one for one in found)\nif isinstance(found, np.ndarray) and found.ndim == 1:\n    return np.repeat(found, 2)[::2]\nreturn np.asfortranarray(found) if isinstance(found, np.ndarray) else found", name, "import numpy as np")  # fmt: skip


def _fussy(assignment: str, name: str) -> str:
    """Asserts, prints, random numbers and clocks that do not change anything."""
    return _around(assignment, f"import random, sys, time\nbegan = time.perf_counter()\nrandom.seed(comm.Get_rank())\nassert comm.Get_size() > 0\nfound = good({_TAKES[assignment]})\nprint('took', time.perf_counter() - began, file=sys.stderr)\nreturn found", name)  # fmt: skip


_HOW = (_decorated, _object, _in_its_own_room, _turned, _main, _contiguous, _fussy)
#: a schedule has no communicator; the chain of messages of a compaction leaves no room for another collective
_NOT_FOR: dict[str, tuple[object, ...]] = {
    "prefix_sum": (_in_its_own_room, _turned, _contiguous, _fussy),
    "compaction": (_in_its_own_room, _turned),
}


def _habits() -> dict[str, tuple[str, str, set[str]]]:
    """Each assignment's right ones, in turn, in four of the habits."""
    found: dict[str, tuple[str, str, set[str]]] = {}
    nth = 0
    for assignment in _TAKES:
        names = list(CORPORA[assignment].RIGHT) if assignment in CORPORA else [""]
        how = [one for one in _HOW if one not in _NOT_FOR.get(assignment, ())]
        for _ in range(min(4, len(how))):
            name, make = names[(5 * nth + 3) % len(names)], how[nth % len(how)]
            right = (
                CORPORA[assignment].RIGHT[name]
                if name
                else (SAMPLE, ("equal_keys",) * (assignment == "sort"))
            )
            missed = set(right[1]) if isinstance(right, tuple) else set()
            found[f"{assignment} {name}{make.__name__}"] = assignment, make(assignment, name), missed
            nth += 1
    return found


#: name -> (assignment, source, the checks that its algorithm misses)
HABITS = _habits()
