"""The registry of algorithms: the listing of the folder `labkit.algorithms`.

An algorithm is a file ``algorithms/<problem>/<name>.py`` with an ``ALGORITHM`` in it. Nothing else is
registered anywhere: adding an algorithm is adding its file. A user's own are files
``my_algorithms/<problem>/<name>.py`` of the folder that a program or notebook runs in (or of the folder that
the environment variable ``LABKIT_ALGORITHMS`` names); a changed file is loaded again when it is asked for.
The exercises and the assignments of the course are files of two other folders (`course_files`).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import os
import pkgutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from labkit.errors import DataError, ScheduleError, nearest
from labkit.schedule.problem import PROBLEMS
from labkit.schedule.schedule import Generator, Schedule, Temporary, build, program_of

__all__ = [
    "ON_NETWORK",
    "Algorithm",
    "Cost",
    "Requirements",
    "course_files",
    "get",
    "in_segments",
    "module_of_file",
    "names",
    "own_files",
    "problems",
    "program",
    "schedules",
    "teaching_form",
    "teaching_forms",
    "version_of",
]


#: the algorithm of operations that a machine may carry out on its own network
ON_NETWORK = "collective_network"

#: a user's own algorithms: the folder, and the variable that names another one
_OWN_FOLDER, _OWN = "my_algorithms", "LABKIT_ALGORITHMS"

#: the folder of forms to be read (`teaching_forms`), which nobody chooses
_TEACHING = "teaching"


@dataclass(frozen=True)
class Cost:
    """What a collective costs on the slowest path, in the alpha-beta model with one port each way.

    Attributes
    ----------
    rounds : float
        Messages one after another (each costs alpha).
    volume_bytes : float
        Bytes one after another (each costs beta).
    reduced_bytes : float
        Bytes combined one after another (each costs gamma).
    is_bound : bool
        Whether the three belong to different paths, or overlap in time (a pipeline that combines one
        part while the next arrives): each is exact by itself, and their sum is an upper bound.
    """

    rounds: float
    volume_bytes: float = 0.0
    reduced_bytes: float = 0.0
    is_bound: bool = field(default=False, repr=False)

    def seconds(self, alpha_s: float, beta_s_per_byte: float, gamma_s_per_byte: float = 0.0) -> float:
        """Return ``rounds*alpha + volume*beta + reduced*gamma``."""
        return (
            self.rounds * alpha_s
            + self.volume_bytes * beta_s_per_byte
            + self.reduced_bytes * gamma_s_per_byte
        )


@dataclass(frozen=True)
class Requirements:
    """What an algorithm needs beyond what its collective promises.

    Attributes
    ----------
    power_of_two : bool
        Works only for 1, 2, 4, ... ranks.
    commutative : bool
        Combines operands out of rank order.
    even : bool
        Works only for one rank or an even number of ranks.
    square : bool
        Works only for 1, 4, 9, 16, ... ranks.
    max_ranks : int, optional
        Largest supported number of ranks.
    keys_per_rank : int, optional
        The number of keys on each rank that a sorter requires.
    """

    power_of_two: bool = False
    commutative: bool = False
    keys_per_rank: int | None = None
    even: bool = False
    square: bool = False
    max_ranks: int | None = None

    def unmet(self, ranks: int, commutative: bool = True) -> str | None:
        """Return what is missing, as the end of a sentence, or None."""
        if self.power_of_two and ranks & (ranks - 1):
            return f"needs a power of two ranks, got {ranks}"
        if self.even and ranks % 2 and ranks > 1:
            return f"needs an even number of ranks, got {ranks}"
        if self.square and math.isqrt(ranks) ** 2 != ranks:
            return f"needs a square number of ranks, got {ranks}"
        if self.max_ranks is not None and ranks > self.max_ranks:
            return f"needs at most {self.max_ranks} ranks, got {ranks}"
        if self.commutative and not commutative:
            return "needs a commutative operator"
        return None


def _one_part(ranks: int) -> int:
    return 1


def in_segments(default: int) -> Callable[..., int]:
    """Return the `parts` of an algorithm that cuts a message into as many segments as its parameter says."""

    def parts(ranks: int, segments: int = default) -> int:
        return segments

    return parts


def _bound(function: Any, values: Mapping[str, int]) -> Any:
    """Return a function with those of the values set that it takes."""
    if function is None:
        return None
    known = inspect.signature(function).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    taken = {key: value for key, value in values.items() if takes_all or key in known}
    return partial(function, **taken) if taken else function


@dataclass(frozen=True)
class Algorithm:
    """Descriptor of one algorithm.

    Attributes
    ----------
    name, problem : str
        The file's name and its folder's name.
    schedule : callable, optional
        The generator of its steps (collectives).
    function : callable, optional
        The program ``function(comm, ...)`` (algorithms that are programs, such as sorters).
    requirements : Requirements
    cost : callable, optional
        ``cost(ranks, n_bytes) -> Cost`` with exact rounds and volumes for every number of ranks.
        `n_bytes` is the message of a bcast, reduction or scan, and one block of the others.
    parts : callable
        ``parts(ranks)``: into how many blocks a message is cut.
    temporaries : tuple, or callable
        Work buffers of the schedule; ``temporaries(ranks)`` where their number depends on the ranks.
    parameters : mapping of str to int
        Further parameters (radix, number of segments, ranks of a node), with the values it has; those
        that are 0 are switches, which 1 turns on. They are keyword arguments of `schedule`, `cost`, `parts`
        and the work buffers' `blocks`.
    expectations : mapping of str to str
        Phase -> how its time is expected to grow with the ranks p at a fixed amount of input per rank;
        the empty name stands for the makespan (algorithms that are programs).
    """

    name: str
    problem: str
    schedule: Generator | None = None
    function: Callable[..., Any] | None = None
    requirements: Requirements = field(default_factory=Requirements)
    cost: Callable[[int, float], Cost] | None = None
    parts: Callable[[int], int] = _one_part
    temporaries: tuple[Temporary | str, ...] | Callable[[int], tuple[Temporary | str, ...]] = ()
    expectations: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)

    def tuned(self, **values: int) -> Algorithm:
        """Return the same algorithm with some parameters set.

        Raises
        ------
        ScheduleError
            For a parameter that it does not have, or a value below 1 (of a switch: below 0).

        Examples
        --------
        >>> get("bcast", "chain").tuned(chains=2).name
        'chain:chains=2'
        """
        for key, value in values.items():
            if key not in self.parameters:
                known = ", ".join(f"{k}={v}" for k, v in self.parameters.items()) or "none"
                raise ScheduleError(
                    f"{self.problem}/{self.name} has no parameter {key!r}; it has: {known}",
                    code="unknown-name",
                )
            least = min(self.parameters[key], 1)
            if value < least:
                raise ScheduleError(
                    f"{self.problem}/{self.name}: {key} must be at least {least}, got {value}",
                    code="out-of-range",
                )
        if not values:
            return self
        return replace(
            self,
            name=":".join([self.name, *(f"{key}={value}" for key, value in values.items())]),
            schedule=_bound(self.schedule, values),
            cost=_bound(self.cost, values),
            parts=_bound(self.parts, values),
            temporaries=self.temporaries
            if callable(self.temporaries)
            else tuple(
                replace(t, blocks=_bound(t.blocks, values)) if isinstance(t, Temporary) and t.blocks else t
                for t in self.temporaries
            ),
            parameters={**self.parameters, **values},
        )

    def taken_as(self, problem: str) -> Algorithm:
        """Return the same schedule for another collective: its blocks are bound to their sizes at run time.

        Examples
        --------
        >>> get("allgather", "ring").taken_as("allgatherv").build(4)
        <Schedule allgatherv/ring, 4 ranks; describe() prints it>
        """
        return replace(self, problem=problem)

    def build(self, ranks: int, root: int = 0, commutative: bool = True) -> Schedule:
        """Return the schedule for a number of ranks.

        Raises
        ------
        ScheduleError
            If the algorithm is no schedule, or does not meet its requirements here.
        """
        label = f"{self.problem}/{self.name}"
        if self.schedule is None:
            raise ScheduleError(f"{label} is a program, not a schedule; call its function")
        missing = self.requirements.unmet(ranks, commutative)
        if missing:
            others = [
                n
                for n in names(self.problem)
                if not get(self.problem, n).requirements.unmet(ranks, commutative)
            ]
            raise ScheduleError(f"{label} {missing}; use one of: {', '.join(others)}")
        return build(
            self.problem,
            self.schedule,
            ranks,
            name=self.name,
            root=root,
            commutative=commutative,
            parts=self.parts(ranks),
            temporaries=self.temporaries(ranks) if callable(self.temporaries) else self.temporaries,
        )


@cache
def problems() -> tuple[str, ...]:
    """Return the names of all problems (the folders), sorted; without the folder of readable forms."""
    package = importlib.import_module("labkit.algorithms")
    found = (m.name for m in pkgutil.iter_modules(package.__path__) if m.ispkg)
    return tuple(sorted(name for name in found if name != _TEACHING))


def names(problem: str) -> tuple[str, ...]:
    """Return the names of a problem's algorithms (the files), sorted; a user's own included.

    Examples
    --------
    >>> "ring" in names("allreduce")
    True
    """
    own = own_files(problem)
    return tuple(sorted({*_shipped(problem), *own})) if own else _shipped(problem)


def own_files(problem: str) -> dict[str, Path]:
    """Return the files of a user's own algorithms by name; those of shipped ones cannot be taken."""
    folder = os.path.join(os.environ.get(_OWN, _OWN_FOLDER), problem)
    try:
        entries = os.listdir(folder)
    except OSError:
        return {}
    files = {
        e.removesuffix(".py"): Path(folder, e) for e in entries if e.endswith(".py") and e[0] not in "_."
    }
    if taken := sorted(files.keys() & {*_shipped(problem)}):
        raise DataError(
            f"{files[taken[0]]}: labkit has an algorithm {problem}/{taken[0]}; rename the file",
            code="name-taken",
        )
    return files


