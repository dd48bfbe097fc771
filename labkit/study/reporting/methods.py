"""A paper's paragraph on how a study was measured: each sentence from what is recorded, or from its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from labkit.study.reporting.rules import Facts, listed
from labkit.study.rows import parameter_columns
from labkit.text.html import quantity
from labkit.timing.repeats import LATE_SHARE, Conduct

__all__ = ["methods_of"]


def methods_of(data: pd.DataFrame, notes: Mapping[str, object]) -> str:
    """Return the paragraph on how measurements were made, ready to be copied and completed.

    `data`: The rows of a study.
    `notes`: Its notes.
    Returns: What is not recorded is said to be not recorded; nothing is made up.
    """
    facts = Facts(data, notes)
    said = [
        *_what(facts),
        *_simulated(facts),
        *_real(facts),
        *_repeated(facts),
        *_times(facts),
        *_gaps(facts),
    ]
    return " ".join(said)


def _what(facts: Facts) -> list[str]:
    data = facts.data
    programs = [str(v) for v in data["program"].unique() if v]
    varied, fixed = [], []
    for name in parameter_columns(data):
        values = data[name].drop_duplicates().tolist()
        if len(values) > 1:
            varied.append(f"{name} = {listed(values)}")
        elif values:
            fixed.append(f"{name} = {values[0]}")
    text = f"We measured {listed(programs)}" if programs else "The measurements were taken"
    if varied:
        text += f" at {'; '.join(varied)}"
    if fixed:
        text += f" ({', '.join(fixed)})" if varied else f" at {', '.join(fixed)}"
    return [f"{text}."]


def _simulated(facts: Facts) -> list[str]:
    if not facts.simulated:
        return []
    version = facts.sweep.get("labkit")
    models = sorted({str(one.get("model")) for one in facts.simulated.values() if one.get("model")})
    names = list(facts.simulated)
    by = f"by labkit {version}" if version else "by labkit"
    text = f"The machine{'s' if len(names) > 1 else ''} {listed(names)} {_was(names)} simulated {by}"
    text += f" with the network model{'s' if len(models) > 1 else ''} {listed(models)}" if models else ""
    said = [f"{text}."]
    noisy = {name: one["noise"] for name, one in facts.simulated.items() if one.get("noise")}
    for name, noise in noisy.items():
        spans = [noise.get(k) for k in ("jitter_s", "period_s")] if isinstance(noise, Mapping) else []
        known = [float(span) for span in spans if isinstance(span, int | float) and span]
        if len(known) == 2:
            jitter, period = (quantity(span, "s", 3) for span in known)
            said.append(f"Noise was planted on {name}: detours of {jitter} on average in every {period}.")
        else:
            said.append(f"Noise was planted on {name}.")
    if not noisy and facts.fewest == 1:
        once = "every point was simulated once" if not facts.real else "its points were simulated once"
        if facts.sweep.get("is_deterministic"):
            said.append(f"Simulated times are deterministic and do not depend on the seed, so {once}.")
        else:
            said.append(f"Simulated times are deterministic for a given seed, and {once}.")
    return said


def _real(facts: Facts) -> list[str]:
    said = []
    for name, one in facts.real.items():
        parts = [f"with {one['library']}" if one.get("library") else "with an MPI that is not recorded"]
        if one.get("python"):
            parts.append(f"Python {one['python']}")
        if facts.sweep.get("labkit"):
            parts.append(f"labkit {facts.sweep['labkit']}")
        several = one.get("hosts")
        hosts = several if isinstance(several, list) and several else [one.get("host")]
        where = f"on {len(hosts)} hosts" if len(hosts) > 1 else f"on host {hosts[0]}" if hosts[0] else ""
        cores = f" with {one['cores']} core{'s' if one['cores'] != 1 else ''}" if one.get("cores") else ""
        kind = {"mpi": "Real MPI ran", "cluster": "MPI engines ran", "slurm": "Batch jobs ran"}
        ran = kind.get(str(one.get("kind")), f"{name} ran")
        said.append(f"{ran} {where}{cores}, {', '.join(parts)}.".replace("  ", " "))
    return said


def _repeated(facts: Facts) -> list[str]:
    found = facts.conducts
    if not found:
        return _counted(facts)
    return [*_starts(found), *_stops(found), *_clocks(found), *_order(facts)]


def _counted(facts: Facts) -> list[str]:
    """State the number of repetitions, where nothing else is recorded."""
    if not facts.points or (facts.is_deterministic and facts.fewest == 1):
        return []
    counts = sorted({int(p.values.size) for p in facts.points})
    times = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    said = [f"The study has {times} repetition{'s' if times != '1' else ''} of each point."]
    if facts.real or facts.unknown:
        said.append("How the ranks were synchronized is not recorded.")
    elif not facts.is_deterministic:
        said.append("Repetitions differ in their seed.")
    return said


def _starts(found: list[Conduct]) -> list[str]:
    said = []
    windows = [one for one in found if one.start == "window"]
    barriers = [one for one in found if one.start != "window"]
    if windows:
        at = "" if not barriers else f" at {_points(len(windows))}"
        late, valid = sum(one.late for one in windows), sum(one.repeats for one in windows)
        limit = quantity(max(one.late_s for one in windows), "s", 3)
        said.append(
            "All ranks started together in a window of rank 0's clock"
            f"{at}; starts that were late on some rank by more than {limit} and more than {LATE_SHARE:.0%} "
            f"of the time were discarded ({late} of {late + valid})."
        )
        if kept := sum(one.kept_late for one in windows):
            said.append(f"Of the repetitions that count {kept} began late all the same.")
    if barriers:
        why = sorted({one.why_barrier for one in barriers if one.why_barrier})
        at = "" if not windows else f" at {_points(len(barriers))}"
        said.append(f"Runs began behind a barrier{at}{f', as {listed(why)}' if why else ''}.")
    warmups = sorted({one.warmup for one in found})
    if warmups != [0]:
        text = str(warmups[0]) if len(warmups) == 1 else f"{warmups[0]} to {warmups[-1]}"
        said.append(f"{text} warm-up run{'s' if text != '1' else ''} of each point did not count.")
    return said


def _stops(found: list[Conduct]) -> list[str]:
    asked = [one for one in found if one.asked.get("within")]
    fixed = [one for one in found if not one.asked.get("within")]
    said = []
    if fixed:
        counts = sorted({one.repeats for one in fixed})
        text = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        said.append(f"{_each(fixed, found)} was repeated {text} time{'s' if text != '1' else ''}.")
    if asked:
        first = asked[0].asked
        same = all(one.asked == first for one in asked)
        goal = f"within {first['within']:.0%} of it" if same else "as near to it as asked for"
        level = f"{first['level']:.0%} " if same else ""
        counts = sorted(one.repeats for one in asked)
        precise = sum(one.is_precise for one in asked)
        reached = "every point" if precise == len(asked) else f"{precise} of {_points(len(asked))}"
        said.append(
            f"{_each(asked, found)} was repeated until both ends of the {level}confidence interval of the "
            f"{first.get('statistic', 'median')} were {goal}, {counts[0]}"
            f"{f' to {counts[-1]}' if counts[-1] != counts[0] else ''} times; {reached} reached this."
        )
        if precise < len(asked):
            worst = max((one.reach for one in asked if one.reach is not None), default=None)
            if worst is not None:
                said.append(f"The widest interval reaches {worst:.1%} from its value.")
    return said


def _each(some: list[Conduct], found: list[Conduct]) -> str:
    return "Each point" if len(some) == len(found) else f"Each of {_points(len(some))}"


def _clocks(found: list[Conduct]) -> list[str]:
    windows = [one for one in found if one.start == "window"]
    own = [one for one in windows if one.own_clocks]
    if not windows:
        return []
    if not own:
        return ["The ranks' clocks were compared by ping-pong and could not be distinguished from one clock."]
    bound = quantity(max(one.clock_bound_s for one in own), "s", 3)
    drift = max(one.clock_drift for one in own) * 1e6
    return [
        "The ranks' clocks were compared with that of rank 0 by ping-pong during the measurement and led "
        f"over to it with their offset and drift (up to {drift:.2g} ppm), known to within {bound}."
    ]


def _order(facts: Facts) -> list[str]:
    if facts.sweep.get("order") != "shuffled":
        return []
    kinds = {one.get("kind") for one in facts.real.values()}
    launch = ", each in its own launch" if kinds <= {"mpi", "slurm"} else ""
    return [f"The points were measured in random order{launch}."]


def _times(facts: Facts) -> list[str]:
    said = []
    if "makespan_s" in set(facts.data["metric"]) and (facts.real or facts.simulated):
        said.append("Times run from the first rank's entry into the program to the last rank's exit.")
    return said


def _gaps(facts: Facts) -> list[str]:
    said = []
    if facts.failures:
        said.append(
            f"{_points(len(facts.failures)).capitalize()} failed and {_was(facts.failures)} left out."
        )
    invalid = int((~facts.data["is_valid"].astype(bool)).sum())
    if invalid:
        said.append(
            f"{invalid} of {len(facts.data)} measurements are marked as not valid for a verdict"
            f"{_why_invalid(facts)}."
        )
    if facts.unknown:
        names = [name for name in facts.unknown if name]
        said.append(f"The machine {f'{listed(names)} ' if names else ''}is not described in the study.")
    return said


def _why_invalid(facts: Facts) -> str:
    remarks = facts.notes.get("remarks")
    found = (
        [str(one) for one in remarks if "oversubscription" in str(one)] if isinstance(remarks, list) else []
    )
    return f" ({found[0]})" if found else ""


def _points(count: int) -> str:
    return f"{count} point{'s' if count != 1 else ''}"


def _was(some: Any) -> str:
    return "was" if len(some) == 1 else "were"
