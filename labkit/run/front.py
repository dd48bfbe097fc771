"""The front door: one call runs a program on any machine, after refusing what cannot work."""

from __future__ import annotations

import inspect
import math
import numbers
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labkit.batch.options import is_slurm
from labkit.errors import MachineError, ProgramError
from labkit.run.cluster_target import is_cluster
from labkit.run.result import Run
from labkit.run.tolerance import check_tolerance

__all__ = [
    "check_limit",
    "check_platform",
    "check_program",
    "check_ranks",
    "check_repeats",
    "check_script",
    "median_run",
    "program_name",
    "run",
]

#: each simulated rank needs some ten kilobytes of memory
MOST_RANKS = 1 << 20


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
    coll: Mapping[str, str] | None = None,
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
    coll : mapping, optional
        Algorithms of simulated collectives, for example ``{"allreduce": "ring"}``.
    mapping : str, path or sequence of int, optional
        Hosts of the ranks of a simulated run: ``block`` (the default), ``cyclic``, ``random``, ``random:7``,
        a host for each rank, or a file with a host on each line. With a mapping, ranks may share cores.
    repeats : int
        Run the program so often, in one launch, repetition k with ``seed + k``; see `Run.repetitions`.
    tolerance : float
        For huge simulated loads: where 48 messages and more share a link and come and go one by one, its
        capacity may be off by this share, below 0.1; 0: exact. See `Run.tolerance`.
    calibration : str, path or Calibration, optional
        What the node-local work of simulated ranks costs: the name of a shipped calibration, a ``.toml``
        file of ``python -m labkit.local.calibrate``, or a `labkit.local.Calibration`; default: the
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
        Further options of the machine; for real MPI those of `labkit.run.mpi.run_mpi`, for a
        cluster those of `labkit.run.cluster.run_cluster`, for Slurm those of `labkit.slurm`.

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
        from labkit.run.mpi import run_mpi

        return run_mpi(
            program, int(ranks), args=args, kwargs=kwargs, trace=trace, timeout_s=timeout_s, seed=seed,
            repeats=repeats, **recorded, **options,
        )  # fmt: skip
    if is_cluster(on):
        _refuse_simulated_options("a cluster", simulated)
        check_tolerance(tolerance, "a cluster")
        from labkit.run.cluster import run_cluster

        return run_cluster(
            program, int(ranks), on, args=args, kwargs=kwargs, trace=trace, timeout_s=timeout_s, seed=seed,
            repeats=repeats, **recorded, **options,
        )  # fmt: skip
    if is_slurm(on):
        _refuse_simulated_options("Slurm", simulated)
        check_tolerance(tolerance, "Slurm")
        from labkit.batch.front import run_slurm

        return run_slurm(
            program, int(ranks), on, args=args, kwargs=kwargs, trace=trace, timeout_s=timeout_s, seed=seed,
            repeats=repeats, **recorded, **options,
        )  # fmt: skip
    if options:
        raise MachineError(f"a simulated run has no option {', '.join(map(repr, sorted(options)))}")
    if ranks > MOST_RANKS:
        raise MachineError(f"a simulated run has at most {MOST_RANKS:,} ranks, got {ranks:,}")
    on = check_platform(on, int(ranks), model, coll, mapping)
    from labkit.local.calibration import find_calibration
    from labkit.sim.measured import measured_of
    from labkit.sim.noise import noise_of

    return _simulated(
        program, int(ranks), repeats, on=on, args=args, kwargs=kwargs, model=model, trace=trace,
        timeout_s=timeout_s, seed=seed, isolate=isolate, coll=dict(coll) if coll else None,
        tolerance=tolerance, calibration=find_calibration(calibration), trace_ti=trace_ti,
        noise=noise_of(noise), compute=measured_of("charged" if compute is None else compute),
    )  # fmt: skip


def _check_recording(trace_ti: Any, repeats: int) -> None:
    """Refuse a place for a trace that cannot be written, or one trace of several runs."""
    if trace_ti is None:
        return
    if repeats > 1:
        raise MachineError(f"trace_ti records one run, and repeats={repeats} asks for several; leave one out")
    from labkit.offline.writing import check_target

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


