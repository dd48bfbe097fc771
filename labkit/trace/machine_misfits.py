"""Measured against predicted: the findings as a table, as text and as a card."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from math import floor, log10
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.text.html import escape, quantity, table, titled_block
from labkit.text.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import RecordedRun

__all__ = ["KINDS", "Misfit", "Misfits", "find_misfits", "search"]

_SUBJECTS = {"computation": "computation", "message": "the messages", "collective": "collectives"}

# Groups and single times of paired samples that are off, and how unlikely that is.

Array = NDArray[np.float64]

#: what deviates by less is not reported; a group needs this many members, and as many outside
EFFECT, LEAST = np.log(1.2), 3

#: corrected for all groups that were tried
CHANCE = 1e-3

#: less likely is as good as impossible: there the seconds decide which is said first
CERTAIN = 1e-9

#: the whole of a kind is off from here on
WHOLE = np.log(1.5)

_GOOD, _QUARTER = 0.15, 0.25

_MOST, _TRIES, _NAMES = 4, 3, 4

#: a group matters if its times differ by this share of the predicted run
_MATTERS = 0.01

#: a single time is a stall if it exceeds this multiple of the excess that one in ten reaches, and by this
#: share of the predicted run
_FAR, _SHARE = 10.0, 0.02


@dataclass(frozen=True)
class Misfit:
    """Something that is not as predicted.

    `kind`: "computation", "message" or "collective".
    `what`: "group", "stall" or "whole".
    `by`: By what it was found, such as "rank", "link", "call and size"; "" of a whole kind.
    `where`: Such as "rank 3", "link up 5", "Allreduce of 8 B".
    `factor`: Measured by predicted time, the median of its members; of a stall NaN.
    `excess_s`: Seconds that its members took longer than predicted, together; below 0: shorter.
    `chance`: How likely so much is if nothing is off there.
    `begin_s`, `end_s`: When its members were, in the measured run.
    """

    kind: str
    what: str
    by: str
    where: str
    factor: float
    excess_s: float
    members: int
    chance: float
    begin_s: float
    end_s: float


# Samples of two runs of one program, in pairs: computations, messages and collectives with both their times.
#
# Waiting for others is in none of the times, so that what is late in one place is off in that place only:
#
# computation
#     From the end of a rank's call to the begin of its next one.
# message
#     From when both sides were there to its end; of messages for which the receiver waited in both runs, but
#     for a tenth of their time at most, and of those too large to be sent before it is there. A real run
#     shows that end only while the receiver is in a call that waits for nothing else: one that it found after
#     other work, or in a call that waited for another message longer, does not count,
#     nor one that was under way while one of its ranks stalled. Those of collectives count where both runs
#     are simulated and took the same algorithm.
# collective
#     From when the last rank came to when the last one left.

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

    Returns: kind (`KINDS`), measured_s, predicted_s, at_s (begin in the measured run), is_grouped (whether it
        counts where groups are compared), ranks (of a computation its own, of a message the sender and the
        receiver), labels (by column of `KINDS` a list of names).
    Raises DataError: The runs were not recorded, have different numbers of ranks, or did different things.
    """
    import pandas as pd

    for run in (measured, predicted):
        if run.trace is None or run.trace.calls is None:
            raise DataError(
                f"{run.program} on {run.on} has no trace of calls; run the program with trace=True on both "
                "machines",
                code="not-recorded",
            )
    if measured.ranks != predicted.ranks:
        raise DataError(
            f"the same number of ranks is needed on both machines, got {measured.ranks} measured and "
            f"{predicted.ranks} predicted",
            code="count-mismatch",
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
            "program with the same arguments",
            code="not-comparable",
        )
    found: pd.DataFrame = both.sort_values("row", ignore_index=True)
    return found


def _hosts(run: RecordedRun) -> NDArray[np.int64]:
    if run.trace.setting is None:
        return np.arange(run.ranks)
    return np.asarray(run.trace.setting[0].rank_hosts(run.ranks))


def _part(at_s: object, whole_s: float, parts: int) -> NDArray[np.int64]:
    part = (np.asarray(at_s, float) / max(whole_s, _LEAST_S) * parts).astype(np.int64)
    return np.asarray(np.clip(part, 0, parts - 1) + 1)


