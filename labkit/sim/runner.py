"""Run a Python program on a simulated machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from labkit import context
from labkit.checks import program_name
from labkit.local.costs import find_calibration
from labkit.platform import models
from labkit.platform.mapping import ListedMapping, crowding
from labkit.platform.noise import noise_of
from labkit.platform.platform import Platform, platform
from labkit.result import Run, phase_frame
from labkit.selector import selector_of
from labkit.sim.call_trace import keep_calls, write_calls
from labkit.sim.isolation.isolation import Isolation
from labkit.sim.isolation.mpi4py_name import SimulatedName
from labkit.sim.isolation.randomness import RankRandom
from labkit.sim.isolation.rank_pickle import RankPickle
from labkit.sim.measured import NOTE, measured_of
from labkit.sim.simulation import Simulation
from labkit.tolerance import ToleranceUse
from labkit.trace.beside import taken_apart
from labkit.trace.trace import Trace

__all__ = ["run_simulated"]


def run_simulated(
    program: Callable[..., Any],
    ranks: int,
    *,
    on: Any = "star",
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    model: Any = None,
    trace: bool = False,
    timeout_s: float | None = 60.0,
    seed: int = 0,
    isolate: bool | None = True,
    coll: Any = None,
    mapping: Any = None,
    tolerance: float = 0.0,
    calibration: Any = None,
    trace_ti: Any = None,
    noise: Any = None,
    compute: Any = "charged",
    **options: Any,
) -> Run:
    """Run ``program(comm, *args, **kwargs)`` on simulated ranks.

    Parameters
    ----------
    program : callable
    ranks : int
        At least 1.
    on : str or Platform
        The machine.
    args, kwargs
        The program's arguments after the communicator.
    model : str or NetworkModel, optional
        Default: the platform's.
    trace : bool
        Keep every message, wait and computation: `Run.trace` is then a `labkit.trace.Trace`.
    timeout_s : float or None
        Limit of host time in seconds.
    seed : int
        Seeds the ranks' global random generators.
    isolate : bool or None
        Give each rank its own copy of globals, closure and arguments; without it ranks share them. None: the
        caller sees to it.
    coll : mapping, Selector or path, optional
        Who chooses the collectives' algorithms (`labkit.selector.selector_of`).
    mapping : str, path or sequence of int, optional
        Hosts of the ranks; default: the platform's.
    tolerance : float
        Relative error of the capacities allowed on links with many messages; 0: exact.
    calibration : str, path or KernelCosts, optional
        What node-local work costs; default: the calibration in use.
    trace_ti : path, optional
        Write the calls of all ranks there, as a time-independent trace.
    noise : Noise or str, optional
        Detours, slow hosts and degraded links (`labkit.platform.noise`).
    compute : str or Measured
        Whether only what is charged takes time, or the host's CPU time (`labkit.sim.measured`).
    **options
        Fields of the network model to change, such as ``cross_traffic=False``.

    Returns
    -------
    Run

    Raises
    ------
    PlatformError, MachineError, DataError
        Before anything runs.
    RankError, DeadlockError, MismatchError, TimeLimitError, KeyboardInterrupt
        The run failed; nothing of it is left.
    """
    began = time.perf_counter()
    machine = platform(on).mapped(mapping)
    network = models.get(machine.model if model is None else model, **options)
    troubled = noise_of(noise).seeded(seed)
    built, worse_links = troubled.degrade(machine.build(ranks))
    simulation = Simulation(
        built, network.build(), ranks, trace=trace, timeout_s=timeout_s,
        selector=selector_of(coll), machine=machine.spec, tolerance=tolerance,
        calibration=find_calibration(calibration), measured=measured_of(compute),
    )  # fmt: skip
    target = keep_calls(simulation, trace_ti)
    slow_hosts = troubled.disturb(simulation.hub, built)
    notes: list[str] = []
    _run_program(simulation, program, tuple(args), dict(kwargs or {}), seed, isolate, notes)
    if target is not None:
        notes.append(write_calls(simulation, target))
    notes.extend(crowding(built))
    run = _as_run(simulation, program, machine, network, notes, time.perf_counter() - began)
    notes.extend(simulation.context.notes)
    run.machine["deterministic"] = simulation.context.is_deterministic
    if not simulation.context.is_deterministic:
        notes.append(NOTE)
    if not troubled.is_quiet:
        run.machine["noise"] = troubled.record(slow_hosts, worse_links)
        notes.append(f"noise: {troubled}")
    if tolerance > 0:
        run.tolerance = ToleranceUse(tolerance=tolerance, **simulation.tolerance_use())
        run.is_valid = not run.tolerance.without_bottleneck
        if run.tolerance.loose_instants:
            notes.append(run.tolerance.guarantee())
    return run


def _run_program(
    simulation: Simulation,
    program: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    seed: int,
    isolate: bool | None,
    notes: list[str],
) -> None:
    """Run, with or without isolation; results go into the simulation."""
    comm = context.mpi_module().COMM_WORLD
    random = RankRandom(seed)
    name = SimulatedName(context.mpi_module())
    shared = {**random.stand_ins, **name.stand_ins()}
    isolation = Isolation(program, args, kwargs, shared) if isolate else None
    if isolate is False:
        notes.append("ranks shared their globals, closure and arguments (isolate=False)")
    if isolation is None or isolation.is_shared:
        with random, name:
            simulation.run(_main_of(program, comm, args, kwargs))
        return
    with random, name, RankPickle(isolation) as pickling:

        def main(rank: int) -> Any:
            own = isolation.program(rank)
            pickling.install()
            return own(comm)

        simulation.run(main)
    simulation.results = [isolation.restore(result) for result in simulation.results]
    notes.extend(isolation.notes)


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
    program: Callable[..., Any],
    machine: Platform,
    network: models.NetworkModel,
    notes: list[str],
    host_seconds: float,
) -> Run:
    hub = simulation.hub
    rows = sorted(simulation.context.phases, key=lambda row: (row[2], row[0]))
    return Run(
        program=program_name(program),
        ranks=simulation.ranks,
        on=machine.name,
        model=network.name,
        results=simulation.results,
        makespan_s=float(hub.makespan),
        phases=phase_frame(rows),
        output=simulation.output.texts(),
        messages=int(hub.messages),
        bytes=int(hub.bytes),
        host_seconds=host_seconds,
        trace=_trace(hub, (machine, network)) if hub.is_tracing else None,
        machine={
            "platform": machine.spec,
            "model": network.name,
            "hosts": int(hub.hosts),
            **_placement(machine, simulation.ranks),
            "calibration": simulation.calibration.name,
            "events": int(hub.events),
        },
        notes=notes,
        collectives=dict(simulation.calls.choose.made),
    )


def _placement(machine: Platform, ranks: int) -> dict[str, Any]:
    """Describe where the ranks are; a list or a file is kept whole, because nothing else could repeat it."""
    placed = machine.rank_hosts(ranks)
    most = int(np.bincount(placed).max())
    described: dict[str, Any] = {"mapping": str(machine.mapping), "most_ranks_on_a_host": most}
    if isinstance(machine.mapping, ListedMapping):
        described["rank_hosts"] = placed.tolist()
    return described


def _trace(hub: Any, setting: tuple[Platform, models.NetworkModel]) -> Trace:
    ends_s = [float(hub.clock(rank)) for rank in range(hub.ranks)]
    messages, waits, operations = hub.message_columns(), hub.wait_columns(), hub.operation_columns()
    beside = None
    if operations:
        waits, beside = taken_apart(messages, waits, operations, hub.side_columns())
    return Trace.from_columns(messages, waits, hub.computation_columns(), ends_s, setting, beside)
