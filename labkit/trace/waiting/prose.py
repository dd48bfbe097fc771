"""The waiting of a run in words: what there was, where it comes from, what would shorten the run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from labkit.html import card, escape, quantity, table
from labkit.trace.phases import NO_PHASE
from labkit.trace.waiting.kinds import COMPUTATION, NOT_BEGUN
from labkit.units import format_share, number_of_ranks

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Told"]

#: below this share of all ranks' time there is nothing to be explained
LITTLE = 0.01
_ROWS = 8
#: shares below this are rounding
_ROUNDING = 1e-9
#: from this share on, what recording takes of a rank's time is said
_DISTURBING = 0.05
#: letters of a phase's name, with those around it
_LONGEST = 90


class Told(ABC):
    """The part of a `labkit.trace.waiting.Waiting` that tells of it."""

    program: str
    on: str
    ranks: int
    makespan_s: float
    delays: pd.DataFrame
    recording_share: float

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
        """Say what waits there were, what they go back to, and what the critical path could win."""
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
            [escape(str(row["state"])), escape(_brief(str(row["phase"]))), escape(str(row["call"])),
             quantity(row["seconds"], "s", 3), _percent(row["share"])]
            for _, row in _main(self.severity("state", "phase", "call")).iterrows()
        ]  # fmt: skip
        causes = [
            [str(row["rank"]), escape(_what(str(row["phase"]), str(row["call"]))),
             quantity(row["direct_s"], "s", 3), quantity(row["indirect_s"], "s", 3), _percent(row["share"]),
             escape(_between(self, float(row["begin_s"]), float(row["end_s"])))]
            for _, row in _main(self.causes()).iterrows()
        ]  # fmt: skip
        parts = [f"<p>{escape(self.reading())}</p>"]
        if states:
            parts.append(table(["wait state", "phase", "call", "waited", "share"], states))
        if causes:
            parts.append(table(["rank", "goes back to", "directly", "indirectly", "share", "when"], causes))
        return card(f"Who waited for whom in {escape(self.program)}", "".join(parts))


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
    """Say when a cause made others wait; stretches that cost less than a hundredth of it are left out."""
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
    """Say which call path holds most of the critical path's excess.

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
    return table[table["share"] > _ROUNDING].head(_ROWS)


def _percent(share: float) -> str:
    return format_share(float(share))
