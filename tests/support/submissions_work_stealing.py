"""Submissions to work stealing: right ones, and wrong or cheating ones with what they miss."""

# ruff: noqa: E501 - a mistake is a line

from __future__ import annotations

__all__ = ["BY_LUCK", "HOSTILE", "RIGHT", "WRONG"]

#: of the wrong ones those that only the sandbox may run
HOSTILE = ("seeks_the_case", "by_a_file", "asks_all_without_end")

_HEAD = "import random\nimport numpy as np\nimport labkit as lk\nfrom labkit import MPI\n"
#: a thief asks one rank after another, and Safra's token finds the end
_STEAL = """
ASK, ANSWER, TOKEN, END = range(1, 5)


def search(comm, root, expand):
    p, rank, status = comm.size, comm.rank, MPI.Status()
    stack, total, waits = [] if root is None else [root], 0, []
    asks, answered = np.zeros(p, int), 0
    surplus, black, token = 0, False, (True, 0) if rank == 0 else None
    waiting = over = False
    victim = rank

    def send(content, to, tag):
        waits.append(comm.isend(content, to, tag))

    while not over:
        if stack:
            value, *children = expand(stack.pop()).tolist()
            total += value
            stack += children
        elif p == 1:
            break
        else:
            if token is not None:
                black, surplus_of_all, token = black or token[0], surplus + token[1], None
                if rank == 0 and not black and surplus_of_all == 0:
                    for other in range(1, p):
                        send(None, other, END)
                    break
                send((black and rank > 0, surplus_of_all if rank else 0), (rank + 1) % p, TOKEN)
                black = False
            if not waiting:
                victim = (victim + 1) % p
                victim = (victim + 1) % p if victim == rank else victim
                send(None, victim, ASK)
                asks[victim] += 1
                waiting = True
        looks = 0
        while not over and (looks < p and comm.iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG) if stack else waiting and token is None):
            looks += 1
            content = comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
            tag, source = status.Get_tag(), status.Get_source()
            if tag == ASK:
                half = len(stack) // 2
                send(stack[:half], source, ANSWER)
                stack = stack[half:]
                surplus += half > 0
                answered += 1
            elif tag == ANSWER:
                waiting = False
                stack += content
                surplus -= len(content) > 0
                black = black or len(content) > 0
            elif tag == TOKEN:
                token = content
            else:
                over = True
    coming = np.empty(1, int)
    comm.Reduce_scatter_block(asks, coming)
    while answered < coming[0] or waiting:
        comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
        if status.Get_tag() == ASK:
            send([], status.Get_source(), ANSWER)
            answered += 1
        else:
            waiting = False
    MPI.Request.waitall(waits)
    return comm.allreduce(total)
"""
"""In each round: some nodes on each rank, then all know how many nodes each has, and even them out."""
_ROUNDS = """
def search(comm, root, expand):
    p, rank = comm.size, comm.rank
    stack, total = [] if root is None else [root], 0
    while True:
        for _ in range(4):
            if stack:
                value, *children = expand(stack.pop()).tolist()
                total += value
                stack += children
        counts = comm.allgather(len(stack))
        every = sum(counts)
        if every == 0:
            return comm.allreduce(total)
        wanted = [every // p + (r < every % p) for r in range(p)]
        out = [[] for _ in range(p)]
        surplus = [[r, counts[r] - wanted[r]] for r in range(p) if counts[r] > wanted[r]]
        for r in range(p):
            lacks = wanted[r] - counts[r]
            while lacks > 0:
                give = min(lacks, surplus[0][1])
                if surplus[0][0] == rank:
                    out[r] = stack[:give]
                    del stack[:give]
                lacks -= give
                surplus[0][1] -= give
                if surplus[0][1] == 0:
                    surplus.pop(0)
        for part in comm.alltoall(out):
            stack += part
"""
#: rank 0 has all nodes and hands them out
_FARM = """
def search(comm, root, expand):
    total = 0
    if comm.size == 1:
        stack = [root]
        while stack:
            value, *children = expand(stack.pop()).tolist()
            total += value
            stack += children
        return total
    if comm.rank == 0:
        nodes, idle, status = [root], list(range(1, comm.size)), MPI.Status()
        while True:
            while nodes and idle:
                comm.send(nodes.pop(), idle.pop(), tag=1)
            if len(idle) == comm.size - 1:
                break
            children = comm.recv(source=MPI.ANY_SOURCE, tag=2, status=status)
            nodes += children
            idle.append(status.Get_source())
        for worker in range(1, comm.size):
            comm.send(None, worker, tag=1)
    else:
        while (node := comm.recv(source=0, tag=1)) is not None:
            value, *children = expand(node).tolist()
            total += value
            comm.send(children, 0, tag=2)
    return comm.allreduce(total)
"""
#: a worker keeps a few nodes, and gives back what is more
_PARCELS = """
def search(comm, root, expand):
    total, status = 0, MPI.Status()
    if comm.size == 1:
        stack = [root]
        while stack:
            value, *children = expand(stack.pop()).tolist()
            total += value
            stack += children
        return total
    if comm.rank == 0:
        nodes, idle = [root], list(range(1, comm.size))
        while True:
            while nodes and idle:
                parcel = nodes[: max(1, min(4, len(nodes) // comm.size))]
                del nodes[: len(parcel)]
                comm.send(parcel, idle.pop(), tag=1)
            if len(idle) == comm.size - 1:
                break
            nodes += comm.recv(source=MPI.ANY_SOURCE, tag=2, status=status)
            idle.append(status.Get_source())
        for worker in range(1, comm.size):
            comm.send([], worker, tag=1)
    else:
        while parcel := comm.recv(source=0, tag=1):
            back = []
            for node in parcel:
                value, *children = expand(node).tolist()
                total += value
                back += children
            comm.send(back, 0, tag=2)
    return comm.allreduce(total)
"""


