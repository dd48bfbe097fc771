"""Guidelines on the rows of a study: on the data, and on the models for more ranks than were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from labkit.errors import DataError
from labkit.scaling import read_samples
from labkit.scaling.description import fit_samples
from labkit.scaling.judgment import check_guideline
from labkit.scaling.samples import LEAST_VALUES
from labkit.study.guidelines.report import (
    MARGIN,
    GuidelineComparison,
    GuidelineOutcome,
    GuidelineReport,
    Setting,
    SideTimes,
    compare_all,
)
from labkit.study.guidelines.statement import Operation, Statement, read_statement
from labkit.study.reporting.rules import Facts, listed
from labkit.study.rows import parameter_columns
from labkit.study.selection import metric_of, rows_where

__all__ = ["check_study"]

#: what a column of message sizes may be called
_SIZES = ("n", "bytes", "n_bytes", "message_bytes", "size", "count")
#: models are followed up to this multiple of the largest number of ranks
_BEYOND = 2.0**20
_INVALID = "the measurements are marked as not valid for a verdict (see the runs' notes)"


def check_study(
    data: pd.DataFrame,
    notes: Mapping[str, object],
    statements: str | Statement | Iterable[str | Statement],
    metric: str | None = None,
    *,
    size: str | None = None,
    where: Mapping[str, object] | None = None,
    margin: float = MARGIN,
) -> GuidelineReport:
    """Check guidelines on measurements; see `labkit.study.Study.guideline`."""
    some = (
        [*statements]
        if isinstance(statements, Iterable) and not isinstance(statements, str)
        else [statements]
    )
    read = [read_statement(one) for one in some]
    if not read:
        raise DataError(
            'no guideline was given; one is such as "allreduce <= reduce + bcast"', code="missing-key"
        )
    rows = rows_where(data, where)
    is_exact = Facts(rows, notes).is_deterministic
    tables = [_Table(rows, one, metric, size, is_exact) for one in read]
    found = iter(compare_all([pair for table in tables for pair in table.pairs], margin))
    outcomes = []
    for table in tables:
        places = [(place, table.doubted(next(found), place)) for place in table.places]
        predicted, is_violated = table.predicted(margin)
        outcomes.append(GuidelineOutcome(table.statement, places, predicted, is_violated, table.missing))
    return GuidelineReport(outcomes)


class _Table:
    """The rows that a statement speaks of."""

    def __init__(
        self, data: pd.DataFrame, statement: Statement, metric: str | None, size: str | None, is_exact: bool
    ) -> None:
        self.statement = statement
        self._column = column = _column_of(data, statement)
        chosen = metric or ("phase_s" if column == "phase" and "phase_s" in set(data["metric"]) else None)
        rows = data if column == "metric" else data[data["metric"] == metric_of(data, chosen)]
        names = {str(name).lower() for name in statement.names}
        rows = rows[rows[column].astype(str).str.lower().isin(names)]
        self._size = size if size is not None else _size_column(rows, statement)
        self._ranks = "ranks" if "ranks" in rows.columns else None
        own = {column, self._size, self._ranks, "phase" if column == "program" else column}
        fixed = [c for c in ("program", "on", "model", *parameter_columns(rows)) if c not in own]
        if column not in ("phase", "metric") and rows["phase"].nunique() > 1:
            fixed.append("phase")
        self._others = [c for c in fixed if rows[c].nunique(dropna=False) > 1]
        self._groups = self._grouped(rows)
        self._invalid = {
            key for key, group in self._groups.items() if not group["is_valid"].astype(bool).all()
        }
        self.places: list[Setting] = []
        self.pairs: list[tuple[SideTimes, SideTimes]] = []
        self.missing: list[str] = []
        self._keys: dict[Setting, list[Any]] = {}
        self._is_exact = is_exact
        self._collect()

    def _grouped(self, rows: pd.DataFrame) -> dict[Any, pd.DataFrame]:
        """Return the rows of each operation at each place."""
        keys: list[Any] = [rows[self._column].astype(str).str.lower()]
        keys.append(rows[self._ranks].astype(float) if self._ranks else pd.Series(0.0, rows.index))
        keys.append(rows[self._size].astype(float) if self._size else pd.Series(0.0, rows.index))
        named = [f"{c}=" + rows[c].astype(str) for c in self._others]
        other = pd.Series("", rows.index)
        for k, one in enumerate(named):
            other = one if k == 0 else other + ", " + one
        found = rows.groupby([*(key.to_numpy() for key in keys), other.to_numpy()], sort=True)
        return dict(iter(found))

    def _collect(self) -> None:
        left = self.statement.left.name.lower()
        for name, ranks, n, other in self._groups:
            if name != left:
                continue
            # a place is that of the left side; with its own sizes it may be another n
            place = Setting(int(ranks) if self._ranks else None, n if self._size else None, other)
            parts, keys = [], []
            for call in self.statement.right:
                key = self._key(call, n, ranks, other)
                if key not in self._groups:
                    self.missing.append(self._lack(call, key))
                    break
                keys.append(key)
                parts.append((call.factor, self._sample(key)))
            else:
                self.places.append(place)
                self.pairs.append((self._sample((name, ranks, n, other)), SideTimes.sum(parts)))
                self._keys[place] = [(name, ranks, n, other), *keys]

    def _key(self, call: Operation, n: float, ranks: float, other: str) -> Any:
        size, count = call.at(n, int(ranks))
        return call.name.lower(), float(count) if self._ranks else 0.0, size if self._size else 0.0, other

    def _lack(self, call: Operation, key: Any) -> str:
        at = [f"ranks={key[1]:g}"] if self._ranks else []
        at += [f"{self._size}={key[2]:g}"] if self._size else []
        return f"{call.name} was not measured at {', '.join([*at, *([key[3]] if key[3] else [])])}"

    def _sample(self, key: object) -> SideTimes:
        return SideTimes.of(self._groups[key]["value"].to_numpy(float), self._is_exact)

    def doubted(self, found: GuidelineComparison, place: Setting) -> GuidelineComparison:
        """Withdraw a verdict that rests on measurements which allow none."""
        if not self._invalid.intersection(self._keys[place]):
            return found
        return GuidelineComparison(
            found.left_s, found.right_s, "undecided", found.p_violated, found.p_held, _INVALID
        )

    # -- models -------------------------------------------------------------------------------------------

    def predicted(self, margin: float) -> tuple[str, bool]:
        """Return as text what models over the ranks predict, and whether that is a violation."""
        if not self._ranks or any(call.size != "n" or call.ranks != "p" for call in self.statement.right):
            return "", False
        places = sorted({(key[2], key[3]) for key in self._groups})
        said = [text for n, other in places if (text := self._predicted_at(n, other, margin))]
        return (said[0] if said else ""), bool(said)

    def _predicted_at(self, n: float, other: str, margin: float) -> str:
        models = {}
        for name in (one.lower() for one in self.statement.names):
            keys = [key for key in self._groups if (key[0], key[2], key[3]) == (name, n, other)]
            if len(keys) < LEAST_VALUES:
                return ""
            x = np.concatenate([np.full(len(self._groups[key]), key[1]) for key in keys])
            y = np.concatenate([self._groups[key]["value"].to_numpy(float) for key in keys])
            models[name] = fit_samples(read_samples(x, y), symbol="p")
        left = models[self.statement.left.name.lower()]
        rights = [models[call.name.lower()] for call in self.statement.right]
        rule = check_guideline(left, rights)
        if not rule.is_violated:
            return ""
        last = float(left.x[-1])
        ahead = last * np.exp2(np.arange(0, np.log2(_BEYOND) + 0.25, 0.25))
        factors = [call.factor for call in self.statement.right]
        sums = np.sum([f * m.predict(ahead) for f, m in zip(factors, rights, strict=True)], axis=0)
        over = np.flatnonzero(left.predict(ahead) > (1 + margin) * sums)
        grows = f"{self.statement.left.name} grows as {rule.left}, the other side as {rule.right}"
        where = f", at {self._size}={n:g}" if self._size else ""
        if not over.size:
            return f"the models predict a violation far beyond the data{where}: {grows}"
        at = float(ahead[over[0]])
        since = "already in the range" if at <= last else f"from about p = {float(f'{at:.2g}'):g} on"
        return f"the models predict a violation {since}{where}: {grows}"


def _column_of(data: pd.DataFrame, statement: Statement) -> str:
    """Return the column that holds the operations' names."""
    texts = [c for c in parameter_columns(data) if data[c].dtype.kind not in "iufb"]
    columns = ["program", *texts, "phase", "metric", "on", "model"]
    wanted = {name.lower() for name in statement.names}
    for column in columns:
        if wanted <= set(data[column].astype(str).str.lower()):
            return column
    known = {c: sorted({str(v) for v in data[c].unique() if str(v)}) for c in columns}
    there = "; ".join(f"{c}: {listed(values, 6)}" for c, values in known.items() if values)
    found = {v.lower() for values in known.values() for v in values}
    lost = [name for name in statement.names if name.lower() not in found]
    what = f"{listed(lost)} is not in this study" if lost else "its operations are not in one column"
    raise DataError(f"guideline {str(statement)!r}: {what}; there are {there}", code="malformed-expression")


def _size_column(rows: pd.DataFrame, statement: Statement) -> str | None:
    """Return the column of the message sizes, where the statement speaks of any."""
    columns = parameter_columns(rows)
    known = [c for c in _SIZES if c in columns and rows[c].dtype.kind in "iuf"]
    if known:
        return known[0]
    if all(call.size == "n" for call in statement.right):
        return None
    numeric = [c for c in columns if rows[c].dtype.kind in "iuf" and c != "ranks"]
    raise DataError(
        f"guideline {str(statement)!r} speaks of message sizes: say which column holds them with size=...; "
        f"numbers are in {listed(numeric) or 'none'}",
        code="ambiguous",
    )
