"""A study's predictions beyond its measurements: targets, budgets, and models of two parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from labkit.scaling import (
    Limit,
    Model,
    Outlook,
    Surface,
    SurfaceVerdict,
    fit_surface,
    judge_surface,
    limit,
    outlook,
)
from labkit.scaling.description import TOLERANCE
from labkit.study.selection import pick_two

__all__ = ["Predictions"]


class Predictions:
    """The questions of a study that its models answer.

    Attributes
    ----------
    data : DataFrame
        The measurements.
    fit : callable
        Returns the model of one curve: `Study.fit`.
    """

    data: pd.DataFrame

    fit: Callable[..., Model]

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
        """
        return outlook(self.fit(metric, phase, **choice), at, level)

    def surface(
        self,
        parameters: tuple[str, str],
        metric: str | None = None,
        phase: str | None = None,
        *,
        expectation: str | None = None,
        where: Mapping[str, Any] | None = None,
        tolerance: float = TOLERANCE,
    ) -> Surface | SurfaceVerdict:
        """Return the model of one metric over two parameters, or its verdict where something is expected.

        Parameters
        ----------
        parameters : tuple of str
            Two columns, such as ``("n", "ranks")``; in expectations ``p`` stands for ``ranks``.
        metric, phase, where
            As in `curve`.
        expectation : str, optional
            Such as ``"n log2(n) / p + p"``.
        tolerance : float
            As in `labkit.judge`.
        """
        x1, x2, y, symbols, unit = pick_two(self.data, parameters, metric, phase, where)
        if expectation is None:
            return fit_surface(x1, x2, y, symbols, tolerance)
        return replace(judge_surface(x1, x2, y, expectation, symbols, tolerance), unit=unit)