def median_run(runs: list[Run]) -> Run:
    """Return the repetition with the (lower) median makespan, which then carries all of them.

    Parameters
    ----------
    runs : list of Run
        At least one.

    Returns
    -------
    Run
        A shallow copy, so that no run contains itself.
    """
    if len(runs) == 1:
        return runs[0]
    middle = sorted(runs, key=lambda one: one.makespan_s)[(len(runs) - 1) // 2]
    return Run(**{**vars(middle), "repetitions": list(runs)})


def check_ranks(ranks: Any) -> None:
    """Refuse a number of ranks that is not a whole number of at least 1."""
    if isinstance(ranks, bool) or not isinstance(ranks, numbers.Integral):
        raise MachineError(f"ranks must be a whole number, got {ranks!r} ({type(ranks).__name__})")
    if ranks < 1:
        raise MachineError(f"ranks must be at least 1, got {ranks}")


def check_limit(timeout_s: Any) -> None:
    """Refuse a time limit that is not a positive number of seconds (None means no limit)."""
    if timeout_s is None:
        return
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, numbers.Real) or math.isnan(timeout_s):
        raise MachineError(f"timeout_s must be a number of seconds or None, got {timeout_s!r}")
    if timeout_s <= 0:
        raise MachineError(f"timeout_s must be more than 0 seconds, got {timeout_s!r}; None means no limit")


def check_repeats(repeats: Any) -> None:
    """Refuse a number of repetitions that is not a whole number of at least 1."""
    if isinstance(repeats, bool) or not isinstance(repeats, numbers.Integral) or repeats < 1:
        raise MachineError(f"repeats must be a whole number of at least 1, got {repeats!r}")


def check_platform(
    on: Any, ranks: int, model: Any, coll: Mapping[str, str] | None, mapping: Any = None
) -> Any:
    """Refuse a platform that is not known or too small, a model, an algorithm or a mapping that is not known.

    Returns
    -------
    Platform
        The platform, with its ranks mapped.
    """
    from labkit import registry
    from labkit.sim import models, platform

    if isinstance(on, str) and on.strip().lower() in ("cluster", "ipyparallel"):
        raise MachineError(
            f"on={on!r}: a cluster of engines is given as an object: start one with labkit.cluster(4), or "
            'pass a Cluster, Client or DirectView of ipyparallel; without one use on="mpi"'
        )
    machine = platform(on).mapped(mapping)
    machine.rank_hosts(ranks)
    if model is not None:
        models.get(model)
    for problem, name in (coll or {}).items():
        registry.get(problem, name)
    return machine


def check_program(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[..., Any] | Path:
    """Refuse what cannot be run, and return the callable, or the path of a script that exists.

    Raises
    ------
    ProgramError
        Not a callable or a readable file; a generator or coroutine function; wrong arguments.
    """
    if isinstance(program, str | os.PathLike):
        path = Path(program)
        if not path.is_file():
            what = "is a directory" if path.is_dir() else "does not exist"
            raise ProgramError(f"the script {str(path)!r} {what}; give the path of a Python file")
        if not os.access(path, os.R_OK):
            raise ProgramError(f"the script {str(path)!r} cannot be read; check its permissions")
        check_script(path)
        return path
    if not callable(program):
        arrived = type(program).__name__
        raise ProgramError(
            f"a program is a function program(comm, ...) or the path of a script, got {arrived}"
        )
    found: Callable[..., Any] = program
    if inspect.iscoroutinefunction(program) or inspect.isgeneratorfunction(program):
        raise ProgramError(
            "a program is a plain function: this one is a generator or a coroutine, and calling it would run "
            "nothing; take out yield or async"
        )
    try:
        signature = inspect.signature(program)
    except (TypeError, ValueError):  # a builtin without a signature: let the call itself decide
        return found
    try:
        signature.bind("comm", *args, **kwargs)
    except TypeError as error:
        name = getattr(program, "__name__", "program")
        call = f"{name}(comm, *args, **kwargs)"
        raise ProgramError(f"{name}{signature} cannot be called as {call}: {error}") from None
    return found


def check_script(path: str | os.PathLike[str]) -> None:
    """Refuse a script that is not Python, before any rank starts."""
    name = os.fspath(path)
    try:
        with warnings.catch_warnings():  # they belong to the run
            warnings.simplefilter("ignore")
            compile(Path(path).read_bytes(), name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise ProgramError(f"the script {name!r} is not Python{line}: {error.args[0]}") from error


def program_name(program: Any) -> str:
    """Return the name under which a program appears in runs and studies."""
    if isinstance(program, str | os.PathLike):
        return Path(program).name
    name = getattr(program, "__name__", None) or type(getattr(program, "func", program)).__name__
    inner = getattr(program, "func", None)  # functools.partial has no name of its own
    return str(getattr(inner, "__name__", name))