def _frame(
    kind: str,
    measured_s: object,
    predicted_s: object,
    at_s: object,
    grouped: object,
    ranks: object,
    labels: object,
) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {
            "kind": kind,
            "measured_s": np.asarray(measured_s, float),
            "predicted_s": np.asarray(predicted_s, float),
            "at_s": np.asarray(at_s, float),
            "is_grouped": np.asarray(grouped, bool),
            "ranks": ranks,
            "labels": labels,
        }
    )


def _computations(both: pd.DataFrame, hosts: NDArray[np.int64], whole_s: float) -> pd.DataFrame:
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
            "rank": [f"rank {rank}"],
            "host": [f"host {hosts[rank]}"],
            "phase": [f"phase {phase}"],
            "rank in a half of the run": [f"rank {rank} in the {_HALVES[part]} half of the run"],
        }
        for rank, phase, part in zip(rows["rank"], rows["phase"], half, strict=True)
    ]
    ranks = [(rank,) for rank in rows["rank"].tolist()]
    return _frame("computation", taken, expected, rows["since_s"], expected >= _SHORT_S, ranks, labels)


def _collectives(both: pd.DataFrame, whole_s: float) -> pd.DataFrame:
    rows = both[(both["joint"] >= 0) & (both["joint_predicted"] >= 0)]
    joint = rows.groupby("joint").agg(
        call=("call", "first"),
        bytes=("bytes", "max"),
        at_s=("begin_s", "max"),
        end_s=("end_s", "max"),
        begin_predicted=("begin_s_predicted", "max"),
        end_predicted=("end_s_predicted", "max"),
        kinds=("joint_predicted", "nunique"),
        phase=("phase", "first"),
    )
    joint = joint[joint["kinds"] == 1]
    quarter = _part(joint["at_s"], whole_s, 4)
    labels = [
        {
            "call": [call],
            "call and size": [f"{call} of {format_bytes(int(size))}"],
            "quarter of the run": [f"quarter {part} of the run"],
        }
        for call, size, part in zip(joint["call"], joint["bytes"], quarter, strict=True)
    ]
    return _frame(
        "collective",
        joint["end_s"] - joint["at_s"],
        joint["end_predicted"] - joint["begin_predicted"],
        joint["at_s"],
        np.ones(len(joint), bool),
        [()] * len(joint),
        labels,
    )


def _messages(measured: RecordedRun, predicted: RecordedRun, hosts: NDArray[np.int64]) -> pd.DataFrame:
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
    for run, is_real, end in zip((measured, predicted), real, ("", "_predicted"), strict=True):
        both[f"there_s{end}"] = both[[f"send_posted_s{end}", f"recv_posted_s{end}"]].max(axis=1)
        both[f"took_s{end}"] = both[f"end_s{end}"] - both[f"there_s{end}"]
        if is_real:
            outside_s = _outside_s(run, both["destination"], both[f"there_s{end}"], both[f"end_s{end}"])
            both = both[outside_s <= _SOON * both[f"took_s{end}"]]
            soon_s = both[f"there_s{end}"] + _SOON * both[f"took_s{end}"]
            both = both[~_behind_others(run, both["destination"], soon_s, both[f"end_s{end}"])]
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
    ranks = list(zip(both["source"].tolist(), both["destination"].tolist(), strict=True))
    at_s, every = both["there_s"], np.ones(len(both), bool)
    return _frame("message", both["took_s"], both["took_s_predicted"], at_s, every, ranks, labels)


def _behind_others(run: RecordedRun, ranks: object, since_s: object, end_s: object) -> NDArray[np.bool_]:
    """Whether the call in which a message was over then waited for another one: it was over before."""
    ranks, since, end = np.asarray(ranks), np.asarray(since_s, float), np.asarray(end_s, float)
    calls, waits = run.trace.calls, run.trace.waits
    found = np.zeros(len(ranks), bool)
    for rank in np.unique(ranks):
        ends = np.sort(calls["end_s"][calls["rank"] == rank].to_numpy(float))
        own = waits[waits["rank"] == rank]
        last_s = np.full(len(ends) + 1, -np.inf)  # by call: when the last that it waited for could begin
        np.maximum.at(last_s, np.searchsorted(ends, own["end_s"]), own["ready_s"].to_numpy(float))
        of_rank = np.flatnonzero(ranks == rank)
        ready = last_s[np.searchsorted(ends, end[of_rank])]
        found[of_rank] = (ready > since[of_rank]) & (ready < end[of_rank])
    return found


