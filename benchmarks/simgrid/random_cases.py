"""Random programs on random machines under random models, compared with SimGrid by ``compare.py --fuzz``."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from cases import FINE, FULL, Case, blocking_mix, linear_alltoall, posted_mix
from named import EVERY
from random_machines import random_machine

__all__ = ["random_case"]

#: When programs of collectives begin: making communicators takes its own time in each simulator.
START_NS = 100_000_000
#: What an algorithm asks of the number of ranks or of the size; README.md says where SimGrid differs.
POWERS = {"alltoall", "allgather_recursive_doubling", "allreduce_rabenseifner"}
#: Their senders pay the overhead of Isend in SimGrid whether or not the message is detached.
SHORT = {"gather_linear", "gatherv_linear"}
#: SimGrid's return at once where there is nothing to reduce.
NOT_EMPTY = {"reduce_binomial", "reduce_scatter_block_pairwise"}
#: Others than SimGrid's where hosts are not alike: the order in which a root receives, or partners are met.
OTHER_ORDER = {"reduce_linear", "alltoallv_linear"}
ROOTED = ("bcast", "gather", "reduce_binomial", "reduce_linear", "scatter")
#: The thresholds of SMPI's tables, less the envelope, and of the protocols.
EDGES = [t - 16 for t in (257, 732, 1426, 3484, 5776, 9376, 15_424, 65_472)] + [65_536]


def edge_size(draw: random.Random, edges: list[int], largest: int) -> int:
    """A size at an edge (the last one is that of detached messages), one beside it, nothing, or anything."""
    if draw.random() < 0.6:
        return min(max(draw.choice(edges) + draw.choice([-1, 0, 1]), 0), largest)
    return draw.choice([0, 0, 1, draw.randrange(1, largest), draw.randrange(1, 100_000)])


def windows(draw: random.Random, p: int, edges: list[int]) -> str:
    """Rounds of a window of sends to some neighbors, received in another order, and Sendrecv in between.

    Every message of a round has a tag of its own: SimGrid keeps eager ones in a queue of their own.
    """
    lines: list[list[str]] = [[f"sleep {draw.randrange(1, 100_000)}"] for _ in range(p)]
    for tag in range(draw.randrange(1, 6)):
        distance = draw.randrange(p)
        sizes = [edge_size(draw, edges, 400_000) for _ in range(draw.randrange(1, 7))]
        kind = draw.choice(["window", "window", "sendrecv", "waitany"])
        for rank, ops in enumerate(lines):
            to, source = (rank + distance) % p, (rank - distance) % p
            if kind == "sendrecv":
                ops += [f"sendrecv {to} {9 * tag} {size} {source} {9 * tag} {size}; mark" for size in sizes]
                continue
            n = len(sizes)
            posts = [f"irecv {i} {source} {9 * tag + i} {size}" for i, size in enumerate(sizes)]
            posts += [
                f"{draw.choice(['isend', 'isend', 'issend'])} {n + i} {to} {9 * tag + i} {size}"
                for i, size in enumerate(sizes)
            ]
            if draw.random() < 0.3:
                posts = posts[n:] + posts[:n]
            ops += posts
            slots = " ".join(map(str, draw.sample(range(2 * n), 2 * n)))
            if kind == "window":
                ops.append(f"waitall {slots}; mark")
            else:  # sends that were let go on end first: what comes when is marked one by one
                ops += [f"waitany {slots}; mark; sleep {1000 + 13 * rank}"] * (2 * n)
    return text_of(lines)


def wildcards(draw: random.Random, p: int, edges: list[int]) -> str:
    """Receives from anybody and of any tag that match only one way: who has received sends next."""
    lines: list[list[str]] = [[] for _ in range(p)]
    holder = draw.randrange(p)
    for _ in range(draw.randrange(3, 6 * p)):
        to = draw.choice([rank for rank in range(p) if rank != holder])
        size, tag = edge_size(draw, edges, 300_000), draw.randrange(4)
        if draw.random() < 0.4:
            lines[holder].append(f"sleep {draw.randrange(1, 50_000)}")
        lines[holder].append(f"{draw.choice(['send', 'ssend', 'send'])} {to} {tag} {size}; mark")
        source = draw.choice([holder, -1])
        wanted = draw.choice([tag, -1])
        if draw.random() < 0.3:
            lines[to].append(f"iprobe {source} {wanted}; mark")
        lines[to].append(f"recv {source} {wanted} {size}; mark")
        holder = to
    return text_of(lines)


def text_of(lines: list[list[str]]) -> str:
    """A program of each rank's operations."""
    return "".join(f"{rank}: {'; '.join(ops)}\n" for rank, ops in enumerate(lines))


def groups(draw: random.Random, p: int) -> dict[str, list[int]]:
    """The world, and up to two groups of some ranks in any order."""
    made = {"": list(range(p))}
    for slot in range(draw.randrange(3)):
        made[f"@{slot}"] = draw.sample(range(p), draw.randrange(1, p + 1))
    return made


