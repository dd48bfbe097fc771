"""All-to-all on graphene with four cabinets of 256 nodes: what each selector loses against the fastest.

    python benchmarks/alltoall_cabinets.py [--ranks 16,64,128,256] [--sizes 32K,128K,512K,2M]
    python benchmarks/alltoall_cabinets.py --ranks 192,256,272,320 --sizes 32K --algorithms ring,bruck
    python benchmarks/alltoall_cabinets.py --ranks 16,64,128 --sizes 32K,512K --smpi

The machine is that of figure 12 in A. Degomme et al.: Simulating MPI applications: the SMPI approach (TPDS
28(8), 2017, doi:10.1109/TPDS.2017.2669305): `graphene` with 256 nodes in each of its cabinets, a rank on each
node, the first cabinet filled first. Sizes are bytes from each rank to each other one; with ``--total``, from
each rank to all together (the article does not say which it means). `best` is the fastest of all algorithms
of the registry; `learned` a decision tree of at most 25 leaves, grown from the points of every other size,
and asked at all; the others are the tables of Open MPI, MPICH and SMPI. Simulated with graphene's model.

The article says of one cabinet: mesh_2d, mesh_3d and rdb are clearly inappropriate; linear and bruck are
optimal and stable throughout; what all libraries choose is near the best mostly, and up to twice as bad. Each
of the three is held against what is simulated here.
"""

from __future__ import annotations

import argparse
import itertools
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from replay import smpirun, write_inputs

import labkit as lk
from labkit.launch.options import numbers_of
from labkit.selector.situation import candidates
from labkit.tuning.tuned import SimulatedMachine, Tuned, measure_algorithms

SELECTORS = ("ompi", "mpich", "smpi", "default")
CABINET = 256
#: names of the article -> names here; "inappropriate" and "optimal" in one cabinet
BAD = {"2dmesh": "mesh_2d", "3dmesh": "mesh_3d", "rdb": "recursive_doubling"}
GOOD = {"basic_linear": "linear", "bruck": "bruck"}


def machine() -> Any:
    """Return the platform: labkit's file of graphene with other cabinets, a core on each node."""
    from labkit.datasets import machines

    text = (Path(str(machines.__path__[0])) / "graphene.xml").read_text(encoding="utf-8")
    firsts = iter(range(1, 4 * CABINET, CABINET))
    text = re.sub(r'radical="[^"]*"', lambda _: f'radical="{(a := next(firsts))}-{a + CABINET - 1}"', text)
    path = Path(tempfile.mkdtemp()) / "cabinets.xml"
    path.write_text(text.replace('core="4"', 'core="1"'), encoding="utf-8")
    return lk.platform(str(path))


def losses(tuned: Tuned, learned: Any) -> pd.DataFrame:
    """Return a row for each point and selector: what it takes, and how far that is from the best."""
    best = tuned.best.set_index(["ranks", "bytes"])["algorithm"].rename("best")
    found = []
    for name in (*SELECTORS, "learned"):
        lost = tuned.losses(learned if name == "learned" else name).join(best, on=["ranks", "bytes"])
        found.append(lost.assign(selector=name).rename(columns={"algorithm": "takes"}))
    return pd.concat(found, ignore_index=True)


def under_smpi(made: Any, ranks: Sequence[int], sizes: Sequence[int]) -> None:
    """Replay one all-to-all under SMPI, by the article's algorithms, and here."""
    print(f"{'p':>4} {'block':>8} {'algorithm':14} {'SMPI s':>18} {'labkit s':>18}")
    for p, size in itertools.product(ranks, sizes):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            lines = [f"{r} init\n{r} alltoall {size} {size}\n{r} finalize\n" for r in range(p)]
            trace = write_inputs("".join(lines), made, p, folder)
            for theirs, own in {**GOOD, "pair": "pairwise", "ring": "ring"}.items():
                found_s, _ = smpirun(made.model, p, [f"smpi/alltoall:{theirs}"], folder)
                run = lk.replay(trace, on=made, coll={"alltoall": own})
                print(f"{p:4} {size:8} {theirs:14} {found_s:18.15f} {run.makespan_s:18.15f}", flush=True)


def with_tolerance(
    made: Any, ranks: Sequence[int], sizes: Sequence[int], names: Sequence[str], share: float
) -> None:
    """Run the algorithms on links whose capacity may be off by a share."""
    print(f"{'p':>4} {'block':>8} {'algorithm':14} {'us a rank':>10} {'CPU s':>6}")
    for p, size, name in itertools.product(ranks, sizes, names):
        began = time.process_time()
        run = lk.run(
            exchange, p, made, args=(size,), coll={"alltoall": name}, tolerance=share, timeout_s=None
        )
        each = 1e6 * run.makespan_s / (p - 1)
        print(f"{p:4} {size:8} {name:14} {each:10.0f} {time.process_time() - began:6.0f}", flush=True)


