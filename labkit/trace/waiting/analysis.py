"""The waiting in a recorded run: wait states, delay costs, call paths, the critical path."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError, SuggestsNames
from labkit.text.html import escape, quantity, table, titled_block
from labkit.text.units import format_share, number_of_ranks
from labkit.trace.trace import NO_PHASE, RecordedRun, lacks_trace
from labkit.trace.waiting.kinds import COMPUTATION, KINDS, NOT_BEGUN, UNTOLD, CallKinds
from labkit.trace.waiting.tables import given_columns, poll_waits, wait_columns
from labkit.trace.waiting.windows import lock_waits, named, sent_in

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["Waiting", "analyzed", "find_waiting"]


#: below this share of all ranks' time there is nothing to be explained
LITTLE = 0.01
_ROWS = 8
#: shares below this are rounding
_LEAST_SHARE = 1e-9
#: from this share on, what recording takes of a rank's time is said
_DISTURBING = 0.05
#: letters of a phase's name, with those around it
_LONGEST = 90


class Told(SuggestsNames, ABC):
    """The part of a `labkit.trace.waiting.Waiting` about it."""

    program: str
    on: str
    ranks: int
    makespan_s: float
    delays: pd.DataFrame
    recording_share: float

    _INSTEAD = MappingProxyType(dict.fromkeys(("plot", "show", "draw"), "labkit.plot.waits(run)"))

    @property
    @abstractmethod
    def seconds(self) -> float:
        """All waiting of all ranks."""

    @abstractmethod
    def severity(self, *by: str) -> pd.DataFrame:
        """Sum the waiting up, the largest first."""

    @abstractmethod
    def causes(self, *by: str) -> pd.DataFrame:
        """Sum up what the waiting goes back to, the largest first."""

    @abstractmethod
    def balance(self) -> pd.DataFrame:
        """Compare the ranks' times in each call path, by what that costs."""

    def reading(self) -> str:
        """Return as text the waits, what they go back to, and what the critical path could win."""
        said = _found(self)
        if self.recording_share >= _DISTURBING:
            share = _percent(self.recording_share)
            said += (
                f" Recording took about {share} of a rank's time: short phases with many calls look longer."
            )
        return said

    def __repr__(self) -> str:
        """Return the reading with a table of the wait states and one of the causes."""
        lines = [self.reading()]
        for _, row in _main(self.severity("state", "phase", "call")).iterrows():
            lines.append(
                f"  {quantity(row['seconds'], 's', 3):>9} {_percent(row['share']):>5}  {row['state']} in "
                f"{row['call']}, phase {_brief(str(row['phase']))}"
            )
        for _, row in _main(self.causes()).iterrows():
            lines.append(
                f"  {quantity(row['cost_s'], 's', 3):>9} {_percent(row['share']):>5}  goes back to rank "
                f"{row['rank']}: {_what(str(row['phase']), str(row['call']))}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the same as a card of a notebook."""
        states = [
            [
                escape(str(row["state"])),
                escape(_brief(str(row["phase"]))),
                escape(str(row["call"])),
                quantity(row["seconds"], "s", 3),
                _percent(row["share"]),
            ]
            for _, row in _main(self.severity("state", "phase", "call")).iterrows()
        ]
        causes = [
            [
                str(row["rank"]),
                escape(_what(str(row["phase"]), str(row["call"]))),
                quantity(row["direct_s"], "s", 3),
                quantity(row["indirect_s"], "s", 3),
                _percent(row["share"]),
                escape(_between(self, float(row["begin_s"]), float(row["end_s"]))),
            ]
            for _, row in _main(self.causes()).iterrows()
        ]
        parts = [f"<p>{escape(self.reading())}</p>"]
        if states:
            parts.append(table(["wait state", "phase", "call", "waited", "share"], states))
        if causes:
            parts.append(table(["rank", "goes back to", "directly", "indirectly", "share", "when"], causes))
        return titled_block(f"Who waited for whom in {escape(self.program)}", "".join(parts))


def _found(waiting: Told) -> str:
    spent = waiting.ranks * waiting.makespan_s
    where = f"{waiting.program} on {waiting.on}, {number_of_ranks(waiting.ranks)}"
    if not spent > 0 or waiting.seconds <= 0:
        return f"{where}: no rank waited for another."
    share = waiting.seconds / spent
    waited = quantity(waiting.seconds, "s", 3)
    said = f"{where}: the ranks waited for each other {waited} in all, {_percent(share)} of their time"
    kinds = waiting.severity("state")
    named = [
        f"{state} {_percent(part)}"
        for state, part in zip(kinds["state"], kinds["share"], strict=True)
        if part >= 0.05
    ]
    said += f" ({', '.join(named[:4])} of it)." if named else "."
    if share < LITTLE:
        return f"{said} That is little: the time lies elsewhere."
    sentences = _goes_back(waiting)
    return " ".join([said, *sentences, *_wins(waiting)])


def _goes_back(waiting: Told) -> list[str]:
    """Name the causes that explain most, each with its share and its time."""
    causes = waiting.causes("rank", "phase", "call")
    sentences: list[str] = []
    for at in range(min(3, len(causes))):
        row = causes.iloc[at]
        if row["share"] < (0.05 if at else 0.0):
            break
        whole = causes[(causes["phase"] == row["phase"]) & (causes["call"] == row["call"])]
        own = f"rank {row['rank']}'s {_what(str(row['phase']), str(row['call']))}"
        together = float(whole["share"].sum())
        own_part = waiting.delays[waiting.delays["rank"] == row["rank"]]
        share, when = float(row["share"]), _when(waiting, own_part, str(row["phase"]), str(row["call"]))
        if len(whole) > 2 and share < 0.5 * together:
            place = _what(str(row["phase"]), str(row["call"]))
            own = f"{place} of {len(whole)} ranks, most to rank {row['rank']}'s"
            share, when = together, _when(waiting, waiting.delays, str(row["phase"]), str(row["call"]))
        if any(own.split(" of ")[0] in sentence for sentence in sentences if " of " in own):
            continue
        subject = "of the waiting goes back to" if not sentences else "to"
        indirect = float(row["indirect_s"]) / float(row["cost_s"]) if row["cost_s"] > 0 else 0.0
        passed = (
            f", {_percent(indirect)} of that passed on by ranks that waited themselves"
            if indirect >= 0.05
            else ""
        )
        sentences.append(f"{_percent(share)} {subject} {own} {when}{passed if not sentences else ''}")
    return ["; ".join(sentences) + "."] if sentences else []


def _what(phase: str, call: str) -> str:
    """Name a call path: a phase's computation by the phase."""
    if call == NOT_BEGUN:
        return "late start"
    if call == COMPUTATION:
        return "computation outside phases" if phase == NO_PHASE else f"phase {_brief(phase)}"
    return call if phase == NO_PHASE else f"{call} in phase {_brief(phase)}"


def _brief(phase: str) -> str:
    """Leave out the middle of a call path that no sentence could hold."""
    if len(phase) <= _LONGEST:
        return phase
    return f"{phase[: _LONGEST // 2].rstrip(' >')} ... {phase[-_LONGEST // 2 :].lstrip(' >')}"


def _when(waiting: Told, delays: pd.DataFrame, phase: str, call: str) -> str:
    """Return as text when a cause made others wait, without stretches below a hundredth of its cost."""
    own = delays[(delays["phase"] == phase) & (delays["call"] == call)]
    cost = own["direct_s"] + own["indirect_s"]
    main = own[cost >= 0.01 * cost.sum()]
    main = main if len(main) else own
    text = _between(waiting, float(main["begin_s"].min()), float(main["end_s"].max()))
    return text if len(main) == len(own) or text.startswith("throughout") else f"mainly {text}"


def _between(waiting: Told, begin_s: float, end_s: float) -> str:
    whole = waiting.makespan_s
    if begin_s <= 0.01 * whole and end_s >= 0.99 * whole:
        return "throughout the run"
    if begin_s <= 0.01 * whole:
        return f"in the first {quantity(end_s, 's', 3)}"
    if end_s >= 0.99 * whole:
        return f"in the last {quantity(whole - begin_s, 's', 3)}"
    return f"between {quantity(begin_s, 's', 3)} and {quantity(end_s, 's', 3)}"


def _wins(waiting: Told) -> list[str]:
    """Return as sentences which call path holds most of the critical path's excess.

    Of the run nothing is promised: another path may then be the longest, and who balances each visit of a
    phase may win more.
    """
    table = waiting.balance()
    if not len(table) or table["critical_imbalance_s"].iloc[0] < LITTLE * waiting.makespan_s:
        return []
    row = table.iloc[0]
    excess = quantity(float(row["critical_imbalance_s"]), "s", 3)
    what = _what(str(row["phase"]), str(row["call"]))
    share = float(row["critical_imbalance_s"]) / waiting.makespan_s
    return [
        f"On the critical path, {what} takes {quantity(float(row['critical_s']), 's', 3)}, {excess} more "
        f"than the mean of the ranks: with the mean instead, this path would be {excess} "
        f"({_percent(share)}) shorter."
    ]


def _main(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["share"] > _LEAST_SHARE].head(_ROWS)


def _percent(share: float) -> str:
    return format_share(float(share))


#: between the phases of a call path
_BELOW = " > "
#: of all waiting, shares below this are rounding
_ROUNDING = 1e-12


@dataclass(repr=False)
class Waiting(Told):
    """Who waited for whom, and what that goes back to.

    A call path is a place in the tree of phases, and a call there with its place in the program. All seconds
    of a run's ranks are summed up: four ranks that wait 1 ms each wait 4 ms.

    `waits`: A row for each wait state, by rank and time: rank, state (`KINDS`), path (row of `paths`), phase,
        call, begin_s, end_s, seconds, cause (the rank that came late; the rank itself of completions; -1: not
        known), message (row of `Trace.messages`, or -1), row and cause_row (rows of `Trace.calls`: the call
        that waited and the one that came late, or -1), direct_s (of its seconds, what the cause did longer;
        the rest goes back to waits of the cause), passed_s (what others waited because of this wait).
    `delays`: A row for each stretch of a rank's time that made others wait, by rank and time: rank, path,
        phase, call, begin_s, end_s, direct_s (waits for this rank), indirect_s (waits that were passed on).
        The sum of both columns is the sum of ``waits["seconds"]``.
    `paths`: A row for each call path: phase (``"solve > exchange"``), name (its innermost phase), call (or
        `COMPUTATION`), place.
    `totals`: A row for each rank and call path that it was in: rank, path, phase, call, visits (of
        computation: how often the phase, or the program, was entered), seconds (without wait states),
        waiting_s, critical_s (of both, on the critical path).
    `critical`: The critical path: rank, begin_s, end_s. It leads over wait states to the rank that came late.
    `recording_share`: Of a real run what recording took of a rank's time, where that is most:
        `Trace.recording_share`.
    """

    program: str
    on: str
    ranks: int
    makespan_s: float
    is_real: bool
    waits: pd.DataFrame
    delays: pd.DataFrame
    paths: pd.DataFrame
    totals: pd.DataFrame
    critical: pd.DataFrame
    recording_share: float = 0.0

    @property
    def seconds(self) -> float:
        """All waiting of all ranks."""
        return float(self.waits["seconds"].sum())

    def severity(self, *by: str) -> pd.DataFrame:
        """Sum the waiting up, the largest first.

        `*by`: Columns of `waits`, such as ``"state"``, ``"phase"``, ``"call"``, ``"rank"``, ``"cause"``;
            default: state, phase and call.
        Returns: These columns, count, seconds, longest_s, share (of all waiting), of_time (of all ranks'
            time).
        """
        columns = list(by) or ["state", "phase", "call"]
        known = [name for name in self.waits.columns if name not in ("seconds", "direct_s", "passed_s")]
        if wrong := [name for name in columns if name not in known]:
            raise DataError(
                f"waiting is summed up by {', '.join(known)}; not by {wrong[0]!r}", code="unknown-name"
            )
        sums = self.waits.groupby(columns, observed=True, sort=False)["seconds"]
        table = sums.agg(count="size", seconds="sum", longest_s="max").reset_index()
        spent = self.ranks * self.makespan_s
        table["share"] = table["seconds"] / self.seconds if self.seconds > 0 else 0.0
        table["of_time"] = table["seconds"] / spent if spent > 0 else 0.0
        return table.sort_values("seconds", ascending=False, kind="stable", ignore_index=True)

    def causes(self, *by: str) -> pd.DataFrame:
        """Sum up what the waiting goes back to, the largest first.

        `*by`: Of rank, phase, call and path; default: rank, phase and call.
        Returns: These columns, direct_s, indirect_s, cost_s (both), share (of all waiting), begin_s and end_s
            (of the first and the last stretch). What comes to no more than the rounding of sums is no cause.
        """
        columns = list(by) or ["rank", "phase", "call"]
        if wrong := [name for name in columns if name not in ("rank", "phase", "call", "path")]:
            raise DataError(
                f"delays are summed up by rank, phase, call and path; not by {wrong[0]!r}",
                code="unknown-name",
            )
        groups = self.delays.groupby(columns, observed=True, sort=False)
        table = groups.agg(
            direct_s=("direct_s", "sum"),
            indirect_s=("indirect_s", "sum"),
            begin_s=("begin_s", "min"),
            end_s=("end_s", "max"),
        ).reset_index()
        table["cost_s"] = table["direct_s"] + table["indirect_s"]
        table["share"] = table["cost_s"] / self.seconds if self.seconds > 0 else 0.0
        table = table[table["share"] > _ROUNDING]
        order = [*columns, "direct_s", "indirect_s", "cost_s", "share", "begin_s", "end_s"]
        return table[order].sort_values("cost_s", ascending=False, kind="stable", ignore_index=True)

    def balance(self) -> pd.DataFrame:
        """Compare the ranks' times in each call path, and with the critical path, by what that costs.

        Returns: By call path, the one of the largest impact first: path, phase, call, kind ("load" of
            computation, "communication" of calls), mean_s and max_s (over all ranks, without wait states),
            imbalance_s (max - mean), critical_s (on the critical path), critical_imbalance_s (its excess over
            the mean; 0 where it has none), impact_s (that of all ranks: what they could save together).

        References
        ----------
        .. [1] D. Boehme, B. R. de Supinski, M. Geimer, M. Schulz, F. Wolf: Scalable critical-path based
           performance analysis. IPDPS 2012. doi:10.1109/IPDPS.2012.120
        """
        groups = self.totals.groupby("path", sort=True)
        table = groups.agg(
            sum_s=("seconds", "sum"), max_s=("seconds", "max"), critical_s=("critical_s", "sum")
        )
        table = table.reset_index()
        rows = table["path"].to_numpy()
        for name in ("phase", "call"):
            table[name] = self.paths[name].to_numpy()[rows]
        works = table["call"].isin([COMPUTATION, NOT_BEGUN, UNTOLD])
        table["kind"] = np.where(works, "load", "communication")
        table["mean_s"] = table["sum_s"] / max(self.ranks, 1)
        table["imbalance_s"] = table["max_s"] - table["mean_s"]
        table["critical_imbalance_s"] = np.maximum(table["critical_s"] - table["mean_s"], 0.0)
        table["impact_s"] = table["critical_imbalance_s"] * self.ranks
        order = [
            "path",
            "phase",
            "call",
            "kind",
            "mean_s",
            "max_s",
            "imbalance_s",
            "critical_s",
            "critical_imbalance_s",
            "impact_s",
        ]
        return table[order].sort_values("impact_s", ascending=False, kind="stable", ignore_index=True)


def find_waiting(run: RecordedRun) -> Waiting:
    """Find the wait states of a recorded run, and what they go back to.

    `run`: Recorded with ``trace=True``, on any machine.
    Raises DataError: The run has no trace.
    """
    return analyzed(run)[0]


def analyzed(run: RecordedRun) -> tuple[Waiting, NDArray[np.int32], NDArray[np.int64]]:
    """Return what `find_waiting` does, the call path of each row of `Trace.calls`, and `sent_in`."""
    import pandas as pd

    from labkit import _kernels

    trace = run.trace
    if trace is None:
        raise lacks_trace(run, f"who waited for whom in {run.program} on {run.on} is not known")
    kinds = CallKinds(trace.calls)
    tables, names = wait_columns(trace, run.phases, kinds)
    sent = sent_in(trace)
    # a real run's sends are posted where their calls begin: the time decides
    tables["messages"]["sent_in"] = np.asarray(sent if trace.clocks is None else [], np.int32)
    given = given_columns(trace.given_waits)
    if trace.clocks is None:  # simulated
        locks = lock_waits(trace.calls, kinds, tables["blocked"])
        given = {name: np.concatenate([given[name], locks[name].astype(given[name].dtype)]) for name in given}
    asked = poll_waits(trace, kinds)
    given = {
        name: np.concatenate([column, np.array(asked[name], column.dtype)]) for name, column in given.items()
    }
    begins = np.asarray([] if trace.begins_s is None else trace.begins_s, np.float64)
    found = _kernels.analyze_waits(
        run.ranks, **tables, begins_s=begins, ends_s=np.asarray(trace.ends_s, np.float64),
        given=given, begun_by=np.asarray(trace.begun_by or [], np.int32),
    )  # fmt: skip
    paths = _paths(found["tree"], names, kinds, trace.calls is None)
    waits = pd.DataFrame(found["waits"]).rename(columns={"call": "row", "cause_call": "cause_row"})
    waits = named(waits, trace.calls, kinds, trace.messages)
    waits["seconds"] = waits["end_s"] - waits["begin_s"]
    waits["state"] = pd.Categorical.from_codes(
        waits["state"].to_numpy(np.int64), pd.Index([kind.name for kind in KINDS])
    )
    _name(waits, paths)
    order = ["rank", "state", "path", "phase", "call", "begin_s", "end_s", "seconds", "cause", "message"]
    delays = pd.DataFrame(found["delays"])
    _name(delays, paths)
    waiting = Waiting(
        run.program,
        run.on,
        run.ranks,
        run.makespan_s,
        trace.clocks is not None,
        waits[[*order, "row", "cause_row", "direct_s", "passed_s"]],
        delays[["rank", "path", "phase", "call", "begin_s", "end_s", "direct_s", "indirect_s"]],
        paths,
        _totals(found, paths),
        pd.DataFrame(found["path"]),
        trace.recording_share(),
    )
    return waiting, found["call_path"], sent


def _paths(
    tree: dict[str, NDArray[Any]], names: list[str], kinds: CallKinds, is_untold: bool
) -> pd.DataFrame:
    import pandas as pd

    texts, inner = [NO_PHASE], [NO_PHASE]
    for above, name in zip(tree["above"][1:].tolist(), tree["name"][1:].tolist(), strict=True):
        texts.append(f"{texts[above]}{_BELOW}{names[name]}" if above else names[name])
        inner.append(names[name])
    node, what = tree["node"], tree["what"]
    own = {-1: COMPUTATION if len(kinds.numbers) or not is_untold else UNTOLD, -2: NOT_BEGUN}
    return pd.DataFrame(
        {
            "phase": np.array(texts, object)[node],
            "name": np.array(inner, object)[node],
            "call": np.array([own[w] if w < 0 else kinds.names[w] for w in what.tolist()], object),
            "place": np.array(["" if w < 0 else kinds.places[w] for w in what.tolist()], object),
        }
    )


def _name(table: pd.DataFrame, paths: pd.DataFrame) -> None:
    """Give a table with paths their phases and calls."""
    import pandas as pd

    for name in ("phase", "call"):
        codes, words = pd.factorize(paths[name])
        rows = table["path"].to_numpy()
        table[name] = pd.Categorical.from_codes(codes[rows] if len(rows) else [], categories=words)


def _totals(found: dict[str, Any], paths: pd.DataFrame) -> pd.DataFrame:
    """Put times and visits of each rank's call paths together."""
    import pandas as pd

    totals, tree = pd.DataFrame(found["totals"]), found["tree"]
    keys = ["rank", "path"]
    visits = pd.DataFrame(
        {"rank": tree["visit_rank"], "path": tree["visit_path"], "visits": tree["visit_count"]}
    )
    totals = visits.merge(totals, on=keys, how="outer").fillna(0)
    totals = totals.astype({"rank": np.int64, "path": np.int64, "visits": np.int64})
    _name(totals, paths)
    return totals[["rank", "path", "phase", "call", "visits", "seconds", "waiting_s", "critical_s"]]
