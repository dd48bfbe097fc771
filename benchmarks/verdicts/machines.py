"""Seven collectives on four named machines: labkit's verdict on each, and the plain method of the paper.

    python benchmarks/verdicts/machines.py [--quick] [--record FILE]

The method of Shudler et al. (TPDS 2019) as it is printed, written anew here: 26 terms p^i log^j p and a
constant of either sign, relative least squares, the term chosen by leave-one-out errors.  It is the oracle:
where its adjusted R2 is above .99, labkit should name the same growth.  --quick ends at p = 1024 instead
of 4096.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import labkit as lk

Floats = npt.NDArray[np.float64]

MACHINES = ("juqueen", "juropa", "piz-daint", "lichtenberg")
#: what MPI libraries may be expected to do (table 4 of the paper)
EXPECTED = {
    "Barrier": "log p", "Bcast": "log p", "Reduce": "log p", "Allreduce": "log p", "Gather": "p",
    "Allgather": "p", "Alltoall": "p",
}  # fmt: skip
BYTES = 800
EXPONENTS = sorted(
    {(i / 4, j) for i in range(9) for j in range(2)} | {(i / 3, j) for i in (1, 2, 4, 5) for j in (0, 1)}
)


def collective(comm: Any, name: str) -> None:
    """Call one collective with 800 bytes for each rank."""
    one, own, every = lk.sized(BYTES), lk.sized(BYTES), lk.sized(BYTES * comm.size)
    if name == "Barrier":
        comm.Barrier()
    elif name == "Bcast":
        comm.Bcast(one)
    elif name in ("Reduce", "Allreduce"):
        getattr(comm, name)(one, own)
    elif name == "Alltoall":
        comm.Alltoall(every, lk.sized(BYTES * comm.size))
    else:
        getattr(comm, name)(one, every)


def plain(p: Floats, y: Floats) -> tuple[str, float]:
    """Return the term that the paper's method chooses, and the adjusted R2 of its fit."""
    found = []
    for i, j in EXPONENTS:
        f = p**i * np.log2(p) ** j
        design = np.stack([np.ones_like(p), f / f.max()][: 1 + bool(i or j)], axis=1) / y[:, None]
        off = np.array([
            design[k] @ np.linalg.lstsq(np.delete(design, k, 0), np.ones(p.size - 1), rcond=None)[0] - 1
            for k in range(p.size)
        ])  # fmt: skip
        numbers = np.linalg.lstsq(design, np.ones(p.size), rcond=None)[0]
        if numbers[-1] > 0:
            found.append((float(off @ off), i, j, y * (design @ numbers)))
    _, i, j, curve = min(found, key=lambda one: one[:3])
    free = 2 if i or j else 1
    r2 = 1 - ((y - curve) ** 2).sum() / (p.size - free) / (((y - y.mean()) ** 2).sum() / (p.size - 1))
    return " ".join(t for t in (power("p", i), power("log", j) + " p" * bool(j)) if t.strip()) or "1", float(
        r2
    )


def power(base: str, exponent: float) -> str:
    if exponent in (0, 0.5, 1):
        return {0: "", 0.5: f"sqrt({base})", 1: base}[exponent]
    return f"{base}^{round(exponent, 2):g}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="up to p = 1024")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the measured series as JSON")
    options = parser.parse_args()
    ranks = 2 ** np.arange(4, 11 if options.quick else 13)
    described = near = same = firm = 0
    series = []
    for machine in MACHINES:
        start = time.process_time()
        for name, expected in EXPECTED.items():
            y = [lk.run(collective, int(p), machine, args=(name,), seed=1).makespan_s * 1e6 for p in ranks]
            verdict = lk.judge(ranks, y, expected, unit="us")
            assert verdict.model is not None
            oracle, r2 = plain(ranks.astype(float), np.array(y))
            described += not verdict.model.is_nearest
            near += verdict.model.error <= verdict.tolerance
            firm += r2 > 0.99
            same += r2 > 0.99 and oracle == str(verdict.model.term)
            sign = "" if oracle == str(verdict.model.term) or r2 <= 0.99 else "  DIFFERENT"
            print(f"{machine:12}{name:10}{oracle:14}{r2:8.4f}{sign}\n    {verdict.reading}", flush=True)
            series.append(
                {"machine": machine, "collective": name, "p": ranks.tolist(), "us": [round(v, 6) for v in y]}
            )
        print(f"{machine}: {time.process_time() - start:.1f} CPU s", flush=True)
    print(f"{described} of {len(series)} have a model, {near} within 5 %; ", end="")
    print(f"the growth of the paper's method in {same} of {firm}")
    if options.record:
        options.record.write_text("[\n" + ",\n".join(json.dumps(one) for one in series) + "\n]\n")


if __name__ == "__main__":
    main()
