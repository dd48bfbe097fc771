"""The twelve rules for reporting performance of parallel computers, checked on a study.

References
----------
.. [1] T. Hoefler, R. Belli: Scientific benchmarking of parallel computing systems: twelve ways to tell the
   masses when reporting performance results. SC 2015. doi:10.1145/2807591.2807644
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from labkit.errors import SuggestsNames
from labkit.study.rows import parameter_columns
from labkit.text import html as markup
from labkit.timing import Conduct, interval
from labkit.timing.repeats import least_values

__all__ = ["RULES", "SOURCE", "Facts", "Finding", "Repetitions", "RuleReport", "check_rules", "listed"]

#: whose rules they are
SOURCE = (
    "T. Hoefler, R. Belli: Scientific benchmarking of parallel computing systems: twelve ways to tell the "
    "masses when reporting performance results. SC 2015. doi:10.1145/2807591.2807644"
)

#: what each rule asks for
RULES = (
    "a speedup comes with its base case and that case's absolute time",
    "what was left out, of a benchmark or of a machine, is left out for a reason that is given",
    "costs are averaged by the arithmetic mean, rates by the harmonic one",
    "ratios are not averaged: the costs or rates behind them are",
    "the report states whether values are deterministic; if not, it gives confidence intervals",
    "a normal distribution is assumed only after it was checked",
    "values that scatter are compared by intervals or tests",
    "mean and median are questioned: sometimes another percentile is what matters",
    "all factors, their levels and the set-up are documented",
    "the report states how times were measured, synchronized and summarized",
    "bounds show how good a result could be",
    "plots show what is needed to read them; lines join points only where that means something",
)

_MARKS = {"met": "✓", "violated": "✗", "unknown": "?"}

_RATIOS = ("speedup", "efficiency", "ratio", "share", "imbalance", "relative")

_MEANS_LITTLE = 1.5  # a 90th percentile by so much above the median


@dataclass(frozen=True)
class Finding:
    """What one rule finds in a study.

    `number`: The rule, from 1.
    `rule`: What it asks for.
    `status` ({"met", "violated", "unknown"})
    `why`: What in the study shows it.
    `todo`: What to do; empty where nothing is left to do.
    """

    number: int
    rule: str
    status: str
    why: str
    todo: str = ""


class RuleReport(SuggestsNames):
    """The twelve rules and what they say of a study; goes through its `Finding` objects."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, number: int) -> Finding:
        """Return a rule's finding, by its number from 1."""
        return self.findings[number - 1]

    def of(self, status: str) -> list[int]:
        """Return the numbers of the rules with a status."""
        return [one.number for one in self.findings if one.status == status]

    @property
    def frame(self) -> pd.DataFrame:
        """The report as a data frame: number, rule, status, why, todo."""
        return pd.DataFrame([vars(one) for one in self.findings])

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {"source": SOURCE, "rules": [vars(one) for one in self.findings]}

    def __str__(self) -> str:
        lines = [self.headline()]
        for one in self.findings:
            lines.append(f"{_MARKS[one.status]} {one.number:2d}  {one.rule}")
            lines.append(f"      {one.status}: {one.why}")
            if one.todo:
                lines.append(f"      -> {one.todo}")
        return "\n".join([*lines, SOURCE])

    __repr__ = __str__

    def headline(self) -> str:
        """Count them in a line."""
        met, violated, unknown = (len(self.of(status)) for status in _MARKS)
        return f"Of the twelve rules: {met} met, {violated} violated, {unknown} unknown."

    def _repr_html_(self) -> str:
        rows = [
            (
                f"{_MARKS[one.status]}&nbsp;{one.status}",
                str(one.number),
                escape(one.rule),
                escape(one.why) + (f"<br><em>{escape(one.todo)}</em>" if one.todo else ""),
            )
            for one in self.findings
        ]
        head = ("", "rule", "asks that", "here")
        return markup.titled_block(
            escape(self.headline()), markup.table(head, rows) + f"<p>{escape(SOURCE)}</p>"
        )


# Facts of a study: what its rows and its notes say about how it was made, and nothing that they do not.

#: points beyond this number are not looked at one by one
_MOST_POINTS = 2000


def listed(values: Any, most: int = 8) -> str:
    """Return values as a text: all of them, or the first ones and how many more there are."""
    shown = [f"{v:g}" if isinstance(v, float | np.floating) else str(v) for v in list(values)[:most]]
    rest = len(values) - len(shown)
    comma = "; " if any(", " in one for one in shown) else ", "
    if rest:
        return f"{comma.join(shown)} and {rest} more"
    return f"{comma.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)


