"""One simulated run of a Python program."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from operator import itemgetter
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, cast

import numpy as np

from labkit import _kernels
from labkit.checks import REMARK, ToleranceUse, Uncharged
from labkit.errors import LabkitError, MachineError
from labkit.local.costs import DEFAULT_CALIBRATION
from labkit.machines import models
from labkit.machines.mapping import crowding
from labkit.machines.measure import kind_of
from labkit.machines.noise import Noise
from labkit.machines.platform import Platform
from labkit.process.stacks import is_framework
from labkit.program.context import unfinished_hint
from labkit.program.function_phases import Regions, matches, regions_of
from labkit.program.rank_counts import tally_frame
from labkit.request import RunRequest
from labkit.result import Run, phase_frame
from labkit.result.computation import Computation
from labkit.sim.isolation import host_clock
from labkit.sim.isolation.clocks import HOST_DATES, RankClocks, clock_stand_ins, program_reads_dates
from labkit.sim.isolation.code import is_installed, names_used
from labkit.sim.isolation.isolation import Isolation, RankPickle, kept_heap
from labkit.sim.isolation.mpi4py_name import SimulatedName
from labkit.sim.isolation.package_state import RankFigures, RankOptions
from labkit.sim.isolation.process_state import ProcessState, RankLogs, RankRandom
from labkit.sim.isolation.waits import RankThreads
from labkit.sim.measured import NOTE, REFERENCE_FLOPS_PER_S, REPLAYED, UNREPEATED, Measured
from labkit.sim.schedules import choices_on
from labkit.sim.simulation import Simulation
from labkit.sim.where import place_of
from labkit.text.units import format_bytes, ranks_text
from labkit.trace.trace import Trace, by_entry, taken_apart

__all__ = ["OwnCode", "simulate_program"]


def simulate_program(request: RunRequest) -> Run:
    """Run a program once on simulated ranks."""
    # Real or not, it is decided before a run puts its own in that place and a trace wraps its methods.
    import labkit.MPI  # noqa: F401

    began = host_clock.perf_counter()
    machine = request.on
    network = machine.network(request.model)
    troubled = request.noise.seeded(request.seed)
    built, worse_links = troubled.degrade(machine.build(request.ranks))
    if request.trial is not None:
        built = request.trial.platform(built, kind_of)
    simulation = _prepared(request, built, network)
    target = keep_calls(simulation, request.trace_ti)
    sightings = _look_for_wildcards(simulation, request.options.get("lateness"))
    slow_hosts = troubled.disturb(simulation.hub, built)
    cautions = None if request.options.get("warnings") is False else Cautions(simulation.hub)
    notes: list[str] = []
    with _recording(simulation, request), OwnCode() as own, Regions(request.regions):
        _run_program(simulation, request, notes)
    uncharged = None if simulation.context.is_charged else own.found
    if uncharged is not None and uncharged.is_notable:
        notes.append(REMARK)
    if simulation.context.uses_kernels and simulation.calibration.name == DEFAULT_CALIBRATION:
        notes.extend([machine.lacks_costs] if machine.lacks_costs else [])
    hints = ((rank, unfinished_hint(result)) for rank, result in enumerate(simulation.results))
    for rank, hint in islice(filter(itemgetter(1), hints), 1):
        notes.append(f"rank {rank} returned a request that may not be complete; {hint}")
    if target is not None:
        notes.append(write_calls(simulation, target))
    notes.extend(crowding(built))
    run = _as_run(simulation, request.name, machine, network, notes, host_clock.perf_counter() - began)
    notes.extend(simulation.context.decisions.notes())
    notes.extend([*simulation.context.notes, *simulation.context.swaps.failures, *simulation.calls.left()])
    if cautions is not None:
        notes.extend(cautions.notes(simulation.checks))
    run.uncharged, run.exploration = uncharged, sightings
    if not troubled.is_quiet:
        run.machine["noise"] = troubled.record(slow_hosts, worse_links)
    _qualify(run, simulation, request, troubled)
    return run


def _prepared(request: RunRequest, built: object, network: models.NetworkModel) -> Simulation:
    """Return the simulation of a request, before anything runs in it."""
    machine, ranks = request.on, request.ranks
    simulation = Simulation(
        built,
        network.build(),
        ranks,
        trace=request.trace,
        timeout_s=request.timeout_s,
        choices=choices_on(machine, ranks, network, request.coll),
        tolerance=request.tolerance,
        calibration=request.calibration,
        measured=_on_host(request.compute, machine.host_speed),
        has_counts=request.count,
        is_whole=request.isolate is None,
        spare_ranks=request.options.get("spare_ranks", 0),
    )
    simulation.title = f"{request.name} on {machine.name}, {ranks:,} ranks"
    simulation.output.streams = request.options.get("streams")
    simulation.context.trial = request.trial
    simulation.context.host_name = machine.description.host_name
    simulation.thread_calls = _thread_calls
    simulation.context.setting = _digest(machine.digest(network), simulation.calibration.digest)
    simulation.context.seed = request.seed
    simulation.calls.storage = request.options["storage"]
    return simulation


@contextlib.contextmanager
def _recording(simulation: Simulation, request: RunRequest) -> Iterator[None]:
    """Record what the request asks for: a trace, a summary, checks, measured computation."""
    if request.trace or request.options.get("summary"):
        simulation.context.left_out = regions_of(request.options.get("leave_out"))
    noting = _noting(simulation) if request.trace else contextlib.nullcontext()
    if request.options.get("summary") and not request.trace:  # a trace has more detail
        noting = _summing(simulation)
    watching = _checking(simulation) if request.options.get("check") else contextlib.nullcontext()
    is_timed = not simulation.context.is_deterministic
    measuring = kept_heap() if is_timed else contextlib.nullcontext()
    with noting, watching, measuring:
        yield


def _qualify(run: Run, simulation: Simulation, request: RunRequest, troubled: Noise) -> None:
    """Add to a run what its times depend on: seeds, measured computation, noise, tolerance."""
    is_drawn = not troubled.is_quiet and request.noise.seed is None
    run.seed, run.is_seeded = request.seed, simulation.context.is_seeded or is_drawn
    run.machine["deterministic"] = simulation.context.is_deterministic
    if request.compute is not None and request.compute.is_everything:
        run.computation = _computation(simulation, request.compute)
    if not simulation.context.is_deterministic:
        run.notes.append(UNREPEATED if simulation.spawned_s else NOTE)
    elif run.computation is not None:
        run.notes.append(REPLAYED)
    if not troubled.is_quiet:
        run.notes.append(f"noise: {troubled}")
    if request.tolerance > 0:
        run.tolerance = ToleranceUse(tolerance=request.tolerance, **simulation.tolerance_use())
        run.is_valid = not run.tolerance.without_bottleneck
        if run.tolerance.loose_instants:
            run.notes.append(run.tolerance.guarantee())


def _thread_calls() -> contextlib.AbstractContextManager[object]:
    """Return the context in which ranks make the calls of their threads."""
    from labkit.sim.isolation.thread_calls import ThreadCalls

    return ThreadCalls


def _on_host(measured: Measured | None, host_speed: float | None) -> Measured | None:
    """Return how computation is charged where this host counts as one of that speed."""
    if host_speed is None:
        return measured
    measured = measured or Measured(is_everything=False)
    return replace(measured, scale=measured.scale * host_speed / REFERENCE_FLOPS_PER_S)


@contextlib.contextmanager
def _noting(simulation: Simulation) -> Iterator[None]:
    """Let the run's calls be noted."""
    from labkit.sim.calls import NOTING, CallNotes

    simulation.call_notes = CallNotes(simulation)
    simulation.calls.note_algorithm = simulation.call_notes.took
    with NOTING:
        yield


