"""Selectors beside the fastest algorithm: Open MPI's, MPICH's, SMPI's, the defaults, and a learned tree.

    python benchmarks/selector_losses.py [collectives|guidelines] [OPERATION ...] [--machines star:64,...]
                                   [--ranks 4,7,...] [--sizes 8,64,...] [--times FILE.csv]

*collectives*: every algorithm of every collective is simulated at every number of ranks and size; `best` is
the fastest of the registry there, `tree` a decision tree of at most 25 leaves that `lk.tune` grows from all
these points, `held out` one that it grows from every other size and number of ranks, judged at the other
points only; the others are tables. Printed are geometric mean and most of time / time of the best, for each
collective and machine, and what `best` and the tree gain over Open MPI's and MPICH's tables. Target: the tree
within 2.5 % of the best on average.

*guidelines*: the guidelines that each selector violates (`labkit guidelines --coll SELECTOR`).

Bias: simulated time of one call on an otherwise idle machine, all ranks entering together, combining free of
charge; the tables were made for other machines than these. With --times what the file has is not simulated
again, so that the points can be made in several goes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

import labkit as lk
from labkit.launch.options import numbers_of
from labkit.selector.situation import candidates
from labkit.tuning.tuned import SimulatedMachine, Tuned, measure_algorithms

OPERATIONS = (
    "allgather", "allreduce", "alltoall", "barrier", "bcast", "gather", "reduce", "reduce_scatter",
    "reduce_scatter_block", "scan", "scatter", "allgatherv", "alltoallv",
)  # fmt: skip
MACHINES = "star:64,torus:4x4x4,fattree:8x8:1x4:1x1"
RANKS, SIZES = "4,7,8,12,16,24,33,64", "8,64,512,4K,32K,256K,2M"
LIBRARIES = ("ompi", "mpich")
SELECTORS = ("default", *LIBRARIES, "smpi")
LEAVES, WITHIN = 25, 0.025


def measured(
    machine: SimulatedMachine, operation: str, points: list[tuple[int, int]], path: str | None
) -> pd.DataFrame:
    """Return the times of every algorithm at the points; those of the file stand, the others are added."""
    on = machine.platform.spec
    known = pd.read_csv(path) if path and Path(path).exists() else pd.DataFrame(columns=["on"])
    mine = known[(known["on"] == on) & (known["operation"] == operation)] if len(known) else known
    done = set(zip(mine["ranks"], mine["bytes"], strict=True)) if len(mine) else set()
    todo = [point for point in points if point not in done]
    if todo:
        found = measure_algorithms(machine, operation, todo, candidates(operation)).assign(on=on)
        mine = pd.concat([mine, found], ignore_index=True) if len(mine) else found
        if path:
            known = pd.concat([known, found], ignore_index=True) if len(known) else found
            known.to_csv(path, index=False)
    wanted = pd.MultiIndex.from_tuples(points)
    return mine[pd.MultiIndex.from_frame(mine[["ranks", "bytes"]].astype(int)).isin(wanted)]


def judged(operation: str, machine: SimulatedMachine, times: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return a row for each selector and point, and the leaves of the tree."""
    tuned = Tuned(operation, machine, times, LEAVES)
    rows = [tuned.losses().assign(selector="tree")]
    rows += [tuned.losses(name).assign(selector=name) for name in SELECTORS]
    ranks, sizes = (sorted(times[column].unique()) for column in ("ranks", "bytes"))
    is_seen = times["ranks"].isin(ranks[::2]) & times["bytes"].isin(sizes[::2])
    other = tuned.losses(Tuned(operation, machine, times[is_seen], LEAVES).rules)
    was_seen = other["ranks"].isin(ranks[::2]) & other["bytes"].isin(sizes[::2])
    rows.append(other[~was_seen].assign(selector="held out"))
    found = pd.concat(rows, ignore_index=True)
    return found.assign(operation=operation, on=machine.platform.spec), len(tuned.tree)


def collectives(words: argparse.Namespace) -> None:
    """Print the tables."""
    ranks, sizes = numbers_of(words.ranks, "--ranks"), numbers_of(words.sizes, "--sizes")
    began, found, leaves = time.process_time(), [], {}
    for on in words.machines.split(","):
        machine = SimulatedMachine(lk.platform(on))
        for operation in words.operations or OPERATIONS:
            points = [(p, n) for p in ranks for n in ([0] if operation == "barrier" else sizes)]
            times = measured(machine, operation, points, words.times)
            rows, leaves[operation, on] = judged(operation, machine, times)
            found.append(rows)
            print(f"{operation} on {on}: {time.process_time() - began:.0f} s of CPU time", flush=True)
    frame = pd.concat(found, ignore_index=True)
    frame["ratio"] = 1 + frame["loss"]
    order = ["tree", "held out", *SELECTORS]
    with pd.option_context("display.width", 200, "display.max_rows", 500, "display.max_columns", 30):
        print("\nTime by the best's: geometric mean / most")
        text = frame.groupby(["operation", "on", "selector"])["ratio"].agg(_both).unstack()[order]
        text["leaves"] = [leaves[key] for key in text.index]
        print(text.to_string())
        print("\nThe same over all collectives, by machine")
        print(frame.groupby(["on", "selector"])["ratio"].agg(_both).unstack()[order].to_string())
        worst = frame.sort_values("loss").drop_duplicates("selector", keep="last").set_index("selector")
        print("\nWhere each loses most")
        print(
            worst.loc[order, ["operation", "on", "ranks", "bytes", "algorithm", "ratio"]].round(2).to_string()
        )
    mean = {name: _geometric(frame.loc[frame["selector"] == name, "ratio"]) for name in order}
    points = len(frame[frame["selector"] == "tree"])
    for name in LIBRARIES:
        best, *others = (mean[name] / by for by in (1, mean["tree"], mean["default"]))
        print(
            f"over {name}: best {best:.3f} times as fast, tree {others[0]:.3f}, defaults {others[1]:.3f} "
            f"(geometric means of {points} points)"
        )
    of_trees = frame[frame["selector"] == "tree"].groupby(["operation", "on"])["loss"].mean()
    print(
        f"trees of at most {LEAVES} leaves: {100 * of_trees.mean():.2f} % slower than the best on average, "
        f"{(of_trees <= WITHIN).sum()} of {len(of_trees)} within {100 * WITHIN:g} %"
    )
    print(f"{time.process_time() - began:.0f} s of CPU time")


def guidelines(words: argparse.Namespace) -> None:
    """Print how many guidelines each selector violates, and the worst."""
    ranks = [4, 8, 16, 32]
    for on in words.machines.split(","):
        for name in (None, "best", *LIBRARIES, "smpi"):
            found = lk.guidelines(on, ranks=ranks, **({"coll": name} if name else {}))
            print(f"{on}, {name or 'default'}: {str(found).splitlines()[0]}", flush=True)


def _geometric(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean()))


def _both(ratios: pd.Series) -> str:
    return f"{_geometric(ratios):.3f} / {ratios.max():.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["collectives", "guidelines"], default="collectives")
    parser.add_argument("operations", nargs="*", metavar="OPERATION")
    parser.add_argument("--machines", default=MACHINES)
    parser.add_argument("--ranks", default=RANKS)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--times", metavar="FILE.csv", help="times that are kept and added to")
    words = parser.parse_args()
    {"collectives": collectives, "guidelines": guidelines}[words.what](words)


if __name__ == "__main__":
    main()
