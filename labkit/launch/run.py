"""Run a program: ``labkit.run(program, ranks=64, on="star:64")``; the result is a `Run`."""

from __future__ import annotations

import contextlib
import dis
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from labkit.checks import check_kind
from labkit.errors import MachineError, PlatformError, near
from labkit.program.function_phases import regions_of, unseen
from labkit.program.variation import Variation
from labkit.real.machines import Engines, RealMpi, SlurmCluster
from labkit.request import Machine, RunRequest, own_parameters
from labkit.result import Run
from labkit.sim.machine import Simulator

__all__ = ["MACHINES", "Again", "checked_request", "machine_of", "run", "together"]

_CONTAINERS = (list, dict, set)
#: methods that change them
_CHANGING = {"append", "extend", "insert", "add", "update", "setdefault"}
#: asked in this order whether a value of `on` is theirs; what is nobody else's names a platform
MACHINES: list[Machine] = [RealMpi(), Engines(), SlurmCluster(), Simulator()]


def machine_of(on: object) -> Machine:
    """Return the machine that a value of `on` means.

    Examples
    --------
    >>> machine_of("mpi").name, machine_of("torus:4x4").is_real
    ('on="mpi"', False)
    """
    return next(machine for machine in MACHINES if machine.owns(on))


def checked_request(program: object, ranks: int, **how: Any) -> RunRequest:
    """Return the checked request behind ``run(program, ranks, **how)``."""
    own = {name: how.pop(name) for name in [*how] if name not in RunRequest.__dataclass_fields__}
    return _checked(program, ranks, how.pop("on", "star"), how.pop("kwargs", None), own, **how)


def _checked(
    program: object,
    ranks: int | None,
    on: object,
    kwargs: Mapping[str, object] | None,
    named: Mapping[str, object],
    **how: Any,
) -> RunRequest:
    """Return the checked request of a call, its ranks and the program's own parameters found."""
    machine = machine_of(on)
    if isinstance(on, int | float):
        raise PlatformError(
            f"`on` must be a platform string such as 'star:64', got {on!r}. Pass the program's parameters "
            "by name, as in labkit.run(program, 4, n=1000)",
            code="wrong-type",
        )
    try:
        held = machine.size(on) if ranks is None else ranks
    except PlatformError as error:
        raise _or_a_word(error, on) from None
    if held is None:
        check_kind(program)
    kwargs, options = own_parameters(program, {} if kwargs is None else kwargs, named, machine)
    if held is None:
        machine.refuse_unknown(options, program)  # such as np=4
        raise MachineError(
            f"`ranks` is required because on={on!r} has no fixed size, for example labkit.run(program, 8); "
            'or give a machine with a size, such as on="star:8"',
            code="ranks-required",
        )
    try:
        return machine.checked(RunRequest(program, held, on, kwargs=kwargs, options=options, **how))
    except PlatformError as error:
        raise _or_a_word(error, on) from None


def _or_a_word(error: PlatformError, on: object) -> PlatformError:
    """Add a hint: the text may be a misspelt name of another kind of machine."""
    words = [word for machine in MACHINES for word in machine.words]
    meant = near(on.strip(), words, 1, cutoff=0.65) if isinstance(on, str) else []
    if not meant:
        return error
    first, *place = str(error).splitlines()
    return PlatformError("\n".join([f"{first}; or did you mean on={meant[0]!r}?", *place]), code=error.code)


@contextlib.contextmanager
def together(calls: Sequence[tuple[object, int, Mapping[str, object]]]) -> Iterator[Callable[..., Run]]:
    """Yield a `run` for calls known beforehand: a machine with a queue gets all of its calls together."""
    with contextlib.ExitStack() as stack:
        runners: dict[Machine, Callable[[RunRequest], Run]] = {}
        for machine in MACHINES:
            if machine.is_queued:
                own = [call for call in calls if machine_of(call[2]["on"]) is machine]
                requests = [checked_request(program, ranks, **how) for program, ranks, how in own]
                runners[machine] = stack.enter_context(machine.together(requests))

        def run_one(program: object, ranks: int, **how: object) -> Run:
            machine = machine_of(how["on"])
            return runners.get(machine, machine.run)(checked_request(program, ranks, **how))

        yield run_one


class Again:
    """Runs a request again, with changes.

    `request`: As it was checked.
    """

    def __init__(self, request: RunRequest) -> None:
        self.request = request

    def __call__(self, trial: Variation | None = None, **changes: object) -> Run:
        """Run again on a simulated machine, recorded, with what was tried before and `trial` on top of it.

        `changes` are arguments of `run`.
        """
        old = self.request
        how = {
            name: getattr(old, name)
            for name in ("on", "args", "model", "timeout_s", "seed", "isolate", "coll", "tolerance",
                         "calibration", "noise", "compute", "regions")
        } | dict(old.options) | changes  # fmt: skip
        request = checked_request(old.program, old.ranks, kwargs=old.kwargs, trace=True, **how)
        request = request.changed(trial=old.trial if trial is None else trial.after(old.trial))
        found = machine_of(request.on).run(request)
        found.again = Again(request)
        return found


