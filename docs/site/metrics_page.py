"""The page of the metrics: those that a study keeps, and those of a recorded run, wait states among them."""

from __future__ import annotations

from collections.abc import Iterator

from prose import table, title

import labkit
from labkit.trace.counters import EVENTS
from labkit.trace.waiting import kinds

__all__ = ["metrics"]

#: metric, unit, what it is
METRICS = (
    ("makespan_s", "s", "from the first rank's entry into the program to the last rank's exit"),
    ("computation_s", "s", "where computation was measured: what the rank that computed longest is charged"),
    ("phase_s", "s", "the time that the slowest rank spent in a phase; the column ``phase`` names it"),
    ("messages, bytes", "1, B", "sent by all ranks together"),
    ("rank_messages, rank_bytes", "1, B", "of one rank, sent or received, whichever is more: the most"),
    ("rounds", "1", "messages of the longest chain of sends and receives that follow each other"),
    ("rank_memory_bytes", "B", "the most that the NumPy arrays of a rank held at once"),
    ("rank_resident_bytes", "B", "on real MPI: by how much the memory of a rank's process grew (VmHWM)"),
    ("comparisons, rank_comparisons", "1", "of node-local kernels: of all ranks, and the most of one"),
    ("p2p_messages, p2p_bytes", "1, B", "on real MPI: the program's own, without those inside collectives"),
    ("rank_p2p_messages, rank_p2p_bytes", "1, B", "of one rank: the most"),
    (
        "collectives, rank_collectives",
        "1",
        "on real MPI: calls of collectives, all and the most of one rank",
    ),
    ("collective_bytes, rank_collective_bytes", "B", "on real MPI: what was given to them; likewise"),
)


def metrics() -> Iterator[str]:
    """Yield the page."""
    yield from title("Metrics")
    yield from title("Of a study", "-")
    yield "A row of a study's data is one measurement; the column ``metric`` names it (:doc:`/docs/rows`)."
    yield ""
    rows = [(", ".join(f"``{one}``" for one in name.split(", ")), unit, text) for name, unit, text in METRICS]
    yield from table(("metric", "unit", "what it is"), rows)
    yield 'What a program counts itself, ``labkit.count("swaps")``, is a metric too: the sum over the ranks,'
    yield "and ``rank_swaps``, the most of one rank."
    yield ""
    yield from title("Of a recorded run", "-")
    yield "``run.report()`` of a run with ``trace=True``, on any machine: by call path and rank. What is"
    yield "further in is a part of what stands above it; the wait states are those below."
    yield ""
    run = labkit.run(_compute, 2, "star", trace=True)
    depth = {"": -1}
    rows = []
    for one in run.report().metrics:
        depth[one.name] = depth[one.above] + 1
        shown = f"{'— ' * depth[one.name]}{one.label}"
        rows.append((shown, f"``{one.name}``", one.unit or "1", one.meaning))
    yield from table(("metric", "name", "unit", "what it is"), rows)
    yield from title("Wait states", "-")
    yield "Seconds of each rank; those that Scalasca has are named and defined as there. ``run.waits()`` has"
    yield "every single one."
    yield ""
    yield from table(("wait state", "group", "what it is"), [tuple(one) for one in kinds.KINDS])
    yield from title("Counters", "-")
    yield 'Of a real run with ``counters=["instructions", ...]``, by call path and rank. One that the machine'
    yield "does not have is left out, and the run has a note about it."
    yield ""
    known = [(f"``{name}``", event.unit or "1", event.meaning) for name, event in EVENTS.items()]
    yield from table(("counter", "unit", "what it is"), known)


def _compute(comm: labkit.MPI.Comm) -> None:
    """A program without a wait state: those have a table of their own."""
    labkit.compute(seconds=1e-6)
