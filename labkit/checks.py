"""Checks of what a caller gives: refused with a sentence before any work starts."""

from __future__ import annotations

import dis
import inspect
import math
import numbers
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from labkit.errors import DataError, MachineError, ProgramError, nearest
from labkit.text.units import format_count

__all__ = [
    "REMARK",
    "ToleranceUse",
    "Uncharged",
    "check_arguments",
    "check_function",
    "check_kind",
    "check_limit",
    "check_program",
    "check_ranks",
    "check_repeats",
    "check_script",
    "check_seed",
    "check_share",
    "check_switch",
    "check_tolerance",
    "echo",
    "names_of",
    "path_of",
    "program_name",
    "whole_numbers",
]


#: too large for a number of ranks, bytes or runs
_ENDLESS = 2**62
#: of a time limit: 32 years, which every clock can count
_MOST_LIMIT_S = 10**9


def check_ranks(ranks: object) -> None:
    """Refuse a number of ranks that is not a whole number of at least 1."""
    if callable(ranks):
        name = program_name(ranks)
        raise MachineError(
            f"ranks must be a whole number, got {name}: the program comes first, as in labkit.run({name}, 4)",
            code="wrong-type",
        )
    if isinstance(ranks, bool) or not isinstance(ranks, numbers.Integral):
        said = f"ranks must be a whole number, got {ranks!r} ({type(ranks).__name__})"
        raise MachineError(said + _meant(ranks), code="wrong-type", parameter="ranks", given=ranks)
    if ranks < 1:
        raise MachineError(
            f"ranks must be at least 1, got {ranks}", code="out-of-range", parameter="ranks", given=ranks
        )


def _meant(ranks: object) -> str:
    """Return as text what was meant by some numbers of ranks, or by a machine in their place."""
    if isinstance(ranks, list | tuple | range):
        return "; several numbers of ranks are a sweep: labkit.sweep(program, [2, 4, 8])"
    if isinstance(ranks, str) and not ranks.strip().isdecimal():
        return f"; the machine comes behind the ranks, as in labkit.run(program, 4, on={ranks!r})"
    return _number_meant(ranks)


def _number_meant(value: object) -> str:
    """Return as text what was meant by a whole number with quotes or a point."""
    if isinstance(value, str) and value.strip().isdecimal():
        return f"; write {int(value)}, without quotes"
    if isinstance(value, float) and value.is_integer():
        return f"; write {int(value)}, or int(...)"
    return ""


def check_limit(timeout_s: object) -> None:
    """Refuse a time limit that is not a positive number of seconds (None means no limit)."""
    if timeout_s is None:
        return
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, numbers.Real) or math.isnan(timeout_s):
        raise MachineError(
            f"timeout_s must be a number of seconds or None, got {timeout_s!r}",
            code="wrong-type",
            parameter="timeout_s",
            given=timeout_s,
        )
    if timeout_s <= 0 or not timeout_s <= _MOST_LIMIT_S:
        bound = "more than 0" if timeout_s <= 0 else f"at most {_MOST_LIMIT_S:.0e}"
        raise MachineError(
            f"timeout_s must be {bound} seconds, got {timeout_s!r}; None means no limit",
            code="out-of-range",
            parameter="timeout_s",
            given=timeout_s,
        )


def check_seed(seed: object) -> None:
    """Refuse a seed that is not a whole number."""
    if not isinstance(seed, numbers.Integral):
        raise MachineError(
            f"seed must be a whole number, got {seed!r}{_number_meant(seed)}",
            code="wrong-type",
            parameter="seed",
            given=seed,
        )


def check_switch(name: str, value: object) -> None:
    """Refuse an option that is something else than on or off."""
    if not (value is None or (getattr(value, "ndim", 0) == 0 and value in (True, False))):
        raise MachineError(
            f"{name} is True or False, got {value!r}", code="wrong-type", parameter=name, given=value
        )


def check_repeats(repeats: object, name: str = "repeats", least: int = 1) -> None:
    """Refuse a number of repetitions that is not a whole number of at least `least`."""
    if isinstance(repeats, bool) or not isinstance(repeats, numbers.Integral) or repeats < least:
        raise MachineError(
            f"{name} must be a whole number of at least {least}, got {repeats!r}",
            code="out-of-range",
            parameter=name,
            given=repeats,
        )


def whole_numbers(name: str, given: Any, least: int) -> list[int]:
    """Return one whole number or several, sorted, each once; refuse others and those below `least`."""
    values = list(given) if isinstance(given, Iterable) else [given]
    if not values or any(
        isinstance(v, bool) or not isinstance(v, numbers.Real) or v % 1 or v < least or not v < _ENDLESS
        for v in values
    ):
        raise DataError(
            f"{name} must be whole numbers of at least {least} and below 2^62, one or more; got {given!r}",
            code="out-of-range",
        )
    return sorted({int(v) for v in values})


