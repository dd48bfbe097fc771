"""Figures and explorers that are handed something else than they draw: a sentence with what to type."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Mapping
from types import FunctionType

from labkit.errors import DataError, nearest

__all__ = ["asks_for_its_subject"]

#: what people hand over, by the name of its class: what it is called, and what draws it
_THINGS = {
    "Run": (
        "a run",
        "labkit.plot.gantt(run) draws a run with trace=True, labkit.plot.heat(run) its machine",
    ),
    "Study": (
        "a study",
        "study.plot() draws a study, labkit.plot.speedup(study) its speedup; "
        'study.expect("p log p") judges it',
    ),
    "Verdict": ("a verdict", "labkit.plot.scaling(verdict) draws a verdict"),
    "Model": ("a model", "labkit.plot.scaling(model) draws a model"),
    "Platform": ("a machine", "labkit.plot.topology(machine) draws a machine"),
    "Calibration": ("a calibration", "labkit.plot.calibration(found) draws a calibration"),
    "Explanation": ("an explanation", ""),
    "Expectation": ("an expectation", ""),
    "Table": ("a table of verdicts", ""),
    "Tuned": ("what labkit.tune returned", ""),
    "Card": ("a card of labkit.card", ""),
    "Misfits": ("what run.against returned", ""),
    "Synthesized": ("what labkit.synthesize returned", ""),
    "Report": ("what run.report returned", ""),
    "Waiting": ("what run.waits returned", ""),
    "Schedule": ("a schedule", ""),
    "Curve": ("a curve", ""),
    "DataFrame": ("a data frame", "labkit.Study(frame) makes a study of one"),
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
#: what an annotation says that a figure takes, where that is not a thing's own name
_TAKEN = {
    "Platform": 'a machine, such as "torus:4x4"',
    "Expectation": 'an expectation, labkit.scaling.read_expectation("p log p")',
    "Mapping[str, Study]": "several studies by name",
    "Mapping[str, Mapping[str, Study]]": "studies by machine and program, {machine: {program: study}}",
    "Mapping[str, Curve]": "the curves of a study, study.curves()",
    "Mapping[str, float]": "numbers by name",
    "Sequence[float]": "a list of numbers",
}


def asks_for_its_subject(figure: Callable[..., object], name: str) -> Callable[..., object]:
    """Return a figure that refuses what it does not draw before it looks at it."""
    if not isinstance(figure, FunctionType):
        return figure
    signature = inspect.signature(figure)
    parameters = signature.parameters
    first = next(iter(parameters.values()), None)
    kinds = str(first.annotation).split(" | ") if first is not None else []
    classes = {kind.partition("[")[0].rpartition(".")[2] for kind in kinds}
    known = [kind.rpartition(".")[2] if "[" not in kind else kind for kind in kinds]
    takes = [_TAKEN.get(kind) or _THINGS[kind][0] for kind in known if kind in _TAKEN or kind in _THINGS]
    if "Platform" in classes:  # which may be given as a text
        takes = [_TAKEN["Platform"]]
    if first is None or first.kind is first.VAR_POSITIONAL or not takes or {"Any", "object"} & classes:
        return figure
    needed = [
        one.name
        for one in parameters.values()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    wanted = ", ".join(takes[:-1]) + (" or " if takes[1:] else "") + takes[-1]

    @functools.wraps(figure)
    def asked(*args: object, **kwargs: object) -> object:
        if args or first.name in kwargs or first.default is not first.empty:
            subject = args[0] if args else kwargs.get(first.name, first.default)
            if not _fits(subject, classes) and subject is not first.default:
                raise DataError(f"{name} takes {wanted}; got {_named(subject)}", code="wrong-arguments")
        else:
            raise DataError(f"{name} takes {wanted}: {name}({first.name})", code="wrong-arguments")
        if isinstance(width := kwargs.get("width"), str):
            raise DataError(
                f"width is a number of pixels, got {width!r}; a column of a paper is an option of save: "
                f'{name}(...).save("figure.pdf", width="double")',
                code="wrong-type",
            )
        if missing := [one for one in needed[len(args) :] if one not in kwargs]:
            raise DataError(
                f"{name} also takes {', '.join(missing)}: {name}({', '.join(needed)})", code="missing-key"
            )
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            raise _misfit(name, wanted, parameters, kwargs) from None
        return figure(*args, **kwargs)

    return asked


def _misfit(
    name: str, wanted: str, parameters: Mapping[str, inspect.Parameter], given: Mapping[str, object]
) -> DataError:
    """Return the error of a call with too many things, or with an option that a figure does not have."""
    options = [one.name for one in parameters.values() if one.kind is one.KEYWORD_ONLY]
    unknown = [one for one in given if one not in parameters]
    if unknown:
        hint = nearest(unknown[0], options, 1) or f"; it has {', '.join(options) or 'no options'}"
        return DataError(f"{name} has no option {unknown[0]!r}{hint}", code="unknown-name")
    return DataError(
        f"{name} draws {wanted}, one at a time: call it once for each; options are given by name"
        f"{': ' + ', '.join(options) if options else ''}",
        code="wrong-arguments",
    )


def _fits(subject: object, wanted: set[str]) -> bool:
    """Whether a subject may be what is drawn; a class that is not known here is left to the figure itself."""
    classes = {one.__name__ for one in type(subject).__mro__}
    if classes & wanted or (subject is None and "None" in wanted) or not classes & set(_THINGS):
        return True
    return "Sequence" in wanted and isinstance(subject, list | tuple)


def _named(subject: object) -> str:
    """Return what a subject is, and what draws it."""
    kind = next(one.__name__ for one in type(subject).__mro__ if one.__name__ in _THINGS)
    what, instead = _THINGS[kind]
    got = f"{what} ({reprlib.repr(subject)})" if isinstance(subject, str | int | float) else what
    return got + (f"; {instead}" if instead else "")
