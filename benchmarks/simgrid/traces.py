"""Time-independent traces that labkit and SimGrid both replay: point to point, collectives, mixes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from cases import CONTENDED, FINE, FULL, GIGABIT, STAR

__all__ = ["ALGORITHMS", "TraceCase", "trace_cases"]

#: labkit's algorithm and SimGrid's that sends the same messages
ALGORITHMS = {
    "allreduce": ("recursive_doubling", "rdb"),
    "alltoall": ("pairwise", "pair"),
    "bcast": ("binomial", "binomial_tree"),
    "allgather": ("ring", "NTSLR"),
    "barrier": ("dissemination", "ompi_bruck"),
    "reduce": ("binomial", "binomial"),
    "gather": ("linear", "default"),
    "alltoallv": ("linear", "ompi_basic_linear"),
}


@dataclass(frozen=True)
class TraceCase:
    name: str
    ranks: int
    spec: str
    model: str
    lines: list[str]
    #: collectives it uses
    collectives: tuple[str, ...] = ()
    #: further --cfg items for SimGrid; README.md says why
    simgrid: tuple[str, ...] = ()
    coll: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def all_ranks(p: int, make: Callable[[int], list[str]]) -> list[str]:
    """The ranks' lines one after another, with init and finalize."""
    return [
        line for r in range(p) for line in [f"{r} init", *(f"{r} {one}" for one in make(r)), f"{r} finalize"]
    ]


def ring(p: int, rounds: int, size: int) -> list[str]:
    """Blocking: even ranks send first, and everybody computes in between."""

    def program(rank: int) -> list[str]:
        right, left = (rank + 1) % p, (rank - 1) % p
        out, back = f"send {right} 1 {size} 6", f"recv {left} 1 {size} 6"
        return [f"compute {1e5 * (rank + 1)}", *((out, back) if rank % 2 == 0 else (back, out))] * rounds

    return all_ranks(p, program)


def halo(p: int, rounds: int, size: int) -> list[str]:
    """Both neighbors at once, then a waitall, then work."""

    def program(rank: int) -> list[str]:
        right, left = (rank + 1) % p, (rank - 1) % p
        posts = [f"irecv {left} 0 {size} 6", f"irecv {right} 1 {size} 6"]
        posts += [f"isend {right} 0 {size} 6", f"isend {left} 1 {size} 6", "waitall 4"]
        return [*posts, f"compute {2e4 * (rank % 7)}"] * rounds

    return all_ranks(p, program)


def mix(seed: int, p: int, messages: int, wait: str) -> list[str]:
    """Messages between random pairs, of random sizes, with waits by key in random order."""
    rng = random.Random(seed)
    posts: list[list[str]] = [[] for _ in range(p)]
    keys: list[list[str]] = [[] for _ in range(p)]
    for tag in range(messages):
        src, dst = rng.sample(range(p), 2)
        size = rng.choice(
            [0, 1, rng.randrange(2, 300), rng.randrange(300, 65_000), rng.randrange(65_000, 2_000_000)]
        )
        posts[src].append(f"isend {dst} {tag} {size} 6")
        posts[dst].append(f"irecv {src} {tag} {size} 6")
        for rank in (src, dst):
            keys[rank].append(f"wait {src} {dst} {tag}")

    def program(rank: int) -> list[str]:
        lines = [f"sleep {rng.randrange(1, 300_000) * 1e-9:.9f}"]
        rng.shuffle(posts[rank])
        rng.shuffle(keys[rank])
        for post in posts[rank]:
            lines += [post] + [f"compute {rng.randrange(1, 40_000)}"] * (rng.random() < 0.5)
        return lines + (["waitall 0"] if wait == "waitall" else keys[rank])

    return all_ranks(p, program)


def collective(p: int, rounds: int, line: str, work: Callable[[int, int], float]) -> list[str]:
    return all_ranks(
        p, lambda rank: [one for k in range(rounds) for one in (f"compute {work(rank, k)}", line)]
    )


def even(rank: int, k: int) -> float:
    return 1e6


def skewed(rank: int, k: int) -> float:
    return 1e5 + 1e3 * ((rank * 37 + k * 11) % 64)


def vectors(p: int) -> list[str]:
    """alltoallv of sizes that depend on both ranks."""

    def size(source: int, target: int) -> int:
        return 100 * ((source * 7 + target * 3) % 11)

    def program(rank: int) -> list[str]:
        sent = [size(rank, other) for other in range(p)]
        received = [size(other, rank) for other in range(p)]
        numbers = [sum(sent), *sent, sum(received), *received, 6, 6]
        return [f"compute {skewed(rank, 0)}", "alltoallv " + " ".join(map(str, numbers))]

    return all_ranks(p, program)


