"""The request of a run, checked once, and the contract of a machine: what is behind `labkit.run`."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from labkit.checks import (
    check_arguments,
    check_limit,
    check_program,
    check_ranks,
    check_repeats,
    check_seed,
    check_switch,
    check_tolerance,
    program_name,
)
from labkit.errors import MachineError, ProgramError, nearest
from labkit.program.function_phases import regions_of
from labkit.program.variation import Variation

if TYPE_CHECKING:
    from labkit.result import Run

__all__ = ["Machine", "RunRequest", "own_parameters", "refuse_for_functions"]


@dataclass(frozen=True)
class RunRequest:
    """One call of `labkit.run`, whose parameters see for the fields; made, it is checked.

    `options`: Options that belong to one machine only.
    `trial`: What `Run.what_if` changes; of simulated runs.
    Raises LabkitError: As `labkit.run`, for what makes no sense on any machine.
    """

    program: Any
    ranks: int
    on: Any = "star"
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    model: Any = None
    trace: bool = False
    timeout_s: float | None = 60.0
    seed: int = 0
    isolate: bool | None = True
    coll: Any = None
    mapping: Any = None
    repeats: int = 1
    tolerance: float = 0.0
    calibration: Any = None
    trace_ti: Any = None
    noise: Any = None
    compute: Any = None
    count: bool = False
    regions: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    trial: Variation | None = None

    def __post_init__(self) -> None:
        check_ranks(self.ranks)
        check_limit(self.timeout_s)
        check_repeats(self.repeats)
        check_seed(self.seed)
        check_switch("trace", self.trace)
        check_switch("count", self.count)
        check_switch("isolate", self.isolate)
        tolerance = check_tolerance(self.tolerance)
        if self.trace_ti is not None:
            self._check_trace_file()
        check_arguments(self.args, self.kwargs)
        args, kwargs = tuple(self.args), dict(self.kwargs or {})
        program = check_program(self.program, args, kwargs)
        if isinstance(program, Path) and kwargs:
            raise ProgramError(
                "a script takes args only (its command line), no kwargs", code="conflicting-options"
            )
        self._set(
            program=program,
            ranks=int(self.ranks),
            args=args,
            kwargs=kwargs,
            seed=int(self.seed),
            trace=bool(self.trace),
            count=bool(self.count),
            repeats=int(self.repeats),
            tolerance=tolerance,
            coll=None if isinstance(self.coll, str | Mapping) and not self.coll else self.coll,
            regions=regions_of(self.regions),
        )

    @property
    def name(self) -> str:
        """The program's name in runs and studies."""
        module = (self.options.get("start") or {}).get("module")
        return f"-m {module}" if module and module != "-c" else module or program_name(self.program)

    def changed(self, **fields: object) -> Self:
        """Return the same with other values, which are not checked again."""
        other = copy.copy(self)
        other._set(**fields)
        return other

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _check_trace_file(self) -> None:
        """Refuse a place for a trace that cannot be written, or one trace of several runs."""
        if self.repeats > 1:
            raise MachineError(
                f"trace_ti records one run, and repeats={self.repeats} asks for several; leave one out",
                code="conflicting-options",
            )
        from labkit.trace.formats.ti_writer import check_target

        check_target(self.trace_ti)


#: other tools' names of parameters of `labkit.run`
_MEANT = {
    **dict.fromkeys(("machine", "platform", "topology", "network", "where"), "on"),
    **dict.fromkeys(("np", "n", "nprocs", "processes", "procs", "nodes", "p", "size"), "ranks"),
    **dict.fromkeys(("limit", "max_time", "walltime", "timeout"), "timeout_s"),
}
#: what no option says, and where it is said, as the end of a sentence
_ELSEWHERE = {
    **dict.fromkeys(
        ("latency", "latency_s", "lat", "bandwidth", "bw", "speed"),
        '; it is part of the machine, as in on="star,lat=1us,bw=1.25GBps,speed=1Gf"',
    ),
    **dict.fromkeys(
        ("algorithm", "algorithms", "alg"), '; the algorithm of a collective is coll={"allreduce": "ring"}'
    ),
}


