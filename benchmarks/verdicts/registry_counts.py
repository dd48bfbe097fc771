"""What the fits make of rounds and bytes counted on the schedules of every algorithm in the registry.

    python benchmarks/verdicts/registry_counts.py

At 2 to 64 ranks: every count is followed to the last digit by the law found, or called
"no single law". A claim of an exact law that misses a count is an error.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from labkit import registry
from labkit.scaling import fit, judge
from labkit.schedule import count

RANKS = 2 ** np.arange(1, 7)
BYTES = 8 * 1024


def main() -> None:
    found: Counter[str] = Counter()
    for problem in registry.problems():
        for name in registry.names(problem):
            algorithm = registry.get(problem, name)
            try:
                counts = np.array([count(algorithm.build(int(p)), BYTES) for p in RANKS])
            except Exception as error:  # an algorithm for some numbers of ranks, or without a closed form
                found["not counted"] += 1
                print(f"{problem}/{name}: not counted ({type(error).__name__})")
                continue
            for what, y in zip(("rounds", "bytes"), counts.T[:2], strict=True):
                if y.min() <= 0:
                    found["zeros"] += 1
                    continue
                model = fit(RANKS, y)
                verdict = judge(RANKS, y, str(model.term))
                exact = model.error <= 1e-9
                kind = "exact law" if exact else "no single law" if verdict.seen else "within 2 %"
                found[kind] += 1
                found["WRONG"] += verdict.match == "exact" and not exact and model.error > 0.02
                if not exact:
                    print(f"{problem}/{name} {what}: {verdict.reading}")
    print(dict(found))


if __name__ == "__main__":
    main()
