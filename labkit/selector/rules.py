"""Tables of rules: the first one that fits counts.

::

    rules = [
      { operation = "allreduce", machine = "torus*", bytes_below = 65536, use = "recursive_doubling" },
      { operation = "allreduce", ranks_from = 64, use = "ring" },
    ]

The first rule counts that fits, and whose algorithm can be used. Every rule has ``operation`` and ``use``.
The amounts ``ranks``, ``ranks_per_node`` (how many consecutive ranks share a host), ``nodes`` (number of
hosts), ``bytes`` (the message of a bcast, reduction or scan, one block of the others), ``total_bytes``
(bytes x ranks), ``bytes_per_rank`` (bytes / ranks), ``copy_limits`` and ``total_copy_limits`` (bytes, and
bytes x ranks, by the length below which the machine's messages are copied; infinite where none is) are
compared by ``_from``, ``_below`` and ``_at_most``; ``bytes_below_line = [a, b]`` means
``bytes < a ranks + b``; ``power_of_two`` and ``even`` (of the ranks), ``commutative`` and ``cuttable`` (of
the operator) and ``collective_network`` (all ranks of the run, on a machine with its own network for the
operation) are true or false; ``machine`` is a pattern of the platform's spec.

``use = [[4096, "ring"], [65536, "bruck"], "pairwise"]`` is three rules in one: below 4096 bytes, below 65536,
and what is left; ``by = "total_bytes"`` says another amount than ``bytes``. ``use = "neighbor_exchange or
ring"``: the first of them that can be used; ``"default"`` among them: labkit's own choice, and no rule below
counts. ``"pipeline:segment_bytes=8192"``: as many segments as that makes
(`labkit.selector.situation`).
"""

from __future__ import annotations

import math
import operator
import os
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import inf
from pathlib import Path
from typing import Any

from labkit import registry
from labkit.errors import ScheduleError
from labkit.selector.situation import Selector, Situation, Timing, without_bytes
from labkit.text.files import json_of, text_of, toml_of

__all__ = ["Best", "First", "Fixed", "Rule", "Rules", "Usable", "is_usable"]

#: instead of an algorithm: what the defaults choose
_DEFAULT = "default"

