"""Systematic cases for labkit and SimGrid to be compared on: collectives, machines, models, cross-traffic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cases import FINE, FULL, GIGABIT, STAR, Case, blocking_mix, pairs, posted_mix
from named import NAMED
from topology_cases import every_pair, neighbors, title

__all__ = ["matrix_cases"]

MODELS = ("raw", "cm02", "lv08", "smpi")
NO_CROSS: dict[str, Any] = {"cross_traffic": False}
#: 64 hosts each.
MACHINES = (
    "star:64,limiter=1.875GBps,bb_bw=20GBps,bb_lat=500ns",
    "torus:4x4x4",
    "fattree:8x8:1x4:1x2",
    "dragonfly:4x2:2x2:4x1:2",
)
OPERATIONS = (
    "allreduce 8", "allreduce 4194304", "alltoall 8", "alltoall 65536", "bcast 1048576 0", "allgather 10000",
)  # fmt: skip
FLY = "dragonfly:4x4:3x4:5x1:2"
FLY_EXTRAS = "dragonfly:3x2:2x3:3x1:2,limiter=1.5GBps,loopback_bw=6GBps,loopback_lat=100ns"
#: Several ranks on a host: they share its cables, and its loopback where there is one.
CROWDED = (
    ("star:8,cores=4", "block"),
    ("star:8,cores=4,loopback_bw=6GBps,loopback_lat=100ns", "cyclic"),
    ("star:16,cores=2,limiter=1.875GBps,bb_bw=5GBps", "random:3"),
    ("torus:2x2x2,cores=4,loopback_bw=6GBps,loopback_lat=100ns", "block"),
    ("fattree:4x4:1x2:1x2,cores=2", "cyclic"),
    ("dragonfly:2x1:2x1:2x1:2,cores=2,loopback_bw=10GBps", "random:5"),
    # without a loopback: limiters, and cables of one link for both directions, are crossed twice
    ("fattree:4x4:1x2:1x2,cores=2,limiter=1.5GBps", "block"),
    ("dragonfly:2x1:2x1:2x1:2,cores=2,limiter=1.5GBps,sharing=shared", "block"),
)


def of_all(operation: str) -> str:
    return f"*: {operation}; mark\n"


def case(
    operation: str, ranks: int, spec: str, model: str, options: dict[str, Any], cfg: tuple[str, ...] = ()
) -> Case:
    name, *operands = operation.split()
    what = name + "".join(f"-{word}B" for word in operands[:1])
    tail = "-nocross" if options == NO_CROSS else ""
    return Case(f"{what}-{title(spec)}-{model}{tail}", ranks, spec, model, of_all(operation), options, cfg)


def every_model() -> Iterator[Case]:
    """Every second one without cross-traffic; SimGrid's raw never has any."""
    number = 0
    for spec in MACHINES:
        for operation in OPERATIONS:
            for model in MODELS:
                number += 1
                is_silent = model != "raw" and number % 2 == 0
                yield case(operation, 64, spec, model, NO_CROSS if is_silent else {})


def rings() -> Iterator[Case]:
    for spec in MACHINES:
        for model, size in (("raw", 8), ("lv08", 4_194_304)):
            cfg = FULL if size > 8 and spec.startswith("dragonfly") else ()
            yield Case(
                f"ring-{size}B-{title(spec)}-{model}", 64, spec, model, neighbors(spec, 64, size), {}, cfg
            )


