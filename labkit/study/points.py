"""The points of a sweep: every combination of ranks, machines, models and parameters."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from labkit.errors import DataError, MachineError
from labkit.launch.run import machine_of
from labkit.machines.noise import noise_of
from labkit.real.engines.target import is_cluster
from labkit.selector import stated
from labkit.study.rows import FIXED, MEASURED, PLACE, cell
from labkit.study.selection import pick_all

__all__ = [
    "Point",
    "choice_text",
    "collective_choices",
    "form_of_algorithms",
    "form_of_values",
    "form_remarks",
    "is_real",
    "plan_points",
    "rank_counts",
]

_RESERVED = {*FIXED, *MEASURED, *PLACE, "ranks"}


@dataclass(frozen=True)
class Point:
    """One point: where it stands in the plan, and what runs there.

    `number`: Its place among the rows of the study.
    `on`: The machine.
    `model`: The network model.
    `parameters`: The program's keyword arguments.
    `cells`: The same as cells of the table, and the collectives' algorithms where they were chosen.
    `options`: Options of this point's runs.
    """

    number: int
    ranks: int
    on: Any
    model: str | None
    parameters: dict[str, Any]
    cells: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Name the point."""
        return ", ".join([f"ranks={self.ranks}", *(f"{k}={v}" for k, v in self.cells.items())])


# Numbers of ranks: ranges such as ``"16..256"``, and what changes with their form, powers of two or not.

_RANGE = re.compile(r"\s*(\d+)\s*\.\.\s*(\d+)\s*")

#: values of other numbers of ranks that are outside those of the powers of two around them by less than this
#: share are not noticed
_NOTICED = 0.05

#: curves of a study whose form is looked at
_MOST_CURVES = 50


def rank_counts(ranks: Any) -> list[int]:
    """Return numbers of ranks as a list.

    Examples
    --------
    >>> rank_counts("3..20"), rank_counts([1, 2])
    ([3, 4, 6, 8, 12, 16, 20], [1, 2])
    """
    is_one = isinstance(ranks, str) or not isinstance(ranks, Iterable)
    found: list[int] = []
    for one in [ranks] if is_one else ranks:
        if isinstance(one, str) and (ends := _RANGE.fullmatch(one)):
            found += _between(int(ends[1]), int(ends[2]), one)
        elif isinstance(one, bool) or not isinstance(one, int | np.integer) or one < 1:
            is_list = isinstance(one, str) and re.fullmatch(r"[\[\d,\s\]]+", one)
            instead = "write a list without quotes, as in [2, 4, 8]" if is_list else 'or a range, "16..256"'
            raise DataError(f"ranks must be whole numbers >= 1; got {one!r}; {instead}", code="out-of-range")
        else:
            found.append(int(one))
    return found


def _between(first: int, last: int, text: str) -> Iterator[int]:
    if not 1 <= first <= last:
        raise DataError(
            f"ranks: the range {text!r} needs 1 <= first <= last, as in '16..256'", code="out-of-range"
        )
    inner = sorted(factor << k for factor in (1, 3) for k in range(last.bit_length()))
    yield from dict.fromkeys([first, *(p for p in inner if first < p < last), last])


def _is_power(p: int) -> bool:
    return p & (p - 1) == 0


def _compared(known: Iterable[int]) -> Iterator[tuple[int, int, int]]:
    """Yield each number that is no power of two, with the powers of two around it that are known."""
    powers = sorted(p for p in known if _is_power(p))
    for q in sorted(p for p in known if not _is_power(p)):
        below, above = [p for p in powers if p < q], [p for p in powers if p > q]
        if below and above:
            yield q, below[-1], above[0]


def form_of_algorithms(taken: Mapping[str, Mapping[int, Iterable[str]]]) -> list[str]:
    """Return as sentences which collectives change their algorithm where p is not a power of two."""
    said = []
    for operation, by_ranks in taken.items():
        names = {p: sorted(set(own)) for p, own in by_ranks.items()}
        others = [
            (q, low)
            for q, low, high in _compared(names)
            if names[low] == names[high] and not set(names[q]) & set(names[low])
        ]
        for own in dict.fromkeys(tuple(names[q]) for q, _ in others):
            counts = [q for q, _ in others if tuple(names[q]) == own]
            powers = dict.fromkeys(name for q, low in others if q in counts for name in names[low])
            said.append(
                f"{operation} takes {' and '.join(own)} at p = {_listed(counts)} and {' or '.join(powers)} "
                "at the powers of two around: its algorithm changes with the form of p"
            )
    return said


def form_of_values(x: Sequence[float], samples: Iterable[Any], what: str) -> str:
    """Return as text whether all ranks that are no powers of two lie off the powers of two around them.

    `x`: Numbers of ranks.
    `samples`: The repetitions at each of them.
    `what`: What was measured.
    Returns: Empty unless at least two, and most of them, are above both neighbors (or below both) by more
        than 5 % and by more than the scatter of the repetitions.
    """
    if any(p % 1 or p < 1 for p in x):
        return ""
    known = {int(p): (min(own), max(own)) for p, own in zip(x, samples, strict=True)}
    places = [(q, known[q], known[low], known[high]) for q, low, high in _compared(known)]
    above = {q: own[0] / max(a[1], b[1]) - 1 for q, own, a, b in places if max(a[1], b[1]) > 0}
    below = {q: 1 - own[1] / min(a[0], b[0]) for q, own, a, b in places if min(a[0], b[0]) > 0}
    for word, share in (("above", above), ("below", below)):
        off = {q: one for q, one in share.items() if one > _NOTICED}
        if len(off) >= 2 and 2 * len(off) > len(places):
            ends = dict.fromkeys(f"{100 * one:.2g}" for one in (min(off.values()), max(off.values())))
            return (
                f"{what} at p = {_listed([*off])} is {' to '.join(ends)} % {word} the powers of two on both "
                "sides: it depends on the form of p; judge the forms apart, with "
                f"where={{'ranks': {[p for p in known if _is_power(p)]}}}"
            )
    return ""


