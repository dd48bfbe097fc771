"""Other legal orders in which messages could have come: the program run again, its ranks late by chance.

A receive from ANY_SOURCE, or a probe, takes the message that is there first; which one that is depends on
times that MPI does not promise. Each try delays ranks before their calls, as a busy host would: whatever
comes of it is a legal run of the program. What the wildcards got, and whether the results differ, is compared
with the run that was not delayed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labkit.errors import DeadlockError, LabkitError, MachineError, TimeLimitError
from labkit.request import RunRequest
from labkit.result import Run
from labkit.units import ranks_text

__all__ = ["Difference", "Exploration", "Lateness", "check_tries", "explore"]

#: (rank, place, source, tag) of what a wildcard got, in the order of each rank's calls
Sighting = tuple[int, str, int, int]
#: most tries that are asked for
MOST_TRIES = 10_000
#: most lateness, in makespans of the run without delays: more than any computation delays a message
_LATE = 4.0
#: places and differences that the report names
_SHOWN = 5


@dataclass(frozen=True)
class Lateness:
    """How late ranks are for their calls in one try: by chance, from a seed, by up to so many seconds."""

    seed: int
    most_s: float


@dataclass(frozen=True)
class Difference:
    """A try that came to something else than the run without delays.

    Attributes
    ----------
    number : int
        Of the try, from 1.
    ranks : tuple of int
        Whose results or output differ; empty where the try failed.
    what : str
        How, in a sentence.
    rank, place, first, other
        The first receive from anybody that got another message: the rank, its line, the source in the run
        without delays and the source in this try (None: no message).
    """

    number: int
    ranks: tuple[int, ...]
    what: str
    rank: int = -1
    place: str = ""
    first: int | None = None
    other: int | None = None

    def text(self) -> str:
        """Say it in one line."""
        if not self.place:
            return f"try {self.number}: {self.what}"
        got = ["no message" if source is None else f"rank {source}'s" for source in (self.first, self.other)]
        where = f"rank {self.rank} at {self.place} got {got[1]} message where it had got {got[0]}"
        return f"try {self.number}: {self.what}; {where.replace('no message message', 'no message')}"


@dataclass(frozen=True)
class Exploration:
    """What `explore` found: ``run.exploration``.

    Attributes
    ----------
    tries : int
        Runs with delays.
    matchings : int
        Different ways, in all runs, in which wildcards got their messages.
    differences : tuple of Difference
        Tries with other results; empty: nothing depended on the order.
    wildcards : mapping of (rank, place) to list of int
        Receives from anybody: by rank and line the sources seen there, sorted.
    """

    tries: int
    matchings: int
    differences: tuple[Difference, ...] = ()
    wildcards: dict[tuple[int, str], list[int]] = field(default_factory=dict)

    def notes(self) -> list[str]:
        """Say what was found, in sentences."""
        if not self.wildcards:
            return ["explored: no rank receives from ANY_SOURCE, so that messages match in one way only"]
        head = f"explored {self.tries} other orders, {self.matchings} different matchings of wildcards: "
        if not self.differences:
            return [f"{head}the results are the same in all of them"]
        found = [f"{head}{len(self.differences)} tries differ: the outcome depends on timing"]
        found += [difference.text() for difference in self.differences[:_SHOWN]]
        hidden = len(self.differences) - _SHOWN
        return found + ([f"... and {hidden} tries more"] if hidden > 0 else [])


def check_tries(tries: Any) -> int:
    """Refuse a number of tries that makes no sense."""
    if isinstance(tries, bool) or not isinstance(tries, int | np.integer) or not 0 <= tries <= MOST_TRIES:
        raise MachineError(f"explore is a number of tries, 1 to {MOST_TRIES:,} (0: none), got {tries!r}")
    return int(tries)


def explore(request: RunRequest, run_once: Callable[[RunRequest], Run]) -> Run:
    """Run a request as it is, and again in other orders; the first run, with what was found.

    Parameters
    ----------
    request : RunRequest
        Its option ``explore`` is the number of tries.
    run_once : callable
        Runs one; the option ``lateness`` is a `Lateness`.
    """
    tries = request.options["explore"]
    plain = {name: value for name, value in request.options.items() if name != "explore"}

    def one(number: int, most_s: float) -> Run:
        lateness = Lateness(request.seed * MOST_TRIES + number, most_s)
        return run_once(request.changed(options={**plain, "lateness": lateness}))

    base = one(0, 0.0)
    first = _matching(base.exploration)
    seen, sources = {_key(first)}, _sources({}, base.exploration)
    differences = []
    for number in range(1, tries + 1) if base.exploration else ():
        try:
            found = one(number, _LATE * max(base.makespan_s, 1e-6))
        except TimeLimitError:
            raise
        except LabkitError as error:
            kind = "deadlocks" if isinstance(error, DeadlockError) else "fails"
            lines = str(error).splitlines()
            differences.append(Difference(number, (), f"the run {kind}: {' '.join(lines[:2])}"))
            continue
        matching = _matching(found.exploration)
        seen.add(_key(matching))
        sources = _sources(sources, found.exploration)
        difference = _compared(number, base, found, first, matching)
        if difference is not None:
            differences.append(difference)
    base.exploration = Exploration(
        tries if sources else 0,
        len(seen),
        tuple(differences),
        {key: sorted(sources[key]) for key in sorted(sources)},
    )
    base.notes.extend(base.exploration.notes())
    return base


def _matching(sightings: list[Sighting]) -> dict[int, list[tuple[str, int, int]]]:
    """Sort what wildcards got by rank."""
    by_rank: dict[int, list[tuple[str, int, int]]] = {}
    for rank, place, source, tag in sightings:
        by_rank.setdefault(rank, []).append((place, source, tag))
    return by_rank


def _key(matching: dict[int, list[tuple[str, int, int]]]) -> str:
    return repr(sorted(matching.items()))


def _sources(
    known: dict[tuple[int, str], set[int]], sightings: list[Sighting]
) -> dict[tuple[int, str], set[int]]:
    for rank, place, source, _ in sightings:
        known.setdefault((rank, place), set()).add(source)
    return known


def _compared(number: int, base: Run, found: Run, first: Any, other: Any) -> Difference | None:
    """Return how a try differs; None: it does not."""
    ranks = tuple(rank for rank in range(base.ranks) if not _same(base.results[rank], found.results[rank]))
    what = f"other results at {ranks_text(list(ranks))}"
    if not ranks:
        ranks = tuple(rank for rank in range(base.ranks) if base.output[rank] != found.output[rank])
        what = f"other output of {ranks_text(list(ranks))} (times that are printed differ, too)"
    if not ranks:
        return None
    for rank in sorted({*first, *other}, key=lambda rank: (rank not in ranks, rank)):
        mine, theirs = first.get(rank, []), other.get(rank, [])
        for at in range(max(len(mine), len(theirs))):
            here, there = (row[at] if at < len(row) else None for row in (mine, theirs))
            if here != there:
                place = (here or there or ("",))[0]
                got = tuple(None if one is None else one[1] for one in (here, there))
                return Difference(number, ranks, what, rank, place, *got)
    return Difference(
        number, ranks, f"{what}, though every wildcard got the same messages: they depend on times"
    )


def _same(one: Any, other: Any) -> bool:
    """Whether two results are equal: arrays element by element, containers item by item."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        is_numeric = one.dtype.kind in "fc"
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=is_numeric)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, float) and one != one:
        return bool(other != other)
    try:
        return bool(one == other) or repr(one) == repr(other)
    except Exception:  # an object whose comparison fails
        return repr(one) == repr(other)