def run(
    program: Callable[..., object] | str | os.PathLike[str],
    ranks: int | None = None,
    on: object = "star",
    *,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    model: object = None,
    trace: bool = False,
    timeout_s: float | None = 60.0,
    seed: int = 0,
    isolate: bool = True,
    coll: object = None,
    mapping: object = None,
    repeats: int = 1,
    tolerance: float = 0.0,
    calibration: object = None,
    trace_ti: str | os.PathLike[str] | None = None,
    noise: object = None,
    compute: object = None,
    count: bool = False,
    regions: str | Sequence[str] | None = None,
    **options: object,
) -> Run:
    """Run one SPMD program on a real or on a simulated machine.

    Parameters
    ----------
    program : callable or path
        ``program(comm, *args, **kwargs)``, called once per rank; or the path of an mpi4py script, which then
        gets `args` as its command line. On a simulated machine the name `mpi4py.MPI` means `labkit.MPI`.
    ranks : int, optional
        Number of ranks, at least 1; default: as many as the machine holds, where it says so (``"star:64"``,
        a running cluster).
    on : str or Platform
        ``"mpi"`` for real MPI on this host; a running cluster of MPI engines (`labkit.cluster`, or a Cluster,
        Client or DirectView of ipyparallel); ``"slurm"`` or a `labkit.slurm` for batch jobs of a cluster;
        anything else is a platform: ``"star:64"``, ...
    args, kwargs
        Arguments of the program after the communicator, the same for every rank.
    model : str or NetworkModel, optional
        Network model of a simulated run (default: the platform's, else ``lab``).
    trace : bool
        Record every message, wait and computation, on any machine: `Run.trace` is a `labkit.trace.Trace`.
        Simulated time does not change. On real MPI every call takes a few microseconds longer: `Run.trace`
        states how many were measured, and `Run.waits` warns where that is 5 % of a rank's time or more (a
        ping-pong of 10^5 messages a second takes 40 % longer: ``benchmarks/recording.py``).
    timeout_s : float or None
        Limit of host time in seconds; None for no limit.
    seed : int
        Seeds ``random`` and ``numpy.random`` of each rank, together with the rank.
    isolate : bool
        Simulated ranks get their own globals, closure and arguments, as processes do.
    coll : mapping, str, path or Selector, optional
        Algorithms of the collectives: ``{"allreduce": "ring"}`` or ``"allreduce=ring"``; a selector by name
        (``"ompi"``, ``"mpich"``, ``"smpi"``, ``"best"``) or object (`labkit.selector`); a file of rules. What
        it leaves open is chosen as MPI libraries do; `Run.collectives` lists them. On real MPI: labkit's own
        over mpi4py's messages, or the library's own (``"allreduce=library:ring"``); the rest is left to it.
    mapping : str, path or sequence of int, optional
        Hosts of the ranks of a simulated run: ``block`` (the default: as many ranks on a host as it has
        cores), ``block:1`` (a host for each rank, as SMPI does), ``cyclic``, ``random:7`` (any cores),
        ``fragmented:7`` (any hosts, each filled), a host for each rank, or a file with a host on each line.
        With a mapping, ranks may share cores.
    repeats : int
        Run the program so often, in one launch, repetition k with ``seed + k``; see `Run.repetitions`.
    tolerance : float
        For huge simulated loads: where 48 messages and more share a link and come and go one by one, its
        capacity may be off by this share, below 0.1; 0: exact. See `Run.tolerance`.
    calibration : str, path or KernelCosts, optional
        What the node-local work of simulated ranks costs: the name of a shipped calibration, a ``.toml``
        file of ``python -m labkit.local.calibrate``, or a `labkit.local.KernelCosts`; default: that of the
        machine's own cores, where it has one, else the calibration in use
        (`labkit.local.use_calibration`).
    trace_ti : path, optional
        Write what each rank calls there, as a time-independent trace in SimGrid's format, for
        `labkit.replay`: a file for all ranks (packed when its name ends in .gz), or a folder (whose name ends
        in a slash, or that exists) for a file a rank and their list. Of simulated runs and of real MPI,
        also on clusters and by Slurm. Where a run of real MPI fails, what there is goes to a file marked as
        incomplete.
    noise : Noise or str, optional
        What disturbs a simulated machine, drawn from the seed: `labkit.Noise`, or its text,
        ``"jitter=50us,period=1ms,stragglers=1,slowdown=2"``.
    compute : str, Run or Measured, optional
        ``"charged"`` (the default of simulations): ranks compute for as long as they say; ``"measured"`` (or
        ``"measured:0.5"``): for as long as their code takes this host's CPU (times a factor), which is
        never quite the same twice. An earlier measured run: as it was there, to the bit; ``"recorded:FILE"``:
        as the file has it, where what is missing is measured and added. Of a recorded run of real MPI
        (`trace_ti`) it selects what computation the trace has: ``"measured"`` (the default), ``"charged"`` or
        ``"none"``.
    count : bool
        Count messages, bytes, rounds, comparisons and memory of each rank: `Run.counts`. In simulation all
        of it, and no time changes; on real MPI what the first repetition, which is then recorded, shows.
    regions : str or sequence of str, optional
        Functions whose calls are phases, on any machine, by name: ``["merge", "solver.Grid.smooth"]``; ``*``
        stands for anything, and ``"!tiny"`` leaves functions out. Simulated time does not change;
        on real ranks every call of a Python function runs a hook, which slows down programs with many calls.
    **options
        Parameters of the program by name, as in ``run(ring, 8, n=5000)``, and further options of the machine:
        of a simulated one ``storage="bw=2GBps,lat=500us"``, what files cost (`labkit.comm.files`); those of
        `labkit.real.machines.RealMpi`, of `labkit.real.machines.Engines`, or of `labkit.slurm`. A
        name that both have is the machine's, and goes to the program by `kwargs`.

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
    request = _checked(
        program, ranks, on, kwargs, options, args=args, model=model, trace=trace, timeout_s=timeout_s,
        seed=seed, isolate=isolate, coll=coll, mapping=mapping, repeats=repeats, tolerance=tolerance,
        calibration=calibration, trace_ti=trace_ti, noise=noise, compute=compute, count=count,
        regions=regions,
    )  # fmt: skip
    found = machine_of(on).run(request)
    found.notes += _hints(request, found)
    found.again = Again(request)
    return found


def _hints(request: RunRequest, found: Run) -> list[str]:
    """Return a sentence for each option that had no effect, and for results that nobody can have meant."""
    hints = []
    if request.regions and (missed := unseen(request.regions, found.phases["phase"])):
        hints.append(f"regions: no function called {', '.join(missed)} was seen")
    if left_out := regions_of(request.options.get("leave_out")):
        entered = set(found.phases["phase"])
        missed = [name for name in left_out if not any(fnmatchcase(phase, name) for phase in entered)]
        if missed:
            hints.append(f"leave_out: no phase called {', '.join(missed)} was entered")
    if idle := _idle_choices(request, found):
        hints.append(
            f"coll: no call used {', '.join(idle)}. coll applies to calls on arrays, such as Allreduce; "
            "reduce, allreduce, scan and exscan of Python objects always use mpi4py's trees"
        )
    if name := _uncalled(found.results):
        hints.append(
            f"the program returned the method {name} itself: {name}() calls it and returns its value"
        )
    if request.isolate is not False and all(one is None for one in found.results):
        for name in _changed_globals(request.program):
            hints.append(
                f"each rank changed its own copy of {name}, as processes do; {name} here is unchanged. "
                "Return what you need: run.results has it for each rank"
            )
    return hints


def _uncalled(results: list[object]) -> str:
    """Return the name of the first method that a rank returned instead of what it returns."""
    owners = [(one, getattr(one, "__self__", None)) for one in results if inspect.isroutine(one)]
    names = [one.__name__ for one, owner in owners if owner is not None and not inspect.ismodule(owner)]
    return names[0] if names else ""


def _changed_globals(program: object) -> list[str]:
    """Return the globals that a function's own code assigns, or changes as ``found.append(...)`` does."""
    steps = [*dis.get_instructions(program)] if inspect.isfunction(program) else []
    scope = getattr(program, "__globals__", {})
    names = [one.argval for one in steps if one.opname == "STORE_GLOBAL"]
    for position, step in enumerate(steps):
        before = position - 1
        if step.opname == "STORE_SUBSCR":  # its index is one value: what lies below it is changed
            depth = 0
            while before >= 0 and depth < 1:
                depth += dis.stack_effect(steps[before].opcode, steps[before].arg)
                before -= 1
        elif step.opname not in ("LOAD_METHOD", "LOAD_ATTR") or step.argval not in _CHANGING:
            continue
        at = steps[before] if before >= 0 else step
        if at.opname == "LOAD_GLOBAL" and isinstance(scope.get(at.argval), _CONTAINERS):
            names.append(at.argval)
    return list(dict.fromkeys(names))


def _idle_choices(request: RunRequest, found: Run) -> list[str]:
    """Return the choices of `coll` that no call has asked for; on one rank nothing is chosen."""
    if request.coll is None or request.ranks == 1:
        return []
    used = {at.operation for at in found.collectives}
    return [f"{name}={taken}" for name, taken in request.coll.named().items() if name not in used]
