"""The expectations of a declared study, judged: every curve by itself."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from labkit.errors import DataError, LabkitError
from labkit.scaling import Model, SurfaceVerdict, Verdict
from labkit.scaling.parser import parse
from labkit.scaling.samples import LEAST_VALUES
from labkit.study.declared.declaration import Expected
from labkit.study.phase_sum import NAME as SUM_OF_PHASES
from labkit.study.phase_sum import PhaseSum, aligned
from labkit.study.rows import parameter_columns
from labkit.study.selection import curves_in
from labkit.study.study import Study
from labkit.text.files import replace_file, writing
from labkit.text.html import MATCH_SIGNS

__all__ = ["COLUMNS", "Judged", "judge_all", "paper_table", "table_text", "write_table"]


@dataclass(frozen=True)
class Judged:
    """One curve of a study, with its verdict or at least its model.

    `where`: The values of the other columns that vary: what names the curve.
    `expected`: None where only a model was asked for.
    `error`: Why there is neither.
    `chosen`: How `Study.curve` finds it.
    `phase_sum`: Of a whole run whose phases were measured: the sum of their models.
    """

    where: dict[str, Any]
    metric: str
    phase: str
    expected: Expected | None = None
    verdict: Verdict | SurfaceVerdict | None = None
    model: Model | None = None
    error: str = ""
    chosen: dict[str, Any] = field(default_factory=dict)
    phase_sum: PhaseSum | None = None

    @property
    def match(self) -> str:
        """That of the verdict; "undecided" where there is none though something is expected, else empty."""
        if self.verdict is not None:
            return self.verdict.match
        return "undecided" if self.expected is not None else ""

    @property
    def name(self) -> str:
        """What it is, for people: ``coll=allreduce=ring: exchange, phase_s``."""
        curve = ", ".join(f"{key}={value}" for key, value in self.where.items())
        return ": ".join(part for part in (curve, self.what) if part)

    @property
    def what(self) -> str:
        """The phase and the metric, without saying "time" twice."""
        if not self.phase:
            return self.metric
        return self.phase if self.metric == "phase_s" else f"{self.phase}, {self.metric}"


def judge_all(
    study: Study,
    expected: Sequence[Expected],
    metrics: Sequence[str] = (),
    machines: Mapping[str, str] | None = None,
) -> list[Judged]:
    """Judge every curve that an expectation is about, and fit those of further metrics.

    `metrics`: Of the whole run; those that are expected of already are left out.
    `machines`: How the study calls a machine, by what its declaration calls it.
    """
    found = [one for each in expected for one in _judge(study, each, machines or {})]
    known = {(one.metric, one.phase) for one in found}
    for metric in metrics or ["makespan_s"]:
        if (metric, "") not in known:
            found += _fit(study, metric)
    return found


def _judge(study: Study, expected: Expected, machines: Mapping[str, str]) -> Iterator[Judged]:
    metric = expected.metric or ("phase_s" if expected.phase else "makespan_s")
    phase = expected.phase or ""
    where = {k: machines.get(v, v) if k == "on" else v for k, v in expected.where.items()}
    rows = _rows(study.data, metric, phase, where)
    parameters = _parameters(rows, expected)
    for curve in curves_in(rows, parameters):
        chosen: dict[str, Any] = {"metric": metric, "phase": phase or None, "where": where | curve}
        every = where | curve
        shown = {k: every[k] for k in study.data.columns if k in every and study.data[k].nunique() > 1}
        about: dict[str, Any] = {"where": shown, "metric": metric, "phase": phase, "expected": expected}
        verdict: Any
        try:
            if len(parameters) == 2:
                verdict = study.surface(
                    (parameters[0], parameters[1]),
                    expectation=expected.growth,
                    tolerance=expected.tolerance,
                    **chosen,
                )
                yield Judged(**about, verdict=verdict, chosen=chosen)
                continue
            chosen["parameter"] = parameters[0] if parameters else None
            verdict = study.expect_curve(
                expected.growth,
                deviation=expected.deviation,
                given=expected.given,
                tolerance=expected.tolerance,
                **chosen,
            )
            found = _phase_sum(study, metric, phase, chosen, verdict.model)
            yield Judged(**about, verdict=verdict, model=verdict.model, chosen=chosen, phase_sum=found)
        except LabkitError as error:
            yield Judged(**about, error=str(error).splitlines()[0], chosen=chosen)


def _fit(study: Study, metric: str) -> Iterator[Judged]:
    rows = _rows(study.data, metric, "", {})
    parameters = _parameters(rows, None)
    along = parameters[0] if parameters else None
    curves = list(curves_in(rows, parameters))
    values = int(rows[along].nunique()) if along else 1
    if len(curves) > 1 and values < LEAST_VALUES:  # said once: there may be hundreds
        need = f"no models: they need at least {LEAST_VALUES} values of {along or 'a parameter'}"
        kept = f"the report has all {len(rows)} measurements of {len(curves)} curves"
        yield Judged({}, metric, "", error=f"{need}, got {values}; {kept}")
        return
    for curve in curves:
        chosen: dict[str, Any] = {"metric": metric, "phase": None, "where": curve, "parameter": along}
        try:
            model = study.fit(**chosen)
            found = _phase_sum(study, metric, "", chosen, model)
            yield Judged(curve, metric, "", model=model, chosen=chosen, phase_sum=found)
        except LabkitError as error:
            yield Judged(curve, metric, "", error=str(error).splitlines()[0], chosen=chosen)


def _phase_sum(
    study: Study, metric: str, phase: str, chosen: Mapping[str, Any], total: Model | None
) -> PhaseSum | None:
    """Return the sum of the phases' models, for the time of a whole run."""
    if metric != "makespan_s" or phase:
        return None
    return PhaseSum.in_study(study, total, parameter=chosen["parameter"], where=chosen["where"])


