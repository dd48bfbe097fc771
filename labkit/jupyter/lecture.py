"""An algorithm as a lecture writes it, next to the one that labkit uses, and a race of the two."""

from __future__ import annotations

import io
import keyword
import token
import tokenize
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from importlib import import_module
from inspect import getsource
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit import registry
from labkit.datasets import inputs
from labkit.errors import ScheduleError
from labkit.launch.run import machine_of
from labkit.study import Study, sweep
from labkit.text.html import PRE, quantity

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["Lecture", "Race", "lecture"]

_READABLE, _USED, _LIBRARY = "as the lecture writes it", "as labkit uses it", "the MPI library's own"
_COLUMN = "flex:1 1 28em;min-width:0;margin:0"
_CODE = (
    f"{PRE};max-height:44em;overflow:auto;margin:4px 0;padding:8px;border:1px solid #8886;font-size:12px;"
    "line-height:1.35;background:none;color:inherit"
)


@dataclass(frozen=True)
class Lecture:
    """A readable form next to the algorithm in use.

    `form`: The readable form: ``form(comm, ...)``.
    """

    problem: str
    name: str
    form: Callable[..., Any]

    @property
    def source(self) -> str:
        """The readable form's file."""
        return getsource(import_module(self.form.__module__))

    @property
    def used_source(self) -> str:
        """The file of the algorithm in use."""
        return getsource(import_module(f"labkit.algorithms.{self.problem}.{self.name}"))

    def race(
        self, ranks: Iterable[int] = (2, 4, 8, 16, 32), on: object = "star", *, n: int = 1000, **options: Any
    ) -> Race:
        """Run both on the same machine with the same input.

        `on`: As in `labkit.sweep`. On a real machine a collective races with that of the MPI library, and
            what processes that share a core show is not to be judged.
        `n`: Keys of a rank (a sort), or numbers of a message (a collective; of an alltoall, a gather and the
            like: of a block). Mini sort has one key.
        `**options`: Further arguments of `labkit.sweep`.
        Raises LabkitError: As from `labkit.sweep`: a form states what it needs.
        """
        numbers = list(ranks)
        is_collective = self.problem != "sorting"
        is_real = is_collective and machine_of(on).is_real
        how = {"progress": False, "n": [n], **options}
        coll = {self.problem: self.name} if is_collective and not is_real else None
        studies = {
            _READABLE: sweep(_entry(self.problem, self.name, is_form=True), numbers, on, **how),
            _LIBRARY if is_real else _USED: sweep(
                _entry(self.problem, self.name, is_form=False), numbers, on, coll=coll, **how
            ),
        }
        return Race(f"{self.problem}/{self.name}", studies)

    def __repr__(self) -> str:
        """Show the readable form, and where the other is."""
        lines = len(self.used_source.splitlines())
        return f"{self.source}\n# in use: labkit/algorithms/{self.problem}/{self.name}.py, {lines} lines"

    def _repr_html_(self) -> str:
        """Show both, side by side."""
        columns = ((_READABLE, self.source), (_USED, self.used_source))
        return (
            '<div style="display:flex;flex-wrap:wrap;gap:16px">'
            + "".join(
                f'<figure style="{_COLUMN}"><figcaption><b>{title}</b>, {_lines(text)}</figcaption>'
                f'<pre tabindex="0" style="{_CODE}">{_dressed(text)}</pre></figure>'
                for title, text in columns
            )
            + "</div>"
        )


@dataclass(frozen=True)
class Race:
    """Times of both forms.

    `studies`: The readable form's first.
    """

    name: str
    studies: Mapping[str, Study]

    def __str__(self) -> str:
        """Print a line for each number of ranks."""
        curves = [study.curve().samples for study in self.studies.values()]
        form, used = (curve.aggregate("quartile") for curve in curves)
        lines = [f"{self.name}: {', '.join(self.studies)}, and how many times as long the first takes"]
        for p, one, other in zip(curves[0].x, form, used, strict=True):
            lines.append(
                f"{p:6g} ranks {quantity(float(one), 's'):>10} {quantity(float(other), 's'):>10} "
                f"{one / other:6.2f}"
            )
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        from labkit.plot import compare

        return compare({self.name: self.studies}, width=420)._repr_mimebundle_(include, exclude)


