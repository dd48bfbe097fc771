"""The result of one run of a program: the same shape from a real and from a simulated machine."""

from __future__ import annotations

import copy
import math
import os
import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from labkit.checks import ToleranceUse, Uncharged
from labkit.errors import SuggestsNames
from labkit.result.by_rank import ByRank
from labkit.text.units import format_bytes, format_count, format_seconds, number_of_ranks

if TYPE_CHECKING:
    import pandas as pd

    from labkit.result.computation import Computation
    from labkit.timing import Conduct
    from labkit.trace.explanation import Explanation
    from labkit.trace.machine_misfits import Misfits
    from labkit.trace.reports import Report
    from labkit.trace.score import Score
    from labkit.trace.trace import Entry
    from labkit.trace.waiting import Waiting
    from labkit.trace.waiting.what_if import WhatIf

__all__ = ["PHASE_COLUMNS", "Run", "median_run", "phase_frame", "run_html"]


#: the columns of `Run.phases`
PHASE_COLUMNS = ("rank", "phase", "begin_s", "end_s", "depth")

#: what tables call the time in no phase
OUTSIDE = "outside phases"

_DTYPES = {"rank": "int64", "phase": "object", "begin_s": "float64", "end_s": "float64", "depth": "int64"}


def phase_frame(rows: Iterable[Entry] = ()) -> pd.DataFrame:
    """Build the data frame of phases from rows.

    `rows`: One row per entry into a phase: rank, phase, begin and end in seconds since the start of the run
        (the first entry of any rank into the program), and how many phases of the rank were around it. Those
        of a rank in the order in which it entered them.
    Returns: With the columns of `PHASE_COLUMNS`, also when there is no row.
    """
    rows = tuple(rows)
    return _frame_of(rows) if rows else pickle.loads(_without_rows())


def _frame_of(rows: tuple[Entry, ...]) -> pd.DataFrame:
    import pandas as pd

    columns: dict[str, list[object]] = {name: [] for name in PHASE_COLUMNS}
    for row in rows:
        for name, value in zip(PHASE_COLUMNS, row, strict=True):
            columns[name].append(value)
    return pd.DataFrame({name: pd.Series(columns[name], dtype=_DTYPES[name]) for name in PHASE_COLUMNS})


@cache
def _without_rows() -> bytes:
    """Build the frame of runs without phases once: it takes as long as a small run.

    Pickled: of a frame that is copied, pandas keeps weak references to all copies' indices.
    """
    return pickle.dumps(_frame_of(()))


class _Phases:
    """`Run.phases` of a run without phases is made when it is looked at: pandas is most of what one costs."""

    def __get__(self, run: object, owner: object = None) -> object:
        if run is None:  # the default that `dataclass` reads
            return None
        kept = vars(run)
        if kept["phases"] is None:
            kept["phases"] = phase_frame()
        return kept["phases"]

    def __set__(self, run: object, frame: object) -> None:
        vars(run)["phases"] = frame


