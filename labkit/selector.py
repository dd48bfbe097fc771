"""Selectors: which algorithm a collective call takes, by its operation, ranks, bytes and machine.

The defaults are a table of rules (``datasets/selectors/default.toml``), ``{"allreduce": "ring"}`` is a fixed
choice, and a table of one's own, measured or written by hand, is a file of the same form, TOML or JSON::

    rules = [
      { operation = "allreduce", machine = "torus*", bytes_below = 65536, use = "recursive_doubling" },
      { operation = "allreduce", ranks_from = 64, use = "ring" },
    ]

The first rule counts that fits, and whose algorithm can be used. Every rule has ``operation`` and ``use``.
The amounts ``ranks``, ``bytes`` (the message of a bcast, reduction or scan, one block of the others),
``total_bytes`` (bytes x ranks) and ``bytes_per_rank`` (bytes / ranks) are compared by ``_from``, ``_below``
and ``_at_most``; ``power_of_two`` (of the ranks), ``commutative`` and ``cuttable`` (of the operator) are true
or false; ``machine`` is a pattern of the platform's spec.
"""

from __future__ import annotations

import operator
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from labkit import registry
from labkit.errors import ScheduleError
from labkit.plain import json_of, toml_of

__all__ = [
    "Choices", "First", "Fixed", "Rule", "Rules", "Selector", "Situation", "Usable", "default", "selector_of",
]  # fmt: skip

#: situations that a run keeps its choices of
_MOST_KEPT = 10_000


class Situation(NamedTuple):
    """What a choice may depend on.

    Attributes
    ----------
    operation : str
        The collective, as the registry calls it.
    ranks : int
    n_bytes : float
        The message of a bcast, reduction or scan; one block of the others.
    is_commutative : bool
        Whether the operator commutes.
    is_cuttable : bool
        Whether the operator works element by element, so that a message can be cut anywhere.
    machine : str
        The platform's spec, such as ``"torus:4x4x4"``.
    """

    operation: str
    ranks: int
    n_bytes: float = 0
    is_commutative: bool = True
    is_cuttable: bool = True
    machine: str = ""


class Selector(ABC):
    """Chooses algorithms; derive from it, or combine what is here."""

    @abstractmethod
    def choose(self, situation: Situation) -> str | None:
        """Return an algorithm's name, None for no opinion."""

    def check(self) -> None:  # noqa: B027 - most have nothing to refuse
        """Refuse what can never work, before anything runs.

        Raises
        ------
        ScheduleError
            For an unknown collective or algorithm.
        """


@dataclass(frozen=True)
class Fixed(Selector):
    """One algorithm a collective, whatever the situation.

    Parameters
    ----------
    algorithms : mapping of str to str
        Collective's name to algorithm's name.
    """

    algorithms: Mapping[str, str]

    def choose(self, situation: Situation) -> str | None:
        """Return its name, None for a collective that is not among them."""
        return self.algorithms.get(situation.operation)

    def check(self) -> None:
        """Refuse algorithms that are not in the registry, or are no schedules."""
        for operation, name in self.algorithms.items():
            _check_schedule(operation, name)


#: quantity of a rule -> how it is reckoned
_AMOUNTS: dict[str, Callable[[Situation], float]] = {
    "ranks": lambda at: at.ranks,
    "bytes": lambda at: at.n_bytes,
    "total_bytes": lambda at: at.n_bytes * at.ranks,
    "bytes_per_rank": lambda at: at.n_bytes / at.ranks,
}
_COMPARISONS = {"_from": operator.ge, "_below": operator.lt, "_at_most": operator.le}
_FLAGS: dict[str, Callable[[Situation], bool]] = {
    "power_of_two": lambda at: at.ranks & (at.ranks - 1) == 0,
    "commutative": lambda at: at.is_commutative,
    "cuttable": lambda at: at.is_cuttable,
}


@dataclass(frozen=True)
class Rule:
    """One row of a table.

    Parameters
    ----------
    operation, use : str
        Collective and algorithm.
    conditions : mapping
        As in the file: see the module.
    """

    operation: str
    use: str
    conditions: Mapping[str, Any]

    def fits(self, at: Situation) -> bool:
        """Whether all its conditions hold."""
        return all(_holds(key, wanted, at) for key, wanted in self.conditions.items())


def _holds(key: str, wanted: Any, at: Situation) -> bool:
    if key == "machine":
        return fnmatchcase(at.machine, wanted)
    if key in _FLAGS:
        return _FLAGS[key](at) is wanted
    amount, suffix = _parts(key)
    return bool(_COMPARISONS[suffix](_AMOUNTS[amount](at), wanted))


def _parts(key: str) -> tuple[str, str]:
    for suffix in _COMPARISONS:
        if key.endswith(suffix) and key.removesuffix(suffix) in _AMOUNTS:
            return key.removesuffix(suffix), suffix
    return "", ""


