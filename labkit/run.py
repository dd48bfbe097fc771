"""Run a program: ``labkit.run(program, ranks=64, on="star:64")``; the result is a `Run`.

One call runs a program on any machine, after refusing what cannot work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labkit.checks import check_limit, check_program, check_ranks, check_repeats
from labkit.errors import MachineError, ProgramError
from labkit.real.engines.target import is_cluster
from labkit.real.slurm.options import is_slurm
from labkit.result import Run, median_run
from labkit.tolerance import check_tolerance

__all__ = ["check_platform", "run"]

#: each simulated rank needs some ten kilobytes of memory
MOST_RANKS = 1 << 20

#: a module of today behind names that this one once had as a package (`labkit.moved`)
__path__: list[str] = []


def run(
    program: Callable[..., Any] | str | os.PathLike[str],
    ranks: int,
    on: Any = "star",
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    model: Any = None,
    trace: bool = False,
    timeout_s: float | None = 60.0,
    seed: int = 0,
    isolate: bool = True,
    coll: Any = None,
    mapping: Any = None,
    repeats: int = 1,
    tolerance: float = 0.0,
    calibration: Any = None,
    trace_ti: str | os.PathLike[str] | None = None,
    noise: Any = None,
    compute: Any = None,
    **options: Any,
) -> Run:
    """Run one SPMD program on a real or on a simulated machine.

    Parameters
    ----------
    program : callable or path
        ``program(comm, *args, **kwargs)``, called once per rank; or the path of an mpi4py script, which then
        gets `args` as its command line. On a simulated machine the name `mpi4py.MPI` means `labkit.MPI`.
    ranks : int
        Number of ranks, at least 1.
    on : str or Platform
        ``"mpi"`` for real MPI on this host; a running cluster of MPI engines (`labkit.cluster`, or a Cluster,
        Client or DirectView of ipyparallel); ``"slurm"`` or a `labkit.slurm` for batch jobs of a cluster;
        anything else is a platform: ``"star:64"``, ...
    args, kwargs
        Arguments of the program after the communicator, the same for every rank.
    model : str or NetworkModel, optional
        Network model of a simulated run (default: the platform's, else ``lab``).
    trace : bool
        Record a trace.
    timeout_s : float or None
        Limit of host time in seconds; None for no limit.
    seed : int
        Seeds ``random`` and ``numpy.random`` of each rank, together with the rank.
    isolate : bool
        Simulated ranks get their own globals, closure and arguments, as processes do.
    coll : mapping, path or Selector, optional
        Algorithms of the collectives, for example ``{"allreduce": "ring"}``, a file of rules or a selector
        (`labkit.selector`). What it leaves open is chosen as MPI libraries do; `Run.collectives` says how.
    mapping : str, path or sequence of int, optional
        Hosts of the ranks of a simulated run: ``block`` (the default), ``cyclic``, ``random``, ``random:7``,
        a host for each rank, or a file with a host on each line. With a mapping, ranks may share cores.
    repeats : int
        Run the program so often, in one launch, repetition k with ``seed + k``; see `Run.repetitions`.
    tolerance : float
        For huge simulated loads: where 48 messages and more share a link and come and go one by one, its
        capacity may be off by this share, below 0.1; 0: exact. See `Run.tolerance`.
    calibration : str, path or KernelCosts, optional
        What the node-local work of simulated ranks costs: the name of a shipped calibration, a ``.toml``
        file of ``python -m labkit.local.calibrate``, or a `labkit.local.KernelCosts`; default: the
        calibration in use (`labkit.local.use_calibration`).
    trace_ti : path, optional
        Write what each rank calls there, as a time-independent trace in SimGrid's format, for
        `labkit.replay`: a file for all ranks (packed when its name ends in .gz), or a folder (whose name ends
        in a slash, or that exists) for a file a rank and their list. Of simulated runs and of real MPI,
        also on clusters and by Slurm. Where a run of real MPI fails, what there is goes to a file marked as
        incomplete.
    noise : Noise or str, optional
        What disturbs a simulated machine, drawn from the seed: `labkit.Noise`, or its text,
        ``"jitter=50us,period=1ms,stragglers=1,slowdown=2"``.
    compute : str or Measured, optional
        ``"charged"`` (the default of simulations): ranks compute for as long as they say; ``"measured"`` (or
        ``"measured:0.5"``): for as long as their code takes this host's CPU (times a factor), which is
        never quite the same twice. Of a recorded run of real MPI (`trace_ti`) it says what computation the
        trace has: ``"measured"`` (the default), ``"charged"`` or ``"none"``.
    **options
        Further options of the machine; for real MPI those of `labkit.real.mpi.machine.run_mpi`, for a
        cluster those of `labkit.real.engines.machine.run_cluster`, for Slurm those of `labkit.slurm`.

    Returns
    -------
    Run
        Results, times, phases and output in the same shapes from every machine.

    Raises
    ------
    ProgramError
        The program cannot be called with these arguments, or the script does not exist.
    DataError
        The calibration is not known or cannot be read.
    MachineError, PlatformError
        The machine is not known or cannot be used, or ranks, time limit, repeats or tolerance make no sense.
    DataError
        The trace cannot be written.
    RankError, DeadlockError, TimeLimitError
        The run failed.
    """
    kwargs = dict(kwargs or {})
    check_ranks(ranks)
    check_limit(timeout_s)
    check_repeats(repeats)
    tolerance = check_tolerance(tolerance)
    _check_recording(trace_ti, repeats)
    program = check_program(program, args, kwargs)
    simulated = {
        "model": model, "coll": coll, "mapping": mapping, "calibration": calibration, "noise": noise,
        "compute": compute,
    }  # fmt: skip
    recorded: dict[str, Any] = {"trace_ti": trace_ti, "compute": None}
    is_mpi = isinstance(on, str) and on.strip().lower() == "mpi"
    if trace_ti is not None and (is_mpi or is_cluster(on) or is_slurm(on)):
        recorded["compute"], simulated["compute"] = compute, None  # it says what is recorded
    if is_mpi:
        _refuse_simulated_options('on="mpi"', simulated)
        check_tolerance(tolerance, 'on="mpi"')
        from labkit.real.mpi.machine import run_mpi

        return run_mpi(
            program, int(ranks), args=args, kwargs=kwargs, trace=trace, timeout_s=timeout_s, seed=seed,
            repeats=repeats, **recorded, **options,
        )  # fmt: skip
    if is_cluster(on):
        _refuse_simulated_options("a cluster", simulated)
        check_tolerance(tolerance, "a cluster")
        from labkit.real.engines.machine import run_cluster

        return run_cluster(
            program, int(ranks), on, args=args, kwargs=kwargs, trace=trace, timeout_s=timeout_s, seed=seed,
            repeats=repeats, **recorded, **options,
        )  # fmt: skip
    if is_slurm(on):
        _refuse_simulated_options("Slurm", simulated)
        check_tolerance(tolerance, "Slurm")
        from labkit.real.slurm.machine import run_slurm

        return run_slurm(
            program, int(ranks), on, args=args, kwargs=kwargs, trace=trace, timeout_s=timeout_s, seed=seed,
            repeats=repeats, **recorded, **options,
        )  # fmt: skip
    if options:
        raise MachineError(f"a simulated run has no option {', '.join(map(repr, sorted(options)))}")
    if ranks > MOST_RANKS:
        raise MachineError(f"a simulated run has at most {MOST_RANKS:,} ranks, got {ranks:,}")
    on = check_platform(on, int(ranks), model, coll, mapping)
    from labkit.local.costs import find_calibration
    from labkit.platform.noise import noise_of
    from labkit.sim.measured import measured_of

    return _simulated(
        program, int(ranks), repeats, on=on, args=args, kwargs=kwargs, model=model, trace=trace,
        timeout_s=timeout_s, seed=seed, isolate=isolate, coll=coll or None,
        tolerance=tolerance, calibration=find_calibration(calibration), trace_ti=trace_ti,
        noise=noise_of(noise), compute=measured_of("charged" if compute is None else compute),
    )  # fmt: skip


def _check_recording(trace_ti: Any, repeats: int) -> None:
    """Refuse a place for a trace that cannot be written, or one trace of several runs."""
    if trace_ti is None:
        return
    if repeats > 1:
        raise MachineError(f"trace_ti records one run, and repeats={repeats} asks for several; leave one out")
    from labkit.trace.formats.ti_writer import check_target

    check_target(trace_ti)


def _refuse_simulated_options(machine: str, given: Mapping[str, Any]) -> None:
    if any(value is not None and value != "charged" and value != {} for value in given.values()):
        raise MachineError(
            "noise, compute, model, coll, mapping and calibration belong to simulated runs, not to "
            f"{machine}; leave them out"
        )


def _simulated(program: Callable[..., Any] | Path, ranks: int, repeats: int, **how: Any) -> Run:
    """Simulate: deterministic, so that repetitions differ only in the seed."""
    if isinstance(program, Path):
        from labkit.sim.script import run_script

        how.pop("isolate")
        if how.pop("kwargs"):
            raise ProgramError("a script takes args only (its command line), no kwargs")
        return run_script(program, ranks, **how)
    from labkit.sim.runner import run_simulated

    if repeats == 1:
        return run_simulated(program, ranks, **how)
    seed = how.pop("seed")
    return median_run([run_simulated(program, ranks, seed=seed + k, **how) for k in range(repeats)])


def check_platform(on: Any, ranks: int, model: Any, coll: Any, mapping: Any = None) -> Any:
    """Refuse a platform that is not known or too small, a model, an algorithm or a mapping that is not known.

    Returns
    -------
    Platform
        The platform, with its ranks mapped.
    """
    from labkit.platform import models, platform
    from labkit.selector import selector_of

    if isinstance(on, str) and on.strip().lower() in ("cluster", "ipyparallel"):
        raise MachineError(
            f"on={on!r}: a cluster of engines is given as an object: start one with labkit.cluster(4), or "
            'pass a Cluster, Client or DirectView of ipyparallel; without one use on="mpi"'
        )
    machine = platform(on).mapped(mapping)
    machine.rank_hosts(ranks)
    if model is not None:
        models.get(model)
    selector_of(coll)
    return machine
