"""Samples of two runs of one program, in pairs: computations, messages and collectives with both their times.

Waiting for others is in none of the times, so that what is late in one place is off in that place only:

computation
    From the end of a rank's call to the begin of its next one.
message
    From when both sides were there to its end; of messages for which the receiver waited in both runs, but
    for a tenth of their time at most, and of those too large to be sent before it is there. Those of
    collectives count where both runs are simulated and took the same algorithm.
collective
    From when the last rank came to when the last one left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.errors import DataError
from labkit.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.recorded_run import RecordedRun

__all__ = ["KINDS", "paired"]

#: kinds of samples, and the columns by which each is grouped
KINDS = {
    "computation": ("rank", "host", "phase", "rank in a half of the run"),
    "message": (
        "host",
        "out of host",
        "into host",
        "pair",
        "link",
        "size",
        "link and size",
        "out of host and size",
        "into host and size",
        "quarter of the run",
    ),
    "collective": ("call", "call and size", "quarter of the run"),
}
#: messages from this size on wait for their receiver everywhere
_LARGE_BYTES = 1 << 18
#: a receiver that comes within this share of a message's time has waited for it
_SOON = 0.1
#: computations that are predicted to be shorter say more of the interpreter than of the machine
_SHORT_S = 1e-5
_LEAST_S = 1e-9
_HALVES = ("", "first", "second")


def paired(measured: RecordedRun, predicted: RecordedRun) -> pd.DataFrame:
    """Pair what two recorded runs of a program did.

    Returns
    -------
    pandas.DataFrame
        kind (`KINDS`), measured_s, predicted_s, at_s (begin in the measured run), is_grouped (whether it
        counts where groups are compared), labels (by column of `KINDS` a list of names).

    Raises
    ------
    DataError
        The runs were not recorded, have different numbers of ranks, or did different things.
    """
    import pandas as pd

    for run in (measured, predicted):
        if run.trace is None or run.trace.calls is None:
            raise DataError(
                f"{run.program} on {run.on} has no trace of calls; run the program with trace=True on both "
                "machines"
            )
    if measured.ranks != predicted.ranks:
        raise DataError(
            f"the same number of ranks is needed on both machines, got {measured.ranks} measured and "
            f"{predicted.ranks} predicted"
        )
    both = _calls(measured, predicted)
    hosts = _hosts(predicted)
    parts = [_computations(both, hosts, measured.makespan_s), _collectives(both, measured.makespan_s)]
    parts.append(_messages(measured, predicted, hosts))
    found = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    found["measured_s"] = found["measured_s"].clip(lower=_LEAST_S)
    found["predicted_s"] = found["predicted_s"].clip(lower=_LEAST_S)
    return found


def _calls(measured: RecordedRun, predicted: RecordedRun) -> pd.DataFrame:
    """Pair the k-th calls of a name of each rank."""
    tables = []
    for run in (measured, predicted):
        calls = run.trace.calls[["rank", "call", "begin_s", "end_s", "joint", "bytes", "phase"]].copy()
        calls["call"] = calls["call"].astype(str)
        calls["row"] = np.arange(len(calls))
        calls["k"] = calls.groupby(["rank", "call"]).cumcount()
        before = calls["end_s"].shift(1)
        first = calls["rank"] != calls["rank"].shift(1)
        begins = run.trace.begins_s or [0.0] * run.ranks
        calls["since_s"] = np.where(first, calls["rank"].map(dict(enumerate(begins))), before)
        tables.append(calls)
    both = tables[0].merge(tables[1], on=["rank", "call", "k"], suffixes=("", "_predicted"))
    most = max(len(table) for table in tables)
    if most and len(both) < 0.9 * most:
        raise DataError(
            f"{measured.program} and {predicted.program} did different things: of {len(tables[0])} calls "
            f"measured and {len(tables[1])} predicted only {len(both)} are the same; compare runs of one "
            "program with the same arguments"
        )
    found: pd.DataFrame = both.sort_values("row", ignore_index=True)
    return found


def _hosts(run: RecordedRun) -> np.ndarray[Any, Any]:
    if run.trace.setting is None:
        return np.arange(run.ranks)
    return np.asarray(run.trace.setting[0].rank_hosts(run.ranks))


def _part(at_s: Any, whole_s: float, parts: int) -> Any:
    return np.clip((np.asarray(at_s) / max(whole_s, _LEAST_S) * parts).astype(int), 0, parts - 1) + 1


def _frame(
    kind: str, measured_s: Any, predicted_s: Any, at_s: Any, grouped: Any, labels: Any
) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({
        "kind": kind, "measured_s": np.asarray(measured_s, float),
        "predicted_s": np.asarray(predicted_s, float),
        "at_s": np.asarray(at_s, float), "is_grouped": np.asarray(grouped, bool), "labels": labels,
    })  # fmt: skip


def _computations(both: pd.DataFrame, hosts: Any, whole_s: float) -> pd.DataFrame:
    same = both["rank"] == both["rank"].shift(1)
    follows = (both["row"] == both["row"].shift(1) + 1) & (
        both["row_predicted"] == both["row_predicted"].shift(1) + 1
    )
    rows = both[~same | follows]
    taken = rows["begin_s"] - rows["since_s"]
    expected = rows["begin_s_predicted"] - rows["since_s_predicted"]
    half = _part(rows["since_s"], whole_s, 2)
    labels = [
        {
            "rank": [f"rank {rank}"], "host": [f"host {hosts[rank]}"], "phase": [f"phase {phase}"],
            "rank in a half of the run": [f"rank {rank} in the {_HALVES[part]} half of the run"],
        }
        for rank, phase, part in zip(rows["rank"], rows["phase"], half, strict=True)
    ]  # fmt: skip
    return _frame("computation", taken, expected, rows["since_s"], expected >= _SHORT_S, labels)


def _collectives(both: pd.DataFrame, whole_s: float) -> pd.DataFrame:
    rows = both[(both["joint"] >= 0) & (both["joint_predicted"] >= 0)]
    joint = rows.groupby("joint").agg(
        call=("call", "first"), bytes=("bytes", "max"), at_s=("begin_s", "max"), end_s=("end_s", "max"),
        begin_predicted=("begin_s_predicted", "max"), end_predicted=("end_s_predicted", "max"),
        kinds=("joint_predicted", "nunique"), phase=("phase", "first"),
    )  # fmt: skip
    joint = joint[joint["kinds"] == 1]
    quarter = _part(joint["at_s"], whole_s, 4)
    labels = [
        {
            "call": [call], "call and size": [f"{call} of {format_bytes(int(size))}"],
            "quarter of the run": [f"quarter {part} of the run"],
        }
        for call, size, part in zip(joint["call"], joint["bytes"], quarter, strict=True)
    ]  # fmt: skip
    return _frame(
        "collective", joint["end_s"] - joint["at_s"], joint["end_predicted"] - joint["begin_predicted"],
        joint["at_s"], np.ones(len(joint), bool), labels,
    )  # fmt: skip


def _messages(measured: RecordedRun, predicted: RecordedRun, hosts: Any) -> pd.DataFrame:
    real = [run.trace.clocks is not None for run in (measured, predicted)]
    keys = ["source", "destination", "tag", "bytes", *([] if any(real) else ["context"])]
    tables = []
    for run, is_real in zip((measured, predicted), real, strict=True):
        table = run.trace.messages
        if any(real) and not is_real:  # a real run's collectives are no messages
            table = table[_plain(run)]
        table = table[[*keys, "send_posted_s", "recv_posted_s", "end_s"]]
        table = table.sort_values("send_posted_s", kind="stable").reset_index(drop=True)
        table = table.astype(dict.fromkeys(keys, np.int64))  # pandas 2 joins no numbers without a sign
        table["k"] = table.groupby(keys).cumcount()
        table["all"] = table.groupby(keys)["k"].transform("size")
        tables.append(table)
    # another number of messages: another algorithm of a collective
    both = tables[0].merge(tables[1], on=[*keys, "k", "all"], suffixes=("", "_predicted"))
    in_time = [
        both[f"recv_posted_s{run}"] - both[f"send_posted_s{run}"]
        <= _SOON * (both[f"end_s{run}"] - both[f"send_posted_s{run}"])
        for run in ("", "_predicted")
    ]
    both = both[(in_time[0] & in_time[1]) | (both["bytes"] >= _LARGE_BYTES)]
    both = both[both["source"] != both["destination"]]
    times = []
    for end in ("", "_predicted"):
        there = np.maximum(both[f"send_posted_s{end}"], both[f"recv_posted_s{end}"])
        times.append(both[f"end_s{end}"] - there)
    names = _route_names(predicted)
    quarter = _part(both["send_posted_s"], measured.makespan_s, 4)
    labels = []
    for a, b, size, part in zip(both["source"], both["destination"], both["bytes"], quarter, strict=True):
        here, there, each = f"host {hosts[a]}", f"host {hosts[b]}", f", {format_bytes(int(size))} each"
        links = names(int(a), int(b))
        labels.append({
            "host": [here, there], "out of host": [f"out of {here}"], "into host": [f"into {there}"],
            "pair": [f"from rank {a} to rank {b}"], "link": links,
            # a bad link shows in large messages, and hardly in small ones over it
            "link and size": [f"{link}{each}" for link in links],
            "out of host and size": [f"out of {here}{each}"],
            "into host and size": [f"into {there}{each}"],
            "size": [f"messages of {format_bytes(int(size))}"],
            "quarter of the run": [f"quarter {part} of the run"],
        })  # fmt: skip
    return _frame("message", times[0], times[1], both["send_posted_s"], np.ones(len(both), bool), labels)


def _plain(run: RecordedRun) -> np.ndarray[Any, Any]:
    """Which messages of a simulated run are the program's own, and no collective's."""
    from labkit.trace.waiting.windows import calls_at

    messages, calls = run.trace.messages, run.trace.calls
    row = calls_at(calls, messages["source"].to_numpy(np.int64), messages["send_posted_s"].to_numpy(float))
    joint = calls["joint"].to_numpy()
    inside = (row >= 0) & (joint[np.maximum(row, 0)] >= 0) if len(joint) else np.zeros(len(row), bool)
    if "send_operation" in messages:
        inside |= messages["send_operation"].to_numpy() >= 0
    return ~inside


def _route_names(run: RecordedRun) -> Any:
    """Return what gives the names of the links between two ranks on the predicted machine."""
    known: dict[tuple[int, int], list[str]] = {}
    if run.trace.setting is None:
        return lambda a, b: []
    built = run.trace.setting[0].build(run.ranks)
    hosts = _hosts(run)

    def names(a: int, b: int) -> list[str]:
        pair = (int(hosts[a]), int(hosts[b]))
        if pair not in known:
            links, _ = built.route(*pair)
            known[pair] = [f"link {name}" for name in links]
        return known[pair]

    return names