@contextlib.contextmanager
def _summing(simulation: Simulation) -> Iterator[None]:
    """Let the run's calls be summed up."""
    from labkit.sim.calls import NOTING, CallSummary

    simulation.call_notes = notes = CallSummary(simulation.hub)
    simulation.context.summary = notes.sums
    with NOTING:
        yield


@contextlib.contextmanager
def _checking(simulation: Simulation) -> Iterator[None]:
    """Let the run's calls be watched; a run that fails says what was seen before."""
    from labkit.sim.checks import CHECKING, Checks

    simulation.checks, simulation.calls.looks_at_stores = Checks(), True
    try:
        with CHECKING:
            yield
    except LabkitError as error:
        for text in simulation.checks.seen():
            error.add_note(text)
        raise


def _look_for_wildcards(simulation: Simulation, lateness: Any) -> list[object] | None:
    """Let ranks be late, and note what receives from anybody get; None where nobody explores."""
    if lateness is None:
        return None
    seen: list[object] = []

    def saw(source: int, tag: int) -> None:
        place = place_of(sys._getframe())
        where = "" if place is None else f"{place.file}:{place.line}"
        seen.append((simulation.hub.rank, where, source, tag))

    simulation.hub.stagger(lateness.seed, lateness.most_s, saw)
    return seen


