"""The simulated machine: any platform, of any size, in this process; a script in a separate process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.errors import DataError, DeadlockError, LabkitError, MachineError, TimeLimitError, echoed
from labkit.request import Machine, RunRequest, refuse_for_functions
from labkit.result import Run, median_run
from labkit.text.units import ranks_text

if TYPE_CHECKING:
    from labkit.machines.platform import Platform

__all__ = ["Simulator", "platform_for"]


#: each simulated rank needs some ten kilobytes of memory
MOST_RANKS = 1 << 20


class Simulator(Machine):
    """Ranks as greenlets over the engine; what names no other machine is a platform.

    Its options, in addition to those of every machine, for scripts:

    stdin : str or file
        What rank 0 reads from standard input: a text, an open file or its descriptor. Default: nothing.
    stream : bool
        Write what the ranks print to this process's standard output and error, as it comes; nothing of it is
        kept in `Run.output`.
    warnings : bool
        Whether the notes name what fails on real MPI (`labkit.sim.runner`): sends that rely on buffers,
        messages that are never received, and more. Default: True.
        Of functions, too.
    summary : bool
        Sum each rank's time, calls and messages up by call path while the program runs, and keep no event:
        `Run.profile` then needs no trace. No time changes. Of functions, too.
    leave_out : str, path or sequence of str
        With ``trace=True`` or ``summary=True``: phases, and functions of `regions`, in which nothing is
        recorded (``*`` stands for anything), or a filter file, as `Run.score` writes it. No time changes;
        what is called there counts as computation, as on real MPI. Of functions, too.
    explore : int
        Number of further runs in other legal orders of the messages; differences between the runs are in
        `Run.exploration` and among the notes. Functions are run several times, too.
    check : bool
        Look at buffers that are changed or used twice before their Wait, at datatypes of both ends, at
        requests that are never waited for, and say at which lines (`labkit.sim.checks`).
    shape : str
        The block of hosts of a torus that the run gets as a separate torus: its sides, ``"4x4x2"``,
        ``"compact"`` (the smallest that holds the ranks; the default of Blue Genes) or ``"whole"``. Of
        functions, too.
    start : mapping
        How Python starts the script: ``module``, its name behind ``-m``, or ``"-c"``; ``rc``, settings of
        mpi4py.rc; ``pool``, whether all ranks but 0 are workers, as with ``-m mpi4py.futures``.
    """

    name = "a simulated run"
    is_real = False
    options = (
        "storage",
        "stdin",
        "stream",
        "start",
        "explore",
        "check",
        "summary",
        "shape",
        "warnings",
        "leave_out",
    )

    def owns(self, on: object) -> bool:
        """Whether it is a platform: nobody else's, then."""
        return True

    def size(self, on: object) -> int | None:
        """Return the number of a platform's cores; None for one that grows with the ranks."""
        from labkit.machines import platform

        return platform(on).capacity

    def checked(self, request: RunRequest) -> RunRequest:
        """Read platform, mapping, calibration, noise and computation, before anything runs."""
        from labkit.machines.noise import noise_of
        from labkit.machines.quantities import storage_of
        from labkit.selector import selector_of
        from labkit.sim.measured import measured_of

        if request.options.get("counters"):
            raise MachineError(
                f"counters are of a host that runs the ranks, and {self.name} has none: run it with "
                'on="mpi", or leave counters out; count=True counts messages, comparisons and memory here',
                code="unsupported",
            )
        if request.options.get("leave_out") and not (request.trace or request.options.get("summary")):
            raise MachineError(
                "leave_out lists what trace=True or summary=True does not record; give both",
                code="conflicting-options",
            )
        request = super().checked(request)
        refuse_for_functions(request)
        if request.ranks > MOST_RANKS:
            raise MachineError(
                f"{self.name} has at most {MOST_RANKS:,} ranks, got {echoed(f'{request.ranks:,}')}",
                code="too-many-ranks",
            )
        on = platform_for(
            request.on, request.ranks, request.model, request.mapping, request.options.get("shape")
        )
        return request.changed(
            on=on,
            mapping=None,
            coll=selector_of(request.coll),
            calibration=on.kernel_costs(request.calibration),
            noise=noise_of(request.noise),
            compute=measured_of("charged" if request.compute is None else request.compute),
            options={
                **request.options,
                "storage": storage_of(request.options.get("storage")),
                "explore": check_tries(request.options.get("explore", 0)),
            },
        )

    def run(self, request: RunRequest) -> Run:
        """Simulate: deterministic, so that repetitions differ only in the seed."""
        if isinstance(request.program, Path):
            return self._kept(request)
        seeds = range(request.seed, request.seed + request.repeats)
        return median_run([self._kept(request.changed(seed=seed)) for seed in seeds])

    def _kept(self, request: RunRequest) -> Run:
        """Simulate once, or in other orders as well."""
        if request.options["explore"]:
            return explore(request, self._recorded)
        return self._recorded(request)

    def _recorded(self, request: RunRequest) -> Run:
        """Simulate once, with computation as it was recorded, where it is kept."""
        measured = request.compute
        records = measured.records
        if records is None:
            return self._once(request)
        from labkit.sim.measured import NOTE, RECORDED

        key = records.key(request)
        found = records.find(key)
        scale = measured.scale if found is None else found.scale
        run = self._once(request.changed(compute=replace(measured, scale=scale, records=None, replay=found)))
        if found is None and run.computation is not None:
            try:
                records.keep(key, run.computation)
                run.notes = [RECORDED if note == NOTE else note for note in run.notes]
            except DataError as error:  # the run is there all the same
                run.notes.append(f"{NOTE}; it was not kept: {error}")
        run.machine["is_recorded"] = True
        return run

    def _once(self, request: RunRequest) -> Run:
        if isinstance(request.program, Path):
            from labkit.sim.script import simulate_script

            return simulate_script(request)
        from labkit.sim.runner import simulate_program

        return simulate_program(request)


