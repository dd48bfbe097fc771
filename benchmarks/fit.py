"""Speed of fits and verdicts, in models a second, and the CPU time of one judgment by kind of data.

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


def kinds() -> dict[str, np.ndarray]:
    """Return series at p = 16 ... 4096 that exercise every part of a judgment, with and without a model."""
    p, noise = 2.0 ** np.arange(4, 13), np.random.default_rng(1)
    places = np.arange(p.size)
    return {
        "3 + log p": 3 + np.log2(p),
        "log^2 p, noise 2 %": np.log2(p) ** 2 * (1 + 0.02 * noise.normal(size=p.size)),
        "1 + 8/p": 1 + 8 / p,
        "p^1.25, noise 5 %": p**1.25 * (1 + 0.05 * noise.normal(size=p.size)),
        "1 + log p + p/100": 1 + np.log2(p) + 0.01 * p,
        "log p, a step": np.where(p > 300, 3.1, 1) * np.log2(p),
        "p, an outlier": np.where(p == 256, 4, 1) * p,
        "log p, every second value higher": np.where(places % 2, 1.3, 1) * np.log2(p),
        "down and up": 1 + np.abs(np.log2(p) - 8),
        "p, noise 30 %": p * (1 + 0.3 * noise.uniform(size=p.size)),
        "without any law": noise.uniform(1, 9, p.size),
    }


def one_judgment(y: np.ndarray, count: int = 40) -> float:
    """Return the median CPU time of a judgment, in ms, of series that differ by 0.1 %."""
    rng, p, took = np.random.default_rng(2), 2.0 ** np.arange(4, 13), []
    for _ in range(count):
        series = y * (1 + 1e-3 * rng.normal(size=p.size))
        start = time.process_time()
        judge(p, series, "log p")
        took.append(time.process_time() - start)
    return 1e3 * float(np.median(took))


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
    print()
    for name, series in kinds().items():
        print(f"one judgment: {name:32} {one_judgment(series):6.2f} ms")


if __name__ == "__main__":
    main()
