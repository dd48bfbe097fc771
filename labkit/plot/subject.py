"""Figures and explorers that are handed something else than they draw: a sentence says what to type."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

from labkit.errors import DataError

__all__ = ["asks_for_its_subject"]

#: what people hand over, by the name of its class: what it is called, and what draws it
_THINGS = {
    "Run": (
        "a run",
        "labkit.plot.gantt(run) draws a run with trace=True, labkit.plot.heat(run) its machine",
    ),
    "Study": ("a study", "study.plot() draws a study, labkit.plot.speedup(study) its speedup"),
    "Verdict": ("a verdict", "labkit.plot.scaling(verdict) draws a verdict"),
    "Model": ("a model", "labkit.plot.scaling(model) draws a model"),
    "Platform": ('a machine, such as "torus:4x4",', "labkit.plot.topology(machine) draws a machine"),
    "Calibration": ("a calibration", "labkit.plot.calibration(found) draws a calibration"),
    "Explanation": ("an explanation", ""),
    "Table": ("a table of verdicts", ""),
    "Tuned": ("what labkit.tune returned", ""),
    "Card": ("a card of labkit.card", ""),
    "Misfits": ("what run.against returned", ""),
    "Synthesized": ("what labkit.synthesize returned", ""),
    "Report": ("what run.report returned", ""),
    "Waiting": ("what run.waits returned", ""),
    "Schedule": ("a schedule", ""),
    "Curve": ("the curves of a study, study.curves(),", ""),
    "DataFrame": ("a data frame", "Study(frame) makes a study of one"),
    "str": ("a text", ""),
    "int": ("a number", ""),
    "float": ("a number", ""),
    "list": ("a list", ""),
    "tuple": ("a tuple", ""),
    "NoneType": ("None", ""),
    "function": (
        "a function",
        "labkit.run(function, 8, trace=True) makes a run of it, labkit.sweep a study",
    ),
}


def asks_for_its_subject(figure: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a figure that refuses what it does not draw before it looks at it.

    Parameters
    ----------
    figure : callable
        Its first parameter is what it draws; the annotation says of which classes.
    name : str
        What people call it, such as ``labkit.plot.gantt``.

    Returns
    -------
    callable
        The same, with its name, signature and docstring.
    """
    if not isinstance(figure, FunctionType):
        return figure
    first = next(iter(inspect.signature(figure).parameters.values()), None)
    said = str(first.annotation) if first is not None else ""
    wanted = re.findall(r"\w+", said.replace("[str, ", "[").replace("Sequence[float]", "Sequence | list"))
    named = [one for one in wanted if one in _THINGS]
    known = [one for one in named if one != "str" or "Platform" not in named]
    if first is None or first.kind is first.VAR_POSITIONAL or not known or {"Any", "Callable"} & set(wanted):
        return figure

    @functools.wraps(figure)
    def asked(*args: Any, **kwargs: Any) -> Any:
        if args or first.name in kwargs or first.default is not first.empty:
            subject = args[0] if args else kwargs.get(first.name, first.default)
            if not _fits(subject, wanted) and subject is not first.default:
                raise DataError(_sentence(name, first.name, known, subject))
        else:
            raise DataError(f"{name} takes {_list(known).rstrip(',')}: {name}({first.name})")
        return figure(*args, **kwargs)

    return asked


def _fits(subject: Any, wanted: list[str]) -> bool:
    """Whether a subject may be what is drawn; a class that is not known here is left to the figure itself."""
    classes = {one.__name__ for one in type(subject).__mro__}
    if classes & set(wanted) or (subject is None and "None" in wanted) or not classes & set(_THINGS):
        return True
    return "Sequence" in wanted and isinstance(subject, list | tuple)


def _list(known: list[str]) -> str:
    said = list(dict.fromkeys(_THINGS[one][0] for one in known))
    return ", ".join(said[:-1]) + (" or " if said[1:] else "") + said[-1]


def _sentence(name: str, parameter: str, known: list[str], subject: Any) -> str:
    kind = next(one.__name__ for one in type(subject).__mro__ if one.__name__ in _THINGS)
    what, instead = _THINGS[kind]
    got = f"{what} ({subject!r})" if isinstance(subject, str | int | float) else what
    wanted = _list(known).rstrip(",")
    return f"{name} takes {wanted}; got {got[:80].rstrip(',')}" + (f"; {instead}" if instead else "")
