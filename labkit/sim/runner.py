"""One simulated run of a Python program."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any, cast

import numpy as np

from labkit.errors import LabkitError, MachineError
from labkit.local.costs import DEFAULT_CALIBRATION
from labkit.platform import models
from labkit.platform.mapping import crowding
from labkit.platform.platform import Platform
from labkit.regions import Regions
from labkit.request import RunRequest
from labkit.result import Run, phase_frame
from labkit.result.computation import Computation
from labkit.result.uncharged import REMARK
from labkit.sim.call_trace import keep_calls, write_calls
from labkit.sim.cautions import Cautions
from labkit.sim.choices import choices_on
from labkit.sim.isolation import host_clock
from labkit.sim.isolation.clocks import HOST_DATES, RankClocks, clock_stand_ins, program_reads_dates
from labkit.sim.isolation.isolation import Isolation
from labkit.sim.isolation.kept_heap import kept_heap
from labkit.sim.isolation.logs import RankLogs
from labkit.sim.isolation.mpi4py_name import SimulatedName
from labkit.sim.isolation.package_state import RankFigures, RankOptions
from labkit.sim.isolation.process_state import ProcessState
from labkit.sim.isolation.randomness import RankRandom
from labkit.sim.isolation.rank_pickle import RankPickle
from labkit.sim.isolation.threads import RankThreads
from labkit.sim.measured import NOTE, REFERENCE_FLOPS_PER_S, REPLAYED, UNREPEATED, Measured
from labkit.sim.simulation import Simulation
from labkit.sim.uncharged import OwnCode
from labkit.sim.where import place_of
from labkit.tally import tally_frame
from labkit.tolerance import ToleranceUse
from labkit.trace.phases import by_entry
from labkit.trace.trace import Trace, taken_apart

__all__ = ["simulate"]


def simulate(request: RunRequest) -> Run:
    """Run a program once on simulated ranks."""
    # Real or not, it is decided before a run puts its own in that place and a trace wraps its methods.
    import labkit.MPI  # noqa: F401

    began = host_clock.perf_counter()
    machine, ranks = request.on, request.ranks
    network = machine.network(request.model)
    troubled = request.noise.seeded(request.seed)
    built, worse_links = troubled.degrade(machine.build(ranks))
    if request.trial is not None:
        built = request.trial.platform(built)
    simulation = Simulation(
        built, network.build(), ranks, trace=request.trace, timeout_s=request.timeout_s,
        choices=choices_on(machine, ranks, network, request.coll), tolerance=request.tolerance,
        calibration=request.calibration, measured=_on_host(request.compute, machine.host_speed),
        has_counts=request.count, is_whole=request.isolate is None,
        spare_ranks=request.options.get("spare_ranks", 0),
    )  # fmt: skip
    simulation.title = f"{request.name} on {machine.name}, {ranks:,} ranks"
    simulation.output.streams = request.options.get("streams")
    simulation.context.trial = request.trial
    simulation.context.host_name = machine.description.host_name
    simulation.thread_calls = _thread_calls
    simulation.context.setting = _digest(machine.digest(network), simulation.calibration.digest)
    simulation.context.seed = request.seed
    simulation.calls.storage = request.options["storage"]
    target = keep_calls(simulation, request.trace_ti)
    sightings = _look_for_wildcards(simulation, request.options.get("lateness"))
    slow_hosts = troubled.disturb(simulation.hub, built)
    cautions = None if request.options.get("warnings") is False else Cautions(simulation.hub)
    notes: list[str] = []
    noting = _noting(simulation) if request.trace else contextlib.nullcontext()
    if request.options.get("summary") and not request.trace:  # a trace tells more
        noting = _summing(simulation)
    watching = _checking(simulation) if request.options.get("check") else contextlib.nullcontext()
    is_timed = not simulation.context.is_deterministic
    measuring = kept_heap() if is_timed else contextlib.nullcontext()
    with noting, watching, measuring, OwnCode() as own, Regions(request.regions):
        _run_program(simulation, request, notes)
    uncharged = None if simulation.context.is_charged else own.found
    if uncharged is not None and uncharged.is_notable:
        notes.append(REMARK)
    if simulation.context.uses_kernels and simulation.calibration.name == DEFAULT_CALIBRATION:
        notes.extend([machine.lacks_costs] if machine.lacks_costs else [])
    if target is not None:
        notes.append(write_calls(simulation, target))
    notes.extend(crowding(built))
    run = _as_run(simulation, request.name, machine, network, notes, host_clock.perf_counter() - began)
    notes.extend(simulation.context.decisions.notes())
    notes.extend([*simulation.context.notes, *simulation.swaps.failures, *simulation.calls.left()])
    if cautions is not None:
        notes.extend(cautions.notes(simulation.checks))
    run.uncharged, run.exploration = uncharged, sightings
    is_drawn = not troubled.is_quiet and request.noise.seed is None
    run.seed, run.is_seeded = request.seed, simulation.context.is_seeded or is_drawn
    run.machine["deterministic"] = simulation.context.is_deterministic
    if request.compute is not None and request.compute.is_everything:
        run.computation = _computation(simulation, request.compute)
    if not simulation.context.is_deterministic:
        notes.append(UNREPEATED if simulation.spawned_s else NOTE)
    elif run.computation is not None:
        notes.append(REPLAYED)
    if not troubled.is_quiet:
        run.machine["noise"] = troubled.record(slow_hosts, worse_links)
        notes.append(f"noise: {troubled}")
    if request.tolerance > 0:
        run.tolerance = ToleranceUse(tolerance=request.tolerance, **simulation.tolerance_use())
        run.is_valid = not run.tolerance.without_bottleneck
        if run.tolerance.loose_instants:
            notes.append(run.tolerance.guarantee())
    return run


def _thread_calls() -> contextlib.AbstractContextManager[Any]:
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
    from labkit.sim.calls import NOTING
    from labkit.trace.summed_calls import CallSummary

    if simulation.context.tally is None:
        simulation.hub.keep_counts()
    simulation.call_notes = notes = CallSummary(simulation.hub)
    simulation.context.summary = notes.summary
    with NOTING:
        yield


@contextlib.contextmanager
def _checking(simulation: Simulation) -> Iterator[None]:
    """Let the run's calls be watched; a run that fails says what was seen before."""
    from labkit.sim.checking.checked_calls import CHECKING
    from labkit.sim.checking.checks import Checks

    simulation.checks, simulation.calls.looks_at_stores = Checks(), True
    try:
        with CHECKING:
            yield
    except LabkitError as error:
        for text in simulation.checks.seen():
            error.add_note(text)
        raise


