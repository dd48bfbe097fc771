"""Applications on machines of Degomme et al. 2017 (doi:10.1109/TPDS.2017.2669305): figures 8, 9 and 10.

    python benchmarks/applications.py [orbitals] [lu] [cg] [wavefronts] [cases] [pump] [forecast] [--most N]

Communication is simulated message by message; computation is charged, with stated shares of a core's peak.
`orbitals` stands for BigDFT on tibidabo, `lu` for LU on graphene and beyond its 144 nodes, `cg` for CG
class B on graphene, a rank on each node; `wavefronts` are Sweep3D and SMG2000 with 1024 ranks on a Blue
Gene/P; `cases`, `pump` and `forecast` are those of docs/case-studies.md.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

from alltoall_cabinets import machine

import labkit as lk
from labkit import registry
from labkit.algorithms.applications.lu import SIZES


def simulated(name: str, size: str, ranks: int, on: Any, steps: int, **how: Any) -> tuple[float, float]:
    """Return simulated seconds of some steps of an application, and CPU seconds of this process."""
    program = registry.get("applications", name).function
    begin = time.process_time()
    charged = {"charged": True, "steps": steps}
    run = lk.run(program, ranks, on, args=(size,), kwargs=charged, timeout_s=None, **how)
    return run.makespan_s, time.process_time() - begin


def scaling(name: str, size: str, ranks: list[int], on: Any, steps: int, **how: Any) -> None:
    """Print times and speedups under the machine's flow model and under LogGPS."""
    print(f"\n{name}, class {size}, on {on}, {how or 'ranks fill nodes'}; {steps} step(s)")
    print("  ranks     flow s  speedup    LogGPS s  speedup   CPU s")
    first: list[float] = []
    for p in ranks:
        found = [simulated(name, size, p, on, steps, **how, **model) for model in ({}, {"model": "loggps"})]
        first = first or [one[0] * p for one in found]
        shown = [f"{one[0]:11.4f} {base / one[0]:8.1f}" for one, base in zip(found, first, strict=True)]
        print(f"  {p:5}" + " ".join(shown) + f" {found[0][1] + found[1][1]:7.1f}")


def orbitals(most: int) -> None:
    """Figure 8: a code that lives on alltoallv."""
    scaling("orbitals", "small", [1, 8, 16, 32, 64, 128], "tibidabo", 1)


def cg(most: int) -> None:
    """Figure 10."""
    scaling("cg", "B", [8, 16, 32, 64, 128], "graphene", 1, mapping="cyclic")


def lu(most: int) -> None:
    """Figure 9: times of the classes B, C and D; beyond 128 ranks on a graphene with 1024 nodes."""
    wide = machine()
    print("\nlu: seconds of all steps, from two of them; CPU seconds in brackets")
    few, many = (8, 16, 32, 64, 128), (64, 128, 512, 1024)
    for size, ranks in {"B": few, "C": few, "D": many}.items():
        all_steps = SIZES[size].steps
        row = []
        for p in (one for one in ranks if one <= most):
            took, cpu = simulated("lu", size, p, wide, 2)
            row.append(f"{p}: {took * all_steps / 2:.1f} s ({cpu:.1f})")
        print(f"  class {size}: " + ", ".join(row))


def wavefronts(most: int) -> None:
    """Where 1024 ranks of a Blue Gene/P wait in a step of Sweep3D and in a cycle of SMG2000."""
    for name, size in (("sweep3d", "150"), ("smg", "63")):
        p = min(1024, most)
        program = registry.get("applications", name).function
        begin = time.process_time()
        run = lk.run(
            program,
            p,
            "jugene",
            args=(size,),
            kwargs={"charged": True, "steps": 1},
            summary=True,
            timeout_s=None,
        )
        print(f"\n{name}, class {size}, {p} ranks on jugene: {1e3 * run.makespan_s:.1f} ms a step")
        print(f"  {run.messages:,} messages, {time.process_time() - begin:.1f} CPU s")
        print("  " + "\n  ".join(str(run).splitlines()[1:6]))


def cases(most: int) -> None:
    """What holds up Sweep3D on graphene and SMG2000 on a Blue Gene/P, and what fixes it."""
    charged = {"charged": True, "steps": 1}
    sweep3d, smg = (registry.get("applications", name).function for name in ("sweep3d", "smg"))
    print("\nsweep3d, class 150, on graphene: ms a step by ranks, placement and angles of a block")
    for p in (64, 128):
        for mapping, angles in (("block", 3), ("block", 6), ("cyclic", 3)):
            how = {"kwargs": charged | {"angles": angles}, "mapping": mapping}
            took = lk.run(sweep3d, p, "graphene", args=("150",), **how).makespan_s
            print(f"  {p:4} ranks, {mapping:6}, {angles} angles: {1e3 * took:6.1f}")
    run = lk.run(sweep3d, 128, "graphene", args=("150",), kwargs=charged, trace=True)
    print(f"{run.explain()}\n{run.waits().reading()}\n{run.what_if(links='cabinet#: limiter #', factor=4)}")
    run = lk.run(smg, 64, "jugene", args=("63",), kwargs=charged, trace=True)
    print(f"\n{run.explain()}\n{run.waits().reading()}")
    for name in ("ring", "recursive_doubling"):
        print(f"allgather by {name}: {run.what_if(coll=f'allgather={name}')}")


def pumped(ranks: int, every: bool, is_traced: bool) -> Any:
    """Run an iteration of finite elements, class 600k, on a Blue Gene/P, a rank on each node."""
    solve = registry.get("applications", "finite_elements").function
    how = {"charged": True, "steps": 1, "iterations": 1, "every": every}
    placed = {"mapping": "block:1", "trace": is_traced, "timeout_s": None}
    return lk.run(solve, ranks, "jugene", args=("600k",), kwargs=how, **placed)


def pump(most: int) -> None:
    """What a finite-element code loses by empty messages on a Blue Gene/P."""
    print(
        "\nfinite elements, class 600k, jugene, a rank a node: ms an iteration, with every rank or partners"
    )
    for p in (p for p in (64, 256, 1024) if p <= most):
        took = {}
        for every in (True, False):
            is_traced = every and p <= 256
            run = pumped(p, every, is_traced)
            took[every] = run.makespan_s
            if is_traced:
                empty, report = (run.trace.messages["bytes"] == 0).mean(), run.report()
                spent = report.total("synchronization") / report.total("time")
                print(
                    f"  {p:5} ranks: {empty:.0%} of the messages are empty, {spent:.0%} of the time in them"
                )
        ratio = took[True] / took[False]
        print(f"  {p:5} ranks: {1e3 * took[True]:8.2f} {1e3 * took[False]:8.2f}, {ratio:.2f} times")


def forecast(most: int) -> None:
    """What land and sea do to a weather model on graphene."""
    del most
    predict = registry.get("applications", "weather").function
    for balanced in (False, True):
        how = {"charged": True, "steps": 3, "balanced": balanced}
        run = lk.run(predict, 64, "graphene", args=("europe",), kwargs=how, trace=True)
        print(f"\nweather, class europe, 64 ranks on graphene: {1e3 * run.makespan_s:.1f} ms for 3 steps")
        print(run.waits().reading())


def main() -> None:
    """Print the figures named on the command line."""
    parts = {one.__name__: one for one in (orbitals, cg, lu, wavefronts, cases, pump, forecast)}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(parts)}; default: all")
    parser.add_argument("--most", type=int, default=2048, help="ranks")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(parts):
        parser.error(f"there is no {unknown.pop()!r}; choose from {', '.join(parts)}")
    for name in options.parts or parts:
        parts[name](options.most)
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
