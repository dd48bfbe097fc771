"""Exercises of the course's notebooks, with an instant answer: ``lk.check("matches", answer)``.

An exercise has a right answer, likely wrong answers, and a hint for each. They are in the course's folder
``exercises``, a file for each notebook.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from operator import eq
from typing import Any

from labkit.errors import DataError, DeadlockError, LabkitError, nearest
from labkit.registry import course_files, module_of_file

__all__ = [
    "Answer",
    "Exercise",
    "Trap",
    "check",
    "choice",
    "exercises",
    "is_near",
    "near",
    "tried_on",
]

_ONE = r"[-+]?(?:\d{1,3}(?:[,_ ]\d{3})+(?:\.\d*)?|\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_FACTOR = rf"{_ONE}(?:\s*(?:\^|\*\*)\s*{_ONE})?"
#: a number, or a product of numbers and powers; then perhaps its unit
_NUMBER = re.compile(rf"[≈~=]?\s*(?P<value>{_FACTOR}(?:\s*[*/x×·]\s*{_FACTOR})*)\s*(?P<unit>\D*)")
_FACTORS = re.compile(rf"(?P<sign>[*/x×·]?)\s*(?P<base>{_ONE})(?:\s*(?:\^|\*\*)\s*(?P<power>{_ONE}))?")
#: other names of the units in which answers are asked for
_UNITS = {
    "second": "s",
    "sec": "s",
    "millisecond": "ms",
    "microsecond": "µs",
    "us": "µs",
    "μs": "µs",
    "min": "minute",
    "h": "hour",
    "b": "byte",
    "megabyte": "mb",
    "percent": "%",
    "x": "time",
    "×": "time",
    "factor": "time",
}
#: what stands in a notebook until the reader writes an answer
_EMPTY: tuple[object, ...] = (None, "", "?")


@dataclass(frozen=True)
class Trap:
    """A likely wrong answer.

    `caught`: Whether an answer is this one.
    `hint`: What to think about; it does not say the right answer.
    """

    caught: Callable[[Any], bool]
    hint: str


@dataclass(frozen=True)
class Answer:
    """What is said of an answer; true in a condition when it is right.

    `state`: "right", "wrong" or "open".
    """

    state: str
    text: str

    def __bool__(self) -> bool:
        """Whether the answer is right."""
        return self.state == "right"

    def __str__(self) -> str:
        """Print with a sign."""
        return f"{ {'right': '✓ right:', 'wrong': '✗ not yet:', 'open': '…'}[self.state] } {self.text}"

    __repr__ = __str__


@dataclass(frozen=True)
class Exercise:
    """One question and its check.

    `form`: How an answer looks, such as "a number of ranks".
    `reads`: Makes an answer comparable; raises ValueError, TypeError, KeyError or a LabkitError for one that
        has another form.
    `right`: Whether such an answer is right.
    `because`: The explanation that a right answer earns.
    `hint`: For any wrong answer but the likely ones.
    `traps`: The likely wrong answers.
    `choices`: What the letters A, B, ... mean; such a question is answered by a click too.
    """

    form: str
    reads: Callable[[Any], Any]
    right: Callable[[Any], bool]
    because: str
    hint: str
    traps: tuple[Trap, ...]
    choices: tuple[str, ...] = ()

    def lettered(self) -> list[tuple[str, str]]:
        """Return the choices with their letters."""
        return list(zip("ABCD", self.choices, strict=False))

    def check(self, answer: object) -> Answer:
        """Show immediately what an answer is worth."""
        if _is_empty(answer):
            return Answer("open", f"write {self.form} in place of the question mark.")
        if misfit := _misfit(answer, self.form):
            return Answer("open", misfit)
        try:
            read = self.reads(self._plain(answer))
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, LabkitError):
            return Answer("open", f"{answer!r} cannot be read; the answer is {self.form}.")
        if self.right(read):
            return Answer("right", self.because)
        for trap in self.traps:
            if trap.caught(read):
                return Answer("wrong", trap.hint)
        return Answer("wrong", self.hint)

    def _plain(self, answer: object) -> Any:
        """Return the number of a text such as "3/35", "8.57 %", "2^20" or "1,000 B" if one is asked for."""
        if not isinstance(answer, str) or self.reads not in (float, int):
            return answer
        found = _NUMBER.fullmatch(answer.strip())
        if found is None:
            return answer
        units, known = _units(found["unit"]), _units(self.form)
        is_share = units == {"%"} and "%" not in known
        if not is_share and not units <= known:
            return answer
        value = 0.01 if is_share else 1.0
        for factor in _FACTORS.finditer(found["value"]):
            number = _number(factor["base"]) ** _number(factor["power"] or "1")
            value = value / number if factor["sign"] == "/" else value * number
        return value


def _misfit(answer: object, form: str) -> str:
    """Return a sentence if a function does not take the arguments that the form of an answer names."""
    asked = re.search(r"a function (\w+\((.*?)\))", form)
    if asked is None or not callable(answer):
        return ""
    try:
        inspect.signature(answer).bind(*asked[2].split(", "))
    except TypeError as error:
        return f"the function cannot be called as {asked[1]}: {error}."
    except ValueError:  # its parameters are not known
        pass
    return ""


def _number(text: str) -> float:
    return float(re.sub("[,_ ]", "", text))


def _units(text: str) -> set[str]:
    """Return the words of a text in lower case, without plurals, with one name for each unit."""
    words = (word.lower() for word in re.findall(r"[^\W\d]+(?:/[^\W\d]+)?|[%×]", text))
    singular = (word[:-1] if len(word) > 2 and word.endswith("s") else word for word in words)
    return {_UNITS.get(word, word) for word in singular}


def _is_empty(answer: object) -> bool:
    if isinstance(answer, dict):
        return any(_is_empty(value) for value in answer.values())
    return any(answer is one or (isinstance(answer, str) and answer.strip() == one) for one in _EMPTY)


def tried_on(
    ranks: Iterable[int], program: Callable[..., str], function: object, name: str
) -> tuple[str, float]:
    """Return how a reader's function failed at first, and the bytes of the busiest rank in the last run.

    ``program(comm, function)`` returns what is wrong on its rank, empty for nothing.
    """
    from labkit.launch.run import run

    if not callable(function):
        raise TypeError(f"{name} must be a function, got {type(function).__name__}")
    faults, received = [], 0.0
    for p in ranks:
        try:
            done = run(program, p, "star", args=(function,), timeout_s=20, count=True)
        except LabkitError as error:
            faults.append("deadlock" if isinstance(error, DeadlockError) else "error")
            continue
        faults += [fault for fault in done.results if fault][:1]
        assert done.counts is not None
        received = float(done.counts["received_bytes"].max())
    return faults[0] if faults else "", received


def is_near(value: float, wanted: float, share: float = 0.1) -> bool:
    """Whether a number is within a share of another."""
    return abs(value - wanted) <= share * abs(wanted)


def near(wanted: float, share: float = 1e-6) -> Callable[[float], bool]:
    """Return the check of an answer that is a number: within a share of the one that is wanted."""
    return lambda answer: is_near(answer, wanted, share)


def choice(
    right: str, because: str, hint: str = "", *, choices: tuple[str, ...] = (), **traps: str
) -> Exercise:
    """Return a question with the letters A to D; every wrong one has its hint in `traps`.

    Examples
    --------
    >>> choice("B", "it doubles.", A="it is constant.", C="it grows faster.").check("c")
    ✗ not yet: it grows faster.
    """
    caught = tuple(Trap(partial(eq, wrong), text) for wrong, text in traps.items())
    return Exercise(
        "one of the letters A, B, C, D", _letter, partial(eq, right), because, hint, caught, choices
    )


def _letter(answer: object) -> str:
    found = str(answer).strip(" ().:").upper()
    if found not in ("A", "B", "C", "D"):
        raise ValueError(found)
    return found


@cache
def exercises() -> dict[str, Exercise]:
    """Return all exercises of the course by name."""
    files = course_files("exercises")
    modules = [module_of_file(path, f"labkit.course.exercises.{name}") for name, path in files.items()]
    return {name: one for module in modules for name, one in module.EXERCISES.items()}


def check(name: str, answer: object = ...) -> Any:
    """Check the answer to an exercise of the course; a wrong one gets a hint, not the solution.

    Parameters
    ----------
    name : str
        The exercise, as its notebook names it.
    answer : object
        What it asks for; "?" is no answer yet. Without it, an exercise with choices shows them to be clicked.

    Returns
    -------
    Answer or Quiz
        An answer is true in a condition when it is right.

    Raises
    ------
    DataError
        For a name that no exercise has.

    Examples
    --------
    >>> check("matches", "?")  # doctest: +ELLIPSIS
    … write a dict of growth to match, such as {"p": "exact"}, for all of p log p...
    """
    known = exercises()
    if name not in known:
        hint = nearest(name, known) or "; the notebooks name them in their cells lk.check(...)"
        raise DataError(f"there is no exercise {name!r}{hint}", code="unknown-name")
    if answer is not ...:
        return known[name].check(answer)
    if not known[name].choices:
        return known[name].check("?")
    from labkit.jupyter.explorers.base import Quiz  # widgets take time to import, and most answers need none

    return Quiz(known[name].lettered(), known[name].check)
