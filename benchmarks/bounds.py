"""Every registered collective and the bounds of its model: ``python benchmarks/bounds.py [MOST_RANKS]``.

For each machine and number of ranks: how many simulated times lie inside the bounds, and how far apart the
bounds are. Collectives of more than 200,000 messages on a number of ranks are left out, and counted; those
that post all their messages at once of more than 20,000.
"""

from __future__ import annotations

import sys
import time
from functools import cache

import numpy as np
import pandas as pd

from labkit import registry
from labkit.errors import DataError
from labkit.models import collective
from labkit.sim.schedules import simulate

MACHINES = ("star", "torus", "torus:16x16x16", "fattree:16x16x16:1x8x8:1x1x1", "dragonfly:8x4:8x4:16x1:8")
SIZES = (8, 1024, 65536)
MOST_MESSAGES = 200_000
#: the exact sharing of many messages at once takes long
AT_ONCE, MOST_AT_ONCE = ("linear", "spreading", "scattered", "flat", "shifts"), 20_000


@cache
def messages(operation: str, name: str, p: int) -> float:
    """Return about how many messages a collective takes, from two small numbers of ranks."""
    build = registry.get(operation, name).build
    few, more = (max(simulate(build(q), "star", n_bytes=8).messages, 1) for q in (16, 64))
    return float(few * (p / 16) ** (np.log2(more / few) / 2))


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
    began, rows, skipped = time.process_time(), [], 0
    for on in MACHINES:
        for operation in registry.problems():
            for name in registry.names(operation):
                try:
                    model = collective(operation, name, on)
                except DataError:  # a program, or a cost without a closed form
                    continue
                algorithm = registry.get(operation, name)
                for p in (p for p in (16, 256, 4096) if p <= most):
                    if algorithm.requirements.unmet(p, True):
                        continue
                    most_messages = MOST_AT_ONCE if name.startswith(AT_ONCE) else MOST_MESSAGES
                    if messages(operation, name, p) > most_messages:
                        skipped += 1
                        continue
                    schedule = algorithm.build(p)
                    for size in SIZES:
                        if size * p * p > 2**33:
                            continue
                        took = simulate(schedule, on, n_bytes=size).makespan_s
                        lower, upper = model.evaluate(S=size, P=p)
                        is_in = lower * (1 - 1e-9) <= took <= upper * (1 + 1e-9)
                        rows.append((on, operation, name, p, size, is_in, took / lower, upper / took))
                        if not is_in:
                            print(
                                f"outside: {on} {operation}/{name} p = {p}, {size} B: {lower} {took} {upper}"
                            )
    found = pd.DataFrame(
        rows, columns=["machine", "operation", "name", "ranks", "bytes", "inside", "above", "below"]
    )
    groups = found.groupby(["machine", "ranks"])
    columns = {"points": ("inside", "size"), "inside": ("inside", "sum")}
    print(groups.agg(**columns, above=("above", "median"), below=("below", "median")))
    seconds = time.process_time() - began
    print(
        f"{int(found['inside'].sum())} of {len(found)} points inside; in the median the time is "
        f"{np.median(found['above']):.3g} times the lower bound, and the upper bound "
        f"{np.median(found['below']):.3g} times the time; {skipped} cases of more than {MOST_MESSAGES:,} "
        f"messages, or {MOST_AT_ONCE:,} at once, left out; {seconds:.0f} CPU s"
    )


if __name__ == "__main__":
    main()
