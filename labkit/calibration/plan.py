"""The measurement plan of a calibration: points, repetitions and their order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from labkit.errors import DataError

__all__ = ["EXPERIMENTS", "Plan", "grid", "make_plan"]

#: Each experiment by name, and what one measurement of it does.
EXPERIMENTS = {
    "pingpong": "half of a round trip of Send and Recv",
    "late": "a Send before its receiver comes, and the Recv of a receiver that comes late",
    "early": "a Send to a posted Irecv, and the Wait of a receiver that comes back late",
    "isend": "an Isend before its receiver comes",
    "window": "a burst of Isends to posted Irecvs: saturation",
    "exchange": "both directions simultaneously",
}


@dataclass(frozen=True)
class Plan:
    """A list of measurements.

    Attributes
    ----------
    sizes : tuple of int
        Payload sizes in bytes.
    repeats : int
        How many times each experiment is made with each size.
    experiments : tuple of str
        Names of `EXPERIMENTS`.
    window : int
        Messages of a burst.
    seed : int
        Of the order.
    """

    sizes: tuple[int, ...]
    repeats: int
    experiments: tuple[str, ...] = tuple(EXPERIMENTS)
    window: int = 8
    seed: int = 0

    def rounds(self) -> list[list[tuple[str, int]]]:
        """Return the measurements: every round has each of them once, in its own order.

        So a disturbance of the machine meets a few measurements of many kinds, never all repetitions of one,
        and no size always follows the same other size.
        """
        rng = np.random.default_rng(self.seed)
        items = [(name, size) for name in self.experiments for size in self.sizes]
        return [[items[i] for i in rng.permutation(len(items))] for _ in range(self.repeats)]

    def at(self, sizes: tuple[int, ...], experiments: tuple[str, ...]) -> Plan:
        """Return a plan of other sizes and experiments, in its own order."""
        return replace(self, sizes=sizes, experiments=experiments, seed=self.seed + 1)


def grid(first: float, last: float, points: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Choose sizes at random, one in each of `points` equal cells of the logarithmic axis.

    A regular grid would see powers of two only, for which many an implementation has its own rules.
    """
    edges = np.linspace(np.log(first), np.log(last), points + 1)
    inner = np.exp(rng.uniform(edges[:-1], edges[1:]))
    sizes = np.unique(np.clip(np.rint(inner), first, last).astype(int))
    return tuple(int(size) for size in sizes)


def make_plan(
    max_bytes: int = 4_000_000, *, points: int = 60, repeats: int = 7, window: int = 8, seed: int = 0
) -> Plan:
    """Plan a calibration.

    Parameters
    ----------
    max_bytes : int
        Largest message.
    points : int
        Sizes from 1 byte to `max_bytes`.
    repeats : int
        Measurements of each experiment and size.
    window : int
        Messages of a burst.
    seed : int
        Chooses the sizes and the order.

    Raises
    ------
    DataError
        Fewer than 8 sizes, 3 repeats or 2 messages of a burst, or no room for the sizes.
    """
    for name, value, least in (
        ("max_bytes", max_bytes, 1024), ("points", points, 8), ("repeats", repeats, 3), ("window", window, 2),
    ):  # fmt: skip
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise DataError(
                f"a calibration needs {name} to be a whole number of at least {least}, got {value!r}"
            )
    rng = np.random.default_rng(seed)
    sizes = grid(1, max_bytes, points, rng)
    return Plan(tuple(sorted({*sizes, 1, max_bytes})), repeats, window=window, seed=seed)
