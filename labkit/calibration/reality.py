"""The same collectives on real messages and in simulation: what a prediction is worth.

Both sides carry out the same schedules with the same calls: `labkit.schedule.execute` over the communicator's
point-to-point messages. So an algorithm's choice cannot hide an error of the network model.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from labkit import registry
from labkit.calibration import Calibration
from labkit.calibration.fit import STATISTICS
from labkit.launch.run import run
from labkit.machines.models import NetworkModel
from labkit.machines.platform import Platform, graph
from labkit.program import context
from labkit.schedule import execute

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = [
    "FAR_LINKS",
    "NETWORKS",
    "Job",
    "collect",
    "compare",
    "compare_networks",
    "is_settled",
    "measure_jobs",
    "predict",
    "run_jobs",
    "shaped_machine",
]

#: All ranks start this long after they agreed to: longer than a barrier takes to reach all ranks.
_AHEAD_S = 0.01
_TAG = 78
#: Links between hosts behind different switches of a shaped network: two cables and two trunks.
FAR_LINKS = 4
#: Name of a shaped network -> hosts per switch.
NETWORKS: dict[str, tuple[int, ...]] = {"star of 4": (4,), "star of 8": (8,), "tree of 4 + 4": (4, 4)}
#: The two quickest rounds of a settled job differ by no more.
_AGREE = 0.01


@dataclass(frozen=True)
class Job:
    """One collective to be timed.

    `problem`, `algorithm`: As in `labkit.registry`.
    `bytes`: What a rank holds for one other rank (alltoall) or what the root sends (bcast).
    """

    problem: str
    algorithm: str
    bytes: int


def run_jobs(
    comm: Intracomm, jobs: Sequence[Job], repeats: int, seed: int = 0
) -> list[tuple[int, int, float, float]]:
    """Time each job `repeats` times, in an order that is shuffled again in every round."""
    rng = np.random.default_rng(seed)
    calls = [_prepared(comm, job) for job in jobs]
    from labkit import MPI  # this rank's: mpi4py's or the simulated one

    clock = MPI.Wtime
    rows = []
    for number in range(repeats):
        for index in rng.permutation(len(jobs)):
            begin = _start(comm, clock)
            calls[index]()
            rows.append((int(index), number, begin, float(clock())))
    return rows


def _prepared(comm: Intracomm, job: Job) -> Any:
    """Build the schedule and the buffers once, outside the time."""
    size, rank = comm.Get_size(), comm.Get_rank()
    schedule = registry.get(job.problem, job.algorithm).build(size)
    buffers: dict[str, Any]
    if job.problem == "alltoall":
        buffers = {
            "send": np.full(size * job.bytes, rank, np.uint8),
            "recv": np.zeros(size * job.bytes, np.uint8),
        }
    else:
        buffers = {"data": np.full(job.bytes, rank + 1, np.uint8)}
    return lambda: execute(comm, schedule, tag=_TAG, **buffers)


def _start(comm: Intracomm, clock: Any) -> float:
    """Let all ranks begin at one moment, which rank 0 chooses."""
    comm.Barrier()
    moment = np.array([clock() + _AHEAD_S])
    comm.Bcast(moment, root=0)
    left = float(moment[0]) - clock()
    context.compute(seconds=max(left, 0.0))  # on a simulated machine; on a real one it does nothing
    left = float(moment[0]) - clock()
    if left > 0:
        time.sleep(left)
    return float(moment[0])


def collect(results: Sequence[Sequence[tuple[int, int, float, float]]], jobs: Sequence[Job]) -> pd.DataFrame:
    """Make a table of makespans: from the agreed begin to the last rank's end.

    Returns: Columns problem, algorithm, bytes, ranks, round, seconds.
    """
    rows = []
    for entries in zip(*results, strict=True):
        index, number, begin, _ = entries[0]
        job = jobs[index]
        seconds = max(end for _, _, _, end in entries) - begin
        rows.append((job.problem, job.algorithm, job.bytes, len(results), number, seconds))
    return pd.DataFrame(rows, columns=["problem", "algorithm", "bytes", "ranks", "round", "seconds"])


def measure_jobs(
    jobs: Sequence[Job],
    ranks: int,
    rounds: int,
    batches: int,
    **options: Any,
) -> pd.DataFrame:
    """Run the jobs on real MPI, and those again that have not settled.

    Whatever else the host does can only delay a collective. So a job has settled when its two quickest rounds
    agree: that depends on no prediction.

    `jobs`: What to time.
    `ranks`: Number of ranks.
    `rounds`: Of each batch, at least 2.
    `batches`: Most batches; from the second on only what has not settled is run.
    `**options`: Of `labkit.run`, such as ``mpi=``.
    Returns: As of `collect`, with the rounds of all batches.
    """
    tables: list[pd.DataFrame] = []
    left = list(jobs)
    for batch in range(batches):
        done = run(run_jobs, ranks, "mpi", args=(left, rounds, batch), timeout_s=600.0, **options)
        found = collect(done.results, left)
        tables.append(found.assign(round=found["round"] + batch * rounds))
        data = pd.concat(tables, ignore_index=True)
        left = [job for job in left if not is_settled(data, job)]
        if not left:
            break
    return data


def is_settled(data: pd.DataFrame, job: Job) -> bool:
    """Whether a job's two quickest rounds agree."""
    is_this = (data["problem"] == job.problem) & (data["algorithm"] == job.algorithm)
    times = np.sort(data.loc[is_this & (data["bytes"] == job.bytes), "seconds"].to_numpy(float))
    return bool(len(times) > 1 and times[1] <= (1 + _AGREE) * times[0])