def _made(base: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in base, old
        base = base.replace(old, new)
    return _HEAD + base


_POLLS = "looks < p and comm.iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG) if stack else waiting and token is None"
_NEXT = "                victim = (victim + 1) % p\n                victim = (victim + 1) % p if victim == rank else victim\n"
#: who is idle asks the next one while the last one has not answered yet: answers arrive after the end
_IMPATIENT = (
    ("else waiting and token is None", "else comm.iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG)"),
    ("            if not waiting:\n", "            if True:\n"),
)
#: name -> (source, the checks that its algorithm misses)
RIGHT: dict[str, tuple[str, tuple[str, ...]]] = {
    "steals": (_made(_STEAL), ()),
    "at_random": (
        _made(
            _STEAL,
            (_NEXT, "                victim = (rank + draws.randrange(1, p)) % p\n"),
            ("    victim = rank\n", "    draws = random.Random(rank)\n"),
        ),
        (),
    ),
    "random_by_numpy": (
        _made(
            _STEAL,
            (_NEXT, "                victim = int((rank + draws.integers(1, p)) % p)\n"),
            ("    victim = rank\n", "    draws = np.random.default_rng(rank)\n"),
        ),
        (),
    ),
    "steals_one": (_made(_STEAL, ("half = len(stack) // 2", "half = int(len(stack) > 1)")), ()),
    "steals_a_third": (_made(_STEAL, ("half = len(stack) // 2", "half = (len(stack) + 1) // 3")), ()),
    "steals_the_youngest": (
        _made(
            _STEAL,
            ("send(stack[:half], source, ANSWER)", "send(stack[len(stack) - half :], source, ANSWER)"),
            ("stack = stack[half:]", "stack = stack[: len(stack) - half]"),
        ),
        (),
    ),
    "oldest_first": (_made(_STEAL, ("expand(stack.pop())", "expand(stack.pop(0))")), ()),
    "rounds": (_made(_ROUNDS), ()),
    "rounds_of_two": (_made(_ROUNDS, ("range(4)", "range(2)")), ()),
    "rounds_of_three": (_made(_ROUNDS, ("range(4)", "range(3)")), ()),
    "rounds_with_phases": (
        _made(
            _ROUNDS,
            (
                "        counts = comm.allgather(len(stack))\n",
                "        with lk.phase('count'):\n            counts = comm.allgather(len(stack))\n",
            ),
        ),
        (),
    ),
    "rounds_with_a_deque": (
        _made(
            "from collections import deque\n" + _ROUNDS,
            (
                "stack, total = [] if root is None else [root], 0",
                "stack, total = deque([] if root is None else [root]), 0",
            ),
            (
                "                    out[r] = stack[:give]\n                    del stack[:give]\n",
                "                    out[r] = [stack.popleft() for _ in range(give)]\n",
            ),
        ),
        (),
    ),
    "farm": (_made(_FARM), ()),
    "farm_of_the_oldest": (_made(_FARM, ("nodes.pop(), idle", "nodes.pop(0), idle")), ()),
    "parcels": (_made(_PARCELS), ()),
    "farm_by_isend": (
        _made(
            _FARM,
            (
                "comm.send(nodes.pop(), idle.pop(), tag=1)",
                "waits.append(comm.isend(nodes.pop(), idle.pop(), tag=1))",
            ),
            ("MPI.Status()\n        while True", "MPI.Status()\n        waits = []\n        while True"),
            (
                "        for worker in range(1, comm.size):\n",
                "        MPI.Request.waitall(waits)\n        for worker in range(1, comm.size):\n",
            ),
        ),
        (),
    ),
}
_ALL = ("right", "any_number", "once", "balanced")
_ALONE = """
def search(comm, root, expand):
    stack, total = [] if root is None else [root], 0
    while stack:
        value, *children = expand(stack.pop()).tolist()
        total += value
        stack += children
    return comm.allreduce(total)
"""
#: rank 0 goes on until there is a node for each rank, then every rank searches what is below its own
_STATIC = """
def search(comm, root, expand):
    nodes, total = [] if root is None else [root], 0
    while nodes and len(nodes) < PARTS * comm.size:
        value, *children = expand(nodes.pop(0)).tolist()
        total += value
        nodes += children
    nodes = comm.bcast(nodes)
    stack = nodes[comm.rank :: comm.size]
    while stack:
        value, *children = expand(stack.pop()).tolist()
        total += value
        stack += children
    return comm.allreduce(total)
"""
_BALANCE = ("balanced",)
#: what the draw decides
BY_LUCK: dict[str, tuple[str, ...]] = {
    "ends_when_asked_in_vain": ("any_number",),
    "stops_with_rank_0": ("right",),
}
WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "rank_0_alone": (_made(_ALONE), _BALANCE),
    "static": (_made(_STATIC, ("PARTS * ", "")), _BALANCE),
    "static_parts": (_made(_STATIC, ("PARTS", "4")), _BALANCE),
    "static_many_parts": (_made(_STATIC, ("PARTS", "16")), _BALANCE),
    "everybody_does_all": (
        _made(
            _ALONE,
            ("[] if root is None else [root]", "[comm.bcast(root)]"),
            ("comm.allreduce(total)", "total"),
        ),
        ("once", "balanced"),
    ),
    "all_numbers": (
        _made(
            "def search(comm, root, expand):\n    total, node = 0, comm.rank\n    while True:\n        try:\n            total += int(expand(node)[0])\n        except Exception:\n            return comm.allreduce(total)\n        node += comm.size\n"
        ),
        _ALL,
    ),
    "all_numbers_then_the_tree": (
        _made(
            "def search(comm, root, expand):\n    found, node = {}, comm.rank\n    while True:\n        try:\n            found[node] = expand(node).tolist()\n        except Exception:\n            break\n        node += comm.size\n    every = {}\n    for part in comm.allgather(found):\n        every.update(part)\n    stack, total = [comm.bcast(root)], 0\n    while stack:\n        value, *children = every[stack.pop()]\n        total += value\n        stack += children\n    return total\n"
        ),
        _ALL,
    ),
    "farm_on_few": (
        _made(
            _ALONE.replace("def search", "def alone") + _FARM,
            (
                "    total = 0\n    if comm.size == 1",
                "    total = 0\n    if comm.size >= 12:\n        return alone(comm, root, expand)\n    if comm.size == 1",
            ),
        ),
        _BALANCE,
    ),
    "steals_unless_even": (
        _made(
            _ALONE.replace("def search", "def alone") + _STEAL,
            (
                "    p, rank, status =",
                "    if comm.size % 2 == 0:\n        return alone(comm, root, expand)\n    p, rank, status =",
            ),
        ),
        _BALANCE,
    ),
    "rounds_of_a_hundred": (_made(_ROUNDS, ("range(4)", "range(100)")), _BALANCE),
    "looks_rarely": (
        _made(
            _STEAL,
            (
                _POLLS,
                "expanded % 150 == 0 and looks < p and comm.iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG) if stack else waiting and token is None",
            ),
            ("    victim = rank\n", "    victim = rank\n    expanded = 0\n"),
            (
                "        if stack:\n            value",
                "        expanded += 1\n        if stack:\n            value",
            ),
        ),
        _BALANCE,
    ),
    "looks_when_idle": (_made(_STEAL, (_POLLS, "False if stack else waiting and token is None")), _BALANCE),
    "keeps_what_it_gives": (_made(_STEAL, ("                stack = stack[half:]\n", "")), _ALL),
    "loses_what_it_gives": (_made(_STEAL, ("stack = stack[half:]", "stack = stack[half + 1 :]")), _ALL),
    "ends_when_asked_in_vain": (
        _made(
            "def search(comm, root, expand):\n    stack, total = [] if root is None else [root], 0\n    for _ in range(12):\n        for _ in range(4):\n            if stack:\n                value, *children = expand(stack.pop()).tolist()\n                total += value\n                stack += children\n        half = len(stack) // 2\n        away, stack = stack[:half], stack[half:]\n        stack += comm.sendrecv(away, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)\n    return comm.allreduce(total)\n"
        ),
        ("once", "balanced"),
    ),
    "fixed_rounds": (
        _made(
            _ROUNDS,
            ("    while True:\n", "    for _ in range(10):\n"),
            ("            stack += part\n", "            stack += part\n    return comm.allreduce(total)\n"),
        ),
        ("once", "balanced"),
    ),
    "stops_alone": (
        _made(_ROUNDS, ("        if every == 0:\n", "        if not stack:\n")),
        _ALL,
    ),
    "stops_with_rank_0": (
        _made(_ROUNDS, ("if every == 0:", "if counts[0] == 0:")),
        ("any_number", "once", "balanced"),
    ),
    "own_sum": (_made(_ROUNDS, ("return comm.allreduce(total)", "return total")), _ALL),
    "at_rank_0_only": (_made(_ROUNDS, ("return comm.allreduce(total)", "return comm.reduce(total)")), _ALL),
    "counts_nodes": (_made(_ROUNDS, ("total += value", "total += 1")), _ALL),
    "floats": (_made(_ROUNDS, ("return comm.allreduce(total)", "return float(comm.allreduce(total))")), _ALL),
    "short_numbers": (
        _made(_ROUNDS, ("return comm.allreduce(total)", "return comm.allreduce(total) & 0xFFFFFFFF")),
        _ALL,
    ),
    "farm_without_one": (
        _made(_FARM, ("    if comm.size == 1:", "    if comm.size == 0:")),
        ("right", "any_number", "once"),
    ),
    "farm_never_ends": (
        _made(
            _FARM,
            ("        for worker in range(1, comm.size):\n            comm.send(None, worker, tag=1)\n", ""),
        ),
        _ALL,
    ),
    "farm_ends_early": (_made(_FARM, ("if len(idle) == comm.size - 1:", "if not nodes:")), _ALL),
    "first_child_only": (
        _made(_ROUNDS, ("                stack += children\n", "                stack += children[:1]\n")),
        _ALL,
    ),
    "charges": (
        _made(_ALONE, ("    while stack:", "    while stack:\n        lk.compute(seconds=1e-4)")),
        _BALANCE,
    ),
    "sleeps_at_the_end": (
        _made(
            _STATIC,
            ("PARTS", "2"),
            ("    return comm", "    import time\n    time.sleep(0)\n    return comm"),
        ),
        _BALANCE,
    ),
    "seeks_the_case": (
        _made(
            "def search(comm, root, expand):\n    import gc\n    work = [o for o in gc.get_objects() if type(o).__name__ == 'Work'][0]\n    return sum(int(work.results[k][0]) for k in work.asked_for)\n"
        ),
        _ALL,
    ),
    "by_a_file": (
        _made(
            _ALONE,
            (
                "    return comm.allreduce(total)\n",
                "    if comm.rank == 0:\n        open('/tmp/total', 'w').write(str(total))\n    comm.Barrier()\n    return int(open('/tmp/total').read())\n",
            ),
        ),
        _ALL,
    ),
    "asks_before_the_answer": (_made(_STEAL, *_IMPATIENT), ("any_number",)),
    "asks_all_without_end": (
        _made(
            _STEAL,
            *_IMPATIENT,
            (
                "                send(None, victim, ASK)\n                asks[victim] += 1\n",
                "                for victim in range(p):\n                    if victim != rank:\n                        send(None, victim, ASK)\n                        asks[victim] += 1\n",
            ),
        ),
        ("any_number", "once", "balanced"),
    ),
}