def _rows(data: pd.DataFrame, metric: str, phase: str, where: Mapping[str, object]) -> pd.DataFrame:
    rows = data[(data["metric"] == metric) & (data["phase"] == phase)]
    for column, value in where.items():
        if column in rows:
            rows = rows[rows[column] == value]
    return rows


def _parameters(rows: pd.DataFrame, expected: Expected | None) -> list[str]:
    """Return the columns that a curve goes along: one, or two of a surface."""
    numeric = [c for c in parameter_columns(rows) if pd.api.types.is_numeric_dtype(rows[c])]
    varying = [c for c in numeric if rows[c].nunique() > 1]
    if expected is not None and expected.parameter is not None:
        return ["ranks" if expected.parameter == "p" else expected.parameter]
    symbols: set[str] = set()
    if expected is not None:
        symbols = set().union(*(one.symbols for one in parse(expected.growth))) - set(expected.given)
    named = [c for c in varying if c in symbols or (c == "ranks" and "p" in symbols)]
    if named:
        return sorted(named[:2], key=lambda c: c == "ranks")
    return ["ranks"] if "ranks" in varying else varying[:1]


# The table of a paper: a row for each curve with its expectation, model, divergence and verdict.

COLUMNS = ("curve", "metric", "expectation", "model", "R2", "divergence", "match")


def paper_table(judged: Sequence[Judged]) -> list[dict[str, str]]:
    """Return a row for each curve, by the names of `COLUMNS`; the terms are as `labkit.judge` writes them.

    A whole run whose phases were measured has a second row, above it, for the sum of the phases' models.
    """
    return [row for one in judged for row in (*_sum_row(one), _row(one))]


def _sum_row(one: Judged) -> list[dict[str, str]]:
    if one.phase_sum is None:
        return []
    row = _row(one) | {"metric": SUM_OF_PHASES, "model": str(one.phase_sum.term), "R2": "", "match": ""}
    if isinstance(one.verdict, Verdict):
        divergence = one.phase_sum.term.over(one.verdict.expectation.term)
        row |= {"divergence": str(divergence), "match": one.phase_sum.match(one.verdict)}
    return [row]