def application(p: int, steps: int) -> list[str]:
    """What an iterative solver does: halo, dot products, now and then a broadcast."""

    def program(rank: int) -> list[str]:
        right, left = (rank + 1) % p, (rank - 1) % p
        lines = ["bcast 1000 0 0"]
        for k in range(steps):
            lines += [f"irecv {left} 0 4000 0", f"irecv {right} 1 4000 0"]
            lines += [f"isend {right} 0 4000 0", f"isend {left} 1 4000 0"]
            lines += [
                f"compute {1e6 + 1e4 * ((rank * 13 + k) % 16)}",
                f"wait {left} {rank} 0",
                f"wait {right} {rank} 1",
            ]
            lines += ["waitall 2", "allreduce 2 10 0"]
        return [*lines, "barrier"]

    return all_ranks(p, program)


def trace_cases() -> list[TraceCase]:
    torus, tree = "torus:4x4x4", "fattree:8x8:1x8:1x1"
    cases = [
        TraceCase("ring-64KiB", 16, STAR.format(p=16), "smpi", ring(16, 20, 65_536)),
        TraceCase("ring-800B-lab", 16, STAR.format(p=16), "lab", ring(16, 20, 800)),
        TraceCase("ring-gigabit-lv08", 24, GIGABIT.format(p=24), "lv08", ring(24, 5, 30_000)),
        TraceCase("halo-smpi", 64, torus, "smpi", halo(64, 10, 20_000), simgrid=FINE + FULL),
        TraceCase("halo-lab-tree", 64, tree, "lab", halo(64, 10, 100_000), simgrid=FINE + FULL),
        TraceCase("mix-waits", 24, STAR.format(p=24), "lab", mix(1, 24, 400, "wait"), simgrid=FINE + FULL),
        TraceCase(
            "mix-waitall", 24, CONTENDED.format(p=24), "smpi", mix(2, 24, 400, "waitall"), simgrid=FINE + FULL
        ),
        TraceCase("mix-cm02", 24, torus, "cm02", mix(3, 24, 300, "wait"), simgrid=FINE + FULL),
    ]
    lines = {
        "allreduce": "allreduce 1000 5e4 0", "alltoall": "alltoall 8192 8192 0 0", "bcast": "bcast 20000 0 0",
        "allgather": "allgather 1250 1250 0 0", "barrier": "barrier", "reduce": "reduce 100 1e4 0 0",
        "gather": "gather 500 500 0 0 0",
    }  # fmt: skip
    for name, line in lines.items():
        text = collective(64, 4, line, even)
        cases.append(TraceCase(f"{name}-even", 64, STAR.format(p=64), "smpi", text, (name,)))
        text = collective(64, 4, line, skewed)
        cases.append(TraceCase(f"{name}-skewed", 64, torus, "lab", text, (name,), FINE + FULL))
    cases.append(
        TraceCase("alltoallv", 16, STAR.format(p=16), "smpi", vectors(16), ("alltoallv",), FINE + FULL)
    )
    cases.append(
        TraceCase(
            "application",
            64,
            torus,
            "smpi",
            application(64, 20),
            ("bcast", "allreduce", "barrier"),
            FINE + FULL,
        )
    )
    return cases + shared_cores()


def shared_cores() -> list[TraceCase]:
    """More ranks than cores on every host: their computations share them."""
    hosts = "star:{hosts},bw=1.25GBps,lat=1us,cores={cores},mapping={mapping}"
    cases = []
    for name, p, hosts_, cores, mapping, model, lines, collectives in (
        ("cores-ring", 16, 4, 2, "block", "smpi", ring(16, 20, 800), ()),
        ("cores-halo", 32, 4, 3, "cyclic", "lab", halo(32, 10, 20_000), ()),
        ("cores-mix", 24, 4, 1, "random:2", "lab", mix(5, 24, 300, "wait"), ()),
        ("cores-allreduce", 32, 8, 2, "cyclic", "smpi", collective(32, 4, "allreduce 1000 5e4 0", skewed),
         ("allreduce",)),
        ("cores-application", 32, 8, 2, "block", "lab", application(32, 10),
         ("bcast", "allreduce", "barrier")),
    ):  # fmt: skip
        spec = hosts.format(hosts=hosts_, cores=cores, mapping=mapping)
        cases.append(TraceCase(name, p, spec, model, lines, collectives, FINE + FULL))
    return cases