def one_of_each_problem(draw: random.Random) -> dict[str, str]:
    """An algorithm of every collective: problem -> operation."""
    by_problem: dict[str, list[str]] = {}
    for operation, (problem, _, _) in EVERY.items():
        if operation not in OTHER_ORDER:
            by_problem.setdefault(problem, []).append(operation)
    return {problem: draw.choice(found) for problem, found in by_problem.items()}


def call(draw: random.Random, operation: str, size: int, p: int, edges: list[int]) -> str | None:
    """The operation on so many ranks, as text; None where the algorithms differ."""
    is_power = p & (p - 1) == 0
    if operation in POWERS and not is_power:
        return None
    if operation.startswith("barrier"):
        return ""
    detached_below = edges[-1]
    if operation in SHORT and detached_below <= 317 * p:
        return None
    if operation in SHORT:
        size = min(size, detached_below - 1 - 317 * p)
    if operation in NOT_EMPTY:
        size = max(size, 1)
    if operation == "allgatherv_ring":  # SimGrid's leaves empty blocks out and cuts those above 32 KiB
        return f" {min(max(size, 1), 20_000)} {draw.choice([0, 1, 200])}"
    if operation in ("allreduce_ring", "allreduce_rabenseifner"):
        size = max(size - size % p, p)
    if operation.startswith(("gatherv", "scatterv", "alltoallv")):
        words = f" {min(size, 60_000)} {draw.choice([0, 1, 317])}"
        return words + (f" {draw.randrange(p)}" if operation.startswith(("gatherv", "scatterv")) else "")
    return f" {size}" + (f" {draw.randrange(p)}" if operation.startswith(ROOTED) else "")


def collectives(draw: random.Random, p: int, edges: list[int]) -> str:
    """Collectives of the world and of groups, one after the other, with late ranks and messages."""
    everybody = groups(draw, p)
    lines: list[list[str]] = [[] for _ in range(p)]
    for suffix, members in everybody.items():
        if suffix:
            for rank in members:
                lines[rank].append(f"comm {suffix[1:]} {' '.join(map(str, members))}")
    for ops in lines:
        ops.append(f"until {START_NS}; sleep {draw.randrange(1, 60_000)}")
    chosen = one_of_each_problem(draw)
    for tag in range(draw.randrange(1, 9)):
        if p > 1 and draw.random() < 0.3:
            src, dst = draw.sample(range(p), 2)
            size = edge_size(draw, edges, 200_000)
            lines[src].append(f"send {dst} {tag} {size}; mark")
            lines[dst].append(f"recv {src} {tag} {size}; mark")
        suffix = draw.choice(list(everybody))
        members = everybody[suffix]
        operation = chosen[draw.choice(list(chosen))]
        words = call(draw, operation, edge_size(draw, edges, 150_000), len(members), edges)
        if words is None:
            continue
        for rank in members:
            lines[rank].append(f"{operation}{suffix}{words}; mark")
            if draw.random() < 0.2:
                lines[rank].append(f"sleep {draw.randrange(1, 80_000)}")
    return text_of(lines)


def mixes(draw: random.Random, p: int, edges: list[int]) -> str:
    """The mixes that the goldens are made of."""
    del edges
    seed, messages = draw.randrange(1 << 30), draw.randrange(1, 8 * p)
    kind = draw.random()
    if kind < 0.2:
        return linear_alltoall(seed, p, draw.choice([100, 10_000, 100_000]), draw.random() < 0.7)
    if kind < 0.5:
        return blocking_mix(seed, p, messages)
    wait = draw.choice(["waitall", "waitany", "wait", "test"])
    return posted_mix(seed, p, messages, draw.random() < 0.4 and wait in ("waitall", "wait"), wait)


KINDS: dict[str, Callable[[random.Random, int, list[int]], str]] = {
    "mix": mixes,
    "windows": windows,
    "wildcards": wildcards,
    "collectives": collectives,
}


def random_case(seed: int, kind: str = "") -> Case:
    """Make a case of a kind (default: any); the same seed gives the same one."""
    draw = random.Random(f"labkit {seed}")
    p = draw.randrange(2, 17) if draw.random() < 0.95 else 48
    machine = random_machine(draw, p)
    options: dict[str, Any] = {}
    if draw.random() < 0.3:
        options["cross_traffic"] = draw.random() < 0.5
    if draw.random() < 0.3:
        options["detached_below_bytes"] = draw.choice([0, 1000, 300_000])
    edges = [*EDGES, options.get("detached_below_bytes", 65_536)]
    chosen = kind or draw.choice(["mix", "windows", "wildcards", "collectives", "collectives"])
    if chosen == "windows" and draw.random() < 0.3:  # no wildcards in them
        options["eager_below_bytes"] = min(
            draw.choice([1000, 20_000]), options.get("detached_below_bytes", 65_536)
        )
        edges.append(options["eager_below_bytes"])
    model = draw.choice(["raw", "cm02", "lv08", "smpi", "lab"])
    program = KINDS[chosen](draw, p, edges)
    if "eager_below_bytes" in options:  # SimGrid may stop where synchronous messages stand among eager ones
        program = program.replace("issend", "isend").replace("ssend", "send")
    return Case(f"random-{chosen}-{seed}", p, machine.spec, model, program, options, FINE + FULL, machine)