def _look_for_wildcards(simulation: Simulation, lateness: Any) -> list[Any] | None:
    """Let ranks be late, and note what receives from anybody get; None where nobody explores."""
    if lateness is None:
        return None
    seen: list[Any] = []

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
    if isolation is None or isolation.is_shared:
        with random, name, ProcessState, RankLogs, RankThreads, RankClocks, _loaded():
            simulation.run(_main_of(program, comm, args, kwargs))
        simulation.context.is_seeded |= random.is_used
        return
    pickling = RankPickle(isolation)
    with random, name, ProcessState, RankLogs, RankThreads, RankClocks, _loaded(), pickling:

        def main(rank: int) -> Any:
            own = isolation.program(rank)
            pickling.install()
            return own(comm)

        simulation.run(main)
    simulation.context.is_seeded |= random.is_used
    simulation.results = [isolation.restore(result) for result in simulation.results]
    notes.extend(isolation.notes)


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
    program: Callable[..., Any], comm: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[int], Any]:
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
        summary=None if simulation.context.summary is None else simulation.call_notes.rows(),
    )


def _digest(*parts: str) -> str:
    return sha256("".join(parts).encode()).hexdigest()


def _collectives(simulation: Simulation) -> dict[Any, str]:
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
            "another program or input, or of one that depends on times; record it anew with "
            'compute="measured"'
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
    return trace
