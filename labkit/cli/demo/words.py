"""The conclusions of a demo in plain sentences, with its limits."""

from __future__ import annotations

import math
from collections.abc import Callable

from labkit.cli.demo.plan import title
from labkit.cli.demo.result import Demo
from labkit.cli.demo.simulated import SimulatedSort
from labkit.scaling import Verdict
from labkit.units import format_seconds

__all__ = ["closing", "off_by"]


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
    faster = _listed(demo, lambda v: v.match == "none")
    slower = _listed(demo, lambda v: v.match == "bound")
    unfitted = _listed(demo, lambda v: v.model is not None and v.model.is_nearest)
    undecided = _listed(demo, lambda v: v.match == "undecided")
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


def _listed(demo: Demo, wanted: Callable[[Verdict], bool]) -> str:
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