#: quantity of a rule -> how it is computed
_AMOUNTS: dict[str, Callable[[Situation], float]] = {
    "ranks": lambda at: at.ranks,
    "ranks_per_node": lambda at: at.ranks_per_node,
    "nodes": lambda at: -(-at.ranks // at.ranks_per_node),
    "bytes": lambda at: at.n_bytes,
    "total_bytes": lambda at: at.n_bytes * at.ranks,
    "bytes_per_rank": lambda at: at.n_bytes / at.ranks,
    "copy_limits": lambda at: _copy_limits(at, at.n_bytes),
    "total_copy_limits": lambda at: _copy_limits(at, at.n_bytes * at.ranks),
}

_OF_NODES = ("ranks_per_node_", "nodes_")

_COMPARISONS = {"_from": operator.ge, "_below": operator.lt, "_at_most": operator.le}

#: bytes below a line of the ranks: slope and offset
_LINE = "bytes_below_line"

_FLAGS: dict[str, Callable[[Situation], bool]] = {
    "power_of_two": lambda at: at.ranks & (at.ranks - 1) == 0,
    "even": lambda at: at.ranks % 2 == 0,
    "commutative": lambda at: at.is_commutative,
    "cuttable": lambda at: at.is_cuttable,
    "collective_network": lambda at: at.on_collective_network,
}


@dataclass(frozen=True)
class Rule:
    """One row of a table, or one step of such a row.

    Parameters
    ----------
    operation, use : str
        Collective and algorithm, or several with `` or `` between them.
    conditions : mapping
        As in the file: see the module.
    """

    operation: str
    use: str
    conditions: Mapping[str, object]

    @property
    def names(self) -> list[str]:
        """The algorithms, the preferred one first."""
        return self.use.split(" or ")

    def fits(self, at: Situation) -> bool:
        """Whether all its conditions hold."""
        return all(_holds(key, wanted, at) for key, wanted in self.conditions.items())


def _holds(key: str, wanted: Any, at: Situation) -> bool:
    if key == "machine":
        return fnmatchcase(at.machine, wanted)
    if key in _FLAGS:
        return _FLAGS[key](at) is wanted
    if key == _LINE:
        return bool(at.n_bytes < wanted[0] * at.ranks + wanted[1])
    amount, suffix = _parts(key)
    return bool(_COMPARISONS[suffix](_AMOUNTS[amount](at), wanted))


def _copy_limits(at: Situation, n_bytes: float) -> float:
    return n_bytes / at.copied_below_bytes if at.copied_below_bytes else inf


def _parts(key: str) -> tuple[str, str]:
    for suffix in _COMPARISONS:
        if key.endswith(suffix) and key.removesuffix(suffix) in _AMOUNTS:
            return key.removesuffix(suffix), suffix
    return "", ""


# Selectors that need no table: a fixed choice, several one after another, the fastest, what can be used.

#: before the name of an algorithm of the MPI library's own
LIBRARY = "library:"


@dataclass(frozen=True)
class Fixed(Selector):
    """One algorithm a collective, whatever the situation.

    Parameters
    ----------
    algorithms : mapping of str to str
        Collective's name to algorithm's name; behind ``library:`` it is one of the MPI library's own.
    """

    algorithms: Mapping[str, str]

    def choose(self, situation: Situation) -> str | None:
        """Return its name, None for a collective that is not among them, or is left to the library."""
        name = self.algorithms.get(situation.operation)
        return None if name is None or name.startswith(LIBRARY) else name

    def check(self) -> None:
        """Refuse algorithms that are not in the registry, or are no schedules."""
        for operation, name in self.algorithms.items():
            if not (isinstance(operation, str) and isinstance(name, str)):
                raise ScheduleError(
                    "collectives and algorithms are given by name, as in coll={'allreduce': 'ring'}; got "
                    f"{operation!r}: {name!r}",
                    code="wrong-type",
                )
            check_schedule(operation, name.removeprefix(LIBRARY))

    def named(self) -> Mapping[str, str]:
        """Return them, but those of the library's own."""
        return {key: name for key, name in self.algorithms.items() if not name.startswith(LIBRARY)}

    @property
    def forced(self) -> Mapping[str, str]:
        """Those behind ``library:``."""
        return {
            operation: name.removeprefix(LIBRARY)
            for operation, name in self.algorithms.items()
            if name.startswith(LIBRARY)
        }


class Usable(Selector):
    """The first algorithm by name that can be used here: what is left when no rule says anything."""

    def choose(self, situation: Situation) -> str | None:
        """Return its name, or None."""
        names = registry.names(situation.operation)
        return next((name for name in names if is_usable(situation, name)), None)


class Best(Selector):
    """Every algorithm that can be used here is simulated on this machine, alone, and the fastest is taken.

    The ranks of the call are taken for the machine's first ones, and enter together; of equally fast ones the
    first by name is taken. What it costs: one simulation of every algorithm for each new situation.

    Parameters
    ----------
    time : callable, optional
        Situation and name to seconds; a run gives its machine's (`on`).
    """

    def __init__(self, time: Timing | None = None) -> None:
        self.time = time

    def __repr__(self) -> str:
        return "Best()"

    def on(self, time: Timing) -> Best:
        """Return the one that asks this machine."""
        return Best(time)

    def choose(self, situation: Situation) -> str | None:
        """Return the fastest one's name, or None."""
        time = self.time
        if time is None:
            raise ScheduleError(
                "coll='best' simulates every algorithm, which needs a simulated machine",
                code="conflicting-options",
            )
        usable = [name for name in registry.names(situation.operation) if is_usable(situation, name)]
        return min(usable, key=lambda name: time(situation, name), default=None)


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

    def named(self) -> Mapping[str, str]:
        """Return each collective's first one."""
        return dict(ChainMap(*(dict(selector.named()) for selector in self.selectors)))

    @property
    def asks_nodes(self) -> bool:
        """Whether one of them asks."""
        return any(selector.asks_nodes for selector in self.selectors)

    @property
    def forced(self) -> Mapping[str, str]:
        """Of each collective the first one's."""
        return dict(ChainMap(*(dict(selector.forced) for selector in self.selectors)))

    def on(self, time: Timing) -> First:
        """Return the same of each one's for this machine."""
        return First(*(selector.on(time) for selector in self.selectors))


def check_schedule(operation: str, name: str) -> None:
    """Refuse what is not in the registry, and what is no schedule."""
    if operation.startswith("neighbor_"):
        raise ScheduleError(
            f"{operation}={name}: collectives of all ranks are chosen; those of neighbors are no schedules: "
            "lk.tune.neighborhood chooses among the forms of such an exchange"
        )
    if registry.get(operation, without_bytes(operation, name)).schedule is None:
        raise ScheduleError(f"{operation}/{name} is a program, not a schedule")


def is_usable(at: Situation, name: str) -> bool:
    """Whether an algorithm takes these ranks and this operator, and the machine has what it needs."""
    if name == registry.ON_NETWORK and not at.on_collective_network:
        return False
    algorithm = registry.get(at.operation, without_bytes(at.operation, name))
    return algorithm.schedule is not None and not algorithm.requirements.unmet(at.ranks, at.is_commutative)


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

    def __init__(self, rows: Sequence[Mapping[str, object]], name: str = "rules") -> None:
        self.name = name
        self.rules = tuple(rule for i, row in enumerate(rows, 1) for rule in _rules(row, f"{name}, rule {i}"))
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
        is_file = isinstance(path, str | os.PathLike)
        text = text_of(Path(path), ScheduleError) if is_file else path.read_text("utf-8")
        try:
            table = json_of(text) if str(path).endswith(".json") else toml_of(text)
        except (OSError, ValueError) as error:
            raise ScheduleError(
                f"cannot read rules from {str(path)!r}: {error}", code="unreadable-file"
            ) from error
        unknown = sorted(set(table) - {"title", "source", "rules"}) if isinstance(table, dict) else []
        if unknown:
            raise ScheduleError(
                f"{path}: {unknown[0]!r} is not known here; a table of rules has title, source and rules",
                code="unknown-name",
            )
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
            if rule.fits(situation):
                for name in rule.names:
                    if name == _DEFAULT:
                        return None
                    if is_usable(situation, name):
                        return name
        return None

    @property
    def asks_nodes(self) -> bool:
        """Whether a rule has ``ranks_per_node`` or ``nodes``."""
        return any(key.startswith(_OF_NODES) for rule in self.rules for key in rule.conditions)

    def check(self) -> None:
        """Refuse algorithms that are not in the registry, or are no schedules."""
        for rule in self.rules:
            try:
                registry.names(rule.operation)
                for name in rule.names:
                    if name != _DEFAULT:
                        check_schedule(rule.operation, name)
            except ScheduleError as error:
                raise ScheduleError(f"{self.name}: {error}", code=error.code) from None


def _rules(row: Mapping[str, object], where: str) -> list[Rule]:
    """Return a row's rules: one for each step where it has steps."""
    steps = row.get("use")
    if not isinstance(steps, list):
        return [_rule(row, where)]
    common = {key: value for key, value in row.items() if key not in ("use", "by")}
    below = f"{row.get('by', 'bytes')}_below"
    if below in common:
        raise ScheduleError(
            f"{where}: {below} stands next to steps of use, which say it themselves",
            code="conflicting-options",
        )
    found, last = [], 0.0
    for step in steps[:-1]:
        if not isinstance(step, list) or len(step) != 2 or not _is_amount(step[0]) or not last < step[0]:
            raise ScheduleError(
                f"{where}: a step of use is [amount, 'algorithm'], for what is below the amount, and amounts "
                f"rise; got {step!r}",
                code="not-sorted",
            )
        found.append(_rule({**common, below: step[0], "use": step[1]}, where))
        last = step[0]
    return [*found, _rule({**common, "use": steps[-1] if steps else None}, where)]


def _is_line(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0  # not nan


def _rule(row: Mapping[str, Any], where: str) -> Rule:
    conditions = dict(row)
    operation, use = conditions.pop("operation", None), conditions.pop("use", None)
    if not isinstance(operation, str) or not isinstance(use, str):
        raise ScheduleError(
            f"{where}: a rule has operation and use, both texts; got {dict(row)!r}", code="malformed-line"
        )
    for key, value in conditions.items():
        if key == "machine" or key in _FLAGS:
            kind: Any = str if key == "machine" else bool
            if isinstance(value, kind):
                continue
        elif (_parts(key)[0] and _is_amount(value)) or (key == _LINE and _is_line(value)):
            continue
        amounts = ", ".join(_AMOUNTS)
        raise ScheduleError(
            f"{where}: {key} = {value!r} is no condition; there are machine = 'pattern', "
            f"{', '.join(_FLAGS)} = true or false, {_LINE} = [a, b], and {amounts} with "
            f"{', '.join(_COMPARISONS)} = a number",
            code="unknown-name",
        )
    for amount in _AMOUNTS:
        first, below, most = (conditions.get(f"{amount}{suffix}") for suffix in _COMPARISONS)
        least = max(first or 0, amount == "ranks")  # no communicator is empty
        is_never = below is not None and below <= least, most is not None and most < least, least == math.inf
        if any(is_never):
            raise ScheduleError(
                f"{where}: this rule never applies: {amount} from {least} on and also below that",
                code="conflicting-options",
            )
    return Rule(operation, use, conditions)
