"""Codelets, which do the same in different ways, and sets of them, with attributes.

What the search knows of a codelet are its attributes: named properties such as ``pattern="pairwise"`` or
``copies="pack"``. Two codelets differ in one attribute if they agree in all others that both have.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.errors import DataError
from labkit.process.fingerprint import engine_digest, fingerprint, labkit_digest, names_in_code
from labkit.process.imports import is_installed
from labkit.program import context
from labkit.real.collectives.messages import mpi_of

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = [
    "Codelet",
    "FunctionSet",
    "clock_of",
    "combined",
    "is_simulated",
    "machine_name",
    "most_of",
    "simulated_machine",
]


Finish = Callable[[], Any]


@dataclass(frozen=True)
class Codelet:
    """One way of doing it.

    `call`: ``call(comm, *args, **kwargs)``: does it. `comm` is a duplicate of the request's communicator,
        whose messages do not match those of other communicators.
    `attributes`: What is known of it.
    `begin`: ``begin(comm, *args, **kwargs)`` begins it and returns a function that waits for its end. Without
        it a call that is begun does everything in its wait.
    `unmet`: ``unmet(situation)``: why it cannot be used for such calls, as the end of a sentence, or None.
    """

    name: str
    call: Callable[..., Any]
    attributes: Mapping[str, Hashable] = field(default_factory=dict)
    begin: Callable[..., Finish] | None = None
    unmet: Callable[[Hashable], str | None] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise DataError(f"a codelet needs a name, got {self.name!r}", code="missing-key")
        if not callable(self.call):
            raise DataError(
                f"codelet {self.name!r} needs a function call(comm, ...), got {self.call!r}",
                code="wrong-type",
            )

    def differs_in(self, other: Codelet) -> list[str]:
        """Return the attributes that both have, with other values."""
        both = [name for name in self.attributes if name in other.attributes]
        return [name for name in both if self.attributes[name] != other.attributes[name]]

    def started(self, comm: Intracomm, *args: object, **kwargs: object) -> Finish:
        """Begin it; the function returned ends it."""
        if self.begin is not None:
            return self.begin(comm, *args, **kwargs)
        return lambda: self.call(comm, *args, **kwargs)


@dataclass(frozen=True)
class FunctionSet:
    """Codelets that do the same: what a request chooses from.

    `name`: What they do, such as ``"transposition"``.
    `codelets`: At least one, with different names; the first is the one that others are compared with.
    `situation`: ``situation(*args, **kwargs)`` of a call: calls of equal situations are tuned together,
        others apart. It must be the same on all ranks. Without it all calls of a request are.
    `free`: Gives back what the codelets hold, at the end of the request.
    Raises DataError: No codelet, or two of a name.

    Examples
    --------
    >>> ways = FunctionSet("wait", [Codelet("barrier", lambda comm: comm.Barrier())])
    >>> ways.names
    ('barrier',)
    """

    name: str
    codelets: Sequence[Codelet]
    situation: Callable[..., Hashable] | None = None
    free: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "codelets", tuple(self.codelets))
        wrong = [one for one in self.codelets if not isinstance(one, Codelet)]
        if wrong:
            raise DataError(
                f"function set {self.name!r} takes Codelet(name, call), got {wrong[0]!r}", code="wrong-type"
            )
        if not self.codelets:
            raise DataError(f"function set {self.name!r} needs at least one codelet", code="not-enough-data")
        twice = {name for name in self.names if self.names.count(name) > 1}
        if twice:
            raise DataError(
                f"function set {self.name!r} has two codelets called {', '.join(sorted(twice))}",
                code="duplicate-name",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The codelets' names."""
        return tuple(one.name for one in self.codelets)

    @property
    def digest(self) -> str:
        """A digest of what the codelets do: their code, that of the functions they name, and labkit."""
        todo = [call for one in self.codelets for call in (one.call, one.begin)]
        codes: list[CodeType] = []
        while todo:
            plain: object = todo.pop()
            while isinstance(plain, partial | MethodType):
                plain = plain.func if isinstance(plain, partial) else plain.__func__
            if not isinstance(plain, FunctionType) or plain.__code__ in codes:
                continue
            if str(plain.__module__).partition(".")[0] == "labkit" or is_installed(
                plain.__code__.co_filename
            ):
                continue
            codes.append(plain.__code__)
            todo += [plain.__globals__.get(name) for name in sorted(names_in_code(plain.__code__))]
            todo += inspect.getclosurevars(plain).nonlocals.values()
        return fingerprint(self.names, codes, labkit_digest(), engine_digest())

    @property
    def attributes(self) -> dict[str, tuple[Hashable, ...]]:
        """The attribute set: attribute to its values, in the order of the codelets."""
        found: dict[str, dict[Hashable, None]] = {}
        for codelet in self.codelets:
            for name, value in codelet.attributes.items():
                found.setdefault(name, {})[value] = None
        return {name: tuple(values) for name, values in found.items()}

    def __len__(self) -> int:
        return len(self.codelets)

    def __iter__(self) -> Iterator[Codelet]:
        return iter(self.codelets)

    def __getitem__(self, name: str) -> Codelet:
        if name not in self.names:
            raise DataError(
                f"{self.name} has no codelet {name!r}; it has: {', '.join(self.names)}", code="unknown-name"
            )
        return self.codelets[self.names.index(name)]

    def only(self, names: Sequence[str]) -> FunctionSet:
        """Return the set of some of its codelets.

        Raises DataError: For a name that it does not have.
        """
        return FunctionSet(self.name, [self[name] for name in names], self.situation, self.free)


