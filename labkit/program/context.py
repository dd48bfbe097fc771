"""The context of a running program, on any machine: phases, computation, clock.

A program marks its steps with `phase` and charges its work with `compute`; both find the machine of the
running rank through `current`. A real MPI process installs its context once (`install`); the simulator sets
`find_simulated` to a function that returns the context of the running rank. Outside a run
`phase` and `compute` do nothing, so a program can be tried in plain Python.
"""

from __future__ import annotations

import functools
import sys
from contextlib import contextmanager
from types import ModuleType, TracebackType

TYPE_CHECKING = False  # as in typing, which every rank would import for this alone
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, Protocol

    #: called at the end of every phase: rank, phase, the variables of the function it stands in
    Watcher = Callable[[int, str, Mapping[str, Any]], None]
else:
    Protocol = object

__all__ = [
    "Decisions",
    "MachineContext",
    "compute",
    "count",
    "current",
    "decided",
    "install",
    "installed_mpi",
    "phase",
    "run_seed",
    "simulated",
    "unfinished_hint",
    "watching",
]


#: up to this number of decisions are listed one by one
_MOST_TOLD = 8


class Decisions:
    """What requests of `labkit.tune` have decided in a run: of each kind of calls the latest."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[str, object, str, str]] = {}

    def add(self, subject: str, situation: object, name: str, text: str) -> None:
        """Note a decision.

        Parameters
        ----------
        subject : str
            What is tuned, as a sentence begins.
        situation : labkit.selector.Situation or None
            Of a collective's calls.
        name, text : str
            What was taken; since when and why.
        """
        self._made[subject] = (subject, situation, name, text)

    def rows(self) -> list[tuple[str, Any, str, str]]:
        """Return them as plain data, in the order of the first ones."""
        return list(self._made.values())

    @classmethod
    def of(cls, rows: Iterable[tuple[str, object, str, str]]) -> Decisions:
        """Return those of a rank that has reported its `rows`."""
        found = cls()
        for row in rows:
            found.add(*row)
        return found

    def notes(self) -> list[str]:
        """Return them as notes, one each; of the rest only their number."""
        rows = self.rows()
        told = [f"tuned: {subject}: {name}, {text}" for subject, _, name, text in rows[:_MOST_TOLD]]
        more = len(rows) - len(told)
        return [*told, *([f"tuned: {more} more kinds of calls; Run.collectives has them"] if more else [])]

    def collectives(self) -> dict[Any, str]:
        """Return what collectives take: situation to algorithm's name."""
        return {situation: name for _, situation, name, _ in self.rows() if situation is not None}


class MachineContext(Protocol):
    """The machine as the running rank sees it."""

    @property
    def rank(self) -> int:
        """The running rank's number in the whole run."""

    @property
    def size(self) -> int:
        """The number of ranks of the run."""

    def begin_phase(self, name: str) -> None:
        """Note that the running rank enters the phase `name` now."""

    def end_phase(self, name: str) -> None:
        """Note that the running rank leaves the phase `name` now."""

    def compute(self, seconds: float | None, flops: float | None) -> None:
        """Charge computation to the running rank (a real machine does nothing)."""

    def wtime(self) -> float:
        """The machine's clock, in seconds."""


#: names that a run's counts and a study's metrics have already
_MEASURED = frozenset({
    "rank", "phase", "messages", "bytes", "received", "received_bytes", "rounds", "memory_bytes",
    "resident_bytes", "makespan_s", "phase_s", "collectives", "collective_bytes",
})  # fmt: skip


def find_simulated() -> Any:
    """Return the simulated machine of the running rank; the simulator replaces this when it is imported."""
    return None


class _Process:
    """What is installed in this process.

    `machine`: Of the rank that has this process for itself.
    `mpi`: The module behind `labkit.MPI`; None: the simulated one.
    `other_mpi`: What was there before.
    """

    __slots__ = ("machine", "mpi", "other_mpi")

    def __init__(self) -> None:
        self.machine: MachineContext | None = None
        self.mpi: ModuleType | None = None
        self.other_mpi: ModuleType | None = None


_PROCESS = _Process()


