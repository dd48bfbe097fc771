"""The demo as a page: what was asked, what was run, figures, verdicts and what they do not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from labkit import plot
from labkit.demo.job import Demo, off_by
from labkit.run.units import format_seconds

__all__ = ["write_page"]

TITLE = "One parallel sort, two machines"

INTRODUCTION = """
One program, a parallel **sample sort** written against mpi4py's communicator, was run on two machines: on
real MPI on this host, and on a simulated cluster that grows. The same source, unchanged, ran on both.

Each rank sorts its keys (`local sort`) and gives rank 0 one key for each block of them. Rank 0 merges
these samples and picks the splitters that divide all keys evenly (`splitters`). Every key is sent once,
straight to the rank it belongs to (`exchange`), and each rank merges the sorted pieces that it receives
(`merge`). Before all that the ranks agree on what they sort (`agree`).
"""

REAL = """
## Real data on real MPI

Delays and distances of the flights that left New York City in 2013: few distinct values, so nearly every
key is a duplicate; skewed; and with missing values, which sort last. Each result was judged twice: by a
sound distributed check (each block sorted, blocks in order, the same multiset of keys), and by
comparison with `numpy.sort` of all keys.
"""

SIMULATED = """
## The same sort on a simulated cluster

A star of p hosts, each with its own link of 1.25 GB/s, sorts {n_local} uniform keys per rank. Messages, their
start-ups and the sharing of links are simulated; the work between messages is charged with costs that were
calibrated once and are shipped with labkit. So these times are the same on every host.
"""

GROWTH = """
## How each phase grows

The points are simulated times of the slowest rank. The model is the best-fitting power of p times a power of
its logarithm. The expectation is what the algorithm promises when each rank's share of the keys stays the
same; the band around it is how far a model may deviate and still match approximately.
"""


BEYOND = """
## Beyond what was fitted

A model that fits is not yet a model that predicts. So the same sort was simulated once more, on a machine
larger than any that was fitted, and compared with two predictions: by the best model, and by the curve of the
expectation fitted to the same points.
"""


def write_page(demo: Demo, path: Path) -> Path:
    """Write the page of a demo.

    Parameters
    ----------
    demo : Demo
    path : Path
        The HTML file; it needs no network.

    Returns
    -------
    Path
    """
    simulated = demo.simulated
    items: list[Any] = [INTRODUCTION, REAL]
    items += [_real_table(demo), _real_remark(demo)] if demo.real else [f"**Not run:** {demo.mpi_trouble}"]
    items += [
        SIMULATED.format(n_local=f"{simulated.n_local:,}"),
        _simulated_table(demo),
        plot.shares(simulated.study),
        GROWTH,
        simulated.table,
        plot.phases(simulated.study, simulated.table),
        BEYOND,
        _beyond_table(demo),
        "## What this shows, and what it does not\n\n" + "\n\n".join(demo.closing()),
        "## Made on\n\n" + "\n\n".join(f"**{name}:** {text}" for name, text in demo.header.items()),
    ]
    return plot.page(TITLE, items, path)


def _real_table(demo: Demo) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "ranks": result.ranks,
                "keys": result.column,
                "number": f"{result.keys:,}",
                "distinct": f"{result.distinct:,}",
                "missing": f"{result.missing:,}",
                "largest / mean block": f"{result.imbalance:.3f}",
                "time": _unbroken(format_seconds(result.sort_s) + ("" if result.is_valid else " *")),
                "sound check": "passed" if result.is_sorted else result.report,
                "numpy.sort": "equal" if result.equals_numpy else "DIFFERENT",
            }
            for result in demo.real
        ]
    )


def _beyond_table(demo: Demo) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "ranks": row.ranks,
                "phase": row.name,
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
        "One run each: times to look at, too few to judge. * More ranks than cores: the time is of ranks "
        "that take turns on a core, and says nothing about a machine that has a core for each."
    )


def _simulated_table(demo: Demo) -> pd.DataFrame:
    simulated = demo.simulated
    return pd.DataFrame(
        [
            {
                "ranks": ranks,
                "keys": f"{ranks * simulated.n_local:,}",
                "simulated time": format_seconds(makespan),
                "largest / mean block": f"{simulated.imbalances[ranks]:.3f}",
                "time to simulate": format_seconds(simulated.host_seconds[ranks]),
            }
            for ranks, makespan in demo.makespans().items()
        ]
    )