def combined(sets: Sequence[tuple[str, FunctionSet]]) -> FunctionSet:
    """Return all combinations of several sets' codelets: each is a codelet by the name ``a + b``."""
    codelets = []
    for parts in product(*(one.codelets for _, one in sets)):
        attributes: dict[str, Hashable] = {}
        for (label, _), part in zip(sets, parts, strict=True):
            attributes |= {f"{label}: {name}": value for name, value in part.attributes.items()}
            if not part.attributes:
                attributes[label] = part.name
        codelets.append(Codelet(" + ".join(part.name for part in parts), _no_call, attributes))
    return FunctionSet(" + ".join(label for label, _ in sets), codelets)


def _no_call(*args: object, **kwargs: object) -> None:
    raise DataError(
        "a combination cannot be called directly; the requests of its timer run it", code="wrong-order"
    )


# The machine of a rank, real or simulated, as tuning at run time needs it: clock, module, name.


def is_simulated(comm: Intracomm) -> bool:
    """Whether the ranks are simulated."""
    return context.simulated() is not None and type(comm).__module__.partition(".")[0] == "labkit"


def clock_of(comm: Intracomm) -> Callable[[], float]:
    """Return the rank's clock, in seconds."""
    clock: Callable[[], float] = mpi_of(comm).Wtime
    return clock


def simulated_machine(comm: Intracomm) -> str:
    """Return the platform's specification; empty on a real machine."""
    return str(context.simulated().calls.choose.machine) if is_simulated(comm) else ""


def most_of(comm: Intracomm, values: list[float]) -> list[float]:
    """Return the maximum of each number over the ranks."""
    mine, most = np.array(values, np.float64), np.empty(len(values))
    comm.Allreduce(mine, most, op=mpi_of(comm).MAX)
    return [float(value) for value in most]


def machine_name(comm: Intracomm) -> tuple[str, int]:
    """Return a name for what the ranks run on, and how many consecutive ranks share a host; the same on all.

    Two runs of the same name may learn from each other: the same simulated platform (its content, mapping,
    network model and calibration), or the same MPI library, with as many ranks on each host.
    """
    hosts = comm.allgather(str(mpi_of(comm).Get_processor_name()))
    changes = [rank for rank in range(1, len(hosts)) if hosts[rank] != hosts[rank - 1]]
    node = changes[0] if changes else len(hosts)
    regular = changes == list(range(node, len(hosts), node)) and len(set(hosts)) == len(changes) + 1
    node = node if regular else 1
    if is_simulated(comm):
        where = f"simulated {simulated_machine(comm)} ({context.simulated().setting[:16]})"
    else:
        library = str(mpi_of(comm).Get_library_version()).replace("\0", "").splitlines()[0]
        where = library.partition(", package")[0]
    return f"{where}, {len(set(hosts))} hosts, {node} ranks in a row", node
