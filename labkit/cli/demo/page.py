"""The demo as a page: what was asked, what was run, figures, verdicts and what they do not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from labkit import plot
from labkit.cli.demo.plan import title
from labkit.cli.demo.real import RealSort
from labkit.cli.demo.result import Demo
from labkit.cli.demo.simulated import SimulatedSort
from labkit.cli.demo.words import closing, off_by
from labkit.study.measure import SEEDS
from labkit.units import format_count, format_seconds

__all__ = ["write_page"]

TITLE = "Parallel sorts on real and simulated machines"

INTRODUCTION = """
Every program below is a parallel sort written once, against mpi4py's communicator. It was run on real
MPI on this host, and on three simulated machines that grow: a star, a torus and a fat tree. The same
source, unchanged, ran on all of them.

**Sample sort** lets one root pick splitters from a sample of all keys; **histogram sort** refines
splitters in rounds, by counting how many keys lie below each candidate; **exact splitting** searches
the splitters that give every rank exactly its share; **radix sort** deals the keys out digit by digit
and compares none of them; **mini sort** sorts one key per rank. Each marks its phases, so that each
phase gets a model and a verdict of its own.
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


def write_page(demo: Demo, path: Path) -> Path:
    """Write the page of a demo.

    Parameters
    ----------
    demo : Demo
    path : Path
        The HTML file; it needs no network.
    """
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
    studies: dict[str, dict[str, Any]] = {}
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