@dataclass(repr=False)
class Run(SuggestsNames):
    """One run of a program on a machine.

    Attributes
    ----------
    program : str
        Name of the program.
    ranks : int
        Number of ranks.
    on : str
        The machine: ``"mpi"``, ``"cluster"`` or a platform.
    model : str or None
        The network model of a simulated run; None on a real machine.
    results : list
        What each rank returned, in rank order; shown, NumPy's numbers are numbers: 3, not np.int64(3).
    makespan_s : float
        From the first rank's entry into the program to the last rank's exit, in seconds: of simulated time,
        or of the host's monotonic clock (after a barrier) on a real machine. NaN when it was not measured.
    phases : pandas.DataFrame
        One row per entry of a rank into a phase: rank, phase, begin_s, end_s (seconds since the first entry),
        depth (how many of its phases are around this one).
    output : list of str
        What each rank printed (stdout and stderr), in rank order.
    messages, bytes : int or None
        Messages and payload bytes sent; None where the machine does not count them.
    host_seconds : float
        What the run cost on this host, launch included.
    trace : object
        The recorded trace, or None.
    machine : dict
        Description of the machine.
    notes : list of str
        Caveats for readers of the figures.
    is_valid : bool
        Whether the times may be used for a verdict.
    repetitions : list of Run
        With ``repeats`` > 1: every repetition, in order; this run is then the one with the median makespan.
    conduct : Conduct or None
        How the repetitions of a real measurement were started and how many were needed
        (`labkit.timing.Conduct`); None where that was not asked for.
    collectives : dict
        The algorithms that a simulated run's collectives took, or those of a real run with `coll`, and those
        that requests of `labkit.tune` have decided for: `labkit.selector.Situation` to name.
    counts : DataFrame or None
        With ``count=True``: a row for each rank (phase ``""``) and for each phase that it was in, with
        messages and bytes that it sent, received and received_bytes, rounds that passed for it (one message
        sent and one received at a time), memory_bytes (the most that its NumPy arrays held), comparisons of
        the node-local kernels, and what the program counts itself (`labkit.count`). Of real MPI:
        `labkit.trace.counters`.
    summary : dict of arrays or None
        With ``summary=True``: what `profile` makes its table of (`labkit.trace.counters`).
    computation : Computation or None
        What the ranks' code took of this host's processor, where that was measured: ``compute=run`` in
        another run charges the same again.
    uncharged : Uncharged or None
        What the ranks' code took of this host's processor without being charged
        (`labkit.result.computation.Uncharged`); None where computation is charged, and on a real machine.
    tolerance : ToleranceUse or None
        What a tolerance came to; None where there was none: an exact simulation, or a real machine.
    exploration : Exploration or None
        With ``explore=20``: whether other legal orders of messages lead to other results
        (`labkit.sim.machine.Exploration`).
    seed : int or None
        What random numbers of the program and of noise were drawn from; None where it is not known.
    is_seeded : bool or None
        Whether anything was drawn from the seed; a simulated run that drew nothing is the same with any
        other. None where that is not known, as on real machines.
    again : callable or None
        Runs the program again with changes (`what_if`); not kept in files or sent to other processes.
    """

    program: str
    ranks: int
    on: str
    model: str | None = None
    results: list[Any] = field(default_factory=list)
    makespan_s: float = float("nan")
    phases: pd.DataFrame = _Phases()  # type: ignore[assignment]
    output: list[str] = field(default_factory=list)
    messages: int | None = None
    bytes: int | None = None
    host_seconds: float = 0.0
    trace: Any = None
    machine: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    is_valid: bool = True
    computation: Computation | None = None
    repetitions: list[Run] = field(default_factory=list)
    tolerance: ToleranceUse | None = None
    collectives: dict[Any, str] = field(default_factory=dict)
    conduct: Conduct | None = None
    counts: pd.DataFrame | None = None
    exploration: Any = None
    summary: dict[str, Any] | None = None
    uncharged: Uncharged | None = field(default=None, compare=False)
    seed: int | None = None
    is_seeded: bool | None = None
    #: runs the program again with changes (`what_if`); not kept in files or sent to other processes
    again: Any = field(default=None, compare=False)

    _INSTEAD = MappingProxyType(
        {
            **dict.fromkeys(("time", "time_s", "seconds", "elapsed", "duration"), "makespan_s"),
            **dict.fromkeys(("stdout", "prints", "print"), "output"),
            **dict.fromkeys(("result", "values", "returns"), "results"),
            **dict.fromkeys(
                ("expect", "judge", "fit"),
                'labkit.sweep(program, [2, 4, 8, 16, 32]).expect("p log p"): a growth needs several runs',
            ),
            **dict.fromkeys(
                ("compare", "diff", "versus"),
                "labkit.contrast(run, other) of runs with trace=True, or numbers such as makespan_s",
            ),
            **dict.fromkeys(
                ("speedup", "efficiency"),
                "labkit.plot.efficiency(study) of a sweep, labkit.sweep(program, [1, 2, 4, 8])",
            ),
            **dict.fromkeys(
                ("save", "to_csv", "to_json"),
                "labkit.sweep(program, [8]).save(file) for numbers, or run.export(file) for a trace",
            ),
            **dict.fromkeys(
                ("plot", "timeline", "gantt", "show", "draw"),
                "labkit.plot.gantt(run) of a run with trace=True",
            ),
        }
    )

    def __post_init__(self) -> None:
        """Let the results show themselves as numbers."""
        self.results = ByRank(self.results)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what can run the program again: the program need not be one that can be sent."""
        return {**vars(self), "again": None}

    def phase_table(self) -> pd.DataFrame:
        """Sum up the phases: one row per phase, in the order in which they first began.

        Returns
        -------
        pandas.DataFrame
            Columns phase, entries, max_s, mean_s, imbalance. A rank's time in a phase is the sum over its
            entries; maximum and mean are over all ranks, spawned ones included (one that never entered counts
            as 0), and imbalance is maximum / mean (1 when no rank spent any time). The last row, "outside
            phases", is the time in none of them: never entered (entries 0), and it has no imbalance (NaN).
        """
        import pandas as pd

        columns = ["phase", "entries", "max_s", "mean_s", "imbalance"]
        return pd.DataFrame(self._rows_of_table(), columns=columns)

    def _rows_of_table(self) -> list[tuple[str, int, float, float, float]]:
        rows = self.phase_rows()
        if rows and math.isfinite(self.makespan_s):
            rows.append((OUTSIDE, 0, *self.outside_phases(), math.nan))
        return rows

    def phase_rows(self) -> list[tuple[str, int, float, float, float]]:
        """Return the rows of `phase_table`.

        Returns
        -------
        list of (str, int, float, float, float)
            Name, ranks that were in it, maximum and mean in seconds, imbalance.
        """
        rows: list[tuple[str, int, float, float, float]] = []
        if not self.has_phases:
            return rows
        order = self.phases.sort_values("begin_s", kind="stable")["phase"].drop_duplicates()
        for name in order:
            entries = self.phases[self.phases["phase"] == name]
            spent = (entries["end_s"] - entries["begin_s"]).groupby(entries["rank"]).sum()
            largest, mean = float(spent.max()), float(spent.sum()) / self.all_ranks
            rows.append((str(name), len(entries), largest, mean, largest / mean if mean > 0 else 1.0))
        return rows

    def outside_phases(self) -> tuple[float, float]:
        """Return the time in no phase, up to the makespan: maximum and mean over the ranks.

        Of a rank that was spawned, the time before it began is such time, too.

        Returns
        -------
        (float, float)
            Seconds.
        """
        covered = [0.0] * self.all_ranks
        ends = [0.0] * self.all_ranks  # of what is covered: phases may lie in each other
        rows = self.phases.sort_values("begin_s", kind="stable")
        for rank, begin, end in zip(rows["rank"], rows["begin_s"], rows["end_s"], strict=True):
            covered[rank] += max(end - max(begin, ends[rank]), 0.0)
            ends[rank] = max(end, ends[rank])
        left = [max(self.makespan_s - one, 0.0) for one in covered]
        return max(left), sum(left) / self.all_ranks

    @property
    def has_phases(self) -> bool:
        """Whether any rank was in any phase."""
        return vars(self)["phases"] is not None and len(self.phases) > 0

    @property
    def all_ranks(self) -> int:
        """How many ranks there were: `ranks`, and those that the run has spawned."""
        return max(self.ranks, len(self.output))

    def shown_phases(self) -> list[tuple[str, float, float, float]]:
        """List what a table of phases shows: name, maximum and mean over the ranks, imbalance.

        The last row is the time outside all phases, which has no imbalance (NaN).

        Returns
        -------
        list of (str, float, float, float)
            Times in seconds; imbalance is maximum / mean.
        """
        return [(name, most, mean, imbalance) for name, _, most, mean, imbalance in self._rows_of_table()]

    def printed(self) -> str:
        """Return what all ranks printed, in rank order, as one text.

        Returns
        -------
        str
            Empty where nothing was printed.
        """
        return "".join(self.output)

    def headline(self) -> str:
        """Summarize in one line what ran where, and how long it took.

        Returns
        -------
        str
            Without a full stop.
        """
        where = {"mpi": "real MPI", "cluster": "a cluster's MPI", "slurm": "Slurm"}.get(self.on, self.on)
        model = f", model {self.model}" if self.model else ""
        return (
            f"{self.program}: {self.ranks:,} rank{'s' if self.ranks != 1 else ''} on {where}{model}, "
            f"makespan {format_seconds(self.makespan_s)}"
        )

    def facts(self) -> list[tuple[str, str]]:
        """List the figures other than the makespan as (name, text) pairs.

        Returns
        -------
        list of (str, str)
            With units, in the order in which they are shown.
        """
        pairs = []
        if self.messages is not None:
            pairs.append(("messages", format_count(self.messages)))
        if self.bytes is not None:
            pairs.append(("payload", format_bytes(self.bytes)))
        used = self.machine.get("used_hosts", self.ranks)
        if used != self.ranks or "allocation" in self.machine:
            pairs.append(("hosts", self._hosts_text(used)))
        if self.machine.get("mapping", "block") != "block":
            pairs.append(("ranks on hosts", str(self.machine["mapping"])))
        pairs.append(("host time", format_seconds(self.host_seconds)))
        if self.repetitions:
            pairs.append(("repetitions", str(len(self.repetitions))))
        if self.conduct is not None:
            pairs.append(("measured", self.conduct.text()))
        if self.machine.get("calibration", "default") != "default":
            pairs.append(("node-local costs", str(self.machine["calibration"])))
        if self.tolerance is not None:
            pairs.append(("tolerance", self.tolerance.text()))
        return pairs

    def _hosts_text(self, used: int) -> str:
        """Return the number of hosts, the ranks on each, and which block of the machine they are."""
        most = self.machine["most_ranks_on_a_host"]
        each = (
            f"{'up to ' if self.ranks != used * most else ''}{most:,} rank{'s' if most != 1 else ''} on each"
        )
        allocation = self.machine.get("allocation")
        filled = "block: " if self.machine.get("mapping") == "block" else ""
        return f"{used:,} ({filled}{each}{f'; {allocation}' if allocation else ''})"

    def __repr__(self) -> str:
        lines = [self.headline()]
        lines.append("  " + ", ".join(f"{name} {text}" for name, text in self.facts()))
        rows = self.shown_phases()
        if rows:
            width = max(len("phase"), *(len(row[0]) for row in rows))
            lines.append(f"  {'phase':<{width}}  {'max':>9}  {'mean':>9}  imbalance")
            for name, largest, mean, imbalance in rows:
                times = f"{format_seconds(largest):>9}  {format_seconds(mean):>9}"
                ratio = "" if math.isnan(imbalance) else f"  {imbalance:9.2f}"
                lines.append(f"  {name:<{width}}  {times}{ratio}")
        lines += [f"  note: {note}" for note in self.notes]
        if not self.is_valid:
            lines.append("  these times may not be used for a verdict")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return run_html(self)

    # Explanation, waits, profile, trials, files for other tools: each needs trace=True. Spawned ranks of a
    # simulated run are analyzed and exported with the others; on real MPI what they do is not recorded.

    def _run(self) -> Self:
        """Return the run, with the ranks that it has spawned among its ranks."""
        if self.trace is None or len(self.trace.ends_s) <= self.ranks:
            return self
        whole = copy.copy(self)
        whole.ranks, whole.again = len(self.trace.ends_s), self.again
        return whole

    def explain(self) -> Explanation:
        """Explain why a run took as long as it did: its critical path, and, in simulation, what held it.

        Returns
        -------
        labkit.trace.Explanation

        Raises
        ------
        DataError
            The run was not recorded (``trace=True``).
        """
        from labkit.trace.explanation import explain_run

        return explain_run(self._run())

    def waits(self) -> Waiting:
        """Find who waited for whom, as what kind of wait state, and what all waiting goes back to.

        Returns
        -------
        labkit.trace.waiting.Waiting
            Its tables `waits`, `delays`, `paths`, `totals` and `critical`; `severity`, `causes` and `balance`
            sum them up; shown, it is a page of prose.

        Raises
        ------
        DataError
            The run was not recorded (``trace=True``).
        """
        from labkit.trace.waiting import find_waiting

        return find_waiting(self._run())

    def delays(self) -> pd.DataFrame:
        """Return which rank, phase and call made others wait, and for how long, the largest cost first.

        Returns
        -------
        pandas.DataFrame
            See `labkit.trace.waiting.Waiting.causes`.

        Raises
        ------
        DataError
            The run was not recorded (``trace=True``).
        """
        return self.waits().causes()

    def profile(self) -> pd.DataFrame:
        """Sum each rank's time, visits and messages up by call path: a phase in its phases, and a call there.

        Returns
        -------
        pandas.DataFrame
            See `labkit.trace.waiting.profile.profile_of`; of a run with ``summary=True`` instead of a trace
            `labkit.trace.counters.summary_frame`.

        Raises
        ------
        DataError
            The run has neither a trace (``trace=True``) nor a summary (``summary=True``).
        """
        run = self._run()
        if run.trace is None and run.summary is not None:
            from labkit.trace.counters import summary_frame

            return summary_frame(run.summary, run.counts)
        from labkit.trace.waiting.profile import profile_of

        return profile_of(run)

    def report(self) -> Report:
        """Return metrics by call path and rank, which can be subtracted from those of another run.

        Returns
        -------
        labkit.trace.reports.Report
            Time with its wait states, messages, delay costs, the critical path. ``lk.explore.waits`` shows
            it; `labkit.trace.reports` has `difference`, `mean` and `merge`. See `waits` for what is refused.
        """
        from labkit.trace.reports import report_of

        return report_of(self._run())

    def score(self) -> Score:
        """Estimate what a trace of this program takes on real MPI, and say what is not worth recording.

        Returns
        -------
        labkit.trace.score.Score
            Bytes of buffer by phase and call, and phases to leave out (``leave_out=``), which its `write`
            makes a filter file of. A run with ``summary=True`` has one, too. See `waits` for what is refused.
        """
        from labkit.trace.score import score_of

        return score_of(self._run())

    def export(
        self, path: str | os.PathLike[str], form: str | None = None, *, limit: int = 1_000_000
    ) -> list[Path]:
        """Write the run in the format of another tool.

        Parameters
        ----------
        path : path
            Its ending sets the format: ``.json`` Perfetto's trace events, ``.paje`` (or ``.trace``) Paje,
            ``.prv`` Paraver (with ``.pcf`` and ``.row``), ``.cubex`` Cube, ``.otf2`` a folder in OTF2 (needs
            the package ``otf2``), ``.csv`` Pipit. Perfetto, Paje and Pipit may end in ``.gz``, too.
        form : str, optional
            The format, whatever the ending: perfetto, paje, paraver, cube, otf2, pipit.
        limit : int
            Events at most: of more, those are kept that last longest; a sentence states that, here and in the
            file. A Cube sums up and leaves nothing out.

        Returns
        -------
        list of Path
            The files that were written.

        Raises
        ------
        DataError
            The run was not recorded (``trace=True``), or the file cannot be written.
        """
        from labkit.trace.exchange import export

        return export(self._run(), path, form, limit)

    def frame(self, form: str, *, limit: int = 1_000_000) -> Any:
        """Return the run as a data frame of another library.

        Parameters
        ----------
        form : str
            ``"pipit"``: a pandas.DataFrame of events, for ``pipit.Trace(None, frame)``; ``"hatchet"``: a
            ``hatchet.GraphFrame`` of the profile (needs Hatchet).
        limit : int
            As in `export`.

        Returns
        -------
        pandas.DataFrame or hatchet.GraphFrame

        Raises
        ------
        DataError
            The run was not recorded, or Hatchet is not installed.
        """
        from labkit.trace.exchange import frame_of

        return frame_of(self._run(), form, limit)

    def against(self, predicted: Run) -> Misfits:
        """Compare this measured run with the predicted one of the same program, and report what deviates.

        Parameters
        ----------
        predicted : Run
            On the machine as it should be, recorded; mostly a simulated one.

        Returns
        -------
        labkit.trace.machine_misfits.Misfits
            Slow hosts, bad cables, stalls, wrong collectives, each with how likely it is by chance; how
            that is found, and what is refused: `labkit.trace.machine_misfits.find_misfits`.
        """
        from labkit.trace.machine_misfits import find_misfits

        return find_misfits(self._run(), predicted)

    def what_if(
        self,
        phase: str | None = None,
        factor: float | None = None,
        *,
        ranks: Iterable[int] | None = None,
        balanced: str | None = None,
        every_visit: bool = False,
        links: str | Iterable[str] | None = None,
        coll: object = None,
        on: object = None,
    ) -> WhatIf:
        """Simulate the run again with one thing changed, and say what that really wins.

        Parameters
        ----------
        phase : str, optional
            With `factor`: what is computed in this phase takes `factor` times as long.
        factor : float, optional
            Above 0; with `links`: how many times their bandwidth.
        ranks : iterable of int, optional
            With `phase`: on these ranks only.
        balanced : str, optional
            In this phase every rank that computes there computes as much as the mean of them.
        every_visit : bool
            With `balanced`: each time apart that ranks enter the phase, as where the load drifts.
        links : str or iterable of str, optional
            Kinds of links, as ``run.explain().links["kind"]`` names them.
        coll : mapping, path or Selector, optional
            Other algorithms of collectives, as in `labkit.run`.
        on : str or Platform, optional
            Another machine.

        Returns
        -------
        labkit.trace.waiting.what_if.WhatIf
            The gain, compared with what the critical path predicted.

        Raises
        ------
        DataError
            Not exactly one thing is changed, the phase or the links are not there, the run is not a simulated
            one that `labkit.run` made of a program, or it was not recorded.
        """
        from labkit.trace.waiting.what_if import try_it

        return try_it(self._run(), phase, factor, ranks, balanced, every_visit, links, coll, on)


def median_run(runs: list[Run]) -> Run:
    """Return the repetition with the (lower) median makespan, which then carries all of them.

    `runs`: At least one.
    Returns: A shallow copy, so that no run contains itself.
    """
    if len(runs) == 1:
        return runs[0]
    middle = sorted(runs, key=lambda one: one.makespan_s)[(len(runs) - 1) // 2]
    return Run(**{**vars(middle), "repetitions": list(runs)})


# A run as a notebook shows it: plain HTML tables, readable without scripts and in a dark theme.


_CELL = "text-align:right;padding:2px 10px"
_NAME = "text-align:left;padding:2px 10px"
_WARN = "border-left:4px solid #d55e00;padding:2px 8px;margin:4px 0"
_NOTE = "border-left:4px solid #0072b2;padding:2px 8px;margin:4px 0"


def run_html(run: Run, has_output: bool = True) -> str:
    """Render a run: headline, figures, phases, notes, and the output of each rank, folded."""
    from labkit.text.html import prose

    parts = [f"<div class='labkit-run'><div><strong>{escape(run.headline())}</strong></div>"]
    facts = " · ".join(f"{escape(name)} {escape(text)}" for name, text in run.facts())
    parts.append(f"<div style='opacity:0.8'>{facts}</div>")
    if not run.is_valid:
        parts.append(f"<div style='{_WARN}'>These times may not be used for a verdict.</div>")
    parts += [f"<div style='{_NOTE}'>{prose(note)}</div>" for note in run.notes]
    parts.append(_phases(run))
    if has_output:
        parts.append(_output(run))
    parts.append("</div>")
    return "".join(parts)


def _phases(run: Run) -> str:
    rows = []
    for name, largest, mean, imbalance in run.shown_phases():
        share = largest / run.makespan_s if run.makespan_s > 0 else 0.0
        bar = f"<div style='background:#0072b2;height:8px;width:{min(share, 1.0) * 120:.0f}px'></div>"
        rows.append(
            f"<tr><td style='{_NAME}'>{escape(name)}</td>"
            f"<td style='{_CELL}'>{format_seconds(largest)}</td>"
            f"<td style='{_CELL}'>{format_seconds(mean)}</td>"
            f"<td style='{_CELL}'>{'' if math.isnan(imbalance) else f'{imbalance:.2f}'}</td>"
            f"<td style='{_CELL}'>{share:.0%}</td><td style='{_NAME}'>{bar}</td></tr>"
        )
    if not rows:
        return ""
    head = "".join(
        f"<th scope='col' style='{style}'>{name}</th>"
        for name, style in (
            ("phase", _NAME),
            ("max over ranks", _CELL),
            ("mean", _CELL),
            ("imbalance", _CELL),
            ("of makespan", _CELL),
            ("", _NAME),
        )
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _output(run: Run) -> str:
    from labkit.text.rank_output import blocks_of, printed_html

    blocks = blocks_of([(False, text)] if text else [] for text in run.output)
    if not blocks:
        return ""
    count = sum(len(block.ranks) for block in blocks)
    head = f"output of {number_of_ranks(count)}"
    return f"<details><summary>{head}</summary>{printed_html(blocks)}</details>"
