"""The report of a recorded run: its profile, wait states, delay costs and critical path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.trace.counters import EVENTS, column_of
from labkit.trace.phases import NO_PHASE
from labkit.trace.report.report import CallPath, Metric, Report
from labkit.trace.waiting.kinds import COMPUTATION, KINDS, NOT_BEGUN, UNTOLD
from labkit.trace.waiting.profile import profile_and_waiting
from labkit.units import number_of_ranks

if TYPE_CHECKING:
    from labkit.trace.recorded_run import RecordedRun

__all__ = ["report_of"]

_BELOW = " > "
_GROUPS = {"point to point": "waits_p2p", "collective": "waits_collective", "one-sided": "waits_one_sided"}


def report_of(run: RecordedRun) -> Report:
    """Return the report of a run.

    Parameters
    ----------
    run : Run
        Recorded with ``trace=True``, on any machine.

    Returns
    -------
    Report
        Its metrics: time with its parts (computation, calls, each wait state), visits, messages, bytes, delay
        costs (direct and indirect), time on the critical path. What did not occur is left out among the wait
        states, but for their sum.

    Raises
    ------
    DataError
        The run has no trace.
    """
    profile, waiting = profile_and_waiting(run)
    paths, row_of = _tree(waiting.paths, run.program)
    shape = (len(paths), run.ranks)

    def table(rows: Any, amount: NDArray[Any]) -> NDArray[np.float64]:
        at = row_of[rows["path"].to_numpy(np.int64)] * run.ranks + rows["rank"].to_numpy(np.int64)
        sums = np.bincount(at, np.asarray(amount, np.float64), shape[0] * shape[1])
        return np.asarray(sums, np.float64).reshape(shape)

    own, waited = (profile[name].to_numpy(np.float64) for name in ("seconds", "waiting_s"))
    call = profile["call"].astype(str).to_numpy()
    works, before = call == COMPUTATION, call == NOT_BEGUN
    metrics = [
        Metric("time", "time", "s", "all time of the ranks, until each ends"),
        Metric("computation", "computation", "s", "time outside calls of MPI", "time"),
        Metric("calls", "calls", "s", "time in calls of MPI, without wait states", "time"),
    ]
    values = {
        "time": table(profile, own + waited), "computation": table(profile, own * works),
        "calls": table(profile, own * ~(works | before | (call == UNTOLD))),
    }  # fmt: skip
    untold = call == UNTOLD
    if untold.any():
        said = "time of a run whose calls are not known"
        metrics.append(Metric("untold", UNTOLD, "s", said, "time"))
        values["untold"] = table(profile, own * untold)
    if before.any():
        metrics.append(Metric("not_begun", "not yet begun", "s", "before a rank entered the program", "time"))
        values["not_begun"] = table(profile, own * before)
    _add_waits(metrics, values, waiting.waits, table)
    # Completions are wait states here; the profile counts them as the calls' own time.
    completions = values["waiting"] - table(profile, waited)
    values["calls"] = np.maximum(values["calls"] - completions, 0.0)
    _add_counts(metrics, values, profile, table)
    delays = waiting.delays
    direct, indirect = (delays[name].to_numpy(np.float64) for name in ("direct_s", "indirect_s"))
    metrics += [
        Metric("delay_cost", "delay costs", "s", "how long others waited because of this"),
        Metric("direct_cost", "direct", "s", "waits for this rank", "delay_cost"),
        Metric("indirect_cost", "indirect", "s", "waits passed on by ranks that waited for it", "delay_cost"),
        Metric("critical_path", "critical path", "s", "time on the critical path"),
    ]
    values |= {
        "delay_cost": table(delays, direct + indirect), "direct_cost": table(delays, direct),
        "indirect_cost": table(delays, indirect),
        "critical_path": table(profile, profile["critical_s"].to_numpy()),
    }  # fmt: skip
    setting = run.trace.setting
    machine = setting[0] if setting else None
    hosts = tuple(machine.rank_hosts(run.ranks).tolist()) if machine is not None else ()
    title = f"{run.program}, {number_of_ranks(run.ranks)} on {run.on}"
    return Report(title, run.ranks, metrics, paths, values, run.makespan_s, machine, hosts)


def _tree(paths: Any, program: str) -> tuple[list[CallPath], NDArray[np.int64]]:
    """Return the call tree in its order, and the row in it of each of `Waiting.paths`."""
    below: dict[tuple[str, ...], list[tuple[str, ...]]] = {(): []}
    leaves: dict[tuple[str, ...], CallPath] = {}
    keys = []

    def known(key: tuple[str, ...]) -> None:
        for length in range(1, len(key) + 1):
            if key[:length] not in below:
                below[key[:length]] = []
                below[key[: length - 1]].append(key[:length])

    columns = (paths[name].tolist() for name in ("phase", "call", "place"))
    for phase, call, place in zip(*columns, strict=True):
        key = () if phase == NO_PHASE else tuple(f"phase {one}" for one in phase.split(_BELOW))
        if call not in (COMPUTATION, UNTOLD):
            key = (*key, f"call {call} {place}")
            where = place.rsplit(", ", 1)[-1]
            leaves[key] = CallPath(
                f"{call} ({where})" if where else call, -1, place, call if call != NOT_BEGUN else ""
            )
        known(key)
        keys.append(key)
    tree: list[CallPath] = []
    rows: dict[tuple[str, ...], int] = {}
    pending: list[tuple[tuple[str, ...], int]] = [((), -1)]
    while pending:
        key, above = pending.pop()
        rows[key] = len(tree)
        label = key[-1].removeprefix("phase ") if key else program
        leaf = leaves.get(key)
        tree.append(CallPath(label, above) if leaf is None else leaf._replace(above=above))
        pending += [(one, rows[key]) for one in reversed(below[key])]
    return tree, np.array([rows[key] for key in keys], np.int64)


def _add_waits(metrics: list[Metric], values: dict[str, Any], waits: Any, table: Any) -> None:
    """Add the wait states: their sum, their groups, each that occurs."""
    seconds = waits["seconds"].to_numpy(np.float64)
    state, names = waits["state"].cat.codes.to_numpy(), waits["state"].cat.categories
    number = {str(name): code for code, name in enumerate(names)}
    metrics.append(Metric("waiting", "wait states", "s", "ranks waited for another", "time"))
    values["waiting"] = table(waits, seconds)
    for group, name in _GROUPS.items():
        of_group = [kind for kind in KINDS if kind.group == group and (state == number[kind.name]).any()]
        if not of_group:
            continue
        inside = np.isin(state, [number[kind.name] for kind in of_group])
        metrics.append(Metric(name, group, "s", f"wait states of {group} calls", "waiting"))
        values[name] = table(waits, seconds * inside)
        for kind in of_group:
            own = "".join(letter if letter.isalnum() else "_" for letter in kind.name).strip("_")
            own = "_".join(part for part in own.split("_") if part)
            metrics.append(Metric(own, kind.name, "s", kind.meaning, name))
            values[own] = table(waits, seconds * (state == number[kind.name]))


def _add_counts(metrics: list[Metric], values: dict[str, Any], profile: Any, table: Any) -> None:
    metrics += [
        Metric("visits", "visits", "", "how often a rank entered it"),
        Metric("messages", "messages", "", "messages sent"),
        Metric("empty_messages", "without payload", "", "messages that only synchronise", "messages"),
        Metric("bytes", "bytes sent", "B", "payload of messages sent"),
        Metric("empty_collectives", "empty collectives", "", "calls of collectives that only synchronise"),
    ]
    for name in ("visits", "messages", "empty_messages", "bytes", "empty_collectives"):
        values[name] = table(profile, profile[name].to_numpy())
    given = profile["collective_bytes"].to_numpy()
    if given.any():
        meaning = "payload given to collectives, whose messages a real run does not show"
        metrics.append(Metric("collective_bytes", "bytes to collectives", "B", meaning))
        values["collective_bytes"] = table(profile, given)
    for name, event in EVENTS.items():
        if (column := column_of(name)) in profile:
            metrics.append(Metric(column, name, event.unit, event.meaning))
            values[column] = table(profile, profile[column].to_numpy())