def _run_program(simulation: Simulation, request: RunRequest, notes: list[str]) -> None:
    """Run, with or without isolation; results go into the simulation."""
    from labkit.comm.module import simulated_module

    program, args, kwargs = request.program, tuple(request.args), dict(request.kwargs)
    simulated = simulated_module()
    comm = simulated.COMM_WORLD
    random = RankRandom(request.seed)
    name = SimulatedName(simulated)
    shared = {**random.stand_ins, **name.stand_ins(), **clock_stand_ins()}
    if request.isolate is not None and program_reads_dates(program):
        notes.append(HOST_DATES)
    isolation = Isolation(program, args, kwargs, shared) if request.isolate else None
    if request.isolate is False:
        notes.append("ranks shared their globals, closure and arguments (isolate=False)")
    _load_pyplot(program)
    if isolation is None or isolation.is_shared:
        with random, name, ProcessState, RankLogs, RankThreads, RankClocks, _loaded():
            simulation.run(_main_of(program, comm, args, kwargs))
        simulation.context.is_seeded |= random.is_used
        return
    pickling = RankPickle(isolation)
    with random, name, ProcessState, RankLogs, RankThreads, RankClocks, _loaded(), pickling:

        def main(rank: int) -> object:
            own = isolation.program(rank)
            pickling.install()
            return own(comm)

        simulation.run(main)
    simulation.context.is_seeded |= random.is_used
    simulation.results = [isolation.restore(result) for result in simulation.results]
    notes.extend(isolation.notes)


def _load_pyplot(program: object) -> None:
    """Load pyplot before a program does so on its ranks: only then each of them has its own figures."""
    code = getattr(program, "__code__", None)
    if code is not None and {"pyplot", "matplotlib.pyplot"} & (names_used(code) or frozenset()):
        with contextlib.suppress(ImportError):
            importlib.import_module("matplotlib.pyplot")


def _loaded() -> contextlib.ExitStack:
    """Return the context in which ranks have their own state of packages that are loaded already."""
    stack = contextlib.ExitStack()
    if "matplotlib._pylab_helpers" in sys.modules:
        stack.enter_context(RankFigures)
    if "pandas._config.config" in sys.modules:
        stack.enter_context(RankOptions)
    if "asyncio" in sys.modules:
        from labkit.sim.isolation.event_loop import RankLoops

        stack.enter_context(RankLoops)
    return stack