class Machine:
    """What runs programs: one object for each value that `on` can have the kind of.

    A custom machine has a name, claims values of `on`, and runs a request.
    `labkit.launch.run.MACHINES` lists all of them.
    """

    #: what errors call it
    name: ClassVar[str]
    #: whether its ranks are processes, whose times disturb each other
    is_real: ClassVar[bool] = True
    #: whether runs wait in a queue, so that all of a sweep are handed in before the first is waited for
    is_queued: ClassVar[bool] = False
    #: whether it lets a run choose the algorithms of collectives, where its ranks are real
    takes_coll: ClassVar[bool] = False
    #: the options that not every machine has
    options: ClassVar[Collection[str]] = ()
    #: the strings that mean it, as values of `on`
    words: ClassVar[tuple[str, ...]] = ()

    def owns(self, on: object) -> bool:
        """Whether a value of `on` means this machine: here, whether it is one of its strings."""
        return isinstance(on, str) and on.strip().lower() in self.words

    def size(self, on: object) -> int | None:
        """Return how many ranks a run gets by default: as many as `on` holds; None for any number."""
        return None

    def checked(self, request: RunRequest) -> RunRequest:
        """Refuse what this machine does not have, and return the request as `run` takes it.

        Raises LabkitError: Before any work starts.
        """
        if self.is_real:
            self._refuse_simulated(request)
        self.refuse_unknown(request.options, request.program)
        return request

    def refuse_unknown(self, options: Collection[str], program: object) -> None:
        """Refuse a keyword that is neither an option of this machine nor a parameter of the program."""
        for option in options:
            if option not in self.options:
                raise MachineError(self._unknown(option, program), code="unknown-name")

    def _unknown(self, option: str, program: object) -> str:
        """Return the sentence that a name is neither an option nor a parameter, with the nearest name."""
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        named = [name for name, one in [*_parameters(program).items()][1:] if one.kind in by_name]
        known = [*inspect.signature(RunRequest).parameters, *self.options, *named]
        known = [name for name in known if name not in ("options", "trial", "args", "kwargs")]
        own = f", and {program_name(program)} no such parameter" if callable(program) else ""
        hint = f"; did you mean {_MEANT[option]!r}?" if option in _MEANT else _ELSEWHERE.get(option, "")
        hint = hint or nearest(option, known, 1)
        if own and not hint:
            hint = f"; {program_name(program)} takes {', '.join(named) or 'the communicator only'}"
        return f"{self.name} has no option {option!r}{own}{hint}"

    def run(self, request: RunRequest) -> Run:
        """Run what was checked.

        Raises LabkitError: The run failed, or the machine did.
        """
        raise NotImplementedError

    def together(self, requests: Sequence[RunRequest]) -> AbstractContextManager[Callable[[RunRequest], Run]]:
        """Yield what runs these requests, one after the other; a machine with a queue hands all in first."""
        return contextlib.nullcontext(self.run)

    def _refuse_simulated(self, request: RunRequest) -> None:
        """Refuse what belongs to simulated runs; `compute` also says what a recorded run's trace has."""
        given = [request.model, request.mapping, request.calibration, request.noise]
        given += [] if self.takes_coll else [request.coll]
        if request.trace_ti is None and request.compute != "charged":
            given.append(request.compute)
        if "warnings" in request.options:
            raise MachineError(
                "warnings belongs to simulated runs, which warn of what works there alone, not to "
                f"{self.name}; leave it out",
                code="conflicting-options",
            )
        if any(value is not None for value in given):
            coll = "" if self.takes_coll else "coll, "
            raise MachineError(
                f"noise, compute, model, {coll}mapping and calibration belong to simulated runs, not to "
                f"{self.name}; leave them out",
                code="conflicting-options",
            )
        check_tolerance(request.tolerance, self.name)


def refuse_for_functions(request: RunRequest) -> None:
    """Refuse the options of scripts for a function, which gets what it needs as arguments."""
    given = [name for name in ("stdin", "stream", "start") if request.options.get(name) is not None]
    if given and not isinstance(request.program, Path):
        raise ProgramError(
            f"{given[0]} belongs to scripts; a function gets what it needs as arguments",
            code="conflicting-options",
        )


def own_parameters(
    program: object, kwargs: Mapping[str, object], named: Mapping[str, object], machine: Machine
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate the program's own parameters from the machine's options, among the keywords given."""
    check_arguments((), kwargs)
    found = _parameters(program)
    takes_any = any(one.kind is one.VAR_KEYWORD for one in found.values())
    own = {
        name: value
        for name, value in named.items()
        if name not in machine.options and (takes_any or name in [*found][1:])
    }
    twice = sorted({*own} & {*kwargs})
    if twice:
        raise ProgramError(
            f"{twice[0]!r} is given twice: by its name, and in kwargs; leave one out", code="duplicate-name"
        )
    return {**kwargs, **own}, {name: value for name, value in named.items() if name not in own}


def _parameters(program: object) -> Mapping[str, inspect.Parameter]:
    """Return a program's parameters, the communicator first; none of what has no signature."""
    if not callable(program):
        return {}
    try:
        return inspect.signature(program).parameters
    except (TypeError, ValueError):
        return {}
