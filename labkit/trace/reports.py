"""A report: what was measured, where in the program, on which rank."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError, nearest
from labkit.text.html import quantity
from labkit.text.units import number_of_ranks
from labkit.trace.counters import EVENTS, column_of, summary_frame
from labkit.trace.trace import NO_PHASE
from labkit.trace.waiting.kinds import COMPUTATION, KINDS, NOT_BEGUN, UNTOLD
from labkit.trace.waiting.profile import profile_and_waiting

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import RecordedRun
    from labkit.trace.waiting.analysis import Waiting

__all__ = ["CallPath", "Expression", "Metric", "Report", "difference", "mean", "merge", "report_of"]

_MOST = 500

_ALLOWED = "names of metrics and numbers with + - * / **, brackets, min, max, abs and sqrt"


def _over(a: object, b: object) -> Any:
    """Divide; by zero it is 0: where nothing was counted there is no ratio."""
    a, b = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64))
    return np.divide(a, b, out=np.zeros(b.shape), where=b != 0)


_BINARY: dict[type, Any] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: _over,
    ast.Pow: np.power,
}

_CALLS: dict[str, tuple[Any, int]] = {
    "min": (np.minimum, 2),
    "max": (np.maximum, 2),
    "abs": (np.abs, 1),
    "sqrt": (np.sqrt, 1),
}


@dataclass(frozen=True)
class Expression:
    """An expression that has been read.

    `names`: The metrics in it, each once.

    Examples
    --------
    >>> Expression.parse("bytes / messages").names
    ('bytes', 'messages')
    >>> Expression.parse("2 * a - b").value({"a": np.array([3.0]), "b": np.array([1.0])})
    array([5.])
    """

    text: str
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Read an expression.

        Raises DataError: It is none; the message names what stands in the way.
        """
        if not isinstance(text, str) or len(text) > _MOST:
            raise DataError(
                f"an expression is a text of at most {_MOST} characters", code="malformed-expression"
            )
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise DataError(
                f"not an expression: {text!r} ({error}); write {_ALLOWED}", code="malformed-expression"
            ) from None
        names: dict[str, None] = {}
        _check(tree, names, text)
        if not names:
            raise DataError(f"the expression {text!r} names no metric", code="malformed-expression")
        return cls(text.strip(), tuple(names))

    def value(self, values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Reckon it, entry by entry."""
        with np.errstate(all="ignore"):
            found = _value(ast.parse(self.text, mode="eval").body, values)
        return np.nan_to_num(np.asarray(found, np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)


def _check(node: ast.expr, names: dict[str, None], text: str) -> None:
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        _check(node.left, names, text)
        _check(node.right, names, text)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        _check(node.operand, names, text)
    elif isinstance(node, ast.Name):
        names[node.id] = None
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        pass
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _CALLS
        and not node.keywords
        and len(node.args) == _CALLS[node.func.id][1]
    ):
        for one in node.args:
            _check(one, names, text)
    else:
        part = ast.get_source_segment(text.strip(), node) or text
        raise DataError(
            f"{part!r} in the expression {text!r} is not allowed; write {_ALLOWED}",
            code="malformed-expression",
        )


def _value(node: ast.expr, values: Mapping[str, NDArray[np.float64]]) -> Any:
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, values)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _CALLS[node.func.id][0](*(_value(one, values) for one in node.args))


Values = NDArray[np.float64]


class Metric(NamedTuple):
    """Something measured.

    `name`, `label`, `unit`, `meaning`: The unit is ``"s"``, ``"B"`` or ``""`` of counts.
    `above`: The metric that holds this one among others; "" of a whole.
    `expression`: Of a derived metric.
    """

    name: str
    label: str
    unit: str
    meaning: str
    above: str = ""
    expression: Expression | None = None


class CallPath(NamedTuple):
    """A place in the call tree.

    `label`: A phase, or a call with its file and line.
    `above`: Row of the one around it; -1 of the program.
    `place`: Of a call, the functions that led to it, file and line; "" of a phase.
    `call`: Its name; "" of a phase.
    """

    label: str
    above: int
    place: str = ""
    call: str = ""


@dataclass(frozen=True, repr=False)
class Report:
    """Metrics by call path and rank.

    `title`: What it is of.
    `metrics`: A whole stands before its parts.
    `paths`: The call tree from the program on; a path stands before those in it, which follow it directly.
    `values` (dict of str to array, shape (paths, ranks)): Of every metric that is not derived: exclusive in
        the call tree, and with its parts.
    `machine`: The platform of a simulated run, None of others: a drawing of it, and the hosts.
    `hosts`: The host of each rank; empty where it is not known.
    """

    title: str
    ranks: int
    metrics: list[Metric]
    paths: list[CallPath]
    values: dict[str, Values]
    makespan_s: float = float("nan")
    machine: Any = None
    hosts: tuple[int, ...] = ()
    is_difference: bool = field(default=False)

    @cached_property
    def _summed(self) -> dict[str, Values]:
        """Sums over the call tree, made when they are asked for."""
        return {}

    def metric(self, name: str) -> Metric:
        """Return a metric by its name.

        Raises DataError: There is none of that name.
        """
        for one in self.metrics:
            if one.name == name:
                return one
        names = [one.name for one in self.metrics]
        raise DataError(
            f"the report has no metric {name!r}{nearest(name, names)}; it has {', '.join(names)}",
            code="unknown-name",
        )

    def exclusive(self, name: str) -> Values:
        """Return what a metric is in each call path itself, by rank: shape (paths, ranks)."""
        return self._table(name, False)

    def inclusive(self, name: str) -> Values:
        """Return what a metric is in each call path and those in it, by rank: shape (paths, ranks)."""
        return self._table(name, True)

    def by_path(self, name: str, ranks: Sequence[int] | None = None, *, inclusive: bool = True) -> Values:
        """Sum a metric up over ranks (default: all), for each call path; a derived one is computed after."""
        rows = slice(None) if ranks is None else np.asarray(ranks, np.int64)
        return self._reckoned(name, lambda one: self._table(one, inclusive)[:, rows].sum(axis=1))

    def by_rank(self, name: str, path: int = 0, *, inclusive: bool = True) -> Values:
        """Return a metric of each rank in one call path."""
        return self._reckoned(name, lambda one: self._table(one, inclusive)[path])

    def total(
        self, name: str, path: int = 0, ranks: Sequence[int] | None = None, *, inclusive: bool = True
    ) -> float:
        """Return a metric of one call path over ranks (default: all)."""
        return float(self.by_path(name, ranks, inclusive=inclusive)[path])

    def _table(self, name: str, inclusive: bool) -> Values:
        metric = self.metric(name)
        if metric.expression is not None:
            return metric.expression.value(
                {one: self._table(one, inclusive) for one in metric.expression.names}
            )
        if not inclusive:
            return self.values[name]
        if name not in self._summed:
            sums = self.values[name].copy()
            for row in range(len(self.paths) - 1, 0, -1):
                sums[self.paths[row].above] += sums[row]
            self._summed[name] = sums
        return self._summed[name]

    def _reckoned(self, name: str, of: Any) -> Values:
        metric = self.metric(name)
        if metric.expression is None:
            return np.asarray(of(name), np.float64)
        return metric.expression.value({one: self._reckoned(one, of) for one in metric.expression.names})

    def with_metric(self, name: str, expression: str, *, unit: str = "", meaning: str = "") -> Report:
        """Add a derived metric: an expression of others, computed after these are summed up.

        `name`: New.
        `expression`: Names of metrics and numbers with ``+ - * / **``, brackets, ``min``, ``max``, ``abs``,
            ``sqrt``; a division by zero gives 0. ``"bytes / messages"`` is the mean size, of a rank as of the
            program.
        `unit`, `meaning`: As they are shown.
        Raises DataError: The name is taken, or the expression is none.
        """
        if any(one.name == name for one in self.metrics):
            raise DataError(f"the report has a metric {name!r} already; take another name", code="name-taken")
        if not name.isidentifier():
            raise DataError(
                f"a metric's name is letters, digits and _, not a digit first; got {name!r}",
                code="malformed-name",
            )
        parsed = Expression.parse(expression)
        for one in parsed.names:
            self.metric(one)
        added = Metric(name, name.replace("_", " "), unit, meaning or expression, "", parsed)
        return replace(self, metrics=[*self.metrics, added])

    def per_rank(self) -> Report:
        """Return the mean over the ranks, as a report of one rank: what runs of other sizes compare with."""
        values = {name: table.mean(axis=1, keepdims=True) for name, table in self.values.items()}
        title = f"{self.title}, mean of its ranks"
        return replace(self, title=title, ranks=1, values=values, machine=None, hosts=())

    def key(self, row: int) -> tuple[tuple[str, str], ...]:
        """Return what is the same for a call path in every report: labels and places from the program on."""
        found = []
        while row > 0:
            path = self.paths[row]
            found.append((path.label, path.place))
            row = path.above
        return tuple(reversed(found))

    def path(self, label: str) -> int:
        """Return the row of the first call path whose label, or whose chain of labels, it is.

        `label`: As in ``"solve"``, ``"solve > exchange"``, ``"allreduce"`` or ``"allreduce (prog.py:12)"``.
        Raises DataError: There is none.
        """
        for row, path in enumerate(self.paths):
            if label in (path.label, path.call, self.chain(row)):
                return row
        known = [self.chain(row) for row in range(len(self.paths))]
        shown = "; ".join(known[:12]) + ("; ..." if len(known) > 12 else "")
        raise DataError(
            f"the report has no call path {label!r}{nearest(label, known)}; it has {shown}",
            code="unknown-name",
        )

    def chain(self, row: int) -> str:
        """Return the labels from the first phase on; of the program itself its own."""
        return " > ".join(label for label, _ in self.key(row)) or self.paths[row].label

    def frame(self) -> pd.DataFrame:
        """Return all of it as a data frame: path, rank, and a column for each metric, exclusive."""
        import pandas as pd

        rows = len(self.paths)
        columns: dict[str, object] = {
            "path": np.repeat([self.chain(row) for row in range(rows)], self.ranks),
            "rank": np.tile(np.arange(self.ranks), rows),
        }
        columns |= {metric.name: self.exclusive(metric.name).ravel() for metric in self.metrics}
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        lines = [
            f"{self.title}: {len(self.paths)} call path{'s' if len(self.paths) != 1 else ''}, "
            f"{number_of_ranks(self.ranks)}"
        ]
        for metric in self.metrics:
            depth, above = 0, metric.above
            while above:
                depth, above = depth + 1, self.metric(above).above
            text = (
                quantity(self.total(metric.name), metric.unit, 3)
                if metric.unit
                else (f"{self.total(metric.name):,.6g}")
            )
            lines.append(f"  {'  ' * depth}{metric.label}: {text}")
        return "\n".join(lines)


# The algebra of reports: difference, mean, merge.
#
# References
# ----------
# .. [1] F. Song, F. Wolf, N. Bhatia, J. Dongarra, S. Moore: An algebra for cross-experiment performance
#    analysis. ICPP 2004. doi:10.1109/ICPP.2004.1327905

#: of a makespan: times that differ by less are the same
_ROUNDING = 1e-12


def difference(one: Report, other: Report) -> Report:
    """Return what the first has more than the second; below zero: less."""
    first, second = _together(one, other)
    values = {name: first.values[name] - second.values[name] for name in first.values}
    rounding_s = _ROUNDING * max(one.makespan_s, other.makespan_s)  # of the clock that times are read from
    for metric in first.metrics:
        if metric.unit == "s" and metric.name in values:
            values[metric.name][np.abs(values[metric.name]) <= rounding_s] = 0.0
    same = one.title == other.title
    names = [f"{each.title} ({at})" if same else each.title for at, each in enumerate((one, other), 1)]
    return replace(
        first,
        title=" minus ".join(names),
        values=values,
        is_difference=True,
        makespan_s=one.makespan_s - other.makespan_s,
    )


def mean(*reports: Report) -> Report:
    """Return the mean of reports of as many ranks; what one of them lacks counts as 0 there."""
    all_ = _together(*reports)
    values = {name: np.mean([one.values[name] for one in all_], axis=0) for name in all_[0].values}
    title = f"mean of {len(all_)}: {_titles(reports)}"
    makespan_s = float(np.mean([one.makespan_s for one in reports]))
    return replace(all_[0], title=title, values=values, makespan_s=makespan_s)


def merge(*reports: Report) -> Report:
    """Return one report with the metrics of all; a metric that several have is that of the first.

    Raises DataError: There is none, or the numbers of ranks differ.
    """
    all_ = _together(*reports)
    values: dict[str, Values] = {}
    for one, given in zip(all_, reports, strict=True):
        values |= {name: one.values[name] for name in given.values if name not in values}
    return replace(all_[0], title=f"merge of {_titles(reports)}", values=values)


def _titles(reports: tuple[Report, ...]) -> str:
    """Name every report once."""
    return "; ".join(dict.fromkeys(one.title for one in reports))


def _together(*reports: Report) -> list[Report]:
    """Return the reports with the metrics and call paths of all of them."""
    if not reports:
        raise DataError("give at least one report", code="not-enough-data")
    if wrong := [one for one in reports if not isinstance(one, Report)]:
        raise DataError(
            "reports are what run.report() returns, one after another, as in mean(one, other) or "
            f"mean(*reports); got {type(wrong[0]).__name__}",
            code="wrong-type",
        )
    ranks = {one.ranks for one in reports}
    if len(ranks) > 1:
        raise DataError(
            f"reports of {', '.join(map(str, sorted(ranks)))} ranks cannot be combined rank by rank; "
            "compare the means of their ranks: report.per_rank()",
            code="unsupported",
        )
    metrics = _metrics(reports)
    paths, rows = _paths(reports)
    shape = (len(paths), reports[0].ranks)
    found = []
    for one, own in zip(reports, rows, strict=True):
        values = {}
        for metric in metrics:
            if metric.expression is None:
                table = values[metric.name] = np.zeros(shape)
                if metric.name in one.values:
                    table[own] = one.values[metric.name]
        found.append(replace(one, metrics=metrics, paths=paths, values=values))
    return found


def _metrics(reports: tuple[Report, ...]) -> list[Metric]:
    """Return the metrics of all: each behind the last part of the whole that it belongs to."""
    found = list(reports[0].metrics)
    for report in reports[1:]:
        for metric in report.metrics:
            if any(one.name == metric.name for one in found):
                continue
            at = len(found)
            if metric.above:
                family = {metric.above}
                at = next(i for i, one in enumerate(found) if one.name == metric.above) + 1
                while at < len(found) and found[at].above in family:
                    family.add(found[at].name)
                    at += 1
            found.insert(at, metric)
    return found


def _paths(reports: tuple[Report, ...]) -> tuple[list[CallPath], list[list[int]]]:
    """Return the call tree of all, and for each report the rows of its paths in it."""
    below: dict[tuple[tuple[str, str], ...], dict[tuple[tuple[str, str], ...], CallPath]] = {(): {}}
    for report in reports:
        for row in range(1, len(report.paths)):
            key = report.key(row)
            below.setdefault(key[:-1], {}).setdefault(key, report.paths[row])
            below.setdefault(key, {})
    tree: list[CallPath] = []
    rows: dict[tuple[tuple[str, str], ...], int] = {}
    pending: list[tuple[tuple[tuple[str, str], ...], CallPath, int]] = [((), reports[0].paths[0], -1)]
    while pending:
        key, path, above = pending.pop()
        rows[key] = len(tree)
        tree.append(path._replace(above=above))
        pending += [(one, of, rows[key]) for one, of in reversed(below[key].items())]
    return tree, [[rows[report.key(row)] for row in range(len(report.paths))] for report in reports]


# The report of a recorded run: its profile, wait states, delay costs and critical path.

_BELOW = " > "
_WITHOUT, _WITH = "without wait states", "wait states included: only a trace separates them"

_GROUPS = {"point to point": "waits_p2p", "collective": "waits_collective", "one-sided": "waits_one_sided"}


def report_of(run: RecordedRun) -> Report:
    """Return the report of a run: of one with a summary and no trace what needs no order of events."""
    if run.trace is None and run.summary is not None:
        profile, waiting = summary_frame(run.summary, run.counts), None
        tree = profile.drop_duplicates("path").sort_values("path")
        own, waited = profile["spent_s"].to_numpy(np.float64), np.zeros(len(profile))
    else:
        profile, waiting = profile_and_waiting(run)
        tree = waiting.paths
        own, waited = (profile[name].to_numpy(np.float64) for name in ("seconds", "waiting_s"))
    paths, row_of = _tree(tree, run.program)
    shape = (len(paths), run.ranks)

    def table(rows: Any, amount: NDArray[Any]) -> NDArray[np.float64]:
        at = row_of[rows["path"].to_numpy(np.int64)] * run.ranks + rows["rank"].to_numpy(np.int64)
        sums = np.bincount(at, np.asarray(amount, np.float64), shape[0] * shape[1])
        return np.asarray(sums, np.float64).reshape(shape)

    call = profile["call"].astype(str).to_numpy()
    works, before = call == COMPUTATION, call == NOT_BEGUN
    metrics = [
        Metric("time", "time", "s", "all time of the ranks, until each ends"),
        Metric("computation", "computation", "s", "time outside calls of MPI", "time"),
        Metric("calls", "calls", "s", f"time in calls of MPI, {_WITHOUT if waiting else _WITH}", "time"),
    ]
    values = {
        "time": table(profile, own + waited),
        "computation": table(profile, own * works),
        "calls": table(profile, own * ~(works | before | (call == UNTOLD))),
    }
    untold = call == UNTOLD
    if untold.any():
        said = "time of a run whose calls are not known"
        metrics.append(Metric("untold", UNTOLD, "s", said, "time"))
        values["untold"] = table(profile, own * untold)
    if before.any():
        metrics.append(Metric("not_begun", "not yet begun", "s", "before a rank entered the program", "time"))
        values["not_begun"] = table(profile, own * before)
    if waiting is not None:
        _add_waits(metrics, values, waiting.waits, table)
        # Completions are wait states here; the profile counts them as the calls' own time.
        completions = values["waiting"] - table(profile, waited)
        values["calls"] = np.maximum(values["calls"] - completions, 0.0)
    _add_counts(metrics, values, profile, table)
    if waiting is not None:
        _add_costs(metrics, values, waiting, profile, table)
    setting = run.trace.setting if run.trace is not None else None
    machine = setting[0] if setting else None
    hosts = tuple(machine.rank_hosts(run.ranks).tolist()) if machine is not None else ()
    title = f"{run.program}, {number_of_ranks(run.ranks)} on {run.on}"
    return Report(title, run.ranks, metrics, paths, values, run.makespan_s, machine, hosts)


def _add_costs(
    metrics: list[Metric], values: dict[str, Any], waiting: Waiting, profile: Any, table: Any
) -> None:
    """Add the delay costs and the critical path."""
    delays = waiting.delays
    direct, indirect = (delays[name].to_numpy(np.float64) for name in ("direct_s", "indirect_s"))
    metrics += [
        Metric("delay_cost", "delay costs", "s", "how long others waited because of this"),
        Metric("direct_cost", "direct", "s", "waits for this rank", "delay_cost"),
        Metric("indirect_cost", "indirect", "s", "waits passed on by ranks that waited for it", "delay_cost"),
        Metric("critical_path", "critical path", "s", "time on the critical path"),
    ]
    values |= {
        "delay_cost": table(delays, direct + indirect),
        "direct_cost": table(delays, direct),
        "indirect_cost": table(delays, indirect),
        "critical_path": table(profile, profile["critical_s"].to_numpy()),
    }


def _tree(paths: pd.DataFrame, program: str) -> tuple[list[CallPath], NDArray[np.int64]]:
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
        Metric("visits", "visits", "", "the number of times a rank entered it"),
        Metric("messages", "messages", "", "messages sent"),
        Metric("empty_messages", "without payload", "", "messages that only synchronize", "messages"),
        Metric("bytes", "bytes sent", "B", "payload of messages sent"),
        Metric("empty_collectives", "empty collectives", "", "calls of collectives that only synchronize"),
    ]
    for name in ("visits", "messages", "empty_messages", "bytes", "empty_collectives"):
        values[name] = table(profile, profile[name].to_numpy())
    for name, label in (("p2p_sync_s", "point to point"), ("collective_sync_s", "collective")):
        if name in profile and (spent := profile[name].to_numpy(np.float64)).any():
            if "synchronization" not in values:
                meaning = "time in calls that move no payload, wait states included"
                metrics.append(Metric("synchronization", "synchronization", "s", meaning))
                values["synchronization"] = 0.0
            meaning = f"time in {label} calls that move no payload, wait states included"
            metrics.append(Metric(name.removesuffix("_s"), label, "s", meaning, "synchronization"))
            values[name.removesuffix("_s")] = table(profile, spent)
            values["synchronization"] = values["synchronization"] + table(profile, spent)
    given = profile["collective_bytes"].to_numpy()
    if given.any():
        meaning = "payload given to collectives, whose messages a real run does not show"
        metrics.append(Metric("collective_bytes", "bytes to collectives", "B", meaning))
        values["collective_bytes"] = table(profile, given)
    for name, event in EVENTS.items():
        if (column := column_of(name)) in profile:
            metrics.append(Metric(column, name, event.unit, event.meaning))
            values[column] = table(profile, profile[column].to_numpy())