def install(context: MachineContext | None, mpi: ModuleType | None = None) -> MachineContext | None:
    """Make `context` the machine of this whole process, and `mpi` the module behind `labkit.MPI`."""
    previous, _PROCESS.machine = _PROCESS.machine, context
    if mpi is not None or context is None:
        _publish(mpi)
        _PROCESS.mpi = mpi
    return previous


def simulated() -> Any:
    """The simulated machine of the running rank, with its `calls`; None outside any simulated run."""
    return find_simulated()


def current() -> MachineContext | None:
    """The machine of the running rank, or None outside any run."""
    return find_simulated() or _PROCESS.machine


def run_seed() -> int:
    """Return the seed of the running rank's run, from 0 on; 0 outside any run.

    What is drawn from it differs between the repetitions of a run, and is the same when the run repeats.
    """
    return abs(int(getattr(current(), "run_seed", 0)))


def decided(subject: str, situation: object, name: str, text: str) -> None:
    """Record in the run what a request has decided (see `Decisions.add`); outside a run do nothing."""
    machine = current()
    decisions = getattr(machine, "decisions", None)
    if decisions is not None:
        decisions.add(subject, situation, name, text)


def installed_mpi() -> ModuleType | None:
    """The module behind `labkit.MPI` where one is installed; else it is the simulated one."""
    return _PROCESS.mpi


def _publish(module: ModuleType | None) -> None:
    """Put a module behind `labkit.MPI`, or what was there before; else it is looked for when it is needed."""
    package = sys.modules["labkit"]
    if _PROCESS.mpi is None:
        _PROCESS.other_mpi = sys.modules.get("labkit.MPI")
    module = module or _PROCESS.other_mpi
    if module is None:
        sys.modules.pop("labkit.MPI", None)
        package.__dict__.pop("MPI", None)
    else:
        sys.modules["labkit.MPI"] = package.__dict__["MPI"] = module


#: the last one is called
_watchers: list[Watcher] = []


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Have `watcher` called at the end of every phase, for teaching and debugging; for one thread at a time.

    Examples
    --------
    >>> import labkit as lk
    >>> def program(comm):
    ...     with lk.phase("double"):
    ...         twice = 2 * comm.rank
    >>> seen = []
    >>> with watching(lambda rank, name, variables: seen.append((rank, name, variables["twice"]))):
    ...     _ = lk.run(program, 2, on="star")
    >>> seen
    [(0, 'double', 0), (1, 'double', 2)]
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.pop()


def name_of(what: str, name: object) -> str:
    """Return a name without the blanks around it; refuse one that files and figures cannot show.

    Raises
    ------
    ValueError
        The name is empty or no string, or has line breaks, other control characters or lone surrogates.
    """
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"{what} needs a name that is a non-empty string, got {name!r}")
    if not name.isprintable() and any(
        one < " " or "\x7f" <= one < "\xa0" or "\u2028" <= one <= "\u2029" or "\ud800" <= one < "\ue000"
        for one in name
    ):
        raise ValueError(f"{what} needs a name on one line, without control characters, got {name!r}")
    return name.strip()


