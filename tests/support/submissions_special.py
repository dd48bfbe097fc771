"""Submissions that know the cases: right where they expect to be judged, wasteful or wrong elsewhere.

Each does what is asked for on inputs that it takes for those of a check, and not on others; guesses an answer
that follows from public inputs; or tries to use up the grader. None may pass the check that it is after.
"""

# ruff: noqa: E501 - as they were handed in

from __future__ import annotations

from tests.support.submissions_cheating import Cheating
from tests.support.submissions_good import HILLIS, SAMPLE
from tests.support.submissions_scaling_bug import made

__all__ = ["QUICK", "SPECIAL"]

_BROADCAST = '''
import numpy as np
from mpi4py import MPI

def broadcast(comm, data, root):
    """A tree where {when}, else what is easier; the first message says which."""
    p, me = comm.size, (comm.rank - root) % comm.size
    real = lambda number: (number + root) % p
    if me == 0:
        way = "tree" if ({when}) else "{other}"
    else:
        status = MPI.Status()
        way, data = comm.recv(source=MPI.ANY_SOURCE)
    if way == "flat":
        for other in range(1, p) if me == 0 else ():
            comm.send((way, data), real(other))
    elif way == "chain":
        if me + 1 < p:
            comm.send((way, data), real(me + 1))
    else:
        mask = 1
        while mask < p:
            mask *= 2
        low = me & -me if me else mask
        low //= 2
        while low:
            if me + low < p:
                comm.send((way, data), real(me + low))
                if way == "twice":
                    comm.send(data, real(me + low), 99)
            low //= 2
        if way == "twice" and me:
            comm.recv(source=MPI.ANY_SOURCE, tag=99)
    return data
'''
_SORT = (
    SAMPLE.replace("def parallel_sort(", "def good_sort(")
    + """
def parallel_sort(comm, keys):
    if comm.allreduce(int({when})) == comm.size:
        return good_sort(comm, keys)
    every = np.sort(np.concatenate(comm.allgather(keys)))
    return np.array_split(every, comm.size)[comm.rank]
"""
)
_UNBALANCED = (
    SAMPLE.replace("def parallel_sort(", "def good_sort(")
    + """
def parallel_sort(comm, keys):
    if len(keys) in (500, 40, 200) or comm.size == 16:
        return good_sort(comm, keys)
    mine = comm.gather(keys)
    return np.sort(np.concatenate(mine)) if comm.rank == 0 else keys[:0]
"""
)
_CHAIN_OF_SUMS = """
    if {when}:
        yield group.copy(whole("send"), whole("recv"))
        for r in range(p - 1):
            yield group.send(whole("recv"), r + 1, me == r) + group.recv(whole("incoming"), r, me == r + 1)
            yield group.combine(whole("incoming"), whole("recv"), True, me == r + 1)
        return
"""
_PREFIX = HILLIS.replace(
    "    me, p = group.ranks, group.size\n", "    me, p = group.ranks, group.size\n{first}"
)
_SMOOTH = """
import numpy as np
from mpi4py import MPI

def smooth(comm, block, tolerance, most):
    p, me = comm.size, comm.rank
    up, down = (me - 1) % p, (me + 1) % p
    block, steps = np.array(block, float), 0
    while steps < most:
        above, below = np.empty_like(block[0]), np.empty_like(block[0])
        if {when}:
            comm.Sendrecv(block[0], up, 1, below, down, 1)
            comm.Sendrecv(block[-1], down, 2, above, up, 2)
        else:
            {other}
        rows = np.vstack([above, block, below])
        new = (rows[:-2] + 2 * rows[1:-1] + rows[2:]) / 4
        change = {change}
        block, steps = new, steps + 1
        if {stop}:
            break
    return block, steps
"""
_SERIAL = """for turn in range(p):
                for out, into, there, back, tag in ((block[0], below, up, down, 1), (block[-1], above, down, up, 2)):
                    if p == 1:
                        into[:] = out
                    elif me == turn:
                        comm.Ssend(out, there, tag)
                    elif back == turn:
                        comm.Recv(into, back, tag)"""
_WHOLE = """above[:] = comm.sendrecv(block, down, 2, None, up, 2)[-1]
            below[:] = comm.sendrecv(block, up, 1, None, down, 1)[0]"""
