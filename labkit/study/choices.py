"""The content of a study, and the choice of its rows and curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from labkit.sim.measured import Records
from labkit.study.rows import parameter_columns
from labkit.study.selection import Curve, pick, pick_all, rows_where

__all__ = ["Choices"]


class Choices:
    """The rows of a study, by metric, phase, parameter, and column.

    Attributes
    ----------
    data : DataFrame
        A row per measurement.
    notes : dict
        What is kept with them.
    """

    data: pd.DataFrame
    notes: dict[str, Any]

    if TYPE_CHECKING:

        def __init__(self, data: pd.DataFrame, notes: Any = None) -> None: ...

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
        where: Mapping[str, Any] | None = None,
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
        where: Mapping[str, Any] | None = None,
    ) -> dict[str, Curve]:
        """Return every curve of a metric, by what tells it from the others: machine, algorithm, parameters.

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

    def filter(self, **columns: Any) -> Self:
        """Return the rows whose columns have these values, or one of a list: ``filter(on="star", n=[1, 2])``.

        Parameters
        ----------
        **columns : value or list of values
            By the names of columns.

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
        values = self.data[column].drop_duplicates().tolist() if column in self.data else [None]
        return {value: self.filter(**{column: value}) for value in values}
