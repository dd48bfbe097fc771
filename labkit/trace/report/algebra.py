"""The algebra of reports: difference, mean, merge.

References
----------
.. [1] F. Song, F. Wolf, N. Bhatia, J. Dongarra, S. Moore: An algebra for cross-experiment performance
   analysis. ICPP 2004. doi:10.1109/ICPP.2004.1327905
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from labkit.errors import DataError
from labkit.trace.report.report import CallPath, Metric, Report, Values

__all__ = ["difference", "mean", "merge"]

#: of a makespan: times that differ by less are the same
_ROUNDING = 1e-12


def difference(one: Report, other: Report) -> Report:
    """Return what the first has more than the second; below zero: less.

    Parameters
    ----------
    one, other : Report
        Of as many ranks. What only one of them has counts as 0 in the other.

    Raises
    ------
    DataError
        The numbers of ranks differ.
    """
    first, second = _together(one, other)
    values = {name: first.values[name] - second.values[name] for name in first.values}
    rounding_s = _ROUNDING * max(one.makespan_s, other.makespan_s)  # of the clock that times are read from
    for metric in first.metrics:
        if metric.unit == "s" and metric.name in values:
            values[metric.name][np.abs(values[metric.name]) <= rounding_s] = 0.0
    same = one.title == other.title
    names = [f"{each.title} ({at})" if same else each.title for at, each in enumerate((one, other), 1)]
    return replace(
        first, title=" minus ".join(names), values=values, is_difference=True,
        makespan_s=one.makespan_s - other.makespan_s,
    )  # fmt: skip


def mean(*reports: Report) -> Report:
    """Return the mean of reports of as many ranks; what one of them lacks counts as 0 there.

    Raises
    ------
    DataError
        There is none, or the numbers of ranks differ.
    """
    all_ = _together(*reports)
    values = {name: np.mean([one.values[name] for one in all_], axis=0) for name in all_[0].values}
    title = f"mean of {len(all_)}: {_titles(reports)}"
    makespan_s = float(np.mean([one.makespan_s for one in reports]))
    return replace(all_[0], title=title, values=values, makespan_s=makespan_s)


def merge(*reports: Report) -> Report:
    """Return one report with the metrics of all; a metric that several have is that of the first.

    Raises
    ------
    DataError
        There is none, or the numbers of ranks differ.
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
        raise DataError("give at least one report")
    if wrong := [one for one in reports if not isinstance(one, Report)]:
        raise DataError(
            "reports are what run.report() returns, one after another, as in mean(one, other) or "
            f"mean(*reports); got {type(wrong[0]).__name__}"
        )
    ranks = {one.ranks for one in reports}
    if len(ranks) > 1:
        raise DataError(
            f"reports of {', '.join(map(str, sorted(ranks)))} ranks cannot be reckoned with rank by rank; "
            "compare the means of their ranks: report.per_rank()"
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