def predict(machine: Platform, model: NetworkModel, ranks: int, jobs: Sequence[Job]) -> pd.DataFrame:
    """Simulate the jobs.

    Returns: As of `collect`, one round.
    """
    done = run(run_jobs, ranks, machine, args=(list(jobs), 1), model=model, timeout_s=None)
    return collect(done.results, jobs)


def shaped_machine(groups: Sequence[int], found: Calibration) -> Platform:
    """Describe a shaped network with the calibrated link."""
    if len(groups) == 1:
        return found.star(groups[0])
    fit = found.fit
    far_s = fit.latency_s if fit.shares is None else fit.shares.latency_s
    bandwidth = f"{fit.bandwidth_bytes_per_s}Bps"
    cable = {"bw": bandwidth, "lat": f"{fit.latency_s / 2}s", "sharing": fit.sharing}
    trunk = {**cable, "lat": f"{far_s / 2}s"}
    switches = [number for number, size in enumerate(groups) for _ in range(size)]
    edges = [(f"host {host}", f"switch {switch}", cable) for host, switch in enumerate(switches)]
    edges += [(f"switch {switch}", "root", trunk) for switch in range(len(groups))]
    return graph(edges, hosts=[f"host {host}" for host in range(len(switches))])


def compare_networks(
    found: Calibration, data: pd.DataFrame, *, model: NetworkModel | None = None
) -> pd.DataFrame:
    """Predict all collectives of a recording and compare them with the quickest rounds.

    `found`: Of two hosts of the same kind.
    `data`: Of `collect`, with the columns network (of `NETWORKS`) and congestion.
    `model`: Instead of the calibrated one.
    Returns: As of `compare`, with the columns network and congestion.
    """
    tables = []
    for keys, rows in data.groupby(["network", "congestion"], sort=False):
        name, congestion = map(str, keys)
        groups = NETWORKS[name]
        kinds = rows[["problem", "algorithm", "bytes"]].drop_duplicates().itertuples(index=False)
        jobs = [Job(str(p), str(a), int(n)) for p, a, n in kinds]
        predicted = predict(shaped_machine(groups, found), model or found.model, sum(groups), jobs)
        tables.append(compare(rows, predicted, "min").assign(network=name, congestion=congestion))
    return pd.concat(tables, ignore_index=True)


def compare(measured: pd.DataFrame, predicted: pd.DataFrame, statistic: str = "median") -> pd.DataFrame:
    """Compare the summed measurements with the prediction.

    `measured`, `predicted`: Of `collect` and `predict`.
    `statistic`: What stands for the rounds, as in `labkit.calibrate`.
    Returns: One row per job: problem, algorithm, bytes, ranks, measured_s, spread (relative, 1.4826 times the
        median deviation), rounds, predicted_s, error (predicted / measured - 1).
    """
    keys = ["problem", "algorithm", "bytes", "ranks"]
    groups = measured.groupby(keys)["seconds"]
    table = pd.DataFrame({"measured_s": groups.quantile(STATISTICS[statistic])})
    table["spread"] = 1.4826 * groups.apply(lambda t: (t - t.median()).abs().median()) / groups.median()
    table["rounds"] = groups.size()
    table["predicted_s"] = predicted.set_index(keys)["seconds"]
    table["error"] = table["predicted_s"] / table["measured_s"] - 1
    return table.reset_index()