@cache
def _shipped(problem: str) -> tuple[str, ...]:
    """Return the names of the algorithms that are installed."""
    if problem not in problems():
        hint = nearest(problem, problems())
        raise ScheduleError(
            f"no problem is called {problem!r}; known: {', '.join(problems())}{hint}", code="unknown-name"
        )
    package = importlib.import_module(f"labkit.algorithms.{problem}")
    found = (m.name for m in pkgutil.iter_modules(package.__path__) if not m.ispkg)
    return tuple(sorted(name for name in found if not name.startswith("_")))


@cache
def teaching_forms() -> tuple[tuple[str, str], ...]:
    """Return (problem, name) of every algorithm that has a readable form, sorted.

    A form is the file ``algorithms/teaching/<problem>/<name>.py`` next to ``algorithms/<problem>/<name>.py``.
    It is for reading and racing only: nothing else in this registry lists it.

    Examples
    --------
    >>> ("sorting", "sample_sort") in teaching_forms(), _TEACHING in problems()
    (True, False)
    """
    package = importlib.import_module(f"labkit.algorithms.{_TEACHING}")
    folders = [m.name for m in pkgutil.iter_modules(package.__path__) if m.ispkg]
    every = (
        (problem, m.name)
        for problem in folders
        for m in pkgutil.iter_modules(importlib.import_module(f"{package.__name__}.{problem}").__path__)
    )
    return tuple(sorted(every))