def lecture(problem: str, name: str = "") -> Lecture:
    """Show an algorithm as a lecture writes it, in at most 40 lines, next to the one that is used.

    The form has no ties, no dtypes and no options; its first lines say what it needs and what it promises.
    It is a program like any other: ``lk.lecture("bcast", "binomial").form(comm, message)``.

    Parameters
    ----------
    problem, name : str
        As in `labkit.registry.teaching_forms`; a problem with one readable form needs no name, an algorithm
        that no other problem has needs no problem: ``lk.lecture("sample_sort")``; ``"sorting/sample_sort"``
        is both.

    Returns
    -------
    Lecture
        Shows itself in a notebook; ``.race()`` runs both.

    Raises
    ------
    ScheduleError
        For what has no readable form.

    Examples
    --------
    >>> race = lecture("reduce", "binomial").race([2, 4, 8], n=10)
    >>> str(race).splitlines()[0]
    'reduce/binomial: as the lecture writes it, as labkit uses it, and how many times as long the first takes'
    """
    if not isinstance(problem, str):
        raise ScheduleError(
            f'an algorithm is given by name, such as "sample_sort", got {type(problem).__name__}',
            code="wrong-type",
        )
    if not name:
        problem, name = _only_form(problem)
    return Lecture(problem, name, registry.teaching_form(problem, name))


def _only_form(words: str) -> tuple[str, str]:
    """Return the one readable form that a problem, an algorithm, or both with a slash, stand for."""
    problem, _, name = words.partition("/")
    known = registry.teaching_forms()
    forms = [(of, one) for of, one in known if problem == of and name in ("", one)]
    forms = forms or [(of, one) for of, one in known if words == one]
    if len(forms) > 1:
        several = ", ".join("/".join(one) for one in forms)
        raise ScheduleError(f"which of the readable forms of {words}? There are {several}", code="ambiguous")
    return forms[0] if forms else (problem, name)


def _entry(problem: str, name: str, *, is_form: bool) -> Callable[..., Any]:
    """Return the program of one side; a real rank has it by value."""
    if problem == "sorting":
        chosen = registry.teaching_form(problem, name) if is_form else registry.get(problem, name).function

        def sort(comm: Intracomm, n: int) -> None:
            count = 1 if name == "mini_sort" else n
            chosen(comm, inputs.keys("uniform", comm.rank, comm.size, count, dtype="u8"))  # type: ignore[misc]

        return sort
    form = registry.teaching_form(problem, name)

    def collective(comm: Intracomm, n: int) -> None:
        one, every = np.zeros(n), np.zeros((comm.size, n))
        if not is_form:
            given: tuple[object, ...] = {
                "barrier": (),
                "bcast": (one,),
                "alltoall": (every, every.copy()),
                "scatter": (every, one),
                "gather": (one, every),
                "allgather": (one, every),
            }.get(problem, (one, one.copy()))
            getattr(comm, problem.capitalize())(*given)
        elif problem in ("alltoall", "scatter"):
            form(comm, list(every))
        else:
            form(comm, *([] if problem == "barrier" else [one]))

    return collective


def _lines(source: str) -> str:
    return f"{len(source.splitlines())} lines"


def _dressed(source: str) -> str:
    """Return Python as HTML that any theme can show: keywords bold, comments and docstrings paler."""
    lines, parts, at = source.splitlines(keepends=True), [], (1, 0)
    starts = np.cumsum([0, *map(len, lines)])

    def text_of(begin: tuple[int, int], end: tuple[int, int]) -> str:
        return escape(source[starts[begin[0] - 1] + begin[1] : starts[end[0] - 1] + end[1]])

    for kind, word, begin, end, _ in tokenize.generate_tokens(io.StringIO(source).readline):
        parts.append(text_of(at, begin))
        shown, at = text_of(begin, end), end
        if kind == token.NAME and keyword.iskeyword(word):
            shown = f"<b>{shown}</b>"
        elif kind == tokenize.COMMENT or (kind == token.STRING and word.startswith('"""')):
            shown = f'<span style="opacity:0.65">{shown}</span>'
        parts.append(shown)
    return "".join(parts)
