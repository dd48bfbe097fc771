"""The fits of rounds and bytes counted on the schedules of every algorithm in the registry.

    python benchmarks/verdicts/registry_counts.py

At twelve numbers of ranks, 2 to 96, and to the last digit (tolerance 0): a model follows every count, or none
is named, as of ceil(log2 p) between powers of two. A claim of an exact match that misses a count is an error.
Algorithms that refuse odd numbers are counted at twelve even ones, those that want powers of two at the
eight up to 256.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from labkit import registry
from labkit.scaling import fit, judge
from labkit.schedule import count

MIXED = np.sort(np.concatenate([2 ** np.arange(1, 7), 3 * 2 ** np.arange(6)]))
CHOICES = (MIXED, np.arange(2, 25, 2), 2 ** np.arange(1, 9))
BYTES = 8 * 1024


def main() -> None:
    found: Counter[str] = Counter()
    for problem in registry.problems():
        for name in registry.names(problem):
            algorithm = registry.get(problem, name)
            for ranks in CHOICES:
                try:
                    counts = np.array([count(algorithm.build(int(p)), BYTES) for p in ranks])
                    break
                except Exception as error:  # other numbers of ranks, or without a closed form
                    why = type(error).__name__
            else:
                found["not counted"] += 1
                print(f"{problem}/{name}: not counted ({why})")
                continue
            for what, y in zip(("rounds", "bytes"), counts.T[:2], strict=True):
                if y.min() <= 0:
                    found["zeros"] += 1
                    continue
                model = fit(ranks, y, tolerance=0)
                verdict = judge(ranks, y, str(model.term), tolerance=0)
                found["no model" if model.is_nearest else "to the last digit"] += 1
                found["WRONG"] += verdict.match == "exact" and model.error > 1e-9
                if model.is_nearest:
                    print(f"{problem}/{name} {what}: {verdict.reading}")
    print(dict(found))


if __name__ == "__main__":
    main()