def platform_for(
    on: object, ranks: int, model: Any = None, mapping: Any = None, shape: Any = None
) -> Platform:
    """Refuse a platform that is not known or too small, a model, mapping or shape that is not known."""
    from labkit.machines import models, platform

    machine = platform(on).mapped(mapping).shaped(shape).allocated(ranks)
    machine.rank_hosts(ranks)
    if model is not None:
        models.get(model)
    return machine


# Other legal orders in which messages could have come: the program is run again with ranks that are late.
#
# A receive from ANY_SOURCE, or a probe, takes the message that is there first; which one that is depends on
# times that MPI does not promise. Each try delays ranks before their calls, as a busy host would: whatever
# comes of it is a legal run of the program. What the wildcards got, and whether the results differ, is
# compared with the run that was not delayed.


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
    """Random delays of ranks before their calls in one try, from a seed, up to a limit in seconds."""

    seed: int
    most_s: float


@dataclass(frozen=True)
class DifferentTry:
    """A try that came to something else than the run without delays.

    `number`: Of the try, from 1.
    `ranks`: Whose results or output differ; empty where the try failed.
    `what`: How, in a sentence.
    `rank`, `place`, `first`, `other`: The first receive from anybody that got another message: the rank, its
        line, the source in the run without delays and the source in this try (None: no message).
    """

    number: int
    ranks: tuple[int, ...]
    what: str
    rank: int = -1
    place: str = ""
    first: int | None = None
    other: int | None = None

    def text(self) -> str:
        """Return it as one line."""
        if not self.place:
            return f"try {self.number}: {self.what}"
        got = ["no message" if source is None else f"rank {source}'s" for source in (self.first, self.other)]
        where = f"rank {self.rank} at {self.place} got {got[1]} message where it had got {got[0]}"
        return f"try {self.number}: {self.what}; {where.replace('no message message', 'no message')}"


@dataclass(frozen=True)
class Exploration:
    """What `explore` found: ``run.exploration``.

    `tries`: Runs with delays.
    `matchings`: Different ways, in all runs, in which wildcards got their messages.
    `differences`: Tries with other results; empty: nothing depended on the order.
    `wildcards`: Receives from anybody: by rank and line the sources seen there, sorted.
    """

    tries: int
    matchings: int
    differences: tuple[DifferentTry, ...] = ()
    wildcards: dict[tuple[int, str], list[int]] = field(default_factory=dict)

    def notes(self) -> list[str]:
        """Return what was found, in sentences."""
        if not self.wildcards:
            return ["explored: no rank receives from ANY_SOURCE, so that messages match in one way only"]
        head = f"explored {self.tries} other orders, {self.matchings} different matchings of wildcards: "
        if not self.differences:
            return [f"{head}the results are the same in all of them"]
        found = [f"{head}{len(self.differences)} tries differ: the outcome depends on timing"]
        found += [difference.text() for difference in self.differences[:_SHOWN]]
        hidden = len(self.differences) - _SHOWN
        return found + ([f"... and {hidden} tries more"] if hidden > 0 else [])


def check_tries(tries: object) -> int:
    """Refuse a number of tries that makes no sense."""
    if isinstance(tries, bool) or not isinstance(tries, int | np.integer) or not 0 <= tries <= MOST_TRIES:
        raise MachineError(
            f"explore is a number of tries, 1 to {MOST_TRIES:,} (0: none), got {tries!r}", code="out-of-range"
        )
    return int(tries)


def explore(request: RunRequest, run_once: Callable[[RunRequest], Run]) -> Run:
    """Run a request unchanged, and again in other orders; the first run, with what was found.

    `request`: Its option ``explore`` is the number of tries.
    `run_once`: Runs one; the option ``lateness`` is a `Lateness`.
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
            differences.append(DifferentTry(number, (), f"the run {kind}: {' '.join(lines[:2])}"))
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


def _compared(number: int, base: Run, found: Run, first: Any, other: Any) -> DifferentTry | None:
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
                return DifferentTry(number, ranks, what, rank, place, *got)
    return DifferentTry(
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
