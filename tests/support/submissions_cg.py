"""Submissions to conjugate gradients with a hidden sum: right ones, and wrong ones with what they miss."""

# ruff: noqa: E501 - a mistake is a line

from __future__ import annotations

__all__ = ["BY_LUCK", "HOSTILE", "RIGHT", "WRONG"]

#: of the wrong ones those that only the sandbox may run
HOSTILE = ("by_a_file", "seeks_the_case", "gathers_packed")

_HEAD = "import numpy as np\nimport labkit as lk\nfrom labkit import MPI\n"
_PRODUCT = '''
def product(comm, shift, v):
    """Return this rank's rows of A v; the neighbors exchange a row each."""
    around, waits = np.zeros((v.shape[0] + 2, v.shape[1] + 2)), []
    around[1:-1, 1:-1] = v
    above, below = np.zeros((2, v.shape[1]))
    if comm.rank > 0:
        waits += [comm.Irecv(above, comm.rank - 1, 1), comm.Isend(v[0].copy(), comm.rank - 1, 2)]
    if comm.rank < comm.size - 1:
        waits += [comm.Irecv(below, comm.rank + 1, 2), comm.Isend(v[-1].copy(), comm.rank + 1, 1)]
    MPI.Request.Waitall(waits)
    around[0, 1:-1], around[-1, 1:-1] = above, below
    return (4 + shift) * v - around[:-2, 1:-1] - around[2:, 1:-1] - around[1:-1, :-2] - around[1:-1, 2:]
'''
_PIPELINED = """
def solve(comm, shift, b, tolerance):
    r, total = b.copy(), np.empty(2)
    x, p, s, z = (np.zeros_like(b) for _ in range(4))
    norms, last, alpha = [], 1.0, 1.0
    w = product(comm, shift, r)
    while True:
        mine = np.array([(r * r).sum(), (w * r).sum()])
        request = comm.Iallreduce(mine, total)
        n = product(comm, shift, w)
        request.Wait()
        gamma, delta = total.tolist()
        beta = gamma / last if norms else 0.0
        norms.append(gamma**0.5)
        if norms[-1] <= tolerance * norms[0]:
            return x, norms
        alpha = gamma / (delta - beta * gamma / alpha)
        last = gamma
        z = n + beta * z
        s = w + beta * s
        p = r + beta * p
        x = x + alpha * p
        r = r - alpha * s
        w = w - alpha * z
"""
_HIDDEN = """        request = comm.Iallreduce(mine, total)
        n = product(comm, shift, w)
        request.Wait()
"""
_ONE_SUM = """
def solve(comm, shift, b, tolerance):
    r, total = b.copy(), np.empty(2)
    x, p, s = (np.zeros_like(b) for _ in range(3))
    norms, last, alpha = [], 1.0, 1.0
    while True:
        w = product(comm, shift, r)
        comm.Allreduce(np.array([(r * r).sum(), (w * r).sum()]), total)
        gamma, delta = total.tolist()
        beta = gamma / last if norms else 0.0
        norms.append(gamma**0.5)
        if norms[-1] <= tolerance * norms[0]:
            return x, norms
        alpha = gamma / (delta - beta * gamma / alpha)
        last = gamma
        p = r + beta * p
        s = w + beta * s
        x = x + alpha * p
        r = r - alpha * s
"""
_TEXTBOOK = """
def solve(comm, shift, b, tolerance):
    def dot(u, v):
        return comm.allreduce(float((u * v).sum()))

    x, r, p = np.zeros_like(b), b.copy(), b.copy()
    rho = dot(r, r)
    norms = [rho**0.5]
    while norms[-1] > tolerance * norms[0]:
        s = product(comm, shift, p)
        alpha = rho / dot(p, s)
        x = x + alpha * p
        r = r - alpha * s
        rho, last = dot(r, r), rho
        p = r + rho / last * p
        norms.append(rho**0.5)
    return x, norms
"""


def _made(solve: str = _PIPELINED, *changes: tuple[str, str], product: str = _PRODUCT) -> str:
    for old, new in changes:
        assert old in solve + product, old
        solve, product = solve.replace(old, new), product.replace(old, new)
    return f"{_HEAD}{product}\n{solve}"