def _outside_s(run: RecordedRun, ranks: object, begin_s: object, end_s: object) -> Array:
    """Return how long the ranks were in no call between two times."""
    ranks, times = np.asarray(ranks), [np.asarray(one, float) for one in (begin_s, end_s)]
    calls, inside_s = run.trace.calls, np.zeros(len(ranks))
    for rank in np.unique(ranks):
        own = calls[calls["rank"] == rank].sort_values("begin_s")
        if own.empty:
            continue
        begins, lasted = own["begin_s"].to_numpy(float), (own["end_s"] - own["begin_s"]).to_numpy(float)
        before_s = np.concatenate([[0.0], np.cumsum(lasted)])
        of_rank = np.flatnonzero(ranks == rank)
        for sign, when in zip((-1, 1), times, strict=True):
            at = np.searchsorted(begins, when[of_rank], side="right") - 1
            part = np.clip(when[of_rank] - begins[at], 0.0, lasted[at])
            inside_s[of_rank] += sign * np.where(at >= 0, before_s[np.maximum(at, 0)] + part, 0.0)
    outside_s: Array = times[1] - times[0] - inside_s
    return outside_s


def _plain(run: RecordedRun) -> NDArray[np.bool_]:
    """Which messages of a simulated run are the program's own, and no collective's."""
    from labkit.trace.waiting.windows import calls_at

    messages, calls = run.trace.messages, run.trace.calls
    row = calls_at(calls, messages["source"].to_numpy(np.int64), messages["send_posted_s"].to_numpy(float))
    joint = calls["joint"].to_numpy()
    inside = (row >= 0) & (joint[np.maximum(row, 0)] >= 0) if len(joint) else np.zeros(len(row), bool)
    if "send_operation" in messages:
        inside |= messages["send_operation"].to_numpy() >= 0
    return ~inside


def _route_names(run: RecordedRun) -> Callable[[int, int], list[str]]:
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


def search(samples: pd.DataFrame, measured_s: float, predicted_s: float) -> list[Misfit]:
    """Find what deviates: what goes the way of the whole run first, there the least likely by chance.

    `samples`: See `labkit.trace.machine_misfits.paired`.
    `measured_s`, `predicted_s`: The makespans.
    """
    found: list[Misfit] = []
    for kind in KINDS:
        rows = samples[samples["kind"] == kind]
        if kind == "message":
            rows = rows[~_over_stalls(rows, samples, found)]
        if len(rows):
            found += _of_kind(kind, rows, predicted_s)
    is_slower = measured_s >= predicted_s
    return sorted(
        found,
        key=lambda one: ((one.excess_s >= 0) != is_slower, max(one.chance, CERTAIN), -abs(one.excess_s)),
    )


def _over_stalls(messages: pd.DataFrame, samples: pd.DataFrame, found: list[Misfit]) -> NDArray[np.bool_]:
    """Which messages were under way while a rank stalled that explains why they took so long.

    One of their own ranks, or another one until whose end they were all but all of their time under way: a
    call that waits for several requests, some of them that rank's, hides when each was over.
    """
    begin_s = messages["at_s"].to_numpy()
    took_s = messages["measured_s"].to_numpy()
    lost_s = np.zeros(len(messages))
    ends = np.array(messages["ranks"].tolist(), np.int64).reshape(-1, 2)
    for stall in found:
        for row in _stalled(samples, stall).tolist() if stall.what == "stall" else ():
            since, (rank,) = samples["at_s"].iloc[row], samples["ranks"].iloc[row]
            until = since + samples["measured_s"].iloc[row]
            common = np.maximum(np.minimum(begin_s + took_s, until) - np.maximum(begin_s, since), 0.0)
            with_it = np.abs(begin_s + took_s - until) <= _SOON * (until - since)
            explains = (ends == rank).any(axis=1) | (with_it & (common >= (1.0 - _SOON) * took_s))
            lost_s += np.where(explains, common, 0.0)
    over: NDArray[np.bool_] = lost_s > _SOON * took_s
    return over


def _stalled(samples: pd.DataFrame, stall: Misfit) -> NDArray[np.int64]:
    """Return the rows of `samples` that a stall is about, the largest first."""
    found = _rows_of(samples, stall)
    excess = (samples["measured_s"] - samples["predicted_s"]).to_numpy()[found]
    most: NDArray[np.int64] = found[np.argsort(-excess, kind="stable")[: stall.members]]
    return most


