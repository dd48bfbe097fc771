"""A study: measurements of a program over its parameters, to fit, judge, show and keep."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from labkit.checks import echo
from labkit.errors import DataError, SuggestsNames
from labkit.plot_backend import draw
from labkit.scaling import (
    Expectation,
    Limit,
    Model,
    Outlook,
    Surface,
    SurfaceVerdict,
    Term,
    Verdict,
    fit_surface,
    judge_surface,
    limit,
    outlook,
)
from labkit.scaling.description import TOLERANCE, fit_samples
from labkit.scaling.judgment import judge_samples
from labkit.scaling.samples import LEAST_VALUES
from labkit.scaling.search import Space
from labkit.sim.measured import Records
from labkit.study.formats.reader import read_data
from labkit.study.formats.writer import export_study, rows_of_frame, summary_html, wide_frame
from labkit.study.guidelines.on_study import check_study
from labkit.study.guidelines.report import GuidelineReport
from labkit.study.phase_sum import WHOLE_RUN, PhaseSum, Table
from labkit.study.points import form_of_values
from labkit.study.reporting.methods import methods_of
from labkit.study.reporting.rules import RuleReport, check_rules
from labkit.study.rows import parameter_columns, tidy
from labkit.study.selection import (
    Curve,
    NothingMeasured,
    bind,
    doubted,
    expectations_of_phases,
    pick,
    pick_all,
    pick_two,
    rows_where,
    unmeasured,
    varied_pair,
)
from labkit.study.store import write_study
from labkit.text import html as markup

if TYPE_CHECKING:
    from labkit.study.bundle import Bundle
    from labkit.study.bundle.recipe_file import Recipe

__all__ = ["Study", "load"]


class Study(SuggestsNames):
    """Measurements of a program over its parameters.

    Parameters
    ----------
    data : DataFrame
        A row per measurement: program, on, model, the parameters (``ranks`` first), repetition, metric,
        phase, value, unit, is_valid. At least metric, value and one parameter are needed.
    notes : mapping, optional
        JSON-able facts that are kept with the rows: failures, machines, remarks.

    Attributes
    ----------
    recipe : Recipe or None
        How the sweep was called that made it; None for a study read from a file.
    """

    recipe: Recipe | None = None
    _INSTEAD = MappingProxyType(
        {
            **dict.fromkeys(("judge", "verdict", "check"), 'expect("p log p")'),
            **dict.fromkeys(("df", "frame", "rows", "results", "values"), "data"),
            **{name: f'curve("{name}"), over the ranks' for name in ("makespan_s", "messages", "bytes")},
            **dict.fromkeys(("mean", "median", "min", "max"), "to_frame(wide=True), a table of its points"),
            **{name: f"labkit.plot.{name}(study)" for name in ("speedup", "efficiency")},
            **{name: f"data.{name}" for name in ("columns", "shape", "loc", "iloc")},
            **{
                name: f"data.{name}(...)"
                for name in ("head", "tail", "describe", "groupby", "query", "to_csv")
            },
        }
    )

    def __init__(self, data: pd.DataFrame, notes: Mapping[str, object] | None = None) -> None:
        self.data = tidy(data.to_dict("records"))
        self.notes: dict[str, Any] = dict(notes or {})

    def __getstate__(self) -> dict[str, object]:
        """Leave the recipe out: a notebook's function need not be picklable, a study must be."""
        return {name: value for name, value in vars(self).items() if name != "recipe"}

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The points that failed, with their errors."""
        return list(self.notes.get("failures", []))

    @property
    def computation(self) -> Records | None:
        """What the simulated ranks' code took, where it was measured; ``compute=study`` charges it again."""
        kept = self.notes.get("computation")
        return Records(kept, is_closed=True) if kept else None

    @property
    def metrics(self) -> list[str]:
        """The metrics measured."""
        return [str(m) for m in self.data["metric"].unique()]

    @property
    def phases(self) -> list[str]:
        """The phases measured, in the order of the program."""
        return [str(p) for p in self.data["phase"].unique() if p]

    @property
    def parameters(self) -> list[str]:
        """The parameters' columns."""
        return parameter_columns(self.data)

    def curve(
        self,
        metric: str | None = None,
        phase: str | None = None,
        parameter: str | None = None,
        where: Mapping[str, object] | None = None,
    ) -> Curve:
        """Return the measurements of one metric over one parameter.

        Parameters
        ----------
        metric : str, optional
            ``makespan_s`` by default, ``phase_s`` with a phase, or the only metric there is.
        phase : str, optional
            A phase of the program: the longest time a rank spent in it.
        parameter : str, optional
            The parameter's column; by default the one that varies.
        where : mapping, optional
            Values other columns must have, where several curves were measured.

        Returns
        -------
        Curve
            Its samples, their unit, and what they are of.

        Raises
        ------
        DataError
            When the choice is empty or leaves several curves.
        """
        return pick(self.data, metric, phase, parameter, where)

    def curves(
        self,
        metric: str | None = None,
        phase: str | None = None,
        parameter: str | None = None,
        where: Mapping[str, object] | None = None,
    ) -> dict[str, Curve]:
        """Return every curve of a metric, by what distinguishes it: machine, algorithm, parameters.

        Parameters
        ----------
        metric, phase, parameter, where
            As in `curve`; what they leave open gives one curve each.

        Returns
        -------
        dict of str to Curve
            In the order of the rows.
        """
        return pick_all(self.data, metric, phase, parameter, where)

    def filter(self, **columns: object) -> Self:
        """Return the rows whose columns have these values, or one of a list: ``filter(on="star", n=[1, 2])``.

        Returns
        -------
        Study
            With the same notes.

        Raises
        ------
        DataError
            There is no such column, or no such row.
        """
        return type(self)(rows_where(self.data, columns), self.notes)

    def group(self, column: str) -> dict[Any, Self]:
        """Return a study for each value of a column, such as each machine: ``study.group("on")``.

        Parameters
        ----------
        column : str
            A column of `data`.

        Returns
        -------
        dict of value to Study
            In the order of the rows.

        Raises
        ------
        DataError
            There is no such column.
        """
        if not isinstance(column, str):
            raise DataError(
                f'a study is grouped by one column, as in study.group("on"); got {echo(column)}',
                code="wrong-type",
            )
        values = self.data[column].drop_duplicates().tolist() if column in self.data else [None]
        return {value: self.filter(**{column: value}) for value in values}

    def fit(
        self,
        metric: str | None = None,
        phase: str | None = None,
        *,
        parameter: str | None = None,
        where: Mapping[str, object] | None = None,
        space: Space = None,
        aggregate: str = "auto",
        tolerance: float = TOLERANCE,
    ) -> Model:
        """Return the scaling model of one curve; see `curve` and `labkit.fit`.

        Parameters
        ----------
        metric, phase, parameter, where : optional
            As in `curve`.
        space, aggregate, tolerance : optional
            As in `labkit.fit`.

        Returns
        -------
        Model
            In the unit of the measurements.
        """
        curve = self.curve(metric, phase, parameter, where)
        return fit_samples(
            curve.samples, space=space, symbol=curve.symbol, aggregate=aggregate, unit=curve.unit,
            tolerance=tolerance,
        )  # fmt: skip

    def expect(
        self,
        expectation: str | Expectation,
        metric: str | None = None,
        phase: str | None = None,
        deviation: str | Term | None = None,
        *,
        parameter: str | None = None,
        where: Mapping[str, object] | None = None,
        given: Mapping[str, float | int | str] | None = None,
        space: Space = None,
        aggregate: str = "auto",
        tolerance: float = TOLERANCE,
    ) -> Verdict | SurfaceVerdict:
        """Judge one curve, or a surface over two parameters, against an expectation in big-O notation.

        An expectation in two parameters that both vary, such as ``"n/p * log2(n/p) + p"``, is judged
        over both.

        Parameters
        ----------
        expectation : str
            Such as ``"p log2(p)"``, with ``p`` for ``ranks`` and columns by their names; what the other
            columns were (fixed, or following p as in weak scaling) is taken from the rows.
        metric, phase : str, optional
            Which curve; see `curve`.
        deviation : str, optional
            The limit of an approximate match; see `labkit.judge`.
        parameter, where : optional
            Which curve; see `curve`.
        given, space, aggregate, tolerance
            As in `labkit.judge`.

        Returns
        -------
        Verdict or SurfaceVerdict
            True in a condition when it matches: ``assert study.expect("p log p")``. Undecided where
            all values are 0. On a whole run, a note compares it with the sum of the phases' models.
        """
        if parameter is None and not given and (both := varied_pair(self.data, expectation, where)):
            options = {"deviation": deviation, "space": space, "aggregate": aggregate}
            if unused := [name for name, value in options.items() if value not in (None, "auto")]:
                raise DataError(
                    f"{unused[0]}= is of verdicts over one parameter, and both {both[0]} and {both[1]} vary; "
                    f"leave it out, or choose one: parameter={both[1]!r}, where={{{both[0]!r}: ...}}",
                    code="conflicting-options",
                )
            judged = self.surface(
                both, metric, phase, expectation=str(expectation), where=where, tolerance=tolerance
            )
            assert isinstance(judged, SurfaceVerdict)
            return judged
        verdict = self.expect_curve(
            expectation, metric, phase, deviation, parameter=parameter, where=where, given=given, space=space,
            aggregate=aggregate, tolerance=tolerance,
        )  # fmt: skip
        if not phase and verdict.metric == "makespan_s":
            found = PhaseSum.in_study(self, verdict.model, parameter=parameter, where=where)
            if found is not None:
                verdict = replace(verdict, notes=(*verdict.notes, found.reading))
        return verdict

    def expect_curve(
        self,
        expectation: str | Expectation,
        metric: str | None = None,
        phase: str | None = None,
        deviation: str | Term | None = None,
        *,
        parameter: str | None = None,
        where: Mapping[str, object] | None = None,
        given: Mapping[str, float | int | str] | None = None,
        space: Space = None,
        aggregate: str = "auto",
        tolerance: float = TOLERANCE,
    ) -> Verdict:
        """Judge one curve against an expectation in one parameter.

        Parameters
        ----------
        expectation, metric, phase, deviation, parameter, where, given, space, aggregate, tolerance
            As in `expect`.

        Returns
        -------
        Verdict
            Undecided where all values are 0.
        """
        try:
            curve = self.curve(metric, phase, parameter, where)
        except NothingMeasured as nothing:
            return unmeasured(nothing, expectation, given, deviation)
        verdict = judge_samples(
            curve.samples,
            bind(expectation, curve, given),
            deviation=deviation,
            space=space,
            aggregate=aggregate,
            is_valid=curve.is_valid,
            tolerance=tolerance,
            names=(curve.metric, curve.unit, curve.phase),
        )
        form = ""
        if curve.column == "ranks":
            form = form_of_values(curve.samples.x.tolist(), curve.samples.groups, curve.metric)
        if said := [one for one in (curve.left_out, form) if one]:
            verdict = replace(verdict, notes=(*verdict.notes, *said))
        return verdict if curve.is_valid else doubted(verdict, self.notes.get("machines"))

    def table(
        self,
        expectations: Mapping[str, str] | None = None,
        total: str | None = None,
        *,
        parameter: str | None = None,
        where: Mapping[str, object] | None = None,
        **judging: Any,
    ) -> Table:
        """Model every phase and the whole run, and judge those with an expectation.

        Parameters
        ----------
        expectations : mapping, optional
            An expectation for each phase that has one.
        total : str, optional
            The expectation of the whole run.
        parameter, where
            As in `curve`.
        **judging
            As in `expect`.

        Returns
        -------
        Table
            A row per phase and one for the run: expectation, model, divergence, match; and the sum of the
            phases' models (`Table.phase_sum`), with a remark where it does not grow as the run was fitted.
        """
        wanted = expectations_of_phases(expectations, self.phases)
        entries: list[tuple[str, Model | None, Verdict | None]] = []
        for phase in [*self.phases, ""]:
            metric = "phase_s" if phase else "makespan_s"
            if metric not in self.metrics:
                continue
            order = total if not phase else wanted.get(phase)
            choice: dict[str, Any] = {"parameter": parameter, "where": where}
            if order is None:
                entries.append((phase or WHOLE_RUN, self.phase_model(phase, **choice), None))
            else:
                verdict = self.expect_curve(order, metric, phase or None, **choice, **judging)
                entries.append((phase or WHOLE_RUN, verdict.model, verdict))
        models = {name: model for name, model, _ in entries}
        return Table(entries, PhaseSum.of(models, models.pop(WHOLE_RUN, None)))

    def phase_model(self, phase: str, **choice: Any) -> Model | None:
        """Return a phase's model, or that of the whole run for ``""``; None if it takes no time.

        Parameters
        ----------
        phase : str
            Its name.
        **choice
            As in `fit`.

        Returns
        -------
        Model or None
        """
        try:
            return self.fit("phase_s" if phase else "makespan_s", phase or None, **choice)
        except NothingMeasured:
            return None

    def plot(
        self,
        expectation: str | None = None,
        metric: str | None = None,
        phase: str | None = None,
        **choice: Any,
    ) -> Any:
        """Draw one curve with its model and, if given, its expectation and verdict; of several a line each.

        Of fewer than five values there is no model: only what was measured is drawn.

        Parameters
        ----------
        expectation : str, optional
            In big-O notation: the verdict is drawn as well.
        metric, phase : str, optional
            As in `curve`.
        **choice : value
            What else `curve` takes: ``parameter``, ``where``.

        Returns
        -------
        labkit.plot.Figure
            Shows itself in a notebook; ``.save(path)`` writes a page.
        """
        if expectation is not None:
            self.curve(metric, phase, **choice)  # refuses what is 0 everywhere, and says why
            return draw("scaling", self.expect_curve(expectation, metric, phase, **choice))
        curves = self.curves(metric, phase, **choice)
        if len(curves) > 1:
            return draw("lines", curves)
        (curve,) = curves.values()
        is_enough = len(curve.samples.x) >= LEAST_VALUES
        model = fit_samples(curve.samples, symbol=curve.symbol) if is_enough else None
        axes: dict[str, object] = {"metric": curve.metric, "unit": curve.unit, "phase": curve.phase}
        return draw("scaling", model, curve.samples, parameter=curve.symbol, **axes)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save the study as one file (a zip of a CSV table and a JSON manifest).

        Parameters
        ----------
        path : path
            ``.study`` is usual; a table such as ``.csv`` is written by `export`.

        Returns
        -------
        Path
            Of the file.

        Raises
        ------
        DataError
            When it cannot be written (an older file at that place is then unchanged), or is named as a table.
        """
        return write_study(path, self.data, self.notes)

    def bundle(
        self, path: str | os.PathLike[str], *, notebook: Any = None, host_metrics: Iterable[str] = ()
    ) -> Bundle:
        """Write all that others need to check the study, as one zip: `labkit.study.bundle.write_bundle`.

        Parameters
        ----------
        path : path
            A ``.zip`` file.
        notebook : path or False, optional
            The notebook that belongs to it; by default the one this is called in; False: none.
        host_metrics : iterable of str
            User-defined metrics that depend on this host: they are not compared when the study is run again.

        Returns
        -------
        labkit.study.bundle.Bundle
            Says what is in it, and what of it can be run again.
        """
        from labkit.study.bundle import write_bundle

        return write_bundle(self, self.recipe, path, notebook=notebook, host_metrics=host_metrics)

    def __len__(self) -> int:
        """Return the number of measurements."""
        return len(self.data)

    def __repr__(self) -> str:
        """Return as text what was measured, and what failed."""
        lines = [f"Study of {self._subject()}: {len(self)} measurements"]
        for name in self.parameters:
            values = ", ".join(f"{v}" for v in self.data[name].drop_duplicates().head(12))
            lines.append(f"  {name}: {values}")
        lines.append(f"  metrics: {', '.join(self.metrics)}")
        if self.phases:
            lines.append(f"  phases: {', '.join(self.phases)}")
        return "\n".join([*lines, *(f"  ! {text}" for text in self._warnings())])

    def _subject(self) -> str:
        programs = ", ".join(str(v) for v in self.data["program"].unique() if v) or "a file"
        machines = ", ".join(str(v) for v in self.data["on"].unique() if v)
        models = ", ".join(str(v) for v in self.data["model"].unique() if v)
        return programs + (f" on {machines}" if machines else "") + (f" (model {models})" if models else "")

    def _warnings(self) -> list[str]:
        texts = []
        if not self.data["is_valid"].all():
            texts.append("some measurements are not valid for a verdict")
        points: dict[str, list[str]] = {}
        for failure in self.failures:
            points.setdefault(str(failure.get("error")), []).append(str(failure.get("point")))
        texts += [f"failed at {'; '.join(where)}: {error}" for error, where in points.items()]
        return texts + [str(remark) for remark in self.notes.get("remarks", [])]

    def _repr_html_(self) -> str:
        rows = [
            (n, escape(", ".join(str(v) for v in self.data[n].drop_duplicates().head(12))))
            for n in self.parameters
        ]
        rows.append(("metrics", escape(", ".join(self.metrics))))
        if self.phases:
            rows.append(("phases", escape(", ".join(self.phases))))
        rows += [("note", markup.prose(text)) for text in self._warnings()]
        title = f"Study of {escape(self._subject())}: {len(self)} measurements"
        return markup.titled_block(title, markup.properties(rows) + summary_html(self.data, self.parameters))

    # The questions of a study that its models answer.

    def limit(
        self,
        metric: str | None = None,
        phase: str | None = None,
        *,
        at_most: float,
        level: float = 0.95,
        **choice: Any,
    ) -> Limit:
        """Return the value of the parameter up to which a budget is kept, with its interval.

        Parameters
        ----------
        metric, phase
            Which curve; see `curve`.
        at_most : float
            The budget, in the metric's unit.
        level : float
            The confidence of the interval.
        **choice
            As in `fit`.

        Returns
        -------
        Limit
        """
        return limit(self.fit(metric, phase, **choice), at_most, level)

    def outlook(
        self,
        at: float,
        metric: str | None = None,
        phase: str | None = None,
        *,
        level: float = 0.95,
        **choice: Any,
    ) -> Outlook:
        """Return the value at a target scale with its interval, and how far the data carry.

        Parameters
        ----------
        at : float
            The value of the parameter.
        metric, phase, level, **choice
            As in `limit`.

        Returns
        -------
        Outlook
        """
        return outlook(self.fit(metric, phase, **choice), at, level)

    def surface(
        self,
        parameters: tuple[str, str],
        metric: str | None = None,
        phase: str | None = None,
        *,
        expectation: str | None = None,
        where: Mapping[str, object] | None = None,
        tolerance: float = TOLERANCE,
    ) -> Surface | SurfaceVerdict:
        """Return the model of one metric over two parameters, or its verdict where something is expected.

        Parameters
        ----------
        parameters : tuple of str
            Two columns, such as ``("n", "ranks")``; in expectations ``p`` stands for ``ranks``.
        metric, phase
            As in `curve`.
        expectation : str, optional
            Such as ``"n log2(n) / p + p"``.
        where
            As in `curve`.
        tolerance : float
            As in `labkit.judge`.

        Returns
        -------
        Surface or SurfaceVerdict
        """
        x1, x2, y, symbols, unit = pick_two(self.data, parameters, metric, phase, where)
        if expectation is None:
            return fit_surface(x1, x2, y, symbols, tolerance)
        return replace(judge_surface(x1, x2, y, expectation, symbols, tolerance), unit=unit)

    # What a study gives to other programs.

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the measurements for other programs; `labkit.load` reads all of these back.

        Parameters
        ----------
        path : path
            Its ending sets the format: ``.txt``, ``.json``, ``.jsonl`` and ``.extra-p`` are Extra-P's text,
            JSON, JSON lines and experiment, ``.csv`` is the table of `data`. Extra-P models over the
            parameters that are numbers and vary; what else varies (machine, algorithm, ...) becomes part of
            the call path, as in ``on=star->exchange``. An experiment holds the whole study as well; the
            others hold no notes.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        DataError
            When it cannot be written, or not in this format: Extra-P's text needs every metric at every
            point.
        """
        return export_study(self.data, self.notes, path)

    def to_frame(self, *, wide: bool = False) -> pd.DataFrame:
        """Return the measurements as a separate data frame (for polars: ``polars.from_pandas`` of it).

        Parameters
        ----------
        wide : bool
            A row for each repetition of each point and a column for each metric (``phase_s:exchange`` of a
            phase) instead of a row for each measurement, as in `data`.

        Returns
        -------
        pandas.DataFrame
        """
        return wide_frame(self.data) if wide else self.data.copy()

    @classmethod
    def from_frame(
        cls,
        frame: object,
        parameters: str | Sequence[str] | None = None,
        metrics: str | Sequence[str] | None = None,
    ) -> Self:
        """Make a study of a data frame.

        Parameters
        ----------
        frame : data frame, mapping of columns, or list of rows
            Of pandas, polars or pyarrow. With the columns metric and value it has a row for each measurement,
            else a column for each metric, as `to_frame` returns them.
        parameters, metrics : str or sequence of str, optional
            The columns that hold them. By default metrics are the columns whose names have a unit
            (``time_s``), a phase (``phase_s:merge``) or a count of labkit's, and parameters the others; if
            that leaves no metric, the first column is the parameter.

        Raises
        ------
        DataError
            When there is nothing to measure by, or a value is no number.

        Examples
        --------
        >>> import labkit as lk
        >>> study = lk.Study.from_frame({"p": [2, 4, 8, 16, 32], "time": [2.0, 4.0, 8.0, 16.0, 32.0]})
        >>> study.expect("p").match
        'exact'
        """
        return cls(rows_of_frame(frame, parameters, metrics), {"source": "a data frame"})

    def rules(self) -> RuleReport:
        """Check the study against the twelve rules for reporting performance, each with what to do.

        Returns
        -------
        labkit.study.reporting.RuleReport

        References
        ----------
        .. [1] T. Hoefler, R. Belli: Scientific benchmarking of parallel computing systems. SC 2015.
           doi:10.1145/2807591.2807644
        """
        return check_rules(self.data, self.notes)

    def guideline(
        self,
        statement: str | Iterable[str],
        metric: str | None = None,
        *,
        size: str | None = None,
        where: Mapping[str, object] | None = None,
        margin: float = 0.05,
    ) -> GuidelineReport:
        """Check that something takes no longer than what it could be replaced by.

        Parameters
        ----------
        statement : str or list of str
            Such as ``"allreduce <= reduce + bcast"``: names of programs, of phases, or in a column of texts;
            with sizes where they differ, ``"allgather(n) <= gather(n) + bcast(n p)"``.
        metric : str, optional
            As in `curve`.
        size : str, optional
            The column that n stands for; default: ``n`` or ``bytes`` where there is one.
        where : mapping, optional
            As in `curve`.
        margin : float
            What takes longer by less violates nothing.

        Returns
        -------
        labkit.study.guidelines.GuidelineReport
            Held, violated or undecided at each place, by rank tests corrected for their number; and from five
            values of the ranks on, what the models predict for more. True in a condition when nothing is
            violated or predicted to be.

        Raises
        ------
        DataError, ExpectationError
            Something in the statement is not in the study, or it cannot be read.
        """
        return check_study(self.data, self.notes, statement, metric, size=size, where=where, margin=margin)

    def methods(self) -> str:
        """Return a paragraph for a paper on how the study was measured, made of what is recorded.

        Returns
        -------
        str
        """
        return methods_of(self.data, self.notes)


def load(path: str | os.PathLike[str]) -> Study:
    """Load a saved study, or measurements from Extra-P's text, JSON, JSON lines and experiments, or from CSV.

    Parameters
    ----------
    path : path
        A study, or a file that `labkit.study.formats` knows.

    Returns
    -------
    Study
        With the notes that the file keeps.

    Raises
    ------
    DataError
        When the file cannot be read.
    """
    return Study(*read_data(path))