@dataclass(frozen=True)
class Repetitions:
    """The repetitions of one metric at one point."""

    name: str
    metric: str
    values: npt.NDArray[np.float64]

    @property
    def is_constant(self) -> bool:
        """Whether all repetitions are the same."""
        return bool(self.values.size) and bool((self.values == self.values[0]).all())


class Facts:
    """What is known of a study.

    `data`: Its rows.
    `notes`: Its notes.
    """

    def __init__(self, data: pd.DataFrame, notes: Mapping[str, object]) -> None:
        self.data, self.notes = data, notes

    def _mapping(self, name: str) -> dict[str, object]:
        found = self.notes.get(name)
        return dict(found) if isinstance(found, Mapping) else {}

    @property
    def sweep(self) -> dict[str, Any]:
        """How the sweep was called; empty where that is not recorded."""
        return self._mapping("sweep")

    @cached_property
    def machines(self) -> dict[str, dict[str, Any]]:
        """The machines' descriptions by name."""
        return {str(k): dict(v) for k, v in self._mapping("machines").items() if isinstance(v, Mapping)}

    @property
    def simulated(self) -> dict[str, dict[str, Any]]:
        """The simulated ones."""
        return {k: v for k, v in self.machines.items() if "platform" in v and "kind" not in v}

    @property
    def real(self) -> dict[str, dict[str, Any]]:
        """The real ones."""
        return {k: v for k, v in self.machines.items() if "kind" in v}

    @property
    def unknown(self) -> list[str]:
        """Names of machines that are not described; an empty name stands for rows without one."""
        known = set(self.simulated) | set(self.real)
        return [str(v) for v in self.data["on"].unique() if str(v) not in known]

    @cached_property
    def conducts(self) -> list[Conduct]:
        """How each real point was measured, as far as that is recorded."""
        rows = self.notes.get("conduct")
        found = [Conduct.of(row) for row in rows] if isinstance(rows, list) else []
        return [one for one in found if one is not None]

    @property
    def failures(self) -> list[Any]:
        """The points that failed."""
        found = self.notes.get("failures")
        return list(found) if isinstance(found, list) else []

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether every row is of a simulation without noise that was not found to depend on the seed."""
        if self.sweep.get("is_deterministic") is False:
            return False
        machines = [self.simulated.get(str(v)) for v in self.data["on"].unique()]
        return all(one is not None and one.get("deterministic") and "noise" not in one for one in machines)

    @cached_property
    def times(self) -> pd.DataFrame:
        """The rows that a clock has measured: seconds, or, of machines not described, all without a unit."""
        rows = self.data[self.data["unit"] == "s"]
        if not len(rows):
            rows = self.data[(self.data["unit"] == "") & self.data["on"].astype(str).isin(self.unknown)]
        whole = rows[rows["metric"] == "makespan_s"]
        return whole if len(whole) else rows

    @cached_property
    def points(self) -> list[Repetitions]:
        """The repetitions of the times at each point."""
        columns = ["program", "on", "model", *parameter_columns(self.data), "metric", "phase"]
        varying = [c for c in columns if self.times[c].nunique(dropna=False) > 1]
        if not len(self.times):
            return []
        if not varying:
            return [Repetitions("the only point", "", self.times["value"].to_numpy(float))]
        groups = self.times.groupby(varying, sort=False, dropna=False)["value"]
        found = []
        for number, (key, values) in enumerate(groups):
            if number == _MOST_POINTS:
                break
            name = ", ".join(f"{c}={v}" for c, v in zip(varying, key, strict=True))
            found.append(Repetitions(name, "", values.to_numpy(float)))
        return found

    @property
    def fewest(self) -> int:
        """The smallest number of repetitions of a point."""
        return min((int(p.values.size) for p in self.points), default=0)

    def without_interval(self) -> list[str]:
        """Name the points with too few repetitions for the interval of a median."""
        return [p.name for p in self.points if p.values.size < least_values()]

    def widest(self) -> tuple[str, float]:
        """Return the point whose median is known worst, and how far the farther end of its interval is."""
        found = [(p.name, interval(p.values.tolist()).reach) for p in self.points if p.values.size]
        return max(found, key=lambda one: one[1], default=("", float("inf")))

    def not_normal(self) -> tuple[list[str], int]:
        """Name the points whose times are not normal (Shapiro-Wilk at 5 %, Holm's correction).

        Returns `tested`: Points that had at least 8 repetitions, not all the same.
        """
        from scipy.stats import shapiro

        tested = [p for p in self.points if p.values.size >= 8 and not p.is_constant]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of more than 5000 values
            found = sorted((float(shapiro(p.values).pvalue), p.name) for p in tested)
        names = []
        for rank, (value, name) in enumerate(found):
            if value > 0.05 / (len(found) - rank):
                break
            names.append(name)
        return names, len(tested)


def check_rules(data: pd.DataFrame, notes: Mapping[str, object]) -> RuleReport:
    """Check the rows and the notes of a study against the twelve rules.

    Returns: What the study does not show is "unknown", with what to do about it.
    """
    facts = Facts(data, notes)
    findings = []
    for number, (rule, check) in enumerate(zip(RULES, _CHECKS, strict=True), 1):
        status, why, *todo = check(facts)
        findings.append(Finding(number, rule, status, why, *todo))
    return RuleReport(findings)


_Said = tuple[str, ...]


def _ratios(facts: Facts) -> list[str]:
    names = [str(m) for m in facts.data["metric"].unique()]
    return [name for name in names if any(word in name.lower() for word in _RATIOS)]


def _speedups(facts: Facts) -> _Said:
    ratios = [name for name in _ratios(facts) if "speedup" in name.lower() or "efficiency" in name.lower()]
    if not ratios:
        base = "ranks" in facts.data and bool((facts.data["ranks"] == 1).any())
        more = "; one rank was measured, too, as a base case" if base else ""
        return "met", f"the study has absolute values and no speedup{more}"
    if facts.times["metric"].isin(_ratios(facts)).all():
        return (
            "violated",
            f"{listed(ratios)} without any absolute time",
            "keep the times that the speedups were computed from, the base case's above all",
        )
    return (
        "unknown",
        f"{listed(ratios)} in addition to absolute times",
        "say whether the base case is the best sequential program or the parallel one on one rank",
    )


def _subsets(facts: Facts) -> _Said:
    if facts.failures:
        names = [
            str(one.get("point", "?")) if isinstance(one, Mapping) else str(one) for one in facts.failures
        ]
        return (
            "violated",
            f"points failed and are missing: {listed(names)}",
            "fix them, or report why",
        )
    remarks = facts.notes.get("remarks")
    cut = [str(r) for r in remarks if "interrupted" in str(r)] if isinstance(remarks, list) else []
    if cut:
        return "violated", cut[0], "measure the missing points, or say why they are missing"
    columns = ["on", *parameter_columns(facts.data)]
    present = len(facts.data[columns].drop_duplicates())
    whole = int(np.prod([facts.data[c].nunique(dropna=False) for c in columns]))
    if present < whole:
        return (
            "unknown",
            f"{present} of {whole} combinations of the parameters were measured",
            "say why the others were not",
        )
    return "met", "every combination of the parameters was measured, and no point failed"


def _means(facts: Facts) -> _Said:
    rates = sorted(
        {str(m) for m, u in facts.data[["metric", "unit"]].drop_duplicates().to_numpy() if "/" in u}
    )
    if rates:
        return (
            "violated",
            f"{listed(rates)} {'are rates' if len(rates) > 1 else 'is a rate'}, and fits take plain means",
            "fit the times instead, and compute rates at the end from total work over total time",
        )
    return "met", "all metrics are costs (times, counts, bytes), for which the arithmetic mean is right"


def _averaged_ratios(facts: Facts) -> _Said:
    ratios = _ratios(facts)
    if ratios:
        return (
            "violated",
            f"{listed(ratios)} would be averaged over repetitions",
            "keep the two costs as metrics and divide at the end; failing that, take the geometric mean",
        )
    return "met", "no metric is a ratio"


def _intervals(facts: Facts) -> _Said:
    if facts.is_deterministic:
        return "met", "simulated times are deterministic, and the study records that"
    if not facts.points:
        return "met", "nothing was timed: counts are deterministic where the program is"
    short = facts.without_interval()
    if short and facts.fewest == 1 and facts.unknown and not facts.conducts:
        return (
            "unknown",
            f"one value at {listed(short, 3)}, from a machine that is not described",
            "say whether the values are deterministic; if not, repeat at least 6 times",
        )
    if short:
        return (
            "violated",
            f"fewer than {least_values()} repetitions at {listed(short, 3)}: medians without a 95 % interval",
            "repeat more often: lk.sweep(..., repeats=lk.Repeats(least=6))",
        )
    name, reach = facts.widest()
    return "met", f"every point has a 95 % interval of its median; the widest reaches {reach:.1%} ({name})"


def _normality(facts: Facts) -> _Said:
    if facts.is_deterministic or not facts.points:
        return "met", "nothing scatters, so that no distribution is assumed"
    names, tested = facts.not_normal()
    means = any(one.asked.get("statistic") == "mean" for one in facts.conducts)
    if not tested:
        return (
            "unknown",
            "no point has the 8 repetitions that a test takes",
            "repeat more often, or use what assumes no distribution: medians, ranks, rank tests",
        )
    if not names:
        return "met", f"Shapiro and Wilk's test rejects at none of {tested} points (5 %, Holm's correction)"
    if means:
        return (
            "violated",
            f"the mean's interval was asked for, and times are not normal at {listed(names, 3)}",
            'ask for that of the median: lk.Repeats(statistic="median")',
        )
    return (
        "met",
        f"checked: not normal at {len(names)} of {tested} points; intervals here go by ranks",
        'judge with aggregate="median" or "quartile" where single values are far out',
    )


def _compared(facts: Facts) -> _Said:
    columns = [c for c in ("program", "on", "model") if facts.data[c].nunique() > 1]
    columns += [
        c
        for c in parameter_columns(facts.data)
        if facts.data[c].dtype.kind not in "iufb" and facts.data[c].nunique() > 1
    ]
    if not columns:
        return "met", "there is one curve and nothing to compare it with"
    what = f"several values of {listed(columns)} invite a comparison"
    if facts.is_deterministic or not facts.points:
        return "met", f"{what}, and values that do not scatter can be compared directly"
    if facts.without_interval():
        return (
            "violated",
            f"{what}, and some points have no interval",
            'repeat at least 6 times; then study.guideline("a <= b") compares by rank tests',
        )
    return (
        "met",
        f"{what}, and every point has its interval",
        'call something faster only where study.guideline("a <= b") confirms it',
    )


def _percentiles(facts: Facts) -> _Said:
    if facts.is_deterministic or not facts.points:
        return "met", "nothing scatters"
    many = [p for p in facts.points if p.values.size >= 5]
    if not many:
        return "unknown", "too few repetitions to see the distribution", "repeat more often and look at it"
    ratios = [(float(np.quantile(p.values, 0.9) / max(np.median(p.values), 1e-300)), p.name) for p in many]
    worst, name = max(ratios)
    if worst < _MEANS_LITTLE:
        return "met", f"the 90th percentile is at most {worst:.2f} times the median"
    return (
        "unknown",
        f"the 90th percentile is {worst:.3g} times the median at {name}",
        "say whether the typical or the worst case matters, and report percentiles: "
        "study.data.groupby(...)['value'].quantile(0.9)",
    )


def _documented(facts: Facts) -> _Said:
    missing = []
    if facts.unknown:
        missing.append("the machine")
    if not facts.sweep.get("labkit"):
        missing.append("the software's versions")
    for one in facts.real.values():
        if not one.get("library"):
            missing.append("the MPI library")
    if missing:
        return (
            "violated",
            f"not recorded: {listed(sorted(set(missing)))}",
            'measure with lk.sweep, which records them, or add them: study.notes["machines"] = {...}',
        )
    if facts.real and not facts.notes.get("hardware"):
        return (
            "unknown",
            "versions, MPI, host and cores are recorded; processor, frequency and network are not",
            'add them: study.notes["hardware"] = "2 x EPYC 7763, 2.45 GHz fixed, InfiniBand HDR"',
        )
    return "met", "machines, versions, parameters, seed and repetitions are recorded"


def _measured(facts: Facts) -> _Said:
    if facts.real or facts.unknown:
        if facts.conducts:
            return (
                "met",
                "start, late starts, clocks, repetitions are recorded; study.methods() writes them down",
            )
        return (
            "unknown",
            "how the ranks were synchronized and repeated is not recorded",
            "measure with lk.sweep or lk.measure; or say it yourself",
        )
    return "met", "simulated: times are those of the simulated clock; study.methods() writes it down"


def _bounds(facts: Facts) -> _Said:
    given = facts.notes.get("bounds")
    if given:
        return "met", f"bounds are given: {given}"
    return (
        "unknown",
        "the study has no bound",
        "draw one with the data, such as the cost of the best known algorithm or the bare bandwidth, and "
        'note it: study.notes["bounds"] = "..."',
    )


def _plots(facts: Facts) -> _Said:
    if facts.points and facts.fewest == 1 and not facts.is_deterministic:
        return (
            "unknown",
            "the study has one value for each point: others may have been summarized away",
            "keep every repetition, and plot them",
        )
    return "met", "every repetition is kept; study.plot() draws them as points, and only the model as a line"


_CHECKS: tuple[Callable[[Facts], _Said], ...] = (
    _speedups,
    _subsets,
    _means,
    _averaged_ratios,
    _intervals,
    _normality,
    _compared,
    _percentiles,
    _documented,
    _measured,
    _bounds,
    _plots,
)
