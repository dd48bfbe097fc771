"""Continuity and invariance of verdicts: in the data, the unit, the order and the number of copies.

    python benchmarks/verdicts/stability.py [SERIES]

Random series (10,000 by default) are judged twice: as they are, and with one value moved by 1e-12 to 1e-3 of
the tolerance.  A match may then move to a neighbor at most, and never between exact and none.  Every tenth is
also judged against 12 expectations, whose descriptions must be one; scaled by 1e-9 to 1e9; in another order;
and with all measurements entered twice.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from labkit.scaling import WIDE, Term, Verdict, judge
from labkit.scaling.description import TOLERANCE

Floats = npt.NDArray[np.float64]

EXPECTATIONS = (
    "1", "log p", "log^2 p", "sqrt(p)", "p", "p log p", "p^1.5", "p^2", "1/p", "log p/p", "p^3", "2^p",
)  # fmt: skip
#: matches between which nothing lies
NEIGHBORS = {
    frozenset(pair)
    for pair in (
        ("exact", "approximate"), ("approximate", "bound"), ("approximate", "undecided"),
        ("bound", "undecided"), ("undecided", "none"), ("approximate", "none"),
    )
}  # fmt: skip


def series(count: int, seed: int = 1) -> Iterator[tuple[Floats, Floats]]:
    """Return values of the parameter and measurements (n, repetitions): one kind after the other."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        x = 2.0 ** (rng.integers(1, 6) + np.arange(rng.integers(5, 10)))
        if rng.random() < 0.2:
            x = np.unique(np.round(x * rng.uniform(1, 1.4, x.size)))
        terms = [WIDE[i] for i in rng.choice(len(WIDE), 3)]
        parts = [10 ** rng.uniform(-1.5, 0) * t(x) / t(x[-1:]) for t in terms]
        kind = number % 8
        y = parts[0] + (rng.uniform(0, 0.5) if rng.random() < 0.5 else 0.0)
        if kind == 1:
            y = parts[0] + parts[1]
        elif kind == 2:
            y = sum(parts)
        elif kind == 3:  # levels off
            y = 1 - rng.uniform(0.2, 0.9) * (x / x[0]) ** -rng.uniform(0.4, 2)
        elif kind == 4:  # a line that starts below 0
            f = Term(0, rng.integers(0, 2), rng.integers(0, 2))(x) + x / x[-1]
            y = f - rng.uniform(0, 0.9) * f[0]
        elif kind == 5:  # a step
            y = np.where(np.arange(x.size) >= rng.integers(1, x.size), rng.uniform(1.05, 4), 1.0) * parts[0]
        elif kind == 6:
            y = np.exp(np.cumsum(rng.normal(0.3, 0.4, x.size)))
        elif kind == 7:
            y = 1 + rng.uniform(0, 0.03) * rng.standard_normal(x.size)
        noise = (0.0, 0.0, 0.003, 0.02, 0.1)[rng.integers(5)]
        repetitions = 5 if noise and rng.random() < 0.5 else 1
        y = y[:, None] * np.exp(noise * rng.standard_normal((x.size, repetitions)))
        yield x, y * 10 ** rng.uniform(-7, 2)


def moved(rng: np.random.Generator, y: Floats) -> Floats:
    """Return measurements with one value moved by 1e-12 to 1e-3 of the tolerance."""
    y = y.copy()
    at = tuple(rng.integers(size) for size in y.shape)
    y[at] *= 1 + rng.choice([-1, 1]) * TOLERANCE * 10 ** rng.uniform(-12, -3)
    return y


def jumps(one: str, other: str) -> bool:
    """Return whether two matches are neither equal nor neighbors."""
    return one != other and frozenset((one, other)) not in NEIGHBORS


def described(verdict: Verdict) -> tuple[object, ...]:
    """Return what a verdict says of the data alone."""
    model = verdict.model
    assert model is not None
    return model.formula, model.term, model.error, model.is_nearest


def variants(rng: np.random.Generator, x: Floats, y: Floats) -> Iterator[tuple[str, Floats, Floats]]:
    """Return the same measurements in another unit and order, and entered twice."""
    yield "scaled", x, y * 10 ** rng.uniform(-9, 9)
    order = rng.permutation(x.size)
    yield "in another order", x[order], y[order]
    yield "entered twice", x, np.concatenate([y, y], axis=1)


def main() -> None:
    count, rng, found = int(sys.argv[1]) if sys.argv[1:] else 10_000, np.random.default_rng(2), Counter[str]()
    for number, (x, y) in enumerate(series(count)):
        expectation = EXPECTATIONS[rng.integers(len(EXPECTATIONS))]
        first = judge(x, y, expectation)
        second = judge(x, moved(rng, y), expectation)
        if first.match != second.match:
            found["changes to a neighbor"] += not jumps(first.match, second.match)
            found["JUMPS"] += jumps(first.match, second.match)
            print(f"series {number}, {expectation}: {first.match} to {second.match}", flush=True)
        if number % 10 == 0:
            several = {described(judge(x, y, e)) for e in EXPECTATIONS}
            found["DESCRIPTIONS THAT DEPEND ON THE EXPECTATION"] += len(several) > 1
            for what, xs, ys in variants(rng, x, y):
                other = judge(xs, ys, expectation).match
                found[f"CHANGES WHEN {what.upper()}"] += other != first.match
                if other != first.match:
                    print(f"series {number}, {expectation}, {what}: {first.match} to {other}", flush=True)
    print(f"{count} series: " + ", ".join(f"{v} {k}" for k, v in sorted(found.items())))


if __name__ == "__main__":
    main()