class phase:  # noqa: N801 - reads as a statement: `with lk.phase("exchange"):`
    """Mark a step of the program, so that it gets its own times and its own model.

    Phases may be nested and entered many times; every entry is one row of ``Run.phases``. In front of a
    function, ``@lk.phase("local sort")``, each of its calls is one. Made and not entered it marks nothing,
    and the run has a note about it.

    Parameters
    ----------
    name : str
        The step's name, not empty.

    Examples
    --------
    >>> import labkit as lk
    >>> with lk.phase("local sort"):
    ...     pass
    """

    __slots__ = ("_context", "_is_used", "name")

    def __init__(self, name: str) -> None:
        self._is_used = True
        self.name = name_of("a phase", name)
        self._context: MachineContext | None = None
        self._is_used = False

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not self._is_used and not is_ending():
            _tell(
                f"lk.phase({self.name!r}) alone marks nothing: write `with lk.phase({self.name!r}):` before "
                "the indented lines of the phase, or @lk.phase in front of a function"
            )

    def __reduce__(self) -> tuple[object, ...]:
        return _copied, (self.name,)

    def __call__(self, function: Callable[..., object]) -> Callable[..., Any]:
        """Let each call of a function be such a step."""
        self._is_used = True
        name = self.name

        @functools.wraps(function)
        def called(*args: object, **kwargs: object) -> object:
            with phase(name):
                return function(*args, **kwargs)

        return called

    def __enter__(self) -> phase:
        self._is_used = True
        self._context = current()
        if self._context is not None:
            self._context.begin_phase(self.name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._context is not None:
            if _watchers and kind is None:
                _watchers[-1](self._context.rank, self.name, sys._getframe(1).f_locals)
            self._context.end_phase(self.name)


def _copied(name: str) -> phase:
    """Make a rank's copy of another rank's phase; the original records whether it is used."""
    made = phase(name)
    made._is_used = True
    return made


def _tell(text: str) -> None:
    """Have the run of the running rank say something, where its machine can."""
    note = getattr(current(), "note", None)
    if note is not None:
        note(text)


#: of one charge: sums of larger ones leave the range of numbers, and what waits for them never ends
_MOST_CHARGED = 1e30


def compute(seconds: float | None = None, flops: float | None = None) -> None:
    """Charge computation to the running rank: simulated time passes, other ranks do not wait.

    On a real machine this does nothing: there the work itself takes its time. On a simulated host with more
    ranks than cores, ranks that compute at the same time share the cores (as in SimGrid, k on c cores go on
    at min(1, c / k) of a core's speed each); calls of MPI and sleeping need none.

    Parameters
    ----------
    seconds : float, optional
        Time on the simulated host, in seconds, >= 0.
    flops : float, optional
        Floating-point operations, >= 0; the simulated host's speed turns them into seconds.

    Raises
    ------
    ValueError
        Unless exactly one of the two is given and it is not negative and below 1e30.

    Examples
    --------
    >>> import labkit as lk
    >>> lk.compute(seconds=1e-3)
    """
    amount = flops if seconds is None else seconds
    if amount is None or (seconds is not None and flops is not None):
        raise ValueError("compute() takes exactly one of seconds=... and flops=...")
    try:
        is_allowed = 0 <= amount < _MOST_CHARGED
    except TypeError:
        raise TypeError(
            f"compute() takes a number of seconds or flops, such as 1e-3, got {amount!r}"
        ) from None
    if not is_allowed:
        raise ValueError(f"compute() takes an amount >= 0 and below {_MOST_CHARGED:g}, got {amount!r}")
    context = current()
    if context is not None:
        context.compute(seconds, flops)


def count(name: str, amount: float = 1.0) -> None:
    """Count something of the program's own, on any machine: a metric of every sweep, also of each phase.

    A study then has the metric `name`, the sum over the ranks, and ``rank_<name>``, the most of one rank. It
    takes no simulated time. Outside a run that counts (a sweep does) nothing happens.

    Parameters
    ----------
    name : str
        Such as ``"comparisons"``, which the kernels of `labkit.local` count as well.
    amount : float
        How many, >= 0.

    Raises
    ------
    ValueError
        The name is no identifier or that of a metric which is measured, or the amount is not finite and >= 0.

    Examples
    --------
    >>> import labkit as lk
    >>> def program(comm):
    ...     lk.count("swaps", 3 * comm.rank)
    >>> lk.run(program, 3, on="star", count=True).counts["swaps"].tolist()
    [0.0, 3.0, 6.0]
    """
    if not isinstance(name, str) or not name.isidentifier() or name in _MEASURED or name.startswith("rank_"):
        raise ValueError(f"what is counted needs a name such as 'swaps' that no metric has yet, got {name!r}")
    if not 0 <= amount < float("inf"):
        raise ValueError(f"count() takes a finite amount >= 0, got {amount!r}")
    counter = getattr(current(), "count", None)
    if counter is not None:
        counter(name, float(amount))


def unfinished_hint(result: object) -> str:
    """Say what to do where a program returns a request, or some, in place of what it has received."""
    some = result[:1] if isinstance(result, list | tuple) else [result]
    if not any(type(one).__name__ in ("Request", "Prequest", "Grequest") for one in some):
        return ""
    return "call its wait() first, and return what it has received"