def _real(value: object) -> float:
    """Return a real number as a float, infinite if it is too large for one; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_share(name: str, value: object) -> None:
    """Refuse a share that is no number between 0 and 1, such as a level of confidence."""
    if not 0 < _real(value) < 1:
        raise DataError(
            f"{name} must be a number above 0 and below 1; got {echo(value)}", code="out-of-range"
        )


def check_factor(name: str, value: object) -> None:
    """Refuse what is no finite number above 0."""
    if not 0 < _real(value) < math.inf:
        raise DataError(f"{name} must be a finite number above 0; got {echo(value)}", code="out-of-range")


def names_of(name: str, given: object) -> list[str]:
    """Return several names as a list; refuse anything else, a single text included."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        found = list(given)
        if all(isinstance(one, str) for one in found):
            return found
    raise DataError(f"{name} must be a list of names; got {echo(given)}", code="wrong-type")


def path_of(given: object) -> Path:
    """Return the path of a file; refuse anything else."""
    if not isinstance(given, str | os.PathLike):
        raise DataError(f"a file is named by its path, got {echo(given)}", code="wrong-type")
    return Path(given)


def check_function(name: str, value: object, call: str) -> None:
    """Refuse what is neither a function nor None; `call` shows how it is called."""
    if value is not None and not callable(value):
        raise MachineError(
            f"{name} is a function, called as {call}; got {value!r}",
            code="wrong-type",
            parameter=name,
            given=value,
        )


def check_arguments(args: object, kwargs: object) -> None:
    """Refuse arguments of a program that are no sequence, or no table of names."""
    if isinstance(args, str) or not isinstance(args, Iterable):
        raise ProgramError(
            f"args is a list of the program's arguments, as in args=[1000]; got {args!r}", code="wrong-type"
        )
    if hasattr(args, "__array__"):
        raise ProgramError(
            f"args is a list of the program's arguments, got {type(args).__name__}; an array is one "
            "argument: args=[array]",
            code="wrong-type",
        )
    if not isinstance(kwargs, Mapping | None):
        raise ProgramError(
            f"kwargs has the program's arguments by name, as in kwargs={{'n': 1000}}; got {kwargs!r}",
            code="wrong-type",
        )


def check_kind(program: object) -> None:
    """Refuse what is neither a function nor the path of a script."""
    if isinstance(program, str | os.PathLike) or callable(program):
        return
    arrived = type(program).__name__
    name = getattr(program, "__name__", "")
    function = name.rpartition(".")[2]
    if inspect.ismodule(program) and callable(getattr(program, function, None)):
        raise ProgramError(
            f"a program is a function program(comm, ...), got the module {name}; import its function: "
            f"from {name} import {function}",
            code="wrong-type",
        )
    meant = {
        "Run": "a run has ended: to run its program again, pass the function: labkit.run(f, 4)",
        **dict.fromkeys(("list", "tuple"), "programs run one at a time: [labkit.run(f, 4) for f in (...)]"),
    }.get(
        arrived,
        "if that is what a function returns, pass the function: labkit.run(f, 4), not labkit.run(f(...), 4)",
    )
    raise ProgramError(
        f"a program is a function program(comm, ...) or the path of a script, got {arrived}; {meant}",
        code="wrong-type",
    )


