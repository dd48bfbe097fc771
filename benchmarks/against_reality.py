"""Predictions against a real network: hosts in network namespaces, links shaped, MPICH over TCP.

Two hosts are calibrated, and how links are shared with a third behind another switch; collectives of 100 kB
to 4 MB on stars and on a tree with a shared trunk are predicted and run. Both sides carry out the same
schedules. Needs root, iproute2 and an MPICH (LABKIT_MPICH, see tests.support.shaped_network.find_mpich);
without them it says what is missing.

    python benchmarks/against_reality.py                        print the comparison (quick: a few sizes)
    python benchmarks/against_reality.py --out FOLDER           all sizes; write measurements and calibration
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
from pathlib import Path

import pandas as pd

import labkit as lk
from labkit.calibration import with_shares
from labkit.calibration.reality import FAR_LINKS, NETWORKS, Job, compare_networks, measure_jobs

sys.path.append(str(Path(__file__).parents[1]))  # for tests.support, wherever it is started

from tests.support.shaped_network import MTU_BYTES, ShapedNetwork, find_mpich, why_not

QUICK = [Job("alltoall", "linear", 100_000), Job("bcast", "binomial", 400_000), Job("bcast", "ring", 400_000)]
FULL = [
    *(Job("alltoall", name, n) for name in ("linear", "pairwise") for n in (100_000, 200_000, 400_000)),
    *(
        Job("bcast", name, n)
        for name in ("binomial", "ring")
        for n in (100_000, 400_000, 1_000_000, 4_000_000)
    ),
    *(Job("bcast", "linear", n) for n in (100_000, 400_000, 1_000_000)),
]


def calibrated(rate: float, mpich, is_quick: bool) -> lk.Calibration:
    plan = (
        {"points": 20, "repeats": 3, "refine": 0} if is_quick else {"points": 36, "repeats": 7, "refine": 1}
    )
    with ShapedNetwork((2,), rate) as network:
        found = lk.calibrate(
            mpi=network.launcher(mpich),
            name="namespaces",
            max_bytes=500_000,
            window=4,
            pairs=2,
            statistic="min",
            **plan,
        )
    with ShapedNetwork((2, 1), rate) as network:
        return with_shares(
            found, mpi=network.launcher(mpich), far_links=FAR_LINKS, repeats=plan["repeats"], statistic="min"
        )


def measured(rate: float, mpich, name: str, jobs: list[Job], congestion: str, rounds: int) -> pd.DataFrame:
    groups = NETWORKS[name]
    with ShapedNetwork(groups, rate, congestion_control=congestion) as network:
        found = measure_jobs(jobs, sum(groups), rounds, 3, mpi=network.launcher(mpich))
    return found.assign(network=name, congestion=congestion, load=round(os.getloadavg()[0], 1))


def provenance(mpich, rate: float, data: pd.DataFrame) -> str:
    return f"""# Collectives on shaped links between network namespaces

| what | value |
|---|---|
| command | `python benchmarks/against_reality.py --out FOLDER --rate {rate:g}` |
| date | {datetime.date.today().isoformat()} |
| host | Linux {platform.release()}, {os.cpu_count()} cores |
| MPI | {mpich.describe()}, over TCP (libfabric), one rank a namespace |
| links | {rate / 1e6:g} Mbit/s each way: token bucket at both ends, no netem; frames of {MTU_BYTES} B |
| load average | {data["load"].min()} to {data["load"].max()}, by the ranks themselves and whatever else ran |

- `collectives.csv`: every round: problem, algorithm, bytes (alltoall: for each other rank; bcast: the whole),
  ranks, round, seconds (from the agreed begin to the last rank's end), network, congestion control, load.
- `namespaces.*`: the calibration of two hosts of the same kind, and of a third behind another switch
  (`labkit.Calibration.save`): measurements, residuals, model, platform, SimGrid's files.

Jobs whose two quickest rounds differed by more than 1 % were run again, up to three batches. Whatever else a
host does can only delay a message: so the quickest round stands for the network.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rate", type=float, default=20e6, help="bit/s of every link")
    parser.add_argument("--calibrate", action="store_true", help="with --out: the calibration only, anew")
    arguments = parser.parse_args()
    mpich, reason = find_mpich(), why_not()
    if mpich is None or reason is not None:
        print(reason or "no MPICH was found: set LABKIT_MPICH to its mpiexec")
        return 0
    is_quick = arguments.out is None
    jobs, rounds = (QUICK, 3) if is_quick else (FULL, 5)
    found = calibrated(arguments.rate, mpich, is_quick)
    print(found)
    if arguments.out is not None:
        found.save(arguments.out)
        if arguments.calibrate:
            return 0
    tables = [measured(arguments.rate, mpich, name, jobs, "reno", rounds) for name in NETWORKS]
    if not is_quick:
        few = [job for job in jobs if job.bytes == 400_000]
        tables.append(measured(arguments.rate, mpich, "star of 4", few, "bbr", rounds))
    data = pd.concat(tables, ignore_index=True)
    if arguments.out is not None:
        data.to_csv(arguments.out / "collectives.csv", index=False, float_format="%.6g")
        (arguments.out / "README.md").write_text(provenance(mpich, arguments.rate, data), "utf-8")
    table = compare_networks(found, data)
    print(table.drop(columns="ranks").to_string(index=False, float_format="%.4g"))
    for (name, congestion), rows in table.groupby(["network", "congestion"], sort=False):
        errors = 100 * rows["error"].abs()
        print(f"{name}, {congestion}: median error {errors.median():.1f} %, worst {errors.max():.1f} %")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