def dragonflies() -> Iterator[Case]:
    for spec in (FLY_EXTRAS, "dragonfly:2x1:4x1:3x1:1", "dragonfly:3x2:2x1:3x2:1,sharing=shared"):
        for model in ("raw", "lab"):
            yield every_pair(spec, model, {})
    for model, size in (("lab", 100_000), ("smpi", 2**20), ("cm02", 1000)):
        cfg = FULL if model == "smpi" else ()
        yield Case(f"ring-{size}B-{title(FLY)}-{model}", 120, FLY, model, neighbors(FLY, 120, size), {}, cfg)
    yield case("alltoall_linear 5000", 120, FLY, "smpi", NO_CROSS)
    yield case("alltoall_bruck 1000", 120, FLY, "smpi", {}, FINE + FULL)
    yield case("allreduce 60000", 120, FLY, "lab", {})
    yield case("bcast 4194304 17", 120, FLY, "lab", {})
    yield case("allreduce 1048576", 512, "dragonfly:8x2:2x2:8x1:4", "smpi", {})
    for spec, model in ((FLY, "smpi"), (FLY_EXTRAS, "lab")):
        ranks = 120 if spec == FLY else 36
        program = posted_mix(3, ranks, 300, is_any=False, wait="waitall", largest=300_000)
        yield Case(f"posted-{title(spec)}-{model}", ranks, spec, model, program, {}, FINE + FULL)
        program = blocking_mix(3, ranks, 200, 300_000)
        yield Case(f"blocking-{title(spec)}-{model}", ranks, spec, model, program, {}, FINE + FULL)


def crowds() -> Iterator[Case]:
    for number, (spec, mapping) in enumerate(CROWDED):
        spec += f",mapping={mapping}"
        for operation in ("allreduce 1048576", "alltoall 10000", "alltoall_linear 3000", "bcast 65536 5"):
            yield case(operation, 32, spec, MODELS[number % 4] if number < 4 else "lab", {})
        program = posted_mix(700 + number, 32, 150, is_any=False, wait="waitall", largest=300_000)
        yield Case(f"posted-{title(spec)}-smpi", 32, spec, "smpi", program, {}, FINE + FULL)


def named() -> Iterator[Case]:
    """Each named algorithm, for powers of two and others, short and long."""
    for operation, (problem, _, _) in NAMED.items():
        sizes = [0] if problem == "barrier" else [16, 4096, 1_000_000]
        if operation in ("reduce_linear", "gather_linear"):  # README.md says what SimGrid does with long ones
            sizes = [16, 4096, 65_000]
        for size in sizes:
            ranks = 16 if size == 4096 else 12
            if operation in (
                "alltoall",
                "allgather_recursive_doubling",
                "reduce_scatter_block_recursive_halving",
            ):
                ranks = 16
            if operation.startswith(("allreduce_", "reduce_scatter")):  # vectors that fall into equal blocks
                size = max(size - size % 48, 48)
            root = " 3" if problem in ("bcast", "gather", "reduce", "scatter") else ""
            words = operation + (f" {size}" if problem != "barrier" else "") + root
            yield case(words, ranks, GIGABIT.format(p=ranks), "lab", {})


def large() -> Iterator[Case]:
    yield case("allreduce 8", 4096, STAR.format(p=4096), "smpi", {})
    yield case("bcast 1048576 0", 4096, STAR.format(p=4096), "lab", NO_CROSS)
    yield case("allreduce 8", 4096, "dragonfly:16x4:4x2:16x1:4", "lab", {})
    yield case("allreduce 4096", 4096, "fattree:64x64:1x32:1x1", "lv08", {})
    yield case("alltoall_linear 4096", 256, "star:16,cores=16", "smpi", {})


def stars() -> Iterator[Case]:
    """Every option of a star, one by one, under load."""
    for name, options in (
        ("shared", "sharing=shared"), ("backbone", "bb_bw=5GBps,bb_lat=500ns"),
        ("pipe", "bb_bw=900MBps,bb_sharing=fatpipe"), ("limiter", "limiter=1.4GBps"),
        ("all", "sharing=shared,bb_bw=5GBps,bb_lat=500ns,limiter=1GBps"),
    ):  # fmt: skip
        spec = f"star:16,{options}"
        yield case("alltoall 65536", 16, spec, "lv08", {})
        found = pairs(f"exchange-1048576B-star-{name}-lv08-nocross", spec, "lv08", 2**20, both_ways=True)
        yield Case(found.name, 16, spec, "lv08", found.program, NO_CROSS)


def matrix_cases() -> Iterator[Case]:
    yield from every_model()
    yield from rings()
    yield from dragonflies()
    yield from crowds()
    yield from named()
    yield from large()
    yield from stars()
