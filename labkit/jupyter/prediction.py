"""Predictions that a reader enters before a run and compares with its result."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real

import numpy as np

from labkit.checks import echo
from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.guess_figure import guess
from labkit.scaling import Expectation, Model, Verdict, read_expectation
from labkit.text import html as markup

__all__ = ["Prediction", "predict"]

_ONE = "the result"
#: what stands in a notebook until the reader writes a prediction
_OPEN = "?"
_REMINDER = "Write your prediction in place of each question mark, then run this cell and those below again."


class Prediction:
    """What somebody expects: a growth, or numbers by name.

    `what`: A number that is not predicted yet is NaN.
    `unit`: Of the numbers.
    """

    def __init__(self, what: Expectation | dict[str, float] | None, unit: str = "") -> None:
        self.what, self.unit = what, unit

    def beside(self, found: object, *, title: str = "Predicted and found", label: str = "") -> Figure:
        """Draw the prediction next to what came out; of an open prediction only what came out.

        `found`: A verdict or a model for a predicted growth; else the numbers, by the predicted names.
        `title`: Above a picture of numbers.
        `label`: Below it: what the numbers are; the unit, unless given.
        Raises DataError: When it is something else than what was predicted.
        """
        if not isinstance(found, Verdict | Model | Mapping):
            found = {_ONE: found}
        if isinstance(found, Mapping):
            found = _numbers(found, may_be_open=False)
        return guess(self.what, found, unit=self.unit, title=title, label=label)

    def __str__(self) -> str:
        """Print the prediction in a sentence."""
        if self.what is None or (isinstance(self.what, dict) and np.isnan([*self.what.values()]).all()):
            return f"Not predicted yet. {_REMINDER}"
        if isinstance(self.what, Expectation):
            return f"Predicted: it grows as {self.what.term}."
        texts = {
            name: _OPEN if np.isnan(value) else markup.quantity(value, self.unit, 3)
            for name, value in self.what.items()
        }
        if list(texts) == [_ONE]:
            return f"Predicted: {texts[_ONE]}."
        return f"Predicted: {', '.join(f'{name}: {text}' for name, text in texts.items())}."

    __repr__ = __str__


def predict(what: str | float | Mapping[str, float | str], unit: str = "") -> Prediction:
    """Keep a prediction, to be drawn next to the result: ``predict("p log p").beside(verdict)``.

    It stands in the notebook as code, so that it is saved with it and stays when all cells run again.

    Parameters
    ----------
    what : str, number, or mapping of str to number
        A growth such as ``"p log p"``; a number; or numbers by name. ``"?"`` in place of a growth or a
        number: not predicted yet.
    unit : str
        Of the numbers, such as "s" or "%".

    Returns
    -------
    Prediction

    Raises
    ------
    ExpectationError
        A growth that cannot be read.
    DataError
        Something that is no growth and no number.

    Examples
    --------
    >>> predict({"2 %": 0, "10 %": 5}, "alarms")
    Predicted: 2 %: 0 alarms, 10 %: 5 alarms.
    >>> predict("p log p")
    Predicted: it grows as p log p.
    >>> predict({"star": "?", "torus": 4}, "ms")
    Predicted: star: ?, torus: 4 ms.
    """
    if isinstance(what, str):
        return Prediction(None if what.strip() == _OPEN else read_expectation(what), unit)
    return Prediction(_numbers(what if isinstance(what, Mapping) else {_ONE: what}), unit)


def _numbers(given: Mapping[str, object], *, may_be_open: bool = True) -> dict[str, float]:
    if not given:
        raise DataError(
            'predict at least one number, such as lk.predict({"star": 3, "torus": 5})', code="missing-key"
        )
    numbers = {}
    for name, value in given.items():
        if may_be_open and isinstance(value, str) and value.strip() == _OPEN:
            numbers[str(name)] = float("nan")
            continue
        if (
            isinstance(value, bool)
            or not isinstance(value, Real | np.number)
            or not np.isfinite(float(value))
        ):
            raise DataError(
                f"a prediction is a growth such as 'p log p', a number, or numbers by name, such as "
                f"{{'linear': 3, 'binomial': 2}}; got {echo(value)} for {name}",
                code="wrong-type",
            )
        numbers[str(name)] = float(value)
    return numbers
