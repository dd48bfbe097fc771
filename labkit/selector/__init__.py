"""Selectors: which algorithm a collective call takes, by its operation, ranks, bytes and machine.

The defaults are a table of rules (``datasets/selectors/default.toml``), ``{"allreduce": "ring"}`` is a fixed
choice, and a custom table, measured or written manually, is a file of the same form, TOML or JSON (see
`labkit.selector.rules`), or one of an MPI library (see `labkit.selector.formats`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache

from labkit import registry
from labkit.datasets import FOLDER
from labkit.errors import ScheduleError, nearest
from labkit.schedule.problem import PROBLEMS
from labkit.selector.rules import Best, First, Fixed, Rule, Rules, Usable
from labkit.selector.situation import Choices, Selector, Situation

__all__ = [
    "Best", "Choices", "First", "Fixed", "Rule", "Rules", "Selector", "Situation", "Usable", "default",
    "named", "of_words", "selector_of", "stated",
]  # fmt: skip


_TABLES = FOLDER / "selectors"


@cache
def _defaults() -> First:
    return First(_named("default"), Usable())


@cache
def _named(name: str) -> Selector:
    return Best() if name == "best" else Rules.read(_TABLES / f"{name}.toml")


def _words() -> list[str]:
    """Return what `coll` takes but files: selectors, and each collective with each of its algorithms."""
    pairs = [f"{op}={name}" for op in registry.problems() if op in PROBLEMS for name in registry.names(op)]
    return [*named(), *pairs]


@cache
def named() -> tuple[str, ...]:
    """Return the names of labkit's selectors: ``best`` and the tables of ``datasets/selectors``."""
    tables = (file.name.removesuffix(".toml") for file in _TABLES.iterdir() if file.name.endswith(".toml"))
    return ("best", *sorted(name for name in tables if not name.endswith("_names")))


def selector_of(coll: object = None) -> Selector:
    """Return the selector that a run was asked for; what it leaves open the defaults choose.

    Parameters
    ----------
    coll : Selector, mapping, str, path or None
        A selector; collective's name to algorithm's name; the same as text as on the command line
        (``"allreduce=ring,bcast=binomial"``); a selector's name (`named`): ``"ompi"``, ``"mpich"``,
        ``"mvapich2"`` and ``"impi"`` (Intel MPI) decide as SMPI has these libraries, ``"smpi"`` as SimGrid's
        default, ``"best"`` simulates all algorithms and takes the fastest (SMPI's ``automatic``); a file of
        rules; None: the defaults.

    Raises
    ------
    ScheduleError
        For an unknown collective or algorithm, or a file that is no table of rules.

    Examples
    --------
    >>> selector_of({"allreduce": "ring"}).choose(Situation("allreduce", 64, 8))
    'ring'
    >>> selector_of("allreduce=ring,bcast=binomial").choose(Situation("bcast", 64, 8))
    'binomial'
    >>> selector_of().choose(Situation("allreduce", 64, 8))
    'recursive_doubling'
    """
    if coll is None or (isinstance(coll, Mapping) and not coll):
        return _defaults()
    coll = stated(coll)
    for operation, name in coll.forced.items():
        raise ScheduleError(
            f"{operation}=library:{name} forces an algorithm of a real MPI library; on a simulated machine "
            f"use labkit's: {operation}={name}"
        )
    return First(coll, _defaults())


def stated(coll: object) -> Selector:
    """Return the selector that a run was asked for, which leaves open what nothing was said of.

    Parameters
    ----------
    coll : Selector, mapping, str or path
        As `selector_of` takes it; ``"allreduce=library:ring"`` is for the MPI library of a real run.

    Raises
    ------
    ScheduleError
        As `selector_of`.
    """
    if isinstance(coll, Mapping):
        coll = Fixed(dict(coll))
    elif isinstance(coll, str):
        coll = of_words(coll.split(","))
    elif isinstance(coll, os.PathLike):
        from labkit.selector.formats import read_rules

        coll = read_rules(coll)
    elif not isinstance(coll, Selector):
        raise ScheduleError(
            "coll must be a mapping such as {'allreduce': 'ring'}, a string such as 'allreduce=ring', a file "
            f"of rules, or a labkit.selector.Selector; got {coll!r}",
            code="wrong-type",
        )
    selector: Selector = coll
    selector.check()
    return selector


def of_words(words: Sequence[str]) -> Selector:
    """Return the selector of strings such as ``allreduce=ring``, then selectors' names and files of rules.

    Raises
    ------
    ScheduleError
        For a string that is neither, or a file that is not a table of rules.
    """
    from labkit.selector.formats import ENDINGS, read_rules  # of other libraries: few runs need them

    chosen: dict[str, str] = {}
    rules: list[Selector] = []
    for word in words:
        operation, sign, name = (part.strip() for part in word.partition("="))
        if operation and sign and name:
            chosen[operation] = name
        elif operation in named():
            rules.append(_named(operation))
        elif word.endswith(ENDINGS):
            rules.append(read_rules(word))
        else:
            raise ScheduleError(
                f"coll takes COLLECTIVE=ALGORITHM, as in allreduce=ring, a selector ({', '.join(named())}) "
                f"or a file of rules ({', '.join(ENDINGS)}); got {word!r}"
                f"{nearest(word, _words())}",
                code="wrong-type",
            )
    return First(Fixed(chosen), *rules)


def default(
    problem: str, ranks: int, n_bytes: float = 0, commutative: bool = True, is_cuttable: bool = True
) -> registry.Algorithm:
    """Return the algorithm a sensible MPI library would take: the defaults' choice (see `Situation`).

    Raises
    ------
    ScheduleError
        If there is no such problem, or no algorithm for it.
    """
    return registry.get(problem, Choices(_defaults())(problem, ranks, n_bytes, commutative, is_cuttable))