def exchange(comm: Any, size: int) -> None:
    comm.Alltoall(lk.sized(size * comm.size), lk.sized(size * comm.size))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", default="16,64,128,256")
    parser.add_argument("--sizes", default="32K,128K,512K,2M")
    parser.add_argument("--times", help="a CSV file: what it has is not simulated again")
    parser.add_argument("--total", action="store_true", help="sizes are of all of a rank's blocks together")
    parser.add_argument("--algorithms", help="only these, and how their times grow")
    parser.add_argument("--tolerance", type=float, help="of links' capacities; with --algorithms")
    parser.add_argument("--smpi", action="store_true", help="smpirun's replay of the same, and nothing else")
    words = parser.parse_args()
    ranks, sizes = numbers_of(words.ranks, "--ranks"), numbers_of(words.sizes, "--sizes")
    if words.tolerance:
        with_tolerance(machine(), ranks, sizes, words.algorithms.split(","), words.tolerance)
        return
    if words.smpi:
        under_smpi(machine(), ranks, sizes)
        return
    began = time.process_time()
    made = SimulatedMachine(machine())
    times = pd.read_csv(words.times) if words.times and Path(words.times).exists() else None
    for p in ranks:
        points = [(p, n // p if words.total else n) for n in sizes]
        if times is not None:
            known = set(zip(times["ranks"], times["bytes"], strict=True))
            points = [point for point in points if point not in known]
        if not points:
            continue
        names = words.algorithms.split(",") if words.algorithms else candidates("alltoall")
        found = measure_algorithms(made, "alltoall", points, names)
        times = found if times is None else pd.concat([times, found], ignore_index=True)
        print(f"p = {p}: {time.process_time() - began:.0f} s of CPU time", flush=True)
        if words.times:
            times.to_csv(words.times, index=False)
    assert times is not None
    if words.algorithms:
        print("\nMicroseconds for each other rank")
        times["us"] = 1e6 * times["time_s"] / (times["ranks"] - 1)
        print(times.pivot(index=["bytes", "ranks"], columns="algorithm", values="us").round(0).to_string())
        return
    tuned = Tuned("alltoall", made, times)
    number = times.groupby("ranks")["bytes"].rank("dense").astype(int)
    learned = Tuned("alltoall", made, times[number % 2 == 1])
    with pd.option_context("display.width", 200, "display.max_rows", 500, "display.max_columns", 30):
        print("\nTime by the fastest's (1.00), of each algorithm; nan: it does not take so many ranks")
        wide = times.pivot(index=["ranks", "bytes"], columns="algorithm", values="time_s")
        ratio = wide.div(wide.min(axis=1), axis=0)
        print(ratio.round(2).T.to_string())
        table = losses(tuned, learned.rules)
        print("\nWhat each selector takes, and how much slower than the best that is, in percent")
        table["text"] = [f"{t} {100 * x:.1f}" for t, x in zip(table["takes"], table["loss"], strict=True)]
        said = table.pivot(index=["ranks", "bytes"], columns="selector", values="text")
        said.insert(
            0, "best", table.drop_duplicates(["ranks", "bytes"]).set_index(["ranks", "bytes"])["best"]
        )
        print(said.to_string())
        print("\nMean and most, in percent")
        print((100 * table.groupby("selector")["loss"].agg(["mean", "max"])).round(1).to_string())
    print(f"learned: {len(learned.tree)} leaves, from {len(learned.best)} of {len(tuned.best)} points")
    inside = ratio[ratio.index.get_level_values("ranks") <= CABINET]
    print("\nThe article's sentences on one cabinet, here:")
    for theirs, name in BAD.items():
        own = inside[name].dropna()
        verdict = "inappropriate" if own.median() > 1.5 else "not so here"
        print(
            f"  {theirs} clearly inappropriate: {own.min():.2f} to {own.max():.2f} times the best; {verdict}"
        )
    for theirs, name in GOOD.items():
        own = inside[name].dropna()
        verdict = "holds" if own.max() < 1.1 else "not so here"
        print(f"  {theirs} optimal throughout: {own.min():.2f} to {own.max():.2f} times the best; {verdict}")
    library = table[(table["ranks"] <= CABINET) & table["selector"].isin(["ompi", "mpich", "smpi"])]
    worst = 1 + library.groupby("selector")["loss"].max()
    print(f"  libraries up to twice as bad: {', '.join(f'{n} {x:.2f}' for n, x in worst.items())} times")
    print(f"{time.process_time() - began:.0f} s of CPU time; {np.prod(wide.shape)} simulations at most")


if __name__ == "__main__":
    main()
