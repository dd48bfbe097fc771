"""A study's questions about itself: the twelve rules, the paragraph on methods, and guidelines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from labkit.study.guidelines.on_study import check_study
from labkit.study.guidelines.report import GuidelineReport
from labkit.study.reporting.methods import methods_of
from labkit.study.reporting.rules import RuleReport, check_rules

__all__ = ["Reports"]


class Reports:
    """What a study says about how it was measured, and about what it should hold.

    Attributes
    ----------
    data : DataFrame
        The measurements.
    notes : dict
        The facts kept with them.
    """

    data: pd.DataFrame

    notes: dict[str, Any]

    def rules(self) -> RuleReport:
        """Check the study against the twelve rules for reporting performance, each with what to do.

        Returns
        -------
        labkit.study.reporting.RuleReport
            Which rule is met, violated, or cannot be told from the study.

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
        where: Mapping[str, Any] | None = None,
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
        """Return a paragraph for a paper on how the study was measured, made of what is recorded."""
        return methods_of(self.data, self.notes)