def teaching_form(problem: str, name: str) -> Callable[..., Any]:
    """Return the readable form of an algorithm: a function of the file's name.

    Examples
    --------
    >>> teaching_form("bcast", "binomial").__name__
    'binomial'
    """
    if (problem, name) not in teaching_forms():
        known = ", ".join("/".join(pair) for pair in teaching_forms())
        forms = {of: [one for other, one in teaching_forms() if other == of] for of, _ in teaching_forms()}
        names = [*forms, *(one for _, one in teaching_forms())]
        hint = nearest(name, forms[problem]) if problem in forms else nearest(problem, names, 1)
        asked = f"{problem}/{name}" if name else problem
        raise ScheduleError(f"{asked} has no readable form; there are: {known}{hint}", code="unsupported")
    module = importlib.import_module(f"labkit.algorithms.{_TEACHING}.{problem}.{name}")
    function: Callable[..., object] = getattr(module, name)
    return function


def get(problem: str, name: str) -> Algorithm:
    """Return an algorithm by the names of its folder and file, parameters after colons.

    Examples
    --------
    >>> dict(get("alltoall", "bruck:radix=4").parameters)
    {'radix': 4}
    """
    return _get(problem, name, version_of(problem, name))


def version_of(problem: str, name: str) -> tuple[Path, int, int] | None:
    """Return the file of a user's own algorithm, the time of its last change and its size; None of others."""
    base = name.partition(":")[0]
    path = None if base in _shipped(problem) else own_files(problem).get(base)
    if path is None:
        return None
    status = path.stat()
    return path, status.st_mtime_ns, status.st_size