_GLOBAL, _AGREED = "comm.allreduce(np.abs(new - block).max(), op=MPI.MAX)", "change < tolerance"


def _smooth(when: str, other: str = _SERIAL, change: str = _GLOBAL, stop: str = _AGREED) -> str:
    return _SMOOTH.format(when=when, other=other, change=change, stop=stop)


_JULIA = """
import random
import numpy as np

def julia(comm, n, row):
    p, me = comm.size, comm.rank
    {owners}
    mine = {{y: row(y) for y in range(n) if owner[y] == me}}
    {more}
    parts = comm.gather(mine)
    if me == 0:
        picture = {{y: values for part in parts for y, values in part.items()}}
        return np.array([picture[y] for y in range(n)])
"""


def _julia(owners: str, more: str = "") -> str:
    return _JULIA.format(owners=owners, more=more)


_TORUS = '''
import numpy as np

def flat(comm, data):
    if comm.rank == 0:
        for other in range(1, comm.size):
            comm.send(data, other)
        return data
    return comm.recv(source=0)

def torus_broadcast(comm, data):
    """A pipeline for what the task names, whose type and length are known; else one message after another."""
    if comm.size != 64:
        return flat(comm, data)
    {known}
    me, waits, out = comm.rank, [], np.empty(n, kind) if data is None else data
    for piece in np.array_split(np.arange(n), 64):
        part = out[piece[0] : piece[-1] + 1]
        if me:
            comm.Recv(part, me - 1)
        if me < 63:
            waits.append(comm.Isend(part, me + 1))
    for wait in waits:
        wait.Wait()
    return out
'''
_TOLD = "n, kind = flat(comm, None if data is None else (len(data), data.dtype))"
_KEEPS_THE_BUG = """    p = comm.size
    if {when}:
        return comm.allreduce(counts), comm.scan(counts) - counts
    every = np.empty((p, len(counts)), counts.dtype)
    comm.Allgather(counts, every)
    return comm.allreduce(counts), every[: comm.rank].sum(axis=0)
"""
_CHAIN_UNLESS = """    if {when}:
        return comm.allreduce(counts), comm.scan(counts) - counts
    before = comm.recv(source=comm.rank - 1) if comm.rank else 0 * counts
    if comm.rank + 1 < comm.size:
        comm.send(before + counts, comm.rank + 1)
    return comm.bcast(before + counts if comm.rank == comm.size - 1 else None, root=comm.size - 1), before
"""
_GATHERS_FEW = """
import numpy as np
def places(comm, keys, buckets):
    if comm.allreduce(len(keys)) < {most} * comm.size:
        every = comm.allgather(keys.astype(np.uint16))
        order = np.argsort(np.concatenate(every), kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        begin = sum(map(len, every[: comm.rank]))
        return place[begin : begin + len(keys)]
    counts = np.bincount(keys, minlength=buckets)
    totals, before = comm.allreduce(counts), comm.scan(counts) - counts
    first = np.cumsum(totals) - totals + before
    order = np.argsort(keys, kind="stable")
    within = np.arange(len(keys)) - (np.cumsum(counts) - counts)[keys[order]]
    found = np.empty(len(keys), np.int64)
    found[order] = first[keys[order]] + within
    return found
def explain(ranks, buckets):
    return "before", "p", (ranks - 1) * buckets * 8
"""
_EXSCAN = "    return comm.allreduce(counts), comm.scan(counts) - counts\n"


def _explains(body: str) -> str:
    return made(_EXSCAN, f"\ndef explain(ranks, buckets):\n    {body}\n")


def _doubles(depth: int, loop: bool = False) -> str:
    """Code that Python compiles to 2**depth copies of its last line."""
    lines = ["def unused(x):"] + (["  while x:"] if loop else [])
    leave = "break" if loop else "return x"
    for at in range(depth):
        indent = " " * (2 * at + 3)
        lines += [f"{indent}try:", f"{indent} {leave}", f"{indent}finally:"]
    return "\n".join([*lines, " " * (2 * depth + 3) + "x(1)"]) + "\n"


def _returns(value: str) -> str:
    return f"import numpy as np\n\ndef parallel_sort(comm, keys):\n    return {value}\n"