def _rows_of(samples: pd.DataFrame, finding: Misfit) -> NDArray[np.int64]:
    own = [
        at
        for at, (kind, labels) in enumerate(zip(samples["kind"], samples["labels"], strict=True))
        if kind == finding.kind
        and (not finding.by or any(f"{finding.where} (".startswith(f"{one} (") for one in labels[finding.by]))
    ]
    found: NDArray[np.int64] = np.array(own, np.int64)
    return found


def _of_kind(kind: str, rows: pd.DataFrame, predicted_s: float) -> list[Misfit]:
    measured, expected, at_s = (rows[name].to_numpy() for name in ("measured_s", "predicted_s", "at_s"))
    ratio = np.log(measured / expected)
    use = rows["is_grouped"].to_numpy()
    shift = np.zeros(len(rows))
    found: list[Misfit] = []
    if use.sum() >= LEAST:
        found, shift[use] = _groups(kind, rows[use], ratio[use])
        found = [one for one in found if abs(one.excess_s) >= _MATTERS * predicted_s]
    excess = measured - expected * np.exp(shift)
    return found + _stalls(kind, rows["labels"].tolist(), excess, at_s, predicted_s)


def _groups(kind: str, rows: pd.DataFrame, ratio: Array) -> tuple[list[Misfit], Array]:
    """Return the groups that are off, and by how much each sample is, as a logarithm."""
    measured, expected, at_s = (rows[name].to_numpy() for name in ("measured_s", "predicted_s", "at_s"))
    places = _places(KINDS[kind], rows["labels"].tolist())
    center = float(np.median(ratio))
    if abs(center) < EFFECT or np.mean(np.abs(ratio) < _GOOD) >= _QUARTER:
        center = min(max(center, -_GOOD), _GOOD)  # where the prediction is right for many, it is right
    left = ratio - center
    shift = np.full(len(ratio), center)
    found: list[Misfit] = []

    def add(what: str, by: str, where: str, members: NDArray[np.int64], size: float, chance: float) -> None:
        spent = float((measured[members] - expected[members]).sum())
        ends = at_s[members] + measured[members]
        found.append(
            Misfit(
                kind,
                what,
                by,
                where,
                float(np.exp(size)),
                spent,
                len(members),
                chance,
                float(at_s[members].min()),
                float(ends.max()),
            )
        )

    if abs(center) >= WHOLE:
        chance = _sign_chance(ratio, np.sign(center))
        if chance < CHANCE:
            common = [(by, where) for (by, where), members in places.items() if len(members) == len(ratio)]
            by, where = common[-1] if common else ("", f"every {kind}")
            add("whole", by, where, np.arange(len(ratio)), center, chance)
    for _ in range(_MOST):
        best = _best(places, left, shift)
        if best is None:
            break
        (by, where), members, size, chance = best
        add("group", by, where, members, size + float(np.median(shift[members])), chance)
        left[members] -= size
        shift[members] += size
    return found, shift


def _places(
    columns: tuple[str, ...], labels: list[dict[str, list[str]]]
) -> dict[tuple[str, str], NDArray[np.int64]]:
    found: dict[tuple[str, str], list[int]] = {}
    for column in columns:
        for at, one in enumerate(labels):
            for name in dict.fromkeys(one[column]):
                found.setdefault((column, name), []).append(at)
    # the same members under several names are one group, called by all of them
    distinct: dict[bytes, tuple[str, list[str], NDArray[np.int64]]] = {}
    for (column, name), members in found.items():
        own = np.array(members)
        distinct.setdefault(own.tobytes(), (column, [], own))[1].append(name)
    return {(column, _named(names)): own for column, names, own in distinct.values()}


def _named(names: list[str]) -> str:
    first, *more = dict.fromkeys(names)
    return f"{first} ({', '.join(more[:_NAMES])})" if more else first


def _best(
    places: dict[tuple[str, str], NDArray[np.int64]], left: Array, shift: Array
) -> tuple[tuple[str, str], NDArray[np.int64], float, float] | None:
    """Return the group whose own shift explains most of what deviates, if chance does not."""
    from scipy.stats import mannwhitneyu

    tried = []
    for key, members in places.items():
        if len(members) < LEAST or len(left) - len(members) < LEAST:
            continue
        own = left[members]
        size = float(np.median(own))
        gain = float(np.abs(own).sum() - np.abs(own - size).sum())
        whole = size + float(np.median(shift[members]))
        tried.append((gain, key, members, size, min(abs(size), abs(whole))))
    count = len(tried)
    tried = [one for one in tried if one[4] >= EFFECT]
    for _, key, members, size, _ in sorted(tried, key=lambda one: -one[0])[:_TRIES]:
        rest = np.ones(len(left), bool)
        rest[members] = False
        chance = min(1.0, count * float(mannwhitneyu(left[members], left[rest]).pvalue))
        if chance < CHANCE:
            return key, members, size, chance
    return None


