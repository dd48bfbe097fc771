"""Programs that compute on hosts with more ranks than cores: those that do at the same time share them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace

from cases import FINE, FULL, GIGABIT, Case, blocking_mix, late_exchange, posted_mix

from labkit.machines.platform import Platform
from labkit.machines.spec import ClusterSpec

__all__ = ["cores_cases", "crowded"]

LOOPBACK = ",loopback_bw=6GBps,loopback_lat=100ns"
HOSTS = "star:{hosts},cores={cores},mapping={mapping}" + LOOPBACK


def computing(program: str, seed: int, share: float = 0.7) -> str:
    """The program with most of its sleeps turned into computations of that length; the others stay sleeps."""
    rng = random.Random(seed)
    return re.sub(r"\bsleep\b", lambda _: "compute" if rng.random() < share else "sleep", program)


def crowded(case: Case, seed: int) -> Case:
    """The case with computations for most of its sleeps, on hosts with fewer cores than they had."""
    rng = random.Random(f"cores {seed}")
    machine, described = case.machine, case.platform.description
    if isinstance(described, ClusterSpec):
        if described.cores > 1:
            described = replace(described, cores=rng.randrange(1, described.cores))
        if (
            described.loopback_bw is None
        ):  # block mapping may now put others together: SimGrid's tori need one
            described = replace(described, loopback_bw=6e9, loopback_lat=1e-7)
        machine = Platform(described, mapping=case.platform.mapping)
    name = case.name.replace("random-", "crowded-")
    return replace(case, name=name, program=computing(case.program, seed), machine=machine)


def by_hand() -> Iterator[Case]:
    """No messages: starts together and apart, ends that coincide, cores enough for some of the time."""
    together = "0: compute 1000000000; mark\n1: compute 1000000000; mark\n2: compute 2000000000; mark\n"
    apart = (
        "0: compute 2000000000; mark; compute 500000000; mark\n"
        "1: sleep 1000000000; compute 1000000000; mark\n"
        "2: sleep 500000000; compute 250000000; mark; sleep 1000000000; compute 1; mark; compute 750000000\n"
    )
    for cores in (1, 2, 3):
        spec = f"star:1,cores={cores},mapping=block"
        yield Case(f"cores-together-{cores}", 3, spec, "smpi", together)
        yield Case(f"cores-apart-{cores}", 3, spec, "smpi", apart)
    # A rank that sleeps, looks or pays for a call of MPI takes no core from the others.
    waits = (
        "0: compute 3000000; mark; compute 1000000; mark\n1: sleep 2000000; mark; compute 2000000; mark\n"
        "2: irecv 0 3 0 1000; test 0; mark; compute 500000; mark; recv 3 1 60000; mark\n"
        "3: compute 1000000; send 2 0 1000; mark; isend 0 2 1 60000; compute 700000; wait 0; wtime; mark\n"
    )
    for cores in (1, 2):
        spec = f"star:1,cores={cores},bw=1Gbps,lat=24us,mapping=block"
        yield Case(f"cores-calls-{cores}-lab", 4, spec, "lab", waits)
    # But Iprobe is a computation there: as long as nothing has come, it takes its share.
    looks = (
        "0: compute 3000000; mark; send 1 0 100; mark; compute 2000000; mark\n"
        "1: iprobe 0 0; mark; recv 0 0 100; compute 1000000; mark; iprobe 3 1; mark; recv 3 1 60000; mark\n"
        "2: sleep 500000; compute 1000000; mark\n3: compute 1234567; sleep 9000000; send 1 1 60000; mark\n"
    )
    for cores in (1, 2, 3):
        spec = f"star:1,cores={cores},bw=1Gbps,lat=24us,mapping=block"
        yield Case(f"iprobe-{cores}-lab", 4, spec, "lab", looks)


def mixes() -> Iterator[Case]:
    """Random messages between computations, sleeps and waits, several ranks a host."""
    for seed, (hosts, cores, mapping, p, model) in enumerate([
        (4, 2, "cyclic", 12, "smpi"), (3, 1, "block", 9, "lab"), (2, 3, "random:5", 12, "cm02"),
        (4, 1, "cyclic", 16, "raw"), (3, 2, "block", 18, "lv08"), (1, 2, "block", 6, "lab"),
    ]):  # fmt: skip
        spec = HOSTS.format(hosts=hosts, cores=cores, mapping=mapping)
        tail = f"{hosts}x{cores}-{p}-{model}"
        for kind, program in (
            ("blocking", blocking_mix(seed, p, 80)),
            ("waitall", posted_mix(100 + seed, p, 80, is_any=False, wait="waitall")),
            ("waitany", posted_mix(200 + seed, p, 60, is_any=False, wait="waitany")),
        ):
            yield Case(f"cores-{kind}-{tail}", p, spec, model, computing(program, seed), {}, FINE + FULL)
    gigabit = GIGABIT.format(p=3) + ",cores=2,mapping=cyclic"
    for model in ("smpi", "lab"):
        program = computing(posted_mix(300, 9, 60, is_any=False, wait="test"), 1)
        yield Case(f"cores-test-{model}", 9, gigabit, model, program, {}, FINE + FULL)
        program = computing(late_exchange(9, 9), 2)
        yield Case(f"cores-exchange-{model}", 9, gigabit, model, program, {}, FINE + FULL)


def rounds(p: int, work: int, seed: int | None) -> str:
    """Bulk-synchronous: computations, equal or not, between collectives."""
    rng = random.Random(seed)
    text = ""
    for rank in range(p):
        ops = []
        for collective in ("allreduce 1000", "alltoall 8192", "bcast 100000 0", "allreduce 1048576"):
            ops.append(f"compute {work if seed is None else rng.randrange(1, 2 * work)}; {collective}; mark")
        text += f"{rank}: {'; '.join(ops)}\n"
    return text


def collectives() -> Iterator[Case]:
    for spec, p, model in (
        (HOSTS.format(hosts=8, cores=2, mapping="cyclic"), 32, "smpi"),
        ("torus:2x2x2,cores=4,mapping=block" + LOOPBACK, 64, "lab"),
        ("fattree:4x4:1x2:1x2,cores=1,mapping=cyclic" + LOOPBACK, 64, "smpi"),
        ("dragonfly:2x1:2x1:2x1:2,cores=2,mapping=cyclic" + LOOPBACK, 64, "lab"),
    ):
        kind = spec.partition(":")[0]
        yield Case(f"cores-rounds-even-{kind}-{model}", p, spec, model, rounds(p, 200_000, None))
        program = rounds(p, 200_000, 7)
        yield Case(f"cores-rounds-uneven-{kind}-{model}", p, spec, model, program, {}, FINE + FULL)


def cores_cases() -> list[Case]:
    return [*by_hand(), *mixes(), *collectives()]