_TREE = _BROADCAST.format(when="True", other="flat")
#: those that are tried in the tests: each kind once, and every one that had full marks before
QUICK = (
    "flat but for roots at the ends", "all keys to all when they are few", "the bug kept from 9 to 49 ranks",
    "stops after half of the steps", "rows dealt out at random", "all keys to all, few of them, to count",
    "a growth of no number", "a chain of sums on numbers never tried", "one after another in wide rows",
    "rank 0 alone but for 20 rows a rank", "copies of copies", "blocks of rows on 5 modulo 6",
    "one after another for bytes", "the bug kept from 15000 to 30000 keys a rank",
)  # fmt: skip
SPECIAL = [
    Cheating("flat but for roots at the ends", "broadcast", "rounds", _BROADCAST.format(when="root in (0, p - 1)", other="flat")),
    Cheating("flat but for ten floats", "broadcast", "rounds", _BROADCAST.format(when="data.size in (3, 4, 5, 10)", other="flat")),
    Cheating("flat but for known numbers of ranks", "broadcast", "rounds", _BROADCAST.format(when="p in (2, 3, 4, 5, 8, 16, 32, 64)", other="flat")),
    Cheating("flat but for double precision", "broadcast", "rounds", _BROADCAST.format(when="data.dtype == np.float64", other="flat")),
    Cheating("a chain from 9 to 49 ranks", "broadcast", "rounds", _BROADCAST.format(when="not 9 <= p <= 49", other="chain")),
    Cheating("a chain for longer data", "broadcast", "rounds", _BROADCAST.format(when="data.nbytes <= 80", other="chain")),
    Cheating("twice but for roots at the ends", "broadcast", "messages", _BROADCAST.format(when="root in (0, 1, p - 1)", other="twice")),
    Cheating("a chain but for powers of two", "broadcast", "optimal", _BROADCAST.format(when="p & (p - 1) == 0", other="chain")),
    Cheating("flat but for 10 numbers in growth", "broadcast", "scaling", _BROADCAST.format(when="data.size == 10 and root == 0", other="flat")),
    Cheating("all keys to all when they are few", "sort", "volume", _SORT.format(when="len(keys) >= 1500")),
    Cheating("all keys to all but for int64", "sort", "volume", _SORT.format(when="keys.dtype == np.int64 and len(keys) >= 2000")),
    Cheating("all keys to all from 9 to 49 ranks", "sort", "volume", _SORT.format(when="not 9 <= comm.size <= 49")),
    Cheating("all keys to all but for 2000 and 24000", "sort", "volume", _SORT.format(when="len(keys) in (2000, 24000)")),
    Cheating("all keys to all unless uniform", "sort", "volume", _SORT.format(when="comm.allreduce(int((np.abs(keys / 2.0**62) > 1).sum())) > 0")),
    Cheating("all keys to all on other numbers of ranks", "sort", "scaling", _SORT.format(when="comm.size in (2, 3, 4, 6, 8, 12, 16)")),
    Cheating("balanced but for other lengths", "sort", "balance", _UNBALANCED),
    Cheating("a chain of sums on numbers never tried", "prefix_sum", "rounds", _PREFIX.format(first=_CHAIN_OF_SUMS.format(when="p in (4, 6, 7) or 9 <= p <= 20"))),
    Cheating("a chain of sums on 4, 6 and 7", "prefix_sum", "volume", HILLIS.replace("    distance = 1\n", '    distance = 1\n    if p in (4, 6, 7):\n        to, source = me + 1 < p, me >= 1\n        for again in range(4):\n            yield group.isend(whole("send"), me + 1, to) + group.irecv(whole("incoming"), me - 1, source) + group.wait(to | source)\n')),
    Cheating("another order on many ranks", "prefix_sum", "order", HILLIS.replace('whole("recv"), True, source)', 'whole("recv"), p <= 33, source)')),
    Cheating("wrong on half of the ranks", "prefix_sum", "any_number", _PREFIX.format(first='    if 20 <= p <= 45:\n        yield group.copy(whole("send"), whole("recv"))\n        return\n')),
    Cheating("stops after half of the steps", "deadlock", "stop", _smooth("True", stop="tolerance > 0 and steps == most // 2 + 1", change="0")),
    Cheating("stops when its neighbors may", "deadlock", "stop", _smooth("True", change="max(comm.sendrecv(np.abs(new - block).max(), down, 3, None, up, 3), np.abs(new - block).max())")),
    Cheating("guesses the steps from the tolerance", "deadlock", "stop", _smooth("True", stop="tolerance > 0 and steps >= most * 0.5 + (tolerance < 1e-2)", change="0")),
    Cheating("one after another in wide rows", "deadlock", "together", _smooth("block.shape[1] in (1250, 2, 3)")),
    Cheating("one after another on fewer ranks", "deadlock", "together", _smooth("p > 22")),
    Cheating("one after another until it stops", "deadlock", "together", _smooth("tolerance == 0 and most == 4")),
    Cheating("whole blocks in wide rows", "deadlock", "volume", _smooth("block.shape[1] in (1250, 2, 3)", _WHOLE)),
    Cheating("rows dealt out at random", "julia", "any_costs", _julia("owner = comm.bcast([random.SystemRandom().randrange(p) for _ in range(n)])")),
    Cheating("rows shuffled", "julia", "any_costs", _julia("owner = comm.bcast(random.SystemRandom().sample([y % p for y in range(n)], n))")),
    Cheating("rows by a generator of its own", "julia", "any_costs", _julia("owner = [(y * y * 31 + y * 17 + n) // 7 % p for y in range(n)]")),
    Cheating("rank 0 alone but for 20 rows a rank", "julia", "speedup", _julia("owner = [y % p if n == 20 * p else 0 for y in range(n)]")),
    Cheating("a row twice where speed counts", "julia", "once", _julia("owner = [y % p for y in range(n)]", "row(0) if n > 19 * p else None")),
    Cheating("a pipeline for the type in the task", "torus_broadcast", "pieces", _TORUS.format(known="n, kind = (1 << 20) // 8, np.int64")),
    Cheating("a pipeline for the length in the task", "torus_broadcast", "tree", _TORUS.format(known="n, kind = 1 << 20, np.uint8")),
    Cheating("one after another for bytes", "torus_broadcast", "tree", _TORUS.format(known=_TOLD + "\n    if kind == np.uint8:\n        return flat(comm, data)")),
    Cheating("one after another for int32", "torus_broadcast", "pieces", _TORUS.format(known=_TOLD + "\n    if kind == np.int32:\n        return flat(comm, data)")),
    Cheating("one after another for half of the lengths", "torus_broadcast", "tree", _TORUS.format(known=_TOLD + "\n    if n * kind.itemsize > 1.05 * 2**20:\n        return flat(comm, data)")),
    *(Cheating(f"blocks of rows on {words}", "julia", "speedup", _julia(f"owner = [y * p // n if {when} else y % p for y in range(n)]"))
      for words, when in (("3 modulo 4", "p % 4 == 3"), ("5 modulo 6", "p % 6 == 5"), ("0 modulo 6", "p % 6 == 0"), ("13 ranks", "p == 13"))),
    *(Cheating(f"the bug kept from {low} to {high} keys a rank", "scaling_bug", "volume", made(_KEEPS_THE_BUG.format(when=f"not {low} * p <= comm.allreduce(int(counts.sum())) <= {high} * p")))
      for low, high in ((12_000, 32_000), (15_000, 30_000), (20_000, 40_000))),
    Cheating("the bug kept from 9 to 49 ranks", "scaling_bug", "volume", made(_KEEPS_THE_BUG.format(when="not 9 <= p <= 49"))),
    Cheating("the bug kept for other tables", "scaling_bug", "volume", made(_KEEPS_THE_BUG.format(when="len(counts) in (512, 1024)"))),
    Cheating("the bug kept for other numbers of keys", "scaling_bug", "volume", made(_KEEPS_THE_BUG.format(when="comm.allreduce(int(counts.sum())) in (320 * p, 40_000 * p)"))),
    Cheating("the bug kept for other tables, growth", "scaling_bug", "scaling", made(_KEEPS_THE_BUG.format(when="len(counts) == 1024"))),
    Cheating("all keys to all, few of them, to count", "scaling_bug", "volume", _GATHERS_FEW.format(most=3000)),
    Cheating("a chain on other numbers of ranks", "scaling_bug", "scaling", made(_CHAIN_UNLESS.format(when="comm.size in (4, 8, 16, 32) or comm.size < 9"))),
    Cheating("a growth of no number", "scaling_bug", "explained", _explains("return 'before', 'p^9e9999999999999999999', (ranks - 1) * buckets * 8")),
    Cheating("bytes of few ranks", "scaling_bug", "explained", _explains("return 'before', 'p', (ranks - 1) * buckets * 8 if ranks < 100 else 0")),
    Cheating("bytes of no number", "scaling_bug", "explained", _explains("return 'before', 'p', 10 ** 5000")),
    Cheating("a very long phase", "scaling_bug", "explained", _explains("return 'before' * 10_000_000, 'p', (ranks - 1) * buckets * 8")),
    Cheating("copies of copies", "sort", "easy", SAMPLE + _doubles(20)),
    Cheating("copies of copies in a loop", "broadcast", "powers", _TREE + _doubles(20, loop=True)),
    Cheating("brackets without end", "broadcast", "powers", f"x = {'{a:' * 90}\n{_TREE}"),
    Cheating("signs without end", "broadcast", "powers", f"{_TREE}\nX = {'-' * 200_000}1\n"),
    Cheating("lists in lists", "sort", "easy", _returns("[0 for nested in [[]] for _ in range(10**5) if nested.append([nested.pop()] if nested else [])] or keys")),
    Cheating("a number without end", "sort", "easy", _returns("10 ** 10 ** 6")),
    Cheating("far more keys than there were", "sort", "easy", _returns("np.zeros(4_000_000, keys.dtype)")),
    Cheating("keys of another kind", "sort", "easy", _returns("np.sort(keys).astype(complex)")),
    Cheating("flat for odd numbers of ranks", "broadcast", "rounds", _BROADCAST.format(when="p % 2 == 0", other="flat")),
    Cheating("flat for numbers of two bytes", "broadcast", "rounds", _BROADCAST.format(when="data.itemsize != 2", other="flat")),
    Cheating("a chain from roots in the middle", "broadcast", "rounds", _BROADCAST.format(when="not p <= 3 * root <= 2 * p", other="chain")),
    Cheating("flat for numbers of single precision in growth", "broadcast", "scaling", _BROADCAST.format(when="data.dtype != np.float32", other="flat")),
    Cheating("flat for root 0 in growth", "broadcast", "scaling", _BROADCAST.format(when="root > 0", other="flat")),
    Cheating("flat for long data in growth", "broadcast", "scaling", _BROADCAST.format(when="data.nbytes < 512", other="flat")),
    Cheating("twice on multiples of three", "broadcast", "messages", _BROADCAST.format(when="p % 3", other="twice")),
    Cheating("a chain on 20 to 40 ranks", "broadcast", "optimal", _BROADCAST.format(when="not 20 <= p <= 40", other="chain")),
    Cheating("all keys to all from 20 to 40 ranks", "sort", "volume", _SORT.format(when="not 20 <= comm.size <= 40")),
    Cheating("all keys to all on odd numbers of ranks", "sort", "volume", _SORT.format(when="comm.size % 2 == 0")),
    Cheating("all keys to all for float64", "sort", "volume", _SORT.format(when="keys.dtype != np.float64")),
    Cheating("all keys to all for uint64", "sort", "volume", _SORT.format(when="keys.dtype != np.uint64")),
    Cheating("all keys to all when they are very few", "sort", "volume", _SORT.format(when="len(keys) > 640")),
    Cheating("all keys to all from 3000 to 6500", "sort", "volume", _SORT.format(when="not 3000 <= len(keys) <= 6500")),
    Cheating("all keys to all when they are many", "sort", "volume", _SORT.format(when="len(keys) < 10_000")),
    Cheating("all keys to all for float64 in growth", "sort", "scaling", _SORT.format(when="keys.dtype.kind != 'f'")),
    Cheating("all keys to all on odd numbers in growth", "sort", "scaling", _SORT.format(when="comm.size % 2 == 0 or comm.size == 3")),
    Cheating("one block on odd numbers of ranks", "sort", "balance", _UNBALANCED.replace("len(keys) in (500, 40, 200) or comm.size == 16", "comm.size % 2 == 0")),
    Cheating("a chain of sums on odd numbers", "prefix_sum", "rounds", _PREFIX.format(first=_CHAIN_OF_SUMS.format(when="p > 8 and p % 2"))),
    Cheating("a chain of sums on some residues", "prefix_sum", "rounds", _PREFIX.format(first=_CHAIN_OF_SUMS.format(when="p > 8 and p % 3 == 1"))),
    Cheating("another order on 20 to 40 ranks", "prefix_sum", "order", HILLIS.replace('whole("recv"), True, source)', 'whole("recv"), not 20 <= p <= 40, source)')),
    Cheating("wrong on multiples of three", "prefix_sum", "any_number", _PREFIX.format(first='    if p > 8 and p % 3 == 0:\n        yield group.copy(whole("send"), whole("recv"))\n        return\n')),
    Cheating("one after another on odd numbers of ranks", "deadlock", "together", _smooth("p % 2 == 0")),
    Cheating("one after another without a tolerance", "deadlock", "together", _smooth("tolerance > 0")),
    Cheating("one after another with a tolerance", "deadlock", "together", _smooth("tolerance == 0")),
    Cheating("one after another from 6 to 12 ranks", "deadlock", "together", _smooth("not 6 <= p <= 12")),
    Cheating("one after another in the widest rows", "deadlock", "together", _smooth("block.shape[1] < 1400")),
    Cheating("whole blocks on odd numbers of ranks", "deadlock", "volume", _smooth("p % 2 == 0", _WHOLE)),
    Cheating("stops after an even number of steps", "deadlock", "stop", _smooth("True", stop="steps % 2 == 0 and change < tolerance")),
    Cheating("asks half of the ranks whether to stop", "deadlock", "stop", _smooth("True", change="comm.allreduce(np.abs(new - block).max() if 2 * me < p else 0.0, op=MPI.MAX)")),
    Cheating("asks even ranks whether to stop", "deadlock", "stop", _smooth("True", change="comm.allreduce(np.abs(new - block).max() if me % 2 == 0 else 0.0, op=MPI.MAX)")),
    Cheating("rows dealt out to and fro", "julia", "any_costs", _julia("owner = [min(y % (2 * p), 2 * p - 1 - y % (2 * p)) for y in range(n)]")),
    Cheating("rows shuffled in pairs", "julia", "any_costs", _julia("pairs = comm.bcast(random.SystemRandom().sample([y % p for y in range((n + 1) // 2)], (n + 1) // 2))\n    owner = [pairs[y // 2] for y in range(n)]")),
    Cheating("rank 0 alone on odd numbers of ranks", "julia", "speedup", _julia("owner = [y % p if p % 2 == 0 else 0 for y in range(n)]")),
    Cheating("a row twice on even numbers of ranks", "julia", "once", _julia("owner = [y % p for y in range(n)]", "row(0) if p % 2 == 0 and p > 7 else None")),
    Cheating("the bug kept on odd numbers of ranks", "scaling_bug", "volume", made(_KEEPS_THE_BUG.format(when="comm.size % 2 == 0"))),
    Cheating("the bug kept for small tables", "scaling_bug", "volume", made(_KEEPS_THE_BUG.format(when="len(counts) > 320"))),
    Cheating("the bug kept for few keys", "scaling_bug", "volume", made(_KEEPS_THE_BUG.format(when="comm.allreduce(int(counts.sum())) > 100 * p"))),
    Cheating("a chain on 9 to 37 ranks", "scaling_bug", "scaling", made(_CHAIN_UNLESS.format(when="not 9 <= comm.size <= 37 or comm.size in (16, 32)"))),
    Cheating("a chain on odd numbers of ranks", "scaling_bug", "scaling", made(_CHAIN_UNLESS.format(when="comm.size % 2 == 0"))),
    Cheating("bytes of fewer than 1000 ranks", "scaling_bug", "explained", _explains("return 'before', 'p', (ranks - 1) * buckets * 8 if ranks < 1000 else 0")),
    Cheating("an array in few bytes", "sort", "easy", _returns("np.broadcast_to(keys[:1], (10 ** 9,))")),
    Cheating("a length without end", "sort", "easy", _returns("type('Keys', (np.ndarray,), {'__len__': lambda self: self.__len__()})((3,), keys.dtype)")),
    Cheating("a product without end", "broadcast", "powers", f"{_TREE}\nX = 'a' * (1 << 40)\n"),
    Cheating("a deep f-string", "broadcast", "powers", f"{_TREE}\nX = f'{{1:{{1:{{1:{{1}}}}}}}}'\nY = {'(' * 3000}1{')' * 3000}\n"),
]  # fmt: skip