@cache
def _get(problem: str, name: str, version: tuple[Path, int, int] | None) -> Algorithm:
    """Return an algorithm, once for each version of its file."""
    name, *settings = name.split(":")
    if settings:
        return _get(problem, name, version).tuned(**dict(_setting(problem, name, one) for one in settings))
    if version is not None:
        file = str(version[0])
        module = module_of_file(version[0], f"my_algorithms.{problem}.{name}")
    elif name in _shipped(problem):
        file = f"algorithms/{problem}/{name}.py"
        module = importlib.import_module(f"labkit.algorithms.{problem}.{name}")
    else:
        known = names(problem)
        hint = nearest(name, known, 1)
        raise ScheduleError(
            f"{problem} has no algorithm {name!r}; it has: {', '.join(known)}{hint}", code="unknown-name"
        )
    algorithm = getattr(module, "ALGORITHM", None)
    if not isinstance(algorithm, Algorithm):
        raise ScheduleError(f"{file} has no ALGORITHM = Algorithm(...)", code="missing-definition")
    if (algorithm.problem, algorithm.name) != (problem, name):
        raise ScheduleError(f"{file} describes {algorithm.problem}/{algorithm.name}; rename one of them")
    return algorithm


def program(problem: str, name: str, ranks: int, root: int = 0, commutative: bool = True) -> Any:
    """Return the kernels' program of an algorithm; the same object for the same arguments."""
    return _program(problem, name, ranks, root, commutative, version_of(problem, name))


@lru_cache(maxsize=64)
def _program(problem: str, name: str, ranks: int, root: int, commutative: bool, version: object) -> Any:
    return program_of(get(problem, name).build(ranks, root, commutative))


def _setting(problem: str, name: str, text: str) -> tuple[str, int]:
    key, _, value = text.partition("=")
    if not (value.isascii() and value.isdecimal() and len(value) < 19):
        raise ScheduleError(
            f"{problem}/{name}:{text}: a parameter is given as name=number, as in bruck:radix=4",
            code="malformed-specification",
        )
    return key, int(value)


def schedules() -> tuple[tuple[str, str], ...]:
    """Return (problem, name) of every algorithm that is a schedule, sorted.

    Examples
    --------
    >>> ("bcast", "binomial") in schedules()
    True
    """
    every = ((problem, name) for problem in problems() if problem in PROBLEMS for name in names(problem))
    return tuple(pair for pair in every if get(*pair).schedule is not None)


def course_files(folder: str) -> dict[str, Path]:
    """Return the Python files of a folder of the course by name: in the checkout, or installed."""
    package = Path(__file__).resolve().parent
    for place in (package / "course" / folder, package.parent / "course" / folder):
        if found := {path.stem: path for path in sorted(place.glob("*.py"))}:
            return found
    raise DataError(
        f"the course's {folder} are not installed: neither in {package} nor next to it",
        code="missing-package",
    )


def module_of_file(path: Path, name: str) -> ModuleType:
    """Load a Python file as a module of this name, again at each call.

    Raises
    ------
    DataError
        The file does not exist, or fails.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise DataError(f"{str(path)!r} does not exist or cannot be read", code="missing-file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses in it look themselves up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise DataError(f"{str(path)!r} cannot be loaded: {error}", code="unreadable-file") from error
    return module