def _main_of(
    program: Callable[..., object], comm: object, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Callable[[int], object]:
    """Return what every rank runs when they share the program.

    A plain call of a Python function adds nothing to the stack that a suspended rank keeps; a call with
    unpacked arguments, or a partial object, adds half a kilobyte.
    """
    if not args and not kwargs:
        return lambda rank: program(comm)
    if len(args) == 1 and not kwargs:
        first = args[0]
        return lambda rank: program(comm, first)
    return lambda rank: program(comm, *args, **kwargs)


def _as_run(
    simulation: Simulation,
    program: str,
    machine: Platform,
    network: models.NetworkModel,
    notes: list[str],
    host_seconds: float,
) -> Run:
    hub, tally = simulation.hub, simulation.context.tally
    rows = by_entry(simulation.context.phases)
    phases: Any = phase_frame(rows) if rows or hub.is_tracing else None
    return Run(
        program=program,
        ranks=simulation.ranks,
        on=machine.name,
        model=network.name,
        results=simulation.results,
        makespan_s=float(hub.makespan),
        phases=phases,
        output=simulation.output.texts(),
        messages=int(hub.messages),
        bytes=int(hub.bytes),
        host_seconds=host_seconds,
        trace=_trace(simulation, (machine, network)) if hub.is_tracing else None,
        machine={
            "platform": machine.spec,
            "model": network.name,
            "hosts": int(hub.hosts),
            **machine.placement(simulation.ranks),
            "calibration": simulation.calibration.name,
            "digest": simulation.context.setting,
            "events": int(hub.events),
        },
        notes=notes,
        collectives=_collectives(simulation),
        counts=None if tally is None else tally_frame(tally.rows()),
        summary=None if simulation.context.summary is None else simulation.call_notes.columns(),
    )


def _digest(*parts: str) -> str:
    return sha256("".join(parts).encode()).hexdigest()


def _collectives(simulation: Simulation) -> dict[object, str]:
    """Return what the selector has chosen, and what requests have decided."""
    made = simulation.calls.choose.made
    decided = simulation.context.decisions.collectives()
    # a request's `library` is what the selector chose
    own = {at: made.get(at, name) if name == "library" else name for at, name in decided.items()}
    return {**made, **own}


def _computation(simulation: Simulation, measured: Measured) -> Computation:
    """Return what the ranks have computed, or have been charged again."""
    if measured.replay is None:
        stretches = cast("list[bytes]", simulation.hub.host_stretches())
        kept = [np.frombuffer(one, np.int64) for one in stretches]
        return Computation(kept, measured.scale)
    if not simulation.hub.is_host_used_up:
        raise MachineError(
            "the ranks made more or fewer calls than when their computation was recorded: it is that of "
            "another program or input, or of one that depends on times; record it again with "
            'compute="measured"',
            code="not-comparable",
        )
    return measured.replay


def _trace(simulation: Simulation, setting: tuple[Platform, models.NetworkModel]) -> Trace:
    hub = simulation.hub
    ends_s = [float(hub.clock(rank)) for rank in range(hub.ranks)]
    messages, waits, operations = hub.message_columns(), hub.wait_columns(), hub.operation_columns()
    beside = None
    if operations:
        waits, beside = taken_apart(messages, waits, operations, hub.side_columns())
    left = hub.unreceived_columns()
    trace = Trace.from_columns(messages, waits, hub.computation_columns(), ends_s, setting, beside, left)
    if spawned := simulation.spawned_s:
        trace.begins_s = [spawned.get(rank, 0.0) for rank in range(hub.ranks)]
        trace.begun_by = [simulation.calls.spawner(rank) for rank in range(hub.ranks)]
    if simulation.call_notes is not None:
        trace.calls = simulation.call_notes.table(ends_s)
    if patterns := simulation.context.left_out:
        left_out = [row for row in by_entry(simulation.context.phases) if matches(row[1], patterns)]
        trace = trace.without([(rank, begin_s, end_s) for rank, _, begin_s, end_s, _ in left_out])
    return trace


# A simulated run written down as a time-independent trace.


def keep_calls(simulation: Simulation, target: str | os.PathLike[str] | None) -> Path | None:
    """Let the simulation note every call; where its trace will go, None without a target."""
    if target is None:
        return None
    from labkit.trace.formats.ti_writer import check_target

    path = check_target(target)
    simulation.hub.keep_calls()
    simulation.calls.keeps_calls = simulation.context.keeps_calls = True
    return path


def write_calls(simulation: Simulation, target: Path) -> str:
    """Write the trace; a sentence that says where it is."""
    from labkit.trace.formats.ti_writer import Numbering, write_actions

    hub, numbering = simulation.hub, Numbering()
    path = write_actions(
        target, simulation.ranks, lambda rank: numbering.renumbered(rank, hub.call_lines(rank))
    )
    return f"recorded as a time-independent trace in {path}"


# Cautions: what works in simulation and fails, hangs or differs on real MPI, with the remedy.


#: cautions of a kind that are shown; the rest is counted
_SHOWN = 8
#: sends of a cycle that are named
_SENDS = 4
#: labkit's modules that send messages themselves: those of windows, files and pools
_SENDERS = tuple(
    str(Path(__file__).parents[1] / "comm" / name) + os.sep for name in ("rma", "files", "futures")
)
_ELEMENTS = {
    "h": "16-bit integers",
    "i": "32-bit integers",
    "q": "64-bit integers",
    "f": "float32",
    "d": "float64",
    "g": "long double",
}


class _Lines:
    """Lines of the program, by the numbers that `labkit._kernels.CallPlaces` keeps."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, frame: FrameType) -> int:
        """Return the number of a line; -1 of labkit's own."""
        if is_framework(frame.f_code.co_filename):
            return -1
        text = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


class Cautions:
    """What a run does that fails on real MPI.

    `hub`: Of the run; from now on it is watched.
    """

    def __init__(self, hub: _kernels.Hub) -> None:
        self._hub, self._lines = hub, _Lines()
        #: by kind, its object and line: the first sentence, and the ranks that it is true of
        self._heard: dict[tuple[str, str, str], tuple[str, list[int]]] = {}
        places = _kernels.CallPlaces(_kind_of, self._lines.number, 1)
        hub.watch(places, self._hear)

    def _hear(self, kind: str, peer: int, text: str, number: int) -> None:
        """Note what the running rank does at its present line."""
        place = place_of(sys._getframe())
        where = "" if place is None else f"{place.file}:{place.line}"
        key = (kind, text, where)
        if key not in self._heard:
            self._heard[key] = _SENTENCES[kind](peer, text, number), []
        ranks = self._heard[key][1]
        if not ranks or ranks[-1] != self._hub.rank:
            ranks.append(self._hub.rank)

    def notes(self, checks: object = None) -> list[str]:
        """Return all of it as sentences.

        `checks`: What a run with ``check=True`` knows: with the lines of messages that are left over.
        """
        found = [
            f"{ranks_text(sorted(set(ranks)))} at {where}: {text}"
            for (_, _, where), (text, ranks) in self._heard.items()
        ]
        for kind, line, source, rival, ranks in self._hub.findings():
            where, text = self._lines.texts[line], _FINDINGS[kind](source, rival)
            found.append(f"{ranks_text(sorted(set(ranks)))} at {where}: {text}")
        found = _shortened(found, "cautions") + _shortened(
            self._cycles(), "groups of sends that need buffers"
        )
        return found + self._left_over(checks)

    def _cycles(self) -> list[str]:
        """Return the sends that would wait for each other without buffers, each group of lines once."""
        by_lines: dict[frozenset[int], list[Any]] = {}
        for cycle in self._hub.buffered_sends():
            by_lines.setdefault(frozenset(send[5] for send in cycle), []).append(cycle)
        return [self._cycle(cycles[0]) for cycles in by_lines.values()]

    def _cycle(self, cycle: list[Any]) -> str:
        sends = [
            f"rank {rank} sends {format_bytes(n_bytes)} to rank {dest} (tag {tag}) at "
            f"{self._lines.texts[place]}"
            for rank, dest, tag, _, n_bytes, place in cycle[:_SENDS]
        ]
        more = f"; and {len(cycle) - _SENDS} more" if len(cycle) > _SENDS else ""
        return (
            f"would deadlock with rendezvous: {'; '.join(sends)}{more}. These sends return before their "
            "receives are posted only because short messages are buffered, which MPI does not guarantee. "
            "Use Sendrecv, post the receives first (Irecv), or let one side receive before it sends"
        )

    def _left_over(self, checks: Any) -> list[str]:
        """Return the messages that nobody has received, and the receives that nothing came to."""
        count, rows = self._hub.left_over()
        lines = [_left_text(row, checks) for row in rows[:_SHOWN]]
        if count > len(lines):
            lines.append(f"... and {count - len(lines)} more messages or receives")
        if lines and checks is None:
            lines.append("check=True (--check) shows at which lines these calls were made")
        return lines if checks is None else [*lines, *checks.left()]


def _shortened(lines: list[str], what: str) -> list[str]:
    hidden = len(lines) - _SHOWN
    return lines if hidden <= 0 else [*lines[:_SHOWN], f"... and {hidden} more {what}"]


def _count(peer: int, text: str, number: int) -> str:
    return (
        f"a message of {int(text or number):,} elements: many MPI libraries count up to 2,147,483,647 and "
        "refuse more (MPI_ERR_ARG); send it in pieces, or as fewer elements of a larger datatype "
        "(Create_contiguous)"
    )


def _elements(peer: int, text: str, number: int) -> str:
    sent, taken = (_ELEMENTS[letter] for letter in text)
    return (
        f"receives {taken}, but the message of rank {peer} has {sent}: MPI requires the same type at both "
        "ends, and the bytes are not converted; give both sides the same dtype"
    )


def _elements_of_all(peer: int, text: str, number: int) -> str:
    name, letters = text.split(":")
    kinds = " and ".join(_ELEMENTS[letter] for letter in letters)
    return (
        f"{name} is given {kinds}: MPI requires the same type at all ranks, for what is sent and for what is "
        "received, and the bytes are not converted; give arrays of one dtype"
    )


#: what a call does with memory of a request that has not been waited for
_USES = (
    "writes into the buffer of a nonblocking send before its Wait",
    "reads the buffer of a nonblocking receive before its Wait",
    "writes into the buffer of a nonblocking receive before its Wait",
    "uses the buffer of a nonblocking receive before its Wait",
)


_SENTENCES: dict[str, Callable[[int, str, int], str]] = {
    "overlap": lambda peer, text, number: (
        f"the send and receive buffers of {text} overlap, which MPI forbids: the result differs between MPI "
        "libraries; receive into another array"
        + (", or use Sendrecv_replace" if text == "Sendrecv" else ", or pass MPI.IN_PLACE as sendbuf")
    ),
    "count": _count,
    "displacement": lambda peer, text, number: (
        f"a block begins {int(text):,} elements behind its buffer's begin: many MPI libraries take "
        "displacements up to 2,147,483,647 only (MPI_ERR_ARG); use several calls, or a larger datatype "
        "(Create_contiguous)"
    ),
    "elements": _elements,
    "elements of a collective": _elements_of_all,
    "changed": lambda peer, text, number: (
        "the buffer of a nonblocking send was changed before its Wait: on real MPI the old or the new data "
        "arrives; change it after the Wait, or send a copy"
    ),
    "lost": lambda peer, text, number: (
        f"waits for {text}, of which one array has no other reference: mpi4py's request does not keep it, so "
        "that on real MPI its memory was freed, and perhaps reused, before the Wait; assign the array to a "
        "variable that lives until then"
    ),
    "in use": lambda peer, text, number: (
        f"{text} {_USES[number]}: on real MPI the old or the new data is used; wait for that request first, "
        "or use another array"
    ),
}
#: what the engine finds, of ranks of the world
_FINDINGS: dict[str, Callable[[int, int], str]] = {
    "race": lambda source, rival: (
        f"a receive from ANY_SOURCE took the message of rank {source}, but that of rank {rival}, which it "
        "takes as well, could have come first, and the call does not ask for the source: the order depends "
        "on timing. That is harmless where any order gives the same result; otherwise give the source, or "
        "pass a Status and use its source (explore=20 tries other orders)"
    ),
    "clash": lambda source, rival: (
        "several nonblocking receives into the same memory got different messages before their Wait: which "
        "one remains depends on timing; give each receive its own array"
    ),
}


def _left_text(row: Any, checks: Any) -> str:
    kind, owner, peer, tag, n_bytes, context = row
    shown = "any tag" if tag < 0 else f"tag {tag}"
    if kind == "send":
        made = checks.unreceived(context, owner, tag) if checks is not None else ""
        what = f"{made} sent" if made else f"rank {owner} sent"
        return f"{what} {format_bytes(n_bytes)} to rank {peer}, {shown}, which was never received"
    made = checks.waiting(owner, context) if checks is not None else ""
    source = "any rank" if peer < 0 else f"rank {peer}"
    return f"{made or f'rank {owner}'} waited for a message from {source}, {shown}, and nothing came"


def _kind_of(file: str) -> int:
    """Return what a file's code is to the calls that it makes, as `labkit._kernels.CallPlaces` asks."""
    return 3 if file.startswith(_SENDERS) else int(is_framework(file))


# Uncharged computation of ranks: a sampling profiler of the simulation's own thread.


#: between two looks: short at first, as a run may be over soon
_FIRST_S, _INTERVAL_S = 0.001, 0.01
#: how deep it looks for the program's code below that of libraries
_FRAMES = 64


class OwnCode:
    """Context that finds out how long this thread's CPU works on the program's own code."""

    def __init__(self) -> None:
        self.found = Uncharged()
        self._began_s = host_clock.thread_time()
        self._is_over = threading.Event()
        self._watched = threading.get_ident()
        self._watch = threading.Thread(target=self._look, name="labkit-own-code", daemon=True)

    def __enter__(self) -> OwnCode:
        if hasattr(time, "pthread_getcpuclockid"):  # not on macOS
            self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._watch.ident is not None:
            self._watch.join()
        self.found.total_s = host_clock.thread_time() - self._began_s

    def _look(self) -> None:
        """Add the CPU time since the last look to whose code runs now."""
        clock = time.pthread_getcpuclockid(self._watched)
        last_s, wait_s = self._began_s, _FIRST_S
        while not self._is_over.wait(wait_s):
            now_s, wait_s = host_clock.clock_gettime(clock), min(2 * wait_s, _INTERVAL_S)
            if _is_own(_kernels.code_of_thread(self._watched, _FRAMES)):
                self.found.seconds += now_s - last_s
                self.found.looks += 1
            last_s = now_s


def _is_own(running: Sequence[tuple[str | None, str]]) -> bool:
    """Whether the innermost code that is neither a library's nor built in is the program's, not labkit's."""
    for module, file in running:
        if str(module).partition(".")[0] == "labkit":
            return False
        if not is_installed(module, file):
            return True
    return False