def _row(one: Judged) -> dict[str, str]:
    verdict, model = one.verdict, one.model
    row = dict.fromkeys(COLUMNS, "")
    row["curve"] = ", ".join(f"{key}={value}" for key, value in one.where.items())
    row["metric"], row["match"] = one.what, one.match
    if one.expected is not None:
        row["expectation"] = one.expected.growth
    if isinstance(verdict, SurfaceVerdict):
        row["model"] = str(verdict.model)
    elif isinstance(verdict, Verdict):
        row["expectation"] = str(verdict.expectation.term)
        row["model"] = verdict.growth
        row["divergence"] = "" if verdict.divergence is None else str(verdict.divergence)
    elif model is not None:
        row["model"] = str(model.term)
    if model is not None:
        row["R2"] = "-" if model.r2_adjusted is None else f"{model.r2_adjusted:.3f}"
    if one.error:
        row["model"] = "?"
    return row


def table_text(judged: Sequence[Judged]) -> str:
    """Return the table as aligned text, with what could not be judged below it."""
    rows = paper_table(judged)
    shown = [c for c in COLUMNS if any(row[c] for row in rows)] or list(COLUMNS)
    lines = [shown]
    for row in rows:
        sign = f"{MATCH_SIGNS[row['match']]} " if row["match"] else ""
        lines.append([f"{sign}{row[c]}" if c == "match" else row[c] for c in shown])
    below = [f"! {one.name}: {one.error}" for one in judged if one.error]
    below += [
        f"! {one.name}: {one.phase_sum.reading}"
        for one in judged
        if one.phase_sum is not None and not one.phase_sum.agrees
    ]
    return "\n".join([*aligned(lines), *below]) + "\n"


def _csv(judged: Sequence[Judged]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(paper_table(judged))
    return out.getvalue()


def _latex(judged: Sequence[Judged]) -> str:
    """A tabular that needs the package booktabs, as most journals' classes have it."""
    rows = paper_table(judged)
    shown = [c for c in COLUMNS if any(row[c] for row in rows)] or list(COLUMNS)
    heads = {"R2": r"adj.\ $R^2$", "divergence": r"$\delta$"}
    lines = [r"\begin{tabular}{" + "l" * len(shown) + "}", r"\toprule"]
    lines.append(" & ".join(heads.get(c, c.capitalize()) for c in shown) + r" \\")
    lines.append(r"\midrule")
    for row in rows:
        lines.append(" & ".join(_cell(c, row[c]) for c in shown) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _cell(column: str, text: str) -> str:
    if column in ("expectation", "model", "divergence") and text and text not in ("levels off", "?"):
        return f"$O({_math(text)})$"
    return _escaped(text)


def _math(term: str) -> str:
    """Write a term such as ``p^0.75 log^2 p`` as LaTeX's mathematics."""
    text = re.sub(r"^O\((.*)\)$", r"\1", term.strip())
    text = re.sub(r"\bsqrt\(([^()]*)\)", r"\\sqrt{\1}", text)
    text = re.sub(r"\^\(?(-?[\w./]+)\)?", r"^{\1}", text)
    text = re.sub(r"\blog2?\b", r"\\log", text)
    return text.replace("*", r"\,").replace("  ", " ")


def _escaped(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, "\\" + c if c in "#$%&_{}" else c) for c in text)


_WRITERS = {".txt": table_text, ".csv": _csv, ".tex": _latex}


def write_table(judged: Sequence[Judged], path: str | os.PathLike[str]) -> Path:
    """Write the table; the ending selects the form: ``.txt``, ``.csv`` or ``.tex`` (LaTeX with booktabs).

    Raises DataError: Another ending, or the file cannot be written.
    """
    target = Path(path)
    writer = _WRITERS.get(target.suffix.lower())
    if writer is None:
        raise DataError(
            f"{os.fspath(path)!r}: a table is written as .txt, .csv or .tex (LaTeX)", code="unknown-format"
        )
    with writing(target):
        return replace_file(target, writer(judged).encode())
