"""Speed of fits and verdicts, in models a second.

python benchmarks/fit.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from labkit.scaling import fit, fit_many, judge

E = "p log p"
X = 2.0 ** np.arange(4, 11)


def rate(work: Callable[[], object], count: int) -> float:
    """Return how many of `count` models a second the best of three runs makes."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return count / best


def main() -> None:
    rng = np.random.default_rng(0)
    y = (3 + X * np.log2(X)) * (1 + 0.05 * rng.standard_normal((20_000, X.size)))
    repeated = (3 + X * np.log2(X))[:, None] * (1 + 0.05 * rng.standard_normal((100, X.size, 5)))
    rows = [
        ("batched fits, paper space (26 terms)", rate(lambda: fit_many(X, y, space="paper"), len(y))),
        ("batched fits, wide space (39 terms)", rate(lambda: fit_many(X, y), len(y))),
        (
            "batched fits, joined space of p log p",
            rate(lambda: fit_many(X, y, expectation=E), len(y)),
        ),
        ("single fits, 5 repetitions", rate(lambda: [fit(X, r) for r in repeated], 100)),
        ("single verdicts, 5 repetitions", rate(lambda: [judge(X, r, E) for r in repeated], 100)),
    ]
    for name, value in rows:
        print(f"{name:40} {value:10,.0f} models/s   {1e3 / value:8.3f} ms each")


if __name__ == "__main__":
    main()
