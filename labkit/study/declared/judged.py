"""The expectations of a declared study, judged: every curve by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from labkit.errors import LabkitError
from labkit.scaling import Model, SurfaceVerdict, Verdict
from labkit.scaling.language.parser import parse
from labkit.study.declared.declaration import Expected
from labkit.study.phase_sum import PhaseSum
from labkit.study.rows import parameter_columns
from labkit.study.selection import curves_in, rows_where
from labkit.study.study import Study

__all__ = ["Judged", "judge_all"]


@dataclass(frozen=True)
class Judged:
    """One curve of a study, with its verdict or at least its model.

    Attributes
    ----------
    where : dict
        The values of the other columns that vary: what names the curve.
    metric, phase : str
    expected : Expected or None
        None where only a model was asked for.
    verdict : Verdict, SurfaceVerdict or None
    model : Model or None
    error : str
        Why there is neither.
    chosen : dict
        How `Study.curve` finds it.
    phase_sum : PhaseSum or None
        Of a whole run whose phases were measured: the sum of their models.
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

    Parameters
    ----------
    study : Study
    expected : sequence of Expected
    metrics : sequence of str
        Of the whole run; those that are expected of already are left out.
    machines : mapping, optional
        How the study calls a machine, by what its declaration calls it.
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
            verdict = study.expect(
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
    for curve in curves_in(rows, parameters):
        along = parameters[0] if parameters else None
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
    if metric != "makespan_s" or phase or "phase_s" not in study.metrics:
        return None
    with contextlib.suppress(LabkitError):  # phases that cannot be fitted are not added up
        rows = rows_where(study.data, chosen["where"])
        names = [str(one) for one in rows.loc[rows["metric"] == "phase_s", "phase"].unique()]
        along = {"where": chosen["where"], "parameter": chosen["parameter"]}
        return PhaseSum.of({name: study.phase_model(name, **along) for name in names}, total)
    return None


def _rows(data: pd.DataFrame, metric: str, phase: str, where: Mapping[str, Any]) -> pd.DataFrame:
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