_IN_PLACE = """
def solve(comm, shift, b, tolerance):
    r, w = np.array(b), product(comm, shift, b)
    x, p, s, z = np.zeros((4, *b.shape))
    norms, gammas, alphas = [], [], []
    while True:
        send = np.array([np.vdot(r, r), np.vdot(r, w)])
        got = np.zeros(2)
        req = comm.Iallreduce([send, MPI.DOUBLE], [got, MPI.DOUBLE], op=MPI.SUM)
        aw = product(comm, shift, w)
        MPI.Request.Waitall([req])
        norms.append(float(np.sqrt(got[0])))
        if norms[-1] <= tolerance * norms[0]:
            break
        if gammas:
            beta = got[0] / gammas[-1]
            alpha = got[0] / (got[1] - beta * got[0] / alphas[-1])
        else:
            beta, alpha = 0.0, got[0] / got[1]
        gammas.append(got[0])
        alphas.append(alpha)
        for direction, new in ((z, aw), (s, w), (p, r)):
            direction *= beta
            direction += new
        x += alpha * p
        r -= alpha * s
        w -= alpha * z
    return x, norms
"""
_CLASS = """
class Sum:
    def __init__(self, comm, *pairs):
        self.mine = np.array([float((u * v).sum()) for u, v in pairs])
        self.all = np.empty_like(self.mine)
        self.request = comm.Iallreduce(self.mine, self.all)

    def wait(self):
        self.request.Wait()
        return [float(value) for value in self.all]


class Solver:
    def __init__(self, comm, shift, b):
        self.apply = lambda v: product(comm, shift, v)
        self.comm, self.x, self.r = comm, 0.0 * b, 1.0 * b
        self.w = self.apply(self.r)
        self.p = self.s = self.z = 0.0 * b
        self.last = self.alpha = None

    def step(self, norms, tolerance):
        sums = Sum(self.comm, (self.r, self.r), (self.r, self.w))
        ahead = self.apply(self.w)
        gamma, delta = sums.wait()
        norms.append(gamma ** 0.5)
        if norms[-1] <= tolerance * norms[0]:
            return False
        beta = 0.0 if self.last is None else gamma / self.last
        self.alpha = gamma / delta if self.last is None else gamma / (delta - beta * gamma / self.alpha)
        self.last = gamma
        self.z, self.s, self.p = ahead + beta * self.z, self.w + beta * self.s, self.r + beta * self.p
        self.x, self.r, self.w = self.x + self.alpha * self.p, self.r - self.alpha * self.s, self.w - self.alpha * self.z
        return True


def solve(comm, shift, b, tolerance):
    solver, norms = Solver(comm, shift, b), []
    while solver.step(norms, tolerance):
        pass
    return solver.x, norms
"""
#: the product's messages are posted before the sum begins
_SPLIT = """
def begin(comm, v):
    above, below, waits = np.zeros(v.shape[1]), np.zeros(v.shape[1]), []
    if comm.rank > 0:
        waits += [comm.Irecv(above, comm.rank - 1, 1), comm.Isend(v[0].copy(), comm.rank - 1, 2)]
    if comm.rank < comm.size - 1:
        waits += [comm.Irecv(below, comm.rank + 1, 2), comm.Isend(v[-1].copy(), comm.rank + 1, 1)]
    return waits, above, below


def end(shift, v, under_way):
    waits, above, below = under_way
    found = (4 + shift) * v
    found[:, 1:] -= v[:, :-1]
    found[:, :-1] -= v[:, 1:]
    found[1:] -= v[:-1]
    found[:-1] -= v[1:]
    MPI.Request.Waitall(waits)
    found[0] -= above
    found[-1] -= below
    return found


def solve(comm, shift, b, tolerance):
    r, total = b.copy(), np.empty(2)
    x, p, s, z = (np.zeros_like(b) for _ in range(4))
    norms, last, alpha = [], 1.0, 1.0
    w = end(shift, r, begin(comm, r))
    while True:
        under_way = begin(comm, w)
        request = comm.Iallreduce(np.array([(r * r).sum(), (w * r).sum()]), total)
        n = end(shift, w, under_way)
        request.Wait()
        gamma, delta = total.tolist()
        beta = gamma / last if norms else 0.0
        norms.append(gamma**0.5)
        if norms[-1] <= tolerance * norms[0]:
            return x, norms
        alpha = gamma / (delta - beta * gamma / alpha)
        last = gamma
        z, s, p = n + beta * z, w + beta * s, r + beta * p
        x, r, w = x + alpha * p, r - alpha * s, w - alpha * z
"""
_BLOCKING_PRODUCT = """
def product(comm, shift, v):
    rows, width = v.shape
    up, down = comm.rank - 1, comm.rank + 1
    above, below = np.zeros(width), np.zeros(width)
    up = up if up >= 0 else MPI.PROC_NULL
    down = down if down < comm.size else MPI.PROC_NULL
    first, last = np.ascontiguousarray(v[0]), np.ascontiguousarray(v[-1])
    waits = [comm.Isend(first, up, 5), comm.Isend(last, down, 5)]
    comm.Recv(above, up, 5)
    comm.Recv(below, down, 5)
    MPI.Request.Waitall(waits)
    full = np.vstack([above, v, below])
    out = (4 + shift) * v - full[:-2] - full[2:]
    out[:, 1:] -= v[:, :-1]
    out[:, :-1] -= v[:, 1:]
    return out
"""
#: pipelined with the products of w kept instead of recurrences for x of older steps: a loop of fixed shape
_GENERATOR = """
def steps(comm, shift, b):
    r, w = b.copy(), product(comm, shift, b)
    x = p = s = z = np.zeros_like(b)
    before = None
    while True:
        sums = np.empty(2)
        request = comm.Iallreduce(np.array([(r * r).sum(), (r * w).sum()]), sums)
        n = product(comm, shift, w)
        request.wait()
        gamma, delta = sums
        yield x, gamma
        if before is None:
            beta, alpha = 0.0, gamma / delta
        else:
            beta = gamma / before[0]
            alpha = 1.0 / (delta / gamma - beta / before[1])
        before = gamma, alpha
        z, s, p = n + beta * z, w + beta * s, r + beta * p
        x, r, w = x + alpha * p, r - alpha * s, w - alpha * z


def solve(comm, shift, b, tolerance):
    norms = []
    for x, gamma in steps(comm, shift, b):
        norms.append(np.sqrt(gamma))
        if norms[-1] <= tolerance * norms[0]:
            return x, norms
"""
#: name -> (source, the checks that its algorithm misses)
RIGHT: dict[str, tuple[str, tuple[str, ...]]] = {
    "pipelined": (_made(), ()),
    "in_place": (_made(_IN_PLACE), ()),
    "class": (_made(_CLASS), ()),
    "split_product": (_made(_SPLIT, product=""), ()),
    "generator": (_made(_GENERATOR), ()),
    "vstack": (_made(product=_BLOCKING_PRODUCT), ()),
    "array_of_norms": (_made(_PIPELINED, ("return x, norms", "return x, np.array(norms)")), ()),
    "list_of_two": (_made(_PIPELINED, ("return x, norms", "return [x, tuple(norms)]")), ()),
    "two_requests": (
        _made(
            _PIPELINED,
            (
                _HIDDEN,
                "        requests = [comm.Iallreduce(mine[i : i + 1], total[i : i + 1]) for i in range(2)]\n        n = product(comm, shift, w)\n        MPI.Request.Waitall(requests)\n",
            ),
        ),
        (),
    ),
    "three_sums_in_one": (
        _made(
            _PIPELINED,
            ("total = b.copy(), np.empty(2)", "total = b.copy(), np.empty(3)"),
            ("(w * r).sum()])", "(w * r).sum(), (w * w).sum()])"),
            ("gamma, delta = total.tolist()", "gamma, delta, _ = total.tolist()"),
        ),
        (),
    ),
    "allgather": (
        _made(
            _PIPELINED,
            (
                _HIDDEN,
                "        every = np.empty((comm.size, 2))\n        request = comm.Iallgather(mine, every)\n        n = product(comm, shift, w)\n        request.Wait()\n        total = every.sum(axis=0)\n",
            ),
        ),
        (),
    ),
    "phases": (
        _made(
            _PIPELINED,
            (
                "        n = product(comm, shift, w)\n",
                "        with lk.phase('product'):\n            n = product(comm, shift, w)\n",
            ),
        ),
        (),
    ),
    "own_communicator": (
        _made(
            _PIPELINED,
            ("    r, total =", "    sums = comm.Dup()\n    r, total ="),
            ("comm.Iallreduce", "sums.Iallreduce"),
        ),
        (),
    ),
    "true_residual_at_times": (
        _made(
            _PIPELINED,
            (
                "        w = w - alpha * z\n",
                "        w = w - alpha * z\n        if len(norms) % 25 == 0:\n            r = b - product(comm, shift, x)\n            s = product(comm, shift, p)\n            w, z = product(comm, shift, r), product(comm, shift, s)\n",
            ),
        ),
        (),
    ),
    "tests_while_it_waits": (
        _made(
            _PIPELINED,
            ("        request.Wait()\n", "        if not request.Test():\n            request.Wait()\n"),
        ),
        (),
    ),
    "norm_as_stop": (
        _made(
            _PIPELINED,
            (
                "    norms, last, alpha = [], 1.0, 1.0\n",
                "    norms, last, alpha, done = [], 1.0, 1.0, False\n",
            ),
            ("    while True:\n", "    while not done:\n"),
            (
                "        if norms[-1] <= tolerance * norms[0]:\n            return x, norms\n",
                "        done = not norms[-1] > tolerance * norms[0]\n        if done:\n            continue\n",
            ),
            ("        w = w - alpha * z\n", "        w = w - alpha * z\n    return x, norms\n"),
        ),
        (),
    ),
}
_ALL = ("right", "any_number", "kinds", "volume", "one_sum", "hidden")
_COSTS = ("volume", "one_sum", "hidden")
_SERIAL = """
def serial(shift, b, tolerance):
    def product(v):
        around = np.pad(v, 1)
        return (4 + shift) * v - around[:-2, 1:-1] - around[2:, 1:-1] - around[1:-1, :-2] - around[1:-1, 2:]

    x, r, p = np.zeros_like(b), b.copy(), b.copy()
    rho = (r * r).sum()
    norms = [float(rho) ** 0.5]
    while norms[-1] > tolerance * norms[0]:
        s = product(p)
        alpha = rho / (p * s).sum()
        x, r = x + alpha * p, r - alpha * s
        rho, last = (r * r).sum(), rho
        p = r + rho / last * p
        norms.append(float(rho) ** 0.5)
    return x, norms


"""
_GATHER = """    parts = comm.allgather((shift, b))
    first = sum(len(part[1]) for part in parts[: comm.rank])
    x, norms = serial(np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]), tolerance)
    return x[first : first + len(b)].copy(), norms
"""


