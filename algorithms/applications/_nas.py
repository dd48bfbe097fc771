"""Shared parts of the applications: the random numbers of NAS, classes, work at a share of a core's peak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.program.context import compute
from labkit.program.sized import sized

__all__ = ["MULTIPLIER", "at_least_one", "class_of", "diagonals", "randoms", "room", "work"]

_Size = TypeVar("_Size")

#: 5^13: random numbers are x_(k+1) = MULTIPLIER x_k mod 2^46
MULTIPLIER = 5**13

_MASK = 2**46 - 1


def randoms(seed: int, skip: int, count: int) -> NDArray[np.float64]:
    """Return numbers of the NAS generator in (0, 1), after `skip` that are left out.

    Source: D. Bailey et al.: The NAS Parallel Benchmarks, RNR-94-007, section 2.3.
    """
    state = seed * pow(MULTIPLIER, skip + 1, 2**46) % 2**46
    found = np.full(count, state, np.uint64)
    done, factor = 1, MULTIPLIER
    while done < count:  # the low 46 bits of a product need only the low 64
        more = min(done, count - done)
        found[done : done + more] = found[:more] * np.uint64(factor) & np.uint64(_MASK)
        done, factor = done + more, factor * factor % 2**46
    return found / 2.0**46


def class_of(classes: Mapping[str, _Size], name: str, program: str) -> _Size:
    """Return what a class stands for; refuse an unknown one."""
    if name not in classes:
        raise DataError(f"{program} has the classes {', '.join(classes)}, got {name!r}", code="unknown-name")
    return classes[name]


def at_least_one(name: str, given: int | None, usual: int) -> int:
    """Return a number that was given, or the usual one; refuse what is no whole number from 1 on."""
    if given is None:
        return usual
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise DataError(f"{name} must be a whole number from 1 on, got {given!r}", code="out-of-range")
    return int(given)


def room(shape: int | tuple[int, ...], charged: bool) -> NDArray[np.float64]:
    """Return zeros to send from or receive into; a phantom buffer where arithmetic is charged."""
    return sized(int(np.prod(shape)), np.float64).reshape(shape) if charged else np.zeros(shape)


def diagonals(a: int, b: int) -> list[tuple[NDArray[np.int64], ...]]:
    """Return the cells of an a x b plane whose row and column add up to 0, 1, ...: none needs another."""
    at = np.add.outer(np.arange(a), np.arange(b))
    return [np.nonzero(at == k) for k in range(a + b - 1)] if at.size else []


def work(operations: float, share: float) -> None:
    """Charge operations that a core carries out at a share of its peak."""
    compute(flops=operations / share)
