"""Alltoall in p - 1 rounds, with or without barriers between them: what its variants have in common."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from labkit.algorithms.barrier import dissemination
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, block
from labkit.schedule.doubling import ceil_log2
from labkit.schedule.step import Ints

__all__ = ["exchange", "partners"]


def partners(group: Group, i: int, is_paired: bool) -> tuple[Ints, Ints]:
    """Return whom everyone sends to and receives from in round i = 1 ... p - 1.

    In pairs (r XOR i) if asked for and p is a power of two, else r + i and r - i.
    """
    me, p = group.ranks, group.size
    if is_paired and p & (p - 1) == 0:
        return me ^ i, me ^ i
    return (me + i) % p, (me - i) % p


def exchange(name: str, is_paired: bool, barriers: str = "none", max_ranks: int | None = None) -> Algorithm:
    """Return the exchange with barriers: "none", "one" before, "every" round, or "light" between rounds."""
    return Algorithm(
        name,
        "alltoall",
        schedule=partial(_rounds, is_paired=is_paired, barriers=barriers),
        cost=partial(_cost, barriers=barriers),
        requirements=Requirements(max_ranks=max_ranks),
    )


def _rounds(group: Group, is_paired: bool, barriers: str) -> Iterator[Step]:
    me, p = group.ranks, group.size
    if barriers == "every":
        yield from dissemination.rounds(group)
    yield group.copy(block("send", me), block("recv", me))
    if barriers == "one":
        yield from dissemination.rounds(group)
    for i in range(1, p):
        if barriers == "every":
            yield from dissemination.rounds(group)
        to, source = partners(group, i, is_paired)
        yield group.sendrecv(block("send", to), to, block("recv", source), source)
        if barriers == "light" and i + 1 < p:
            to, source = partners(group, i + 1, is_paired)
            yield group.sendrecv(None, source, None, to)  # whoever will send to me: I am ready


def _cost(ranks: int, n_bytes: float, barriers: str) -> Cost:
    """Return the exact cost: p - 1 blocks, and empty messages."""
    messages = ranks - 1
    empty = {
        "none": 0,
        "one": ceil_log2(ranks),
        "every": ranks * ceil_log2(ranks),
        "light": max(messages - 1, 0),
    }[barriers]
    return Cost(messages + empty, messages * n_bytes)
