"""A study's ways out to other programs and data frames, and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from labkit.study.formats.frames import rows_of_frame, wide_frame
from labkit.study.formats.writer import export_study

__all__ = ["Interchange"]


class Interchange:
    """What a study gives to other programs.

    Attributes
    ----------
    data : DataFrame
        The measurements.
    notes : dict
        What is kept with them.
    """

    data: pd.DataFrame
    notes: dict[str, Any]

    if TYPE_CHECKING:

        def __init__(self, data: pd.DataFrame, notes: Any = None) -> None: ...

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the measurements for other programs; `labkit.load` reads all of these back.

        Parameters
        ----------
        path : path
            Its ending says the format: ``.txt``, ``.json``, ``.jsonl`` and ``.extra-p`` are Extra-P's text,
            JSON, JSON lines and experiment, ``.csv`` is the table of `data`. Extra-P models over the
            parameters that are numbers and vary; what else varies (machine, algorithm, ...) becomes part of
            the call path, as in ``on=star->exchange``. An experiment holds the whole study as well; the
            others hold no notes.

        Raises
        ------
        DataError
            When it cannot be written, or not in this format: Extra-P's text needs every metric at every
            point.
        """
        return export_study(self.data, self.notes, path)

    def to_frame(self, *, wide: bool = False) -> pd.DataFrame:
        """Return the measurements as a data frame of its own (for polars: ``polars.from_pandas`` of it).

        Parameters
        ----------
        wide : bool
            A row for each repetition of each point and a column for each metric (``phase_s:exchange`` of a
            phase) instead of a row for each measurement, as in `data`.
        """
        return wide_frame(self.data) if wide else self.data.copy()

    @classmethod
    def from_frame(
        cls,
        frame: Any,
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
            The columns that hold them. By default metrics are the columns whose names tell a unit
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