def check_program(
    program: Any, args: Sequence[object], kwargs: Mapping[str, object]
) -> Callable[..., Any] | Path:
    """Refuse what cannot be run, and return the callable, or the path of a script that exists."""
    if isinstance(program, str | os.PathLike):
        path = Path(program)
        if os.path.isfile(path / "__main__.py"):  # what Python runs of a folder
            path = path / "__main__.py"
        if not os.path.isfile(path):
            what = "is a directory without __main__.py" if os.path.isdir(path) else "does not exist"
            is_name = isinstance(program, str) and program.isidentifier()
            itself = f", or the function itself: labkit.run({program}, 4)" if is_name else ""
            raise ProgramError(
                f"the script {str(path)!r} {what}; give the path of a Python file{itself}",
                code="missing-file",
            )
        if not os.access(path, os.R_OK):
            raise ProgramError(
                f"the script {str(path)!r} cannot be read; check its permissions", code="unreadable-file"
            )
        check_script(path)
        return path
    check_kind(program)
    found: Callable[..., Any] = program
    _refuse_input(program)
    _refuse_uncalled(program)
    if inspect.iscoroutinefunction(program) or inspect.isgeneratorfunction(program):
        raise ProgramError(
            "a program is a plain function: this one is a generator or a coroutine, and calling it would run "
            "nothing; take out yield or async",
            code="wrong-type",
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
        hint = _how_to_call(program, signature, args, kwargs)
        raise ProgramError(
            f"{name}{signature} cannot be called as {call}: {error}{hint}", code="wrong-arguments"
        ) from None
    return found


def _how_to_call(
    program: object, signature: inspect.Signature, args: Sequence[object], kwargs: Mapping[str, object]
) -> str:
    """Return what to write instead of a call that does not fit, as the end of a sentence."""
    name = getattr(program, "__name__", "program")
    own = name if name.isidentifier() else "program"
    form = f"def {name}(comm): ..." if name.isidentifier() else "lambda comm: ..."
    hint = "" if signature.parameters else f"; every rank gets its communicator: {form}"
    if [*signature.parameters][:1] == ["self"]:
        owner = getattr(program, "__qualname__", "").rpartition(".")[0].rpartition(".")[2] or "Class"
        hint = f"; {own} is a method: pass that of an object, labkit.run({owner}().{own}, 4)"
    for lacking in _lacking(signature, args, kwargs)[:1]:
        hint = hint or f"; give it by name: labkit.run({own}, 4, {lacking}=...)"
        if lacking in ("rank", "size"):
            hint = f"; inside, comm.{lacking} is the {lacking}: def {own}(comm): ..."
    for unknown in kwargs.keys() - signature.parameters.keys():
        hint = hint or nearest(unknown, [*signature.parameters][1:])
    return hint


def _lacking(signature: inspect.Signature, args: Sequence[object], kwargs: Mapping[str, object]) -> list[str]:
    """Return the parameters behind the communicator that nobody has given."""
    try:
        given = signature.bind_partial("comm", *args, **kwargs).arguments
    except TypeError:  # there are too many
        return []
    needed = [p for p in signature.parameters.values() if p.default is p.empty and p.kind not in (2, 4)]
    return [p.name for p in needed if p.name not in given]


def _refuse_input(program: Any) -> None:
    """Refuse a function that asks at the keyboard: its ranks have none, on any machine."""
    function = inspect.unwrap(getattr(program, "func", program))
    code = getattr(function, "__code__", None)
    if code is None or "input" in function.__globals__:
        return
    codes, asking = [code], []
    for one in codes:
        codes += [constant for constant in one.co_consts if inspect.iscode(constant)]
        for step in dis.get_instructions(one) if "input" in one.co_names else ():
            if step.argval == "input" and step.opname.startswith("STORE"):
                return  # its own name
            if step.argval == "input" and step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                asking.append(step.positions.lineno if step.positions else one.co_firstlineno)
    if asking:
        raise ProgramError(
            f"line {asking[0]} of {program_name(program)} calls input(), and ranks have no keyboard: ask "
            "before the run, n = int(input()), and let the ranks have n",
            code="not-on-ranks",
        )


def _refuse_uncalled(program: Any) -> None:
    """Refuse a barrier that is named as a statement and not called: no rank would wait."""
    code = getattr(inspect.unwrap(getattr(program, "func", program)), "__code__", None)
    if code is None or not {"Barrier", "barrier"} & {*code.co_names}:
        return
    for step, after in pairwise(dis.get_instructions(code)):
        if step.argval in ("Barrier", "barrier") and (step.opname, after.opname) == ("LOAD_ATTR", "POP_TOP"):
            line = step.positions.lineno if step.positions else code.co_firstlineno
            raise ProgramError(
                f"line {line} of {program_name(program)} names {step.argval} and does not call it, so no "
                f"rank waits: write {step.argval}()",
                code="not-a-program",
            )


def check_script(path: str | os.PathLike[str]) -> None:
    """Refuse a script that is not Python, before any rank starts."""
    name = os.fspath(path)
    try:
        with warnings.catch_warnings():  # they belong to the run
            warnings.simplefilter("ignore")
            compile(Path(path).read_bytes(), name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise ProgramError(
            f"the script {name!r} is not Python{line}: {error.args[0]}", code="not-python"
        ) from error


def program_name(program: object) -> str:
    """Return the name under which a program appears in runs and studies."""
    if isinstance(program, str | os.PathLike):
        return Path(program).name
    name = getattr(program, "__name__", None) or type(getattr(program, "func", program)).__name__
    inner = getattr(program, "func", None)  # functools.partial has no name
    return str(getattr(inner, "__name__", name))


def echo(thing: object, most: int = 80) -> str:
    """Return what arrived as an error shows it: its repr without addresses, cut after `most` characters.

    Examples
    --------
    >>> echo("p^0.5"), echo(list(range(100)), 20), echo(object())
    ("'p^0.5'", '[0, 1, 2, 3, 4, 5...', '<object object>')
    """
    try:
        text = re.sub(r" at 0x[0-9a-fA-F]+(?=>)", "", repr(thing))
    except Exception:  # a number too long to be written, an object that refuses
        text = f"{type(thing).__name__} that cannot be shown"
    return text if len(text) <= most else f"{text[: most - 3]}..."


# The tolerance of a simulated run: what it may be, what it promises, and what it came to.


#: from here on it would be an error of the machine rather than of the arithmetic
LARGEST_TOLERANCE = 0.1


def check_tolerance(tolerance: Any, machine: str | None = None) -> float:
    """Refuse what is no tolerance, and any but 0 on a machine that is not simulated."""
    is_number = isinstance(tolerance, numbers.Real) and not isinstance(tolerance, bool)
    if not is_number or not 0 <= float(tolerance) < LARGEST_TOLERANCE:  # nor NaN
        raise MachineError(
            "tolerance is the error of a link's capacity that a simulation may make, from 0 (exact) to below "
            f"{LARGEST_TOLERANCE:g}, for example 1e-3; got {tolerance!r}",
            code="out-of-range",
        )
    if machine is not None and tolerance != 0:
        raise MachineError(
            f"tolerance belongs to simulated runs, not to {machine}; leave it out", code="conflicting-options"
        )
    return float(tolerance)


@dataclass(frozen=True)
class ToleranceUse:
    """What a tolerance other than 0 came to in one simulated run.

    `tolerance`: The relative error of a link's capacity that was allowed.
    `instants`: How often the links were shared again.
    `loose_instants`: At how many of these the tolerance was in force: single changes were being repaired, and
        some link had messages enough. At all others the sharing is exact.
    `certified_instants`: At how many of those the rates were certified, independently of how they were found.
    `perturbation`: The largest change of a capacity that a certificate needed, relative.
    `without_bottleneck`: Messages for which no change of capacities would do; 0 unless labkit has a mistake.
    """

    tolerance: float
    instants: int
    loose_instants: int
    certified_instants: int
    perturbation: float
    without_bottleneck: int

    def record(self) -> dict[str, float | int]:
        """Return it as plain data."""
        return asdict(self)

    def text(self) -> str:
        """Summarize the number of uses and what the certificates found."""
        if self.loose_instants == 0:
            return f"{self.tolerance:g}, never used: every rate is exact"
        used = f"{format_count(self.loose_instants)} of {format_count(self.instants)} sharings"
        found = f"largest change {self.perturbation:.2g} at {format_count(self.certified_instants)} certified"
        return f"{self.tolerance:g}, used in {used}, {found}"

    def guarantee(self) -> str:
        """Return as text what the rates of such a run are."""
        if self.without_bottleneck:
            return (
                f"{self.without_bottleneck} messages had no bottleneck: their rates are wrong, and so is "
                "labkit; please report it, and use tolerance=0"
            )
        digits = 2 - math.floor(math.log10(100 * self.tolerance))
        percent = f"{100 * self.tolerance:.{max(digits, 0)}f}".rstrip("0").rstrip(".")
        return (
            f"tolerance {self.tolerance:g}: at every instant the rates are the max-min fair ones for link "
            f"capacities changed by at most {percent} %; makespans usually differ by far less"
        )


# Uncharged computation: how much there was without simulated time, and when to warn about it.

REMARK = (
    "computation was free: the program's own code took much of the host's time and no simulated time; "
    'compute="measured" (--compute measured) charges what it takes here, labkit.compute(seconds) what you say'
)
#: thresholds: seconds, share of the CPU time, and number of looks that found it: one look
#: stands for all since the last one, and in a short run two or three may have come at odd moments
_LEAST_S, _LEAST_SHARE, _LEAST_LOOKS = 0.01, 0.2, 5


@dataclass
class Uncharged:
    """What was seen of it in one run, or in several together.

    `seconds`: CPU time of the program's code, what it calls of libraries included.
    `total_s`: CPU time of everything.
    `looks`: How many looks found the program's code running.
    """

    seconds: float = 0.0
    total_s: float = 0.0
    looks: int = 0

    def add(self, other: Uncharged) -> None:
        """Add what was seen in another run: the short runs of a sweep are notable together."""
        self.seconds += other.seconds
        self.total_s += other.total_s
        self.looks += other.looks

    @property
    def is_notable(self) -> bool:
        """Whether to warn the user."""
        return self.looks >= _LEAST_LOOKS and self.seconds >= max(_LEAST_S, _LEAST_SHARE * self.total_s)
