"""Tori and fat trees for labkit and SimGrid to be compared on: every pair of hosts, rings, collectives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cases import FINE, FULL, Case, blocking_mix, posted_mix

__all__ = ["every_pair", "neighbors", "title", "topology_cases"]

EXTRAS = "limiter=1.5GBps,loopback_bw=6GBps,loopback_lat=100ns"
#: Small machines on which every host sends to every other one.
SMALL = (
    ("torus:7", {}),
    ("torus:6", {"cross_traffic": False}),
    ("torus:4x3", {}),
    ("torus:4x3,sharing=shared", {}),
    ("torus:3x1x2,cores=2,loopback_bw=6GBps", {}),
    ("torus:3x2x2," + EXTRAS, {}),
    ("torus:2x2x1x3x2", {}),
    ("fattree:4:1:3,cores=2", {}),
    ("fattree:4x3:1x2:1x2", {}),
    ("fattree:2x4:2x3:2x1", {"cross_traffic": False}),
    ("fattree:2x3x2:1x2x2:2x1x3", {}),
    ("fattree:2x3x2:1x2x2:2x3x2,sharing=shared", {}),
    ("fattree:3x4:1x2:1x2,cores=2," + EXTRAS, {}),
)
TORUS, TREE = "torus:4x4x4", "fattree:8x8:1x8:1x1"
LIMITED = "torus:4x2x8,limiter=1.5GBps"
RAILS = "fattree:4x4x4:1x2x3:2x1x2"
SLIM = "fattree:16x4:1x4:1x1,limiter=3GBps"


def title(spec: str) -> str:
    """A specification as a part of a file's name."""
    for old, new in ((EXTRAS, "extras"), (":", "-"), ("=", ""), (",", "-")):
        spec = spec.replace(old, new)
    return spec


def every_pair(spec: str, model: str, options: dict[str, Any]) -> Case:
    """One message after another: from every rank to every other one, short and long; nothing overlaps."""
    case = Case("", 0, spec, model, "", options)
    ranks = case.platform.capacity or 0
    ops: list[list[str]] = [[] for _ in range(ranks)]
    pairs = [(src, dst) for src in range(ranks) for dst in range(ranks) if src != dst]
    for (src, dst), (following, _) in zip(pairs, pairs[1:] + pairs[:1], strict=True):
        ops[src] += [f"send {dst} 0 8", f"send {dst} 0 100000"]
        ops[dst] += [f"recv {src} 0 8", "mark", f"recv {src} 0 100000", "mark"]
        if dst != following:  # the baton
            ops[dst].append(f"ssend {following} 1 0")
            ops[following].append(f"recv {dst} 1 0")
    last, first = pairs[-1][1], pairs[0][0]
    if last != first:  # nobody waits for a first baton: the last one goes nowhere
        ops[last].pop()
        ops[first].pop()
    program = "".join(f"{rank}: {'; '.join(own)}\n" for rank, own in enumerate(ops))
    tail = "".join("-nocross" for value in options.values() if value is False)
    return Case(f"everypair-{title(spec)}-{model}{tail}", ranks, spec, model, program, options)


def neighbors(spec: str, ranks: int, size: int) -> str:
    """Everybody to the right, then everybody with the rank opposite."""
    text = ""
    for r in range(ranks):
        right, left, other = (r + 1) % ranks, (r - 1) % ranks, (r + ranks // 2) % ranks
        text += (
            f"{r}: sendrecv {right} 0 {size} {left} 0 {size}; mark; "
            f"sendrecv {other} 1 {size} {other} 1 {size}; mark\n"
        )
    return text


def collectives_on_tori() -> Iterator[Case]:
    for side in (4, 8, 16):
        for size, text in ((8, "8B"), (2**20, "1MiB")):
            program = f"*: allreduce {size}; mark\n"
            model = "smpi" if side == 16 or size == 8 else "lab"
            spec = f"torus:{side}x{side}x{side}"
            yield Case(f"allreduce-{text}-{title(spec)}-{model}", side**3, spec, model, program)
    program = f"*: allreduce {2**20}; mark\n"
    nosy = {"cross_traffic": False}
    yield Case("allreduce-1MiB-torus-8x8x8-smpi-nocross", 512, "torus:8x8x8", "smpi", program, nosy)
    yield Case("allreduce-1MiB-torus-4x2x8-limiter-smpi", 64, LIMITED, "smpi", program)
    yield Case("allreduce-60000B-torus-5x4x3-lab", 60, "torus:5x4x3", "lab", "*: allreduce 60000; mark\n")
    yield Case("alltoall-64KiB-torus-4x4x4-smpi", 64, TORUS, "smpi", "*: alltoall 65536; mark\n")
    yield Case("alltoall_linear-1000B-torus-4x4x4-smpi", 64, TORUS, "smpi", "*: alltoall_linear 1000; mark\n")
    yield Case("allgather-10000B-torus-4x2x8-limiter-smpi", 64, LIMITED, "smpi",
               "*: allgather 10000; mark\n", {}, FULL)  # fmt: skip


def collectives_on_trees() -> Iterator[Case]:
    for hosts, spec in ((64, TREE), (256, "fattree:16x16:1x16:1x1")):
        for operation, size in (
            ("alltoall", 65_536),
            ("alltoall_bruck", 100),
            ("alltoall_linear", 65_536 if hosts == 64 else 10_000),
            ("allgather", 65_536),
        ):
            for model in ("smpi", "lab") if hosts == 64 else ("lab",):
                name = f"{operation}-{size}B-{title(spec)}-{model}"
                yield Case(name, hosts, spec, model, f"*: {operation} {size}; mark\n")
    for operation, size in (("alltoall", 65_536), ("alltoall_bruck", 1000), ("alltoall_linear", 5000)):
        program = f"*: {operation} {size}; mark\n"
        yield Case(f"{operation}-{size}B-rails-smpi", 64, RAILS, "smpi", program)
        yield Case(f"{operation}-{size}B-slim-limiter-smpi-nocross", 64, SLIM, "smpi", program,
                   {"cross_traffic": False})  # fmt: skip
    yield Case("allreduce-1MiB-rails-smpi", 64, RAILS, "smpi", f"*: allreduce {2**20}; mark\n")
    yield Case("bcast-1MiB-rails-lab", 64, RAILS, "lab", f"*: bcast {2**20} 0; mark\n")


def unsynchronized() -> Iterator[Case]:
    for spec, model in ((TORUS, "smpi"), (LIMITED, "lab"), (TREE, "smpi"), (RAILS, "lab"), (SLIM, "smpi")):
        seed = len(spec)
        program = posted_mix(seed, 64, 300, is_any=False, wait="waitall", largest=300_000)
        yield Case(f"posted-{title(spec)}-{model}", 64, spec, model, program, {}, FINE + FULL)
        program = blocking_mix(seed, 64, 200, 300_000)
        yield Case(f"blocking-{title(spec)}-{model}", 64, spec, model, program, {}, FINE + FULL)


def topology_cases() -> Iterator[Case]:
    for spec, options in SMALL:
        for model in ("raw", "lab"):
            # SimGrid's raw has no cross-traffic anyway.
            yield every_pair(spec, model, {} if model == "raw" else options)
    for spec in (TORUS, LIMITED, "torus:64"):
        for model, size in (("lab", 100_000), ("smpi", 2**20), ("cm02", 1000)):
            name = f"ring-{size}B-{title(spec)}-{model}"
            yield Case(name, 64, spec, model, neighbors(spec, 64, size))
    yield from collectives_on_tori()
    yield from collectives_on_trees()
    yield from unsynchronized()