def _sign_chance(ratio: Array, sign: float) -> float:
    from scipy.stats import binomtest

    beyond = int((ratio * sign > EFFECT).sum())
    return float(binomtest(beyond, len(ratio), 0.5, alternative="greater").pvalue)


def _stalls(
    kind: str, labels: Sequence[dict[str, list[str]]], excess: Array, at_s: Array, predicted_s: float
) -> list[Misfit]:
    """Return single times far beyond all others, those of one place together."""
    usual = float(np.quantile(np.maximum(excess, 0.0), 0.9, method="lower"))
    limit = max(_FAR * usual, _SHARE * predicted_s)
    beyond = np.flatnonzero(excess > limit)
    if not len(beyond) or len(excess) < 10:
        return []
    above = excess[(excess > usual) & (excess <= limit)]
    tail = max(float((above - usual).mean()) if len(above) else 0.0, usual, 1e-3 * limit)
    by = {"computation": "rank", "message": "pair", "collective": "call and size"}[kind]
    places: dict[str, list[int]] = {}
    for at in map(int, beyond):
        places.setdefault(labels[at][by][0], []).append(at)
    found = []
    for where, members in places.items():
        spent = excess[members]
        largest = float(spent.max())
        chance = min(1.0, len(excess) * 0.1 * float(np.exp(-min((largest - usual) / tail, 690.0))))
        if chance < CHANCE:
            begin_s, end_s = float(at_s[members].min()), float((at_s[members] + spent).max())
            found.append(
                Misfit(
                    kind,
                    "stall",
                    by,
                    where,
                    float("nan"),
                    float(spent.sum()),
                    len(members),
                    chance,
                    begin_s,
                    end_s,
                )
            )
    return found


@dataclass(repr=False)
class Misfits:
    """What of a measured run is not as it was predicted.

    `program`, `on`, `against`: The program, the machine that was measured, the one that was predicted.
    `measured_s`, `predicted_s`: Makespans.
    `samples`: The pairs: kind, measured_s, predicted_s, at_s, is_grouped, ranks, labels.
    `findings`: Of a run that is slower than predicted first what took longer, of a faster one what took
        shorter; among those the least likely by chance first, below 10^-9 what makes the most seconds.
    """

    program: str
    on: str
    against: str
    measured_s: float
    predicted_s: float
    samples: pd.DataFrame
    findings: list[Misfit]

    def table(self) -> pd.DataFrame:
        """Return the findings, a row each, with the columns of `Misfit`."""
        import pandas as pd

        names = [field.name for field in fields(Misfit)]
        return pd.DataFrame([asdict(one) for one in self.findings], columns=names)

    def members(self, finding: Misfit) -> NDArray[np.int64]:
        """Return the rows of `samples` that a finding is about."""
        if finding.what == "stall":
            return _stalled(self.samples, finding)
        found = _rows_of(self.samples, finding)
        grouped: NDArray[np.int64] = found[self.samples["is_grouped"].to_numpy()[found]]
        return grouped

    def reading(self) -> str:
        """Return as text what deviates, where, by how much, and how likely that is by chance."""
        took, meant = quantity(self.measured_s, "s", 3), quantity(self.predicted_s, "s", 3)
        off = self.measured_s / self.predicted_s - 1.0 if self.predicted_s > 0 else 0.0
        said = f"{self.program} took {took} on {self.on}, and {meant} were predicted for {self.against}"
        said += f" ({off:+.0%})." if abs(off) >= 0.005 else "."
        if not self.findings:
            return (
                f"{said} In no rank, host, link, call or size were times found that are off by a fifth or "
                "more beyond chance, and that come to 1 % of the run together "
                f"({len(self.samples)} pairs of times)."
            )
        return " ".join([said, *(_sentence(one) for one in self.findings[:4])])

    def __repr__(self) -> str:
        return self.reading()

    def _repr_html_(self) -> str:
        rows = [
            [
                escape(one.where),
                escape(one.kind),
                escape(one.what),
                "" if one.what == "stall" else f"{one.factor:.3g}",
                quantity(one.excess_s, "s", 3),
                str(one.members),
                _odds(one.chance),
            ]
            for one in self.findings
        ]
        head = ["where", "of", "what", "times as long", "longer by", "times", "by chance"]
        inner = f"<p>{escape(self.reading())}</p>{table(head, rows) if rows else ''}"
        return titled_block(f"Measured against predicted: {escape(self.program)}", inner)