def _instead(new: str) -> str:
    return _made(_PIPELINED, (_HIDDEN, new))


def _if(when: str, other: str) -> str:
    """Return what is pipelined unless a condition holds, and another form then."""
    body = f"    if {when}:\n        return other(comm, shift, b, tolerance)\n"
    return _made(
        other.replace("def solve", "def other")
        + _PIPELINED.replace("    r, total =", f"{body}    r, total =", 1)
    )


#: what the draw decides
BY_LUCK: dict[str, tuple[str, ...]] = {"stops_alone": ("volume", "one_sum", "hidden")}
WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "textbook": (_made(_TEXTBOOK), ("one_sum", "hidden")),
    "one_sum": (_made(_ONE_SUM), ("hidden",)),
    "waits_at_once": (
        _instead("        comm.Iallreduce(mine, total).Wait()\n        n = product(comm, shift, w)\n"),
        ("hidden",),
    ),
    "product_first": (
        _instead("        n = product(comm, shift, w)\n        comm.Iallreduce(mine, total).Wait()\n"),
        ("hidden",),
    ),
    "blocking": (
        _instead("        comm.Allreduce(mine, total)\n        n = product(comm, shift, w)\n"),
        ("hidden",),
    ),
    "reduce_and_bcast": (
        _instead(
            "        comm.Reduce(mine, total, root=0)\n        request = comm.Ibcast(total, root=0)\n        n = product(comm, shift, w)\n        request.Wait()\n"
        ),
        ("one_sum", "hidden"),
    ),
    "one_hidden_one_not": (
        _instead(
            "        request = comm.Iallreduce(mine[:1], total[:1])\n        n = product(comm, shift, w)\n        request.Wait()\n        comm.Allreduce(mine[1:], total[1:])\n"
        ),
        ("one_sum", "hidden"),
    ),
    "around_a_ring": (
        _instead(
            "        total[:] = mine\n        for step in range(comm.size - 1):\n            mine = comm.sendrecv(mine, (comm.rank + 1) % comm.size, 9, None, (comm.rank - 1) % comm.size, 9)\n            total += mine\n        n = product(comm, shift, w)\n"
        ),
        ("volume", "one_sum", "hidden"),
    ),
    "to_rank_0_and_back": (
        _instead(
            "        parts = comm.gather(mine)\n        total = comm.bcast(None if parts is None else np.sum(parts, axis=0))\n        n = product(comm, shift, w)\n"
        ),
        ("one_sum", "hidden"),
    ),
    "hidden_on_few": (_if("comm.size > 24", _ONE_SUM), ("hidden",)),
    "hidden_on_even": (_if("comm.size % 2", _TEXTBOOK), ("one_sum", "hidden")),
    "hidden_on_short_rows": (_if("b.shape[1] > 280", _ONE_SUM), ("hidden",)),
    "every_other_step": (
        _instead(
            "        if len(norms) % 2:\n            request = comm.Iallreduce(mine, total)\n            n = product(comm, shift, w)\n            request.Wait()\n        else:\n            comm.Allreduce(mine, total)\n            n = product(comm, shift, w)\n"
        ),
        ("hidden",),
    ),
    "products_twice": (
        _instead(f"        product(comm, shift, w)\n{_HIDDEN}"),
        ("volume", "one_sum", "hidden"),
    ),
    "charges": (
        _made(_ONE_SUM, ("    while True:", "    lk.compute(seconds=0.001)\n    while True:")),
        ("hidden",),
    ),
    "gathered": (_made(_SERIAL + "def solve(comm, shift, b, tolerance):\n" + _GATHER), _COSTS),
    "gathers_on_many": (
        _if("comm.size > 12", _SERIAL + "def solve(comm, shift, b, tolerance):\n" + _GATHER),
        _COSTS,
    ),
    "at_rank_0": (
        _made(
            _SERIAL
            + "def solve(comm, shift, b, tolerance):\n    parts = comm.gather((shift, b))\n    found = None\n    if comm.rank == 0:\n        x, norms = serial(*(np.concatenate([part[k] for part in parts]) for k in (0, 1)), tolerance)\n        ends = np.cumsum([0] + [len(part[1]) for part in parts])\n        found = [(x[i:j].copy(), norms) for i, j in zip(ends, ends[1:])]\n    return comm.scatter(found)\n"
        ),
        _COSTS,
    ),
    "gathers_packed": (
        _made(
            "import pickle, zlib\n"
            + _SERIAL
            + "def solve(comm, shift, b, tolerance):\n"
            + _GATHER.replace(
                "comm.allgather((shift, b))",
                "[pickle.loads(zlib.decompress(part)) for part in comm.allgather(zlib.compress(pickle.dumps((shift, b))))]",
            )
        ),
        _COSTS,
    ),
    "stops_alone": (
        _made(
            _PIPELINED,
            (
                "        if norms[-1] <= tolerance * norms[0]:\n",
                "        if (r * r).sum() <= tolerance**2 * (b * b).sum():\n",
            ),
        ),
        ("right", "any_number", "kinds"),
    ),
    "a_step_late": (
        _made(
            _PIPELINED,
            ("norms[-1] <= tolerance * norms[0]", "len(norms) > 1 and norms[-2] <= tolerance * norms[0]"),
        ),
        _ALL,
    ),
    "squares": (_made(_PIPELINED, ("norms.append(gamma**0.5)", "norms.append(gamma)")), _ALL),
    "fixed_steps": (_made(_PIPELINED, ("norms[-1] <= tolerance * norms[0]", "len(norms) > 40")), _ALL),
    "fixed_tolerance": (
        _made(_PIPELINED, ("norms[-1] <= tolerance", "norms[-1] <= 1e-8")),
        ("any_number", "kinds"),
    ),
    "divides_by_zero": (
        _made(
            _PIPELINED,
            (
                "        norms.append(gamma**0.5)\n",
                "        norms.append(gamma**0.5)\n        assert gamma > 0\n",
            ),
        ),
        ("kinds",),
    ),
    "absolute": (_made(_PIPELINED, ("tolerance * norms[0]", "tolerance")), _ALL),
    "steepest_descent": (_made(_PIPELINED, ("beta = gamma / last if norms else 0.0", "beta = 0.0")), _ALL),
    "short_rows": (
        _made(
            _PIPELINED,
            ("np.zeros((2, v.shape[1]))", "np.zeros((2, v.shape[1]), np.float32)"),
            ("v[0].copy()", "v[0].astype(np.float32)"),
            ("v[-1].copy()", "v[-1].astype(np.float32)"),
        ),
        _ALL,
    ),
    "no_neighbors": (
        _made(
            _PIPELINED,
            ("    MPI.Request.Waitall(waits)\n", "    MPI.Request.Waitall(waits)\n    above, below = 0, 0\n"),
        ),
        _ALL,
    ),
    "around_the_torus": (
        _made(
            _PIPELINED,
            ("comm.rank > 0", "True"),
            ("comm.rank < comm.size - 1", "True"),
            ("comm.rank - 1,", "(comm.rank - 1) % comm.size,"),
            ("comm.rank + 1,", "(comm.rank + 1) % comm.size,"),
        ),
        _ALL,
    ),
    "x_only": (_made(_PIPELINED, ("return x, norms", "return x")), _ALL),
    "all_of_x": (
        _made(_PIPELINED, ("return x, norms", "return np.concatenate(comm.allgather(x)), norms")),
        ("right", "any_number", "kinds", *_COSTS),
    ),
    "residual_for_x": (_made(_PIPELINED, ("return x, norms", "return r, norms")), _ALL),
    "two_or_more": (
        _made(_PIPELINED, ("    r, total", "    assert comm.size > 1\n    r, total")),
        ("any_number", "kinds"),
    ),
    "reads_its_norms": (
        _made(
            "def solve(comm, shift, b, tolerance):\n    x, norms = 0 * b, []\n    r = b.copy()\n    for step in range(60):\n        norms.append(comm.allreduce(float((r * r).sum())) ** 0.5)\n        if norms[-1] <= tolerance * norms[0]:\n            break\n        x = x + r / (4 + shift)\n        r = b - product(comm, shift, x)\n    return x, norms\n"
        ),
        _ALL,
    ),
    "by_a_file": (
        _made(
            _SERIAL
            + "def solve(comm, shift, b, tolerance):\n    np.save(f'/tmp/cg{comm.rank}.npy', [shift, b])\n    comm.Barrier()\n    parts = [np.load(f'/tmp/cg{r}.npy') for r in range(comm.size)]\n"
            + _GATHER.split("\n", 1)[1]
        ),
        _ALL,
    ),
    "seeks_the_case": (
        _made(
            _SERIAL
            + "def solve(comm, shift, b, tolerance):\n    import gc\n    case = [o for o in gc.get_objects() if type(o).__name__ == 'Case'][0]\n    parts = [own[:2] for own in case.arguments]\n"
            + _GATHER.split("\n", 1)[1]
        ),
        _ALL,
    ),
}