def form_remarks(
    data: pd.DataFrame, collectives: Iterable[Mapping[str, Mapping[Any, Iterable[str]]]]
) -> list[str]:
    """Return what a sweep says about the form of p: of collectives, and of the times of each curve.

    `data`: The rows.
    `collectives`: What the collectives took at each point (`labkit.study.measure.Found.collectives`).
    """
    taken: dict[str, dict[int, set[str]]] = {}
    for point in collectives:
        for operation, by_ranks in point.items():
            for p, names in by_ranks.items():  # numbers of ranks are strings where they were kept as JSON
                taken.setdefault(operation, {}).setdefault(int(p), set()).update(names)
    said = form_of_algorithms(taken)
    try:
        curves = pick_all(data, "makespan_s", None, "ranks")
    except DataError:
        return said
    for name, curve in list(curves.items())[:_MOST_CURVES]:
        what = "makespan_s" if name == "makespan_s" else f"makespan_s ({name})"
        said.append(form_of_values(curve.samples.x.tolist(), curve.samples.groups, what))
    return [one for one in dict.fromkeys(said) if one]


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts[:8])) + (", ..." if len(counts) > 8 else "")


def plan_points(
    ranks: object,
    on: object,
    model: object,
    parameters: Mapping[str, Any],
    coll: object = None,
    noise: Sequence[Any] | None = None,
) -> list[Point]:
    """Return every combination, the ranks outermost; `noise` is a list of choices, or None."""
    varied = {name for name, value in (("coll", coll), ("noise", noise)) if value is not None}
    clash = sorted(set(parameters) & (_RESERVED | varied))
    if clash:
        raise DataError(
            f"a parameter cannot be called {clash[0]!r}: the table has a column of that name",
            code="name-taken",
        )
    counts = rank_counts(ranks)
    choices, noises = collective_choices(coll), [None] if noise is None else list(noise)
    for one in noises:
        noise_of(one)  # refuses what cannot be read
    axes = [counts, _varied(on), _varied(model), choices, noises, *(_varied(v) for v in parameters.values())]
    if any(not axis for axis in axes):
        raise DataError(
            "a sweep needs at least one value of ranks and of every parameter", code="not-enough-data"
        )
    points = []
    for number, (p, machine, net, choice, disturbing, *values) in enumerate(itertools.product(*axes)):
        is_maker = callable(machine) and not hasattr(machine, "hosts") and not is_cluster(machine)
        where = machine(p) if is_maker else machine
        chosen = dict(zip(parameters, values, strict=True))
        cells = {name: cell(value) for name, value in chosen.items()}
        options = {} if choice is None else {"coll": choice}
        if choice is not None:
            if is_real(where) and not machine_of(where).takes_coll:
                raise MachineError(
                    f"coll={choice_text(choice)!r} chooses algorithms of a simulated machine or of "
                    f"on='mpi', and {where!r} has those of its MPI library; leave out one of them",
                    code="conflicting-options",
                )
            cells["coll"] = choice_text(choice)
        if noise is not None:
            if is_real(where):
                raise MachineError(
                    f"noise={list(noise)!r} disturbs simulated machines, and {where!r} has its own; leave "
                    "out one of them",
                    code="conflicting-options",
                )
            options["noise"] = disturbing
            cells["noise"] = "none" if disturbing is None else str(disturbing)
        points.append(Point(number, p, where, net, chosen, cells, options))
    return points


def collective_choices(coll: object) -> list[object]:
    """Return the choices of collective algorithms that a sweep goes through; [None] without any."""
    found: list[object] = []
    for one in _varied(coll):
        if isinstance(one, str) and "=" in one:
            one = dict(_pair(part) for part in one.split(","))
        if isinstance(one, Mapping):
            each = [[str(name) for name in _varied(value)] for value in one.values()]
            found += [dict(zip(one, names, strict=True)) for names in itertools.product(*each)]
        else:
            found.append(one)
    for one in found:
        if one is not None:
            stated(one)  # refuses what is not known
    return found


def _pair(part: str) -> tuple[str, str]:
    operation, _, name = part.partition("=")
    return operation.strip(), name.strip()


def choice_text(choice: object) -> str:
    """Write a choice of collective algorithms as a cell of the table."""
    if isinstance(choice, Mapping):
        return ",".join(f"{operation}={name}" for operation, name in choice.items())
    return str(cell(choice) if not isinstance(choice, os.PathLike) else os.fspath(choice))


def is_real(on: object) -> bool:
    """Whether a machine is a real one, where concurrent runs would disturb each other's times."""
    return machine_of(on).is_real


def _varied(value: object) -> list[Any]:
    if isinstance(value, list | tuple | range | set | np.ndarray | pd.Series):
        return list(value)
    if isinstance(value, Iterator):
        return list(value)
    return [value]