def find_misfits(measured: RecordedRun, predicted: RecordedRun) -> Misfits:
    """Compare a measured run with the predicted one of the same program, and report what deviates.

    Slow hosts and cables, stalls, wrong thresholds of collectives show as times that are off in one place:
    computations of a rank, messages over a link or of a pair, collectives of a size. Waiting for others is in
    none of these times, so that a delay is found where it arises.

    Notes
    -----
    Of each pair of times the logarithm of measured by predicted is taken, less what the whole kind
    (computations, messages, collectives) is off: the median, but at most 15 % where a quarter of the pairs
    is predicted that well. Groups of pairs (of a rank, host, phase, link, pair of ranks, size, call, part
    of the run; of a link or a host those of one size, too) are compared with all others by the rank-sum
    test of Mann and Whitney [1]_, which asks nothing of the noise but that it is the same in the group and
    next to it; chances are multiplied by the number of groups. The group is named whose own median explains
    most of the absolute deviations, if it is off by at least a fifth, chance makes that at most once in
    1000 runs, and all of it comes to 1 % of the predicted run; it is taken out, and the search goes on. A
    kind is off as a whole from a factor of 1.5 on, by a sign test. A stall is a single time whose excess is
    ten times the one that a tenth of the pairs reaches and 2 % of the predicted run; its chance supposes an
    exponential tail fitted to the excesses between.

    What it cannot see: a machine of which everything is off by less than a half; places in which
    fewer than three times were paired; time in no call before or after a rank's calls.

    References
    ----------
    .. [1] H. B. Mann, D. R. Whitney: On a test of whether one of two random variables is stochastically
       larger than the other. Annals of Mathematical Statistics 18, 1947. doi:10.1214/aoms/1177730491
    """
    if not hasattr(predicted, "trace"):
        raise DataError(
            f"a run is compared with another one, which lk.run(...) returned; got {predicted!r:.60}",
            code="wrong-type",
        )
    samples = paired(measured, predicted)
    found = search(samples, measured.makespan_s, predicted.makespan_s)
    return Misfits(
        measured.program, measured.on, predicted.on, measured.makespan_s, predicted.makespan_s, samples, found
    )


def _sentence(one: Misfit) -> str:
    amount = quantity(abs(one.excess_s), "s", 3)
    odds = f"by chance {_odds(one.chance)}"
    if one.what == "stall":
        where = {"computation": "Computation on", "message": "Messages", "collective": ""}[one.kind]
        where = f"{where} {one.where}".strip()
        many = f"{one.members} times, {amount} in all" if one.members > 1 else amount
        when = (
            f"from {quantity(one.begin_s, 's', 3)} on"
            if one.members > 1
            else f"at {quantity(one.begin_s, 's', 3)}"
        )
        return f"{where} stalled: {many}, {when} ({odds})."
    times = (
        f"{one.factor:.3g} times as long as predicted"
        if one.factor >= 1
        else (f"{one.factor:.2g} of the predicted time")
    )
    longer = "longer" if one.excess_s >= 0 else "shorter"
    return f"{_subject(one)} took {times}, {amount} {longer} in all ({one.members} times; {odds})."


def _subject(one: Misfit) -> str:
    if one.what == "whole" and not one.by:
        return f"{one.where[0].upper()}{one.where[1:]}"
    if one.by in ("call", "call and size"):
        return one.where
    if one.by == "size":
        return one.where[0].upper() + one.where[1:]
    if one.kind == "message":
        words = {"link": "over ", "link and size": "over ", "host": "of ", "quarter of the run": "in "}
        return f"Messages {words.get(one.by, '')}{one.where}"
    word = "in" if one.by in ("quarter of the run", "phase") else "on"
    return f"{_SUBJECTS[one.kind].capitalize()} {word} {one.where}"


def _odds(chance: float) -> str:
    """Write a chance.

    Examples
    --------
    >>> _odds(3e-7), _odds(0.0)
    ('1 in 10^6', 'less than 1 in 10^300')
    """
    return "less than 1 in 10^300" if chance < 1e-300 else f"1 in 10^{max(floor(-log10(chance)), 0)}"
