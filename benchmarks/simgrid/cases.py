"""Cases to compare labkit and SimGrid on: named message programs on named machines under named models."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from labkit.machines.models import NetworkModel, get
from labkit.machines.platform import Platform, platform

__all__ = ["Case", "collectives", "mixes", "point_to_point"]

#: Around every threshold of the tables (less the 16 bytes of envelope) and of the protocols, up to 16 MiB.
SIZES = sorted(
    {1, 8, 64, 100, 1000, 4096, 10_000, 20_000, 40_000, 65_535, 65_536, 65_537, 100_000, 2**17, 327_680,
     2**20, 2**22, 2**24}
    | {t - 16 + d for t in (257, 732, 1426, 3484, 5776, 9376, 15_424, 65_472) for d in (0, 1)}
)  # fmt: skip
STAR = "star:{p},bw=1.25GBps,lat=1us"
GIGABIT = "star:{p},bw=1Gbps,lat=24us"
#: SimGrid ends events closer than its timing precision together: 1 ns by default, seen in these mixes.
FINE = ("surf/precision:1e-13",)
#: Its lazy update may overbook a link after coinciding events (README.md); its full update does not.
FULL = ("network/optim:Full",)
CONTENDED = "star:{p},bw=1.25GBps,lat=1us,limiter=1.875GBps,bb_bw=5GBps,bb_lat=500ns"
MODELS = ("raw", "cm02", "lv08", "smpi")


@dataclass(frozen=True)
class Case:
    name: str
    ranks: int
    spec: str
    model: str
    program: str
    options: dict[str, Any] = field(default_factory=dict)
    #: further --cfg items for SimGrid; README.md says why
    simgrid: tuple[str, ...] = ()
    #: where no specification says it
    machine: Platform | None = None

    @property
    def platform(self) -> Platform:
        return self.machine or platform(self.spec)

    @property
    def network_model(self) -> NetworkModel:
        return get(self.model, **self.options)


def ping_pong(name: str, spec: str, model: str, **options: Any) -> Case:
    there = "; ".join(f"send 1 0 {s}; recv 1 1 {s}; mark" for s in SIZES)
    back = "; ".join(f"recv 0 0 {s}; send 0 1 {s}; mark" for s in SIZES)
    return Case(name, 2, spec.format(p=2), model, f"0: {there}\n1: {back}\n", options)


def pairs(name: str, spec: str, model: str, size: int, both_ways: bool) -> Case:
    """Sixteen ranks, half of them sending to the other half at once (and being sent to)."""
    lines = []
    for r in range(8):
        out, back = f"sendrecv {r + 8} 0 {size} {r + 8} 0 {size}", f"sendrecv {r} 0 {size} {r} 0 {size}"
        one, other = (out, back) if both_ways else (f"send {r + 8} 0 {size}", f"recv {r} 0 {size}")
        lines += [f"{r}: {one}; mark; {one}; mark", f"{r + 8}: {other}; mark; {other}; mark"]
    return Case(name, 16, spec.format(p=16), model, "\n".join(lines) + "\n")


def _size(rng: random.Random, largest: int) -> int:
    if largest < 65_536:
        return rng.choice([0, 1, rng.randrange(2, largest)])
    return rng.choice([0, 1, rng.randrange(2, 300), rng.randrange(300, 20_000), rng.randrange(20_000, 80_000),
                       65_535, 65_536, rng.randrange(65_536, largest)])  # fmt: skip


def blocking_mix(seed: int, p: int, messages: int, largest: int = 2_000_000) -> str:
    """Blocking sends and receives, unequal sizes and starts: a global order keeps them free of deadlock."""
    rng = random.Random(seed)
    lines = [[f"sleep {rng.randrange(1, 200_000)}"] for _ in range(p)]
    for tag in range(messages):
        src, dst = rng.sample(range(p), 2)
        size = _size(rng, largest)
        lines[src].append(f"{rng.choice(['send', 'send', 'ssend'])} {dst} {tag} {size}")
        lines[dst].append(f"recv {rng.choice([src, src, -1])} {tag} {size}")
        for rank in (src, dst):
            lines[rank].append("mark")
            if rng.random() < 0.3:
                lines[rank].append(f"sleep {rng.randrange(1, 50_000)}")
    return "".join(f"{r}: {'; '.join(ops)}\n" for r, ops in enumerate(lines))


def posted_mix(seed: int, p: int, messages: int, is_any: bool, wait: str, largest: int = 2_000_000) -> str:
    """Several messages in flight per rank: posts in random order, then waits; sources and tags may be any."""
    rng = random.Random(seed)
    posts: list[list[str]] = [[] for _ in range(p)]
    for tag in range(messages):
        src, dst = rng.sample(range(p), 2)
        size = _size(rng, largest)
        post = rng.choice(["isend", "isend", "issend"])
        posts[src].append(f"{post if largest > 65_536 else 'isend'} {{}} {dst} {tag} {size}")
        posts[dst].append(f"irecv {{}} -1 -1 {largest}" if is_any else f"irecv {{}} {src} {tag} {size}")
    text = ""
    for rank, own in enumerate(posts):
        rng.shuffle(own)
        ops = [f"sleep {rng.randrange(1, 300_000)}"]
        for slot, post in enumerate(own):
            ops.append(post.format(slot))
            if rng.random() < 0.5:
                ops.append(f"sleep {rng.randrange(1, 40_000)}")
        slots = list(range(len(own)))
        rng.shuffle(slots)
        if wait == "waitall":
            half = len(slots) // 2
            ops += [
                f"waitall {' '.join(map(str, part))}; mark" for part in (slots[:half], slots[half:]) if part
            ]
        elif wait == "waitany":
            ops += [f"waitany {' '.join(map(str, slots))}; mark; sleep {1000 + 7 * rank}" for _ in slots]
        else:
            ops += [f"{wait} {slot}; mark" for slot in slots]
        text += f"{rank}: {'; '.join(ops)}\n"
    return text


def linear_alltoall(seed: int, p: int, size: int, is_late: bool) -> str:
    """Everybody posts everything at once, from one instant or from random starts: many ends coincide."""
    rng = random.Random(seed)
    text = ""
    for rank in range(p):
        ops = [f"sleep {rng.randrange(1, 100_000)}"] if is_late else []
        ops += [f"irecv {i} {(rank - i) % p} 0 {size}" for i in range(1, p)]
        ops += [f"isend {p + i} {(rank + i) % p} 0 {size}" for i in range(1, p)]
        slots = " ".join(str(i) for i in range(1, 2 * p) if i != p)
        text += f"{rank}: {'; '.join(ops)}; waitall {slots}; mark\n"
    return text


def late_exchange(seed: int, p: int) -> str:
    """Rings of MPI_Sendrecv with random starts and sizes: its overhead delays its own receive."""
    rng = random.Random(seed)
    sizes = [_size(rng, 400_000) for _ in range(8)]
    text = ""
    for rank in range(p):
        ops = []
        for step, size in enumerate(sizes, 1):
            to, source = (rank + step) % p, (rank - step) % p
            ops.append(f"sleep {rng.randrange(1, 60_000)}; sendrecv {to} 0 {size} {source} 0 {size}; mark")
        text += f"{rank}: {'; '.join(ops)}\n"
    return text


def collectives() -> Iterator[Case]:
    """Those whose equality with SimGrid is promised: its algorithms rdb, pair and binomial_tree."""
    for model in ("smpi", "lab"):
        yield Case(f"alltoall-64KiB-64-{model}", 64, STAR.format(p=64), model, "*: alltoall 65536; mark\n")
        for size, text in ((8, "8B"), (2**20, "1MiB")):
            yield Case(
                f"allreduce-{text}-512-{model}",
                512,
                STAR.format(p=512),
                model,
                f"*: allreduce {size}; mark\n",
            )
        for size, text in ((800, "800B"), (2**20, "1MiB")):
            program = f"*: bcast {size} 0; mark\n"
            yield Case(f"bcast-{text}-256-{model}", 256, STAR.format(p=256), model, program)
    yield Case("alltoall-64KiB-64-contended", 64, CONTENDED.format(p=64), "smpi", "*: alltoall 65536; mark\n")
    yield Case("allreduce-60000B-23-lab", 23, GIGABIT.format(p=23), "lab", "*: allreduce 60000; mark\n")
    yield Case("bcast-100000B-37-root5-lab", 37, GIGABIT.format(p=37), "lab", "*: bcast 100000 5; mark\n")


def point_to_point() -> Iterator[Case]:
    for model in MODELS:
        yield ping_pong(f"pingpong-{model}", STAR, model)
    yield ping_pong("pingpong-gigabit-lab", GIGABIT, "lab")
    yield ping_pong("pingpong-shared-smpi", STAR + ",sharing=shared", "smpi")
    yield ping_pong("pingpong-eager-lab", GIGABIT, "lab", eager_below_bytes=16384, detached_below_bytes=40000)
    yield ping_pong("pingpong-loopback-smpi", "star:1,cores=2,loopback_bw=6GBps,loopback_lat=100ns", "smpi")
    yield ping_pong("pingpong-samehost-smpi", "star:1,cores=2", "smpi")
    for model in MODELS:
        for size in (1000, 2**20):
            yield pairs(f"pairs-{size}-contended-{model}", CONTENDED, model, size, both_ways=False)
            yield pairs(f"exchange-{size}-contended-{model}", CONTENDED, model, size, both_ways=True)
    yield pairs(
        "exchange-fatpipe-backbone-smpi", STAR + ",bb_bw=2GBps,bb_sharing=fatpipe", "smpi", 2**20, True
    )


def mixes() -> Iterator[Case]:
    """Nothing in step: the semantics of protocols, matching and sharing under load."""
    nosy: dict[str, Any] = {"cross_traffic": False}
    eager: dict[str, Any] = {"eager_below_bytes": 8000}
    for seed, (spec, model, options) in enumerate([
        (STAR, "raw", {}), (STAR, "cm02", {}), (STAR, "lv08", {}), (STAR, "smpi", {}), (GIGABIT, "lab", {}),
        (CONTENDED, "lab", {}), (CONTENDED, "smpi", nosy), (GIGABIT, "lab", eager),
    ]):  # fmt: skip
        tail = "-".join([model, *options])
        # SimGrid keeps eager messages in a queue of their own, so that receives from any source may take them
        # out of order: only eager ones then.
        largest = 7999 if options == eager else 2_000_000
        for kind, program in (
            ("blocking", blocking_mix(seed, 8, 60)),
            ("posted", posted_mix(100 + seed, 8, 60, is_any=False, wait="waitall")),
            ("any", posted_mix(200 + seed, 8, 40, is_any=True, wait="waitall", largest=largest)),
        ):
            cfg = FINE + FULL if (kind, seed) == ("posted", 0) else FINE
            yield Case(f"{kind}-{seed}-{tail}", 8, spec.format(p=8), model, program, options, cfg)
    for wait in ("wait", "waitany", "test"):
        for model in ("smpi", "lab"):
            program = posted_mix(300, 6, 40, is_any=False, wait=wait)
            yield Case(f"posted-{wait}-{model}", 6, GIGABIT.format(p=6), model, program, {}, FINE)
    program = posted_mix(400, 8, 60, is_any=False, wait="waitall")
    yield Case(
        "two-per-host-lab", 8, "star:4,cores=2,loopback_bw=6GBps,loopback_lat=100ns", "lab", program, {}, FINE
    )
    for model in ("smpi", "lab"):
        yield Case(f"exchange-late-{model}", 9, STAR.format(p=9), model, late_exchange(9, 9), {}, FINE)
    for model in ("cm02", "smpi"):
        for p in (3, 16):
            for is_late in (False, True):
                name = f"linear-{p}-{'late' if is_late else 'together'}-{model}"
                program = linear_alltoall(p, p, 100_000, is_late)
                yield Case(name, p, STAR.format(p=p), model, program, {}, FINE)
    program = posted_mix(500, 64, 400, False, "waitall", 300_000)
    yield Case("wide-smpi", 64, CONTENDED.format(p=64), "smpi", program, {}, FINE)
    yield Case("wtime-smpi", 2, STAR.format(p=2), "smpi",
               "0: wtime; mark; send 1 0 8; wtime; mark; recv 1 0 8; wtime; mark\n"
               "1: wtime; recv 0 0 8; wtime; wtime; mark; send 0 0 8; mark\n")  # fmt: skip
    own = "isend 0 {r} 0 {s}; recv {r} 0 {s}; mark; wait 0; mark; sendrecv {r} 0 {s} {r} 0 {s}; mark"
    for name, spec in (("", STAR), ("-loopback", STAR + ",loopback_bw=6GBps,loopback_lat=100ns")):
        program = f"0: {own.format(r=0, s=1000)}\n1: {own.format(r=1, s=100_000)}\n"
        yield Case(f"self{name}-lab", 2, spec.format(p=2), "lab", program)
    yield Case("zero-bytes-lab", 2, STAR.format(p=2), "lab",
               "0: send 1 0 0; mark; isend 0 1 1 0; wait 0; mark; issend 1 1 2 0; wait 1; mark\n"
               "1: recv 0 0 0; mark; recv 0 1 0; mark; recv 0 2 0; mark\n")  # fmt: skip