class Rules(Selector):
    """A table: the first rule that fits, and whose algorithm can be used here.

    Parameters
    ----------
    rows : sequence of mapping
        Each with operation, use and any conditions.
    name : str
        What errors call the table.

    Raises
    ------
    ScheduleError
        A row that is no rule.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], name: str = "rules") -> None:
        self.name = name
        self.rules = tuple(_rule(row, f"{name}, rule {i}") for i, row in enumerate(rows, 1))
        self._of: dict[str, list[Rule]] = {}
        for rule in self.rules:
            self._of.setdefault(rule.operation, []).append(rule)

    @classmethod
    def read(cls, path: Any) -> Rules:
        """Read a table from a file, TOML or (.json) JSON.

        Raises
        ------
        ScheduleError
            It cannot be read, or is no table of rules.
        """
        try:
            text = Path(path).read_text("utf-8") if isinstance(path, str | os.PathLike) else path.read_text()
            table = json_of(text) if str(path).endswith(".json") else toml_of(text)
        except (OSError, ValueError) as error:
            raise ScheduleError(f"cannot read rules from {str(path)!r}: {error}") from error
        rows = table.get("rules") if isinstance(table, dict) else table
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ScheduleError(
                f"{path}: a table of rules has a list `rules` of tables, each with operation and use"
            )
        return cls(rows, str(path))

    def __repr__(self) -> str:
        return f"Rules({[{'operation': r.operation, **r.conditions, 'use': r.use} for r in self.rules]!r})"

    def choose(self, situation: Situation) -> str | None:
        """Return the first one's algorithm, None where none fits."""
        for rule in self._of.get(situation.operation, ()):
            if rule.fits(situation) and _is_usable(situation, rule.use):
                return rule.use
        return None

    def check(self) -> None:
        """Refuse algorithms that are not in the registry, or are no schedules."""
        for rule in self.rules:
            _check_schedule(rule.operation, rule.use)


def _rule(row: Mapping[str, Any], where: str) -> Rule:
    conditions = dict(row)
    operation, use = conditions.pop("operation", None), conditions.pop("use", None)
    if not isinstance(operation, str) or not isinstance(use, str):
        raise ScheduleError(f"{where}: a rule has operation and use, both texts; got {dict(row)!r}")
    for key, value in conditions.items():
        if key == "machine" or key in _FLAGS:
            kind: Any = str if key == "machine" else bool
            if isinstance(value, kind):
                continue
        elif _parts(key)[0] and isinstance(value, int | float) and not isinstance(value, bool):
            continue
        amounts = ", ".join(_AMOUNTS)
        raise ScheduleError(
            f"{where}: {key} = {value!r} is no condition; there are machine = 'pattern', "
            f"{', '.join(_FLAGS)} = true or false, and {amounts} with {', '.join(_COMPARISONS)} = a number"
        )
    return Rule(operation, use, conditions)


class Usable(Selector):
    """The first algorithm by name that can be used here: what is left when no rule says anything."""

    def choose(self, situation: Situation) -> str | None:
        """Return its name, None if there is none."""
        names = registry.names(situation.operation)
        return next((name for name in names if _is_usable(situation, name)), None)


class First(Selector):
    """Several selectors: the first one that has an opinion.

    Parameters
    ----------
    *selectors : Selector
    """

    def __init__(self, *selectors: Selector) -> None:
        self.selectors = selectors

    def __repr__(self) -> str:
        return f"First({', '.join(map(repr, self.selectors))})"

    def choose(self, situation: Situation) -> str | None:
        """Return the first one's choice."""
        for selector in self.selectors:
            name = selector.choose(situation)
            if name is not None:
                return name
        return None

    def check(self) -> None:
        """Check them all."""
        for selector in self.selectors:
            selector.check()


def _check_schedule(operation: str, name: str) -> None:
    if registry.get(operation, name).schedule is None:
        raise ScheduleError(f"{operation}/{name} is a program, not a schedule")


def _is_usable(at: Situation, name: str) -> bool:
    algorithm = registry.get(at.operation, name)
    return algorithm.schedule is not None and not algorithm.requirements.unmet(at.ranks, at.is_commutative)


@cache
def _defaults() -> First:
    return First(Rules.read(files("labkit.datasets") / "selectors" / "default.toml"), Usable())


def selector_of(coll: Any = None) -> Selector:
    """Return the selector that a run was asked for; what it leaves open the defaults choose.

    Parameters
    ----------
    coll : Selector, mapping, path or None
        A selector; collective's name to algorithm's name; a file of rules; None: the defaults.

    Raises
    ------
    ScheduleError
        For an unknown collective or algorithm, or a file that is no table of rules.

    Examples
    --------
    >>> selector_of({"allreduce": "ring"}).choose(Situation("allreduce", 64, 8))
    'ring'
    >>> selector_of().choose(Situation("allreduce", 64, 8))
    'recursive_doubling'
    """
    if coll is None or coll == {}:
        return _defaults()
    if isinstance(coll, Mapping):
        coll = Fixed(dict(coll))
    elif isinstance(coll, str | os.PathLike):
        coll = Rules.read(coll)
    elif not isinstance(coll, Selector):
        raise ScheduleError(
            "coll takes a mapping such as {'allreduce': 'ring'}, the path of a file of rules, or a "
            f"labkit.selector.Selector; got {coll!r}"
        )
    coll.check()
    return First(coll, _defaults())


class Choices:
    """The choices of one run on one machine: asked once a situation, and kept for who wants to see them.

    Parameters
    ----------
    selector : Selector
    machine : str
        The platform's spec.

    Attributes
    ----------
    made : dict
        Situation to algorithm's name, in the order of the calls; of the first ten thousand situations.
    """

    def __init__(self, selector: Selector, machine: str = "") -> None:
        self.selector = selector
        self.machine = machine
        self.made: dict[Situation, str] = {}

    def __call__(
        self,
        operation: str,
        ranks: int,
        n_bytes: float = 0,
        commutative: bool = True,
        is_cuttable: bool = True,
    ) -> str:
        """Return the name of the algorithm to take (see `Situation`).

        Raises
        ------
        ScheduleError
            If there is none.
        """
        at = Situation(operation, ranks, n_bytes, commutative, is_cuttable, self.machine)
        name = self.made.get(at)
        if name is None:
            name = self.selector.choose(at)
            if name is None:
                raise ScheduleError(
                    f"no algorithm for {operation} on {ranks} ranks (commutative={commutative})"
                )
            if len(self.made) < _MOST_KEPT:
                self.made[at] = name
        return name


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
