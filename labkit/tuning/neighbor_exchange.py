"""The function set of an exchange with neighbors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.real.collectives.messages import mpi_of
from labkit.selector import Situation
from labkit.tuning.runtime.codelets import Codelet, FunctionSet, most_of

if TYPE_CHECKING:
    from mpi4py.MPI import Prequest, Topocomm

__all__ = ["FORMS", "EdgeMessage", "Pattern", "neighborhood_set"]

_Array = NDArray[Any]


# The pattern of a neighborhood exchange: who exchanges which region of an array with whom, in which steps.
#
# On a grid a step is a shift along one dimension: all ranks send to one side and receive from the other.
# On a
# graph a step is a color: ranks a and b of p meet in step (a + b) mod p, where nobody has two partners. All
# ranks go through the same steps in the same order, so that pairs one after another cannot block each other.


@dataclass(frozen=True)
class Region:
    """A box within an array: the array's shape, where the box begins, and its shape."""

    shape: tuple[int, ...]
    starts: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def count(self) -> int:
        """Elements."""
        return int(np.prod(self.extents, dtype=np.int64))

    @property
    def index(self) -> tuple[slice, ...]:
        """As NumPy takes it."""
        return tuple(slice(a, a + n) for a, n in zip(self.starts, self.extents, strict=True))


@dataclass
class EdgeMessage:
    """One message of a rank: partner, tag, number of the edge, its own region, and the partner's."""

    rank: int
    tag: int
    edge: int
    region: Region
    remote: Region | None = None


@dataclass
class ExchangeStep:
    """What a rank sends and receives in one step; whether it sends before it receives."""

    sends: list[EdgeMessage] = field(default_factory=list)
    receives: list[EdgeMessage] = field(default_factory=list)
    sends_first: bool = True


@dataclass
class Pattern:
    """The steps of a rank: as many on every rank, some of them empty."""

    steps: list[ExchangeStep]

    @property
    def sends(self) -> list[EdgeMessage]:
        """All messages that are sent, in the order of the steps."""
        return [part for step in self.steps for part in step.sends]

    @property
    def receives(self) -> list[EdgeMessage]:
        """All messages that are received, in the order of the steps."""
        return [part for step in self.steps for part in step.receives]


def grid_pattern(comm: Any, shape: tuple[int, ...], width: int) -> Pattern:
    """Return the exchange of halos of `width` cells at all faces of a grid."""
    dims = list(comm.dims)
    if len(shape) < len(dims):
        raise DataError(
            f"the grid has {len(dims)} dimensions, the array only {len(shape)}: {shape}",
            code="count-mismatch",
        )
    small = [shape[d] for d in range(len(dims)) if shape[d] < 3 * width]
    if small:
        raise DataError(
            f"an array of shape {shape} has no room for halos of {width} on both sides: each of the grid's "
            f"dimensions takes at least {3 * width} cells",
            code="not-enough-data",
        )

    def face(along: int, begin: int) -> Region:
        starts = [width if d < len(dims) and d != along else 0 for d in range(len(shape))]
        extents = [n - 2 * start for n, start in zip(shape, starts, strict=True)]
        starts[along], extents[along] = begin, width
        return Region(shape, tuple(starts), tuple(extents))

    steps = []
    for along in range(len(dims)):
        for direction in (1, -1):
            source, dest = comm.Shift(along, direction)
            n = shape[along]
            inner, outer = (n - 2 * width, 0) if direction == 1 else (width, n - width)
            tag = 2 * along + (direction == 1)
            step = ExchangeStep(sends_first=comm.coords[along] % 2 == 0)
            if dest >= 0:
                step.sends.append(EdgeMessage(dest, tag, 2 * along + (direction == 1), face(along, inner)))
            if source >= 0:
                step.receives.append(
                    EdgeMessage(source, tag, 2 * along + (direction == -1), face(along, outer))
                )
            steps.append(step)
    return _agreed(comm, Pattern(steps))


def graph_pattern(
    comm: Topocomm, shape: tuple[int, ...], send: Sequence[object], receive: Sequence[object]
) -> Pattern:
    """Return the exchange of regions along the edges of a graph communicator."""
    me, ranks = int(comm.Get_rank()), int(comm.Get_size())
    in_edges, out_edges = (list(edges) for edges in comm.inoutedges)
    ends = {"send": (send, out_edges), "recv": (receive, in_edges)}
    for name, (regions, edges) in ends.items():
        if len(regions) != len(edges):
            raise DataError(
                f"{name}= has {len(regions)} regions, and the rank has {len(edges)} such neighbors",
                code="count-mismatch",
            )
    steps = [ExchangeStep() for _ in range(ranks)]
    for name, (regions, edges) in ends.items():
        met: dict[int, int] = {}
        for edge, (region, other) in enumerate(zip(regions, edges, strict=True)):
            if other < 0:
                continue
            tag = met[other] = met.get(other, -1) + 1  # several edges to one neighbor, in their order
            step = steps[(me + other) % ranks]
            step.sends_first = me <= other
            part = EdgeMessage(other, tag, edge, _box(shape, region, name))
            (step.sends if name == "send" else step.receives).append(part)
    used = np.zeros(ranks, np.int64)
    used[:] = [bool(step.sends or step.receives) for step in steps]
    every = [any(column) for column in zip(*comm.allgather(used.tolist()), strict=True)]
    return _agreed(comm, Pattern([step for step, is_used in zip(steps, every, strict=True) if is_used]))


def _box(shape: tuple[int, ...], region: object, name: str) -> Region:
    slices = region if isinstance(region, tuple) else (region,)
    if len(slices) > len(shape) or not all(isinstance(one, slice) for one in slices):
        raise DataError(
            f"{name}= takes slices, or tuples of them, one for a dimension; got {region!r}", code="wrong-type"
        )
    bounds = [one.indices(n) for one, n in zip(slices, shape, strict=False)]
    bounds += [(0, n, 1) for n in shape[len(slices) :]]
    if any(stride != 1 for _, _, stride in bounds):
        raise DataError(f"{name}= takes slices without a stride, got {region!r}", code="wrong-type")
    return Region(shape, tuple(a for a, _, _ in bounds), tuple(max(b - a, 0) for a, b, _ in bounds))


def _agreed(comm: Topocomm, pattern: Pattern) -> Pattern:
    """Send each neighbor this rank's region, and refuse ends that do not fit, on all ranks."""
    requests = [comm.isend(part.region, part.rank, 2 * part.tag) for part in pattern.sends]
    requests += [comm.isend(part.region, part.rank, 2 * part.tag + 1) for part in pattern.receives]
    for part in pattern.receives:
        part.remote = comm.recv(source=part.rank, tag=2 * part.tag)
    for part in pattern.sends:
        part.remote = comm.recv(source=part.rank, tag=2 * part.tag + 1)
    for request in requests:
        request.wait()
    me, wrong = comm.Get_rank(), ""
    for part in pattern.receives:
        if part.remote is not None and part.remote.count != part.region.count:
            wrong = (
                f"rank {part.rank} sends {part.remote.count} elements to rank {me}, which has a region of "
                f"{part.region.count} for them"
            )
    found: NDArray[Any] | list[str] = [text for text in comm.allgather(wrong) if text]
    if found:
        raise DataError(f"the regions do not fit: {found[0]}", code="too-many-ranks")
    return pattern


_NOTHING = Region((1,), (0,), (0,))


def _forms() -> Iterator[tuple[str, dict[str, Hashable]]]:
    for calls, patterns in (
        ("IsIr", ("aao", "pair")),
        ("SIr", ("aao", "pair")),
        ("S_R", ("pair",)),
        ("Sendrecv", ("pair",)),
        ("Persistent", ("aao",)),
    ):
        for copies in ("", "_pack"):
            for pattern in patterns:
                yield (
                    f"{calls}_{pattern}{copies}",
                    {
                        "pattern": pattern,
                        "copies": "pack" if copies else "types",
                        "sides": "two",
                        "calls": calls,
                    },
                )
    for pattern in ("aao", "pair"):
        for synchronization in ("Winfence", "PostStart"):
            for transfer in ("Put", "Get"):
                yield (
                    f"{synchronization}{transfer}_{pattern}",
                    {
                        "pattern": pattern,
                        "copies": "types",
                        "sides": "one",
                        "synchronization": synchronization,
                        "transfer": transfer,
                    },
                )
    yield "Neighbor_alltoallw", {}


#: name -> attributes
FORMS: dict[str, dict[str, Hashable]] = dict(_forms())


class Exchange:
    """The exchange of one array by all forms: keeps datatypes, buffers, windows and requests.

    `array`: Contiguous.
    `window`: Over the array.
    """

    def __init__(self, comm: Topocomm, array: _Array, pattern: Pattern, window: Any) -> None:
        self.comm, self.array, self.pattern, self.window = comm, array, pattern, window
        self._mpi = mpi_of(comm)
        self._bytes = array.reshape(-1).view(np.uint8)
        self._element = self._mpi.BYTE.Create_contiguous(array.itemsize).Commit()
        self._types: dict[Region, object] = {}
        self._buffers: dict[int, _Array] = {}
        self._persistent: dict[bool, list[Prequest]] = {}
        self._groups: dict[tuple[int, ...], Any] = {}

    def message(self, part: EdgeMessage, packs: bool) -> Any:
        """Return a message of a part as mpi4py takes it."""
        if packs:
            if id(part) not in self._buffers:
                self._buffers[id(part)] = np.empty(part.region.extents, self.array.dtype)
            return [self._buffers[id(part)].reshape(-1).view(np.uint8), self._mpi.BYTE]
        return [self._bytes, 1, self.type_of(part.region)]

    def type_of(self, region: Region) -> Any:
        """Return the datatype of a region, within an array of its shape."""
        if region not in self._types:
            if region.count:
                lists = [list(numbers) for numbers in (region.shape, region.extents, region.starts)]
                self._types[region] = self._element.Create_subarray(*lists).Commit()
            else:
                self._types[region] = self._mpi.BYTE.Create_contiguous(0).Commit()
        return self._types[region]

    def pack(self, parts: list[EdgeMessage]) -> None:
        """Pack regions into their buffers."""
        for part in parts:
            into, _ = self.message(part, True)
            if part.region.count:
                self.type_of(part.region).Pack(self._bytes, into, 0, self.comm)

    def unpack(self, parts: list[EdgeMessage]) -> None:
        """Unpack buffers into their regions."""
        for part in parts:
            if part.region.count:
                self.type_of(part.region).Unpack(self.message(part, True)[0], 0, self._bytes, self.comm)

    # Two sides

    def nonblocking(self, step: ExchangeStep, packs: bool, sends_block: bool) -> Callable[[], None]:
        """Post receives, then sends; the function returned waits."""
        if packs:
            self.pack(step.sends)
        waits = [self.comm.Irecv(self.message(p, packs), p.rank, p.tag) for p in step.receives]
        me = self.comm.Get_rank()
        for part in step.sends:
            message = self.message(part, packs)
            if sends_block and part.rank != me:
                self.comm.Send(message, part.rank, part.tag)
            else:
                waits.append(self.comm.Isend(message, part.rank, part.tag))

        def finish() -> None:
            self._mpi.Request.Waitall(waits)
            if packs:
                self.unpack(step.receives)

        return finish

    def blocking(self, step: ExchangeStep, packs: bool) -> None:
        """Send, then receive; the other way round at every second rank."""
        me = self.comm.Get_rank()
        if any(part.rank == me for part in step.sends):  # a rank cannot wait for itself
            self.nonblocking(step, packs, True)()
            return
        if packs:
            self.pack(step.sends)
        for sends in (step.sends_first, not step.sends_first):
            for part in step.sends if sends else step.receives:
                act = self.comm.Send if sends else self.comm.Recv
                act(self.message(part, packs), part.rank, part.tag)
        if packs:
            self.unpack(step.receives)

    def combined(self, step: ExchangeStep, packs: bool) -> None:
        """Send and receive in one call, as many as there are of both."""
        if packs:
            self.pack(step.sends)
        for out, back in zip_longest(step.sends, step.receives):
            if out is None:
                self.comm.Recv(self.message(back, packs), back.rank, back.tag)
            elif back is None:
                self.comm.Send(self.message(out, packs), out.rank, out.tag)
            else:
                sent, got = self.message(out, packs), self.message(back, packs)
                self.comm.Sendrecv(sent, out.rank, out.tag, got, back.rank, back.tag)
        if packs:
            self.unpack(step.receives)

    def persistent(self, packs: bool) -> Callable[[], None]:
        """Start requests that were made once; the function returned waits."""
        sends, receives = self.pattern.sends, self.pattern.receives
        if packs not in self._persistent:
            made = [self.comm.Recv_init(self.message(p, packs), p.rank, p.tag) for p in receives]
            made += [self.comm.Send_init(self.message(p, packs), p.rank, p.tag) for p in sends]
            self._persistent[packs] = made
        if packs:
            self.pack(sends)
        waits = self._persistent[packs]
        if waits:
            self._mpi.Prequest.Startall(waits)

        def finish() -> None:
            self._mpi.Request.Waitall(waits)
            if packs:
                self.unpack(receives)

        return finish

    def collective(self) -> Callable[[], None]:
        """Begin MPI's own; each region has its own block datatype, at the beginning of the array."""
        memory = self.array.reshape(-1).view(np.uint8)
        in_edges, out_edges = self.comm.inoutedges
        ends = []
        for parts, edges in ((self.pattern.sends, out_edges), (self.pattern.receives, in_edges)):
            types = [self.type_of(_NOTHING)] * len(edges)  # edges that lead nowhere stay so
            for part in parts:
                types[part.edge] = self.type_of(part.region)
            ends.append([memory, [1] * len(types), [0] * len(types), types])
        request = self.comm.Ineighbor_alltoallw(*ends)
        return lambda: request.Wait() and None

    # One side

    def one_sided(self, step: ExchangeStep, fences: bool, puts: bool) -> Callable[[], None]:
        """Begin transfers; the function returned ends them."""
        window = self.window
        if fences:
            window.Fence()
        else:
            exposed = step.receives if puts else step.sends
            accessed = step.sends if puts else step.receives
            window.Post(self._group(exposed))
            window.Start(self._group(accessed))
        memory = self.array.reshape(-1).view(np.uint8)
        for part in step.sends if puts else step.receives:
            assert part.remote is not None
            target = [0, 1, self.type_of(part.remote)]
            act = window.Put if puts else window.Get
            act([memory, 1, self.type_of(part.region)], part.rank, target)
        if fences:
            return lambda: window.Fence()

        def finish() -> None:
            window.Complete()
            window.Wait()

        return finish

    def _group(self, parts: list[EdgeMessage]) -> Any:
        ranks = tuple(sorted({part.rank for part in parts}))
        if ranks not in self._groups:
            self._groups[ranks] = self.comm.Get_group().Incl(list(ranks))
        return self._groups[ranks]

    def free(self) -> None:
        """Give back what MPI holds."""
        for kept in (
            *(one for made in self._persistent.values() for one in made),
            *self._groups.values(),
            *self._types.values(),
            self._element,
            self.window,
        ):
            kept.Free()


def codelet_of(name: str, exchange_of: Callable[..., Exchange], has_short_rings: bool) -> Codelet:
    """Return a form as a codelet."""
    attributes = FORMS[name]

    def begin(comm: Topocomm, *args: object) -> Callable[[], object]:
        exchange = exchange_of(*args)
        if name == "Neighbor_alltoallw":
            return exchange.collective()
        packs = attributes["copies"] == "pack"
        if attributes.get("calls") == "Persistent":
            return exchange.persistent(packs)
        whole = ExchangeStep(exchange.pattern.sends, exchange.pattern.receives)
        if attributes["pattern"] == "aao":
            return _begun(exchange, whole, attributes, packs)

        def one_after_another() -> None:
            for step in exchange.pattern.steps:
                _begun(exchange, step, attributes, packs)()

        return one_after_another

    def call(comm: Topocomm, *args: object) -> None:
        begin(comm, *args)()

    def unmet(situation: Hashable) -> str | None:
        if name == "Neighbor_alltoallw" and has_short_rings:
            return (
                "is left out in rings of one or two ranks, as MPI libraries do not agree which side is which"
            )
        return None

    return Codelet(name, call, attributes, begin, unmet)


def _begun(
    exchange: Exchange, step: ExchangeStep, attributes: dict[str, Hashable], packs: bool
) -> Callable[[], None]:
    if attributes["sides"] == "one":
        fences = attributes["synchronization"] == "Winfence"
        return exchange.one_sided(step, fences, attributes["transfer"] == "Put")
    calls = attributes["calls"]
    if calls == "S_R":
        return lambda: exchange.blocking(step, packs)
    if calls == "Sendrecv":
        return lambda: exchange.combined(step, packs)
    return exchange.nonblocking(step, packs, calls == "SIr")


def _pattern(
    comm: Topocomm,
    shape: tuple[int, ...],
    width: int,
    send: Sequence[object] | None,
    recv: Sequence[object] | None,
    is_grid: bool,
) -> Pattern:
    """Return the regions of an exchange: those of a grid's halo, or the caller's."""
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise DataError(f"width must be an integer of at least 1 (cells), got {width!r}", code="out-of-range")
    if (send is None) != (recv is None):
        raise DataError(
            "send= and recv= must be given together: regions for each neighbor", code="missing-key"
        )
    if send is None or recv is None:
        if not is_grid:
            raise DataError(
                "on a graph the regions are not known: give send=[slices, ...] and recv=[slices, ...], one "
                "for each outgoing and incoming edge",
                code="missing-key",
            )
        return grid_pattern(comm, shape, width)
    return graph_pattern(comm, shape, send, recv)


def neighborhood_set(
    comm: Topocomm,
    arrays: Sequence[NDArray[Any]],
    width: int = 1,
    send: Sequence[object] | None = None,
    recv: Sequence[object] | None = None,
    forms: Sequence[str] | None = None,
) -> FunctionSet:
    """Return the forms of an exchange of arrays' regions; see `labkit.tuning.entrance.Tune.neighborhood`.

    Raises DataError: Arrays that differ, are not contiguous or not there; regions or a grid that they do not
        fit; a form that is not known.
    """
    mpi = mpi_of(comm)
    if not isinstance(comm, mpi.Topocomm):
        raise DataError(
            "an exchange with neighbors takes a communicator with a topology: comm.Create_cart(...) or "
            f"comm.Create_dist_graph_adjacent(...); got a {type(comm).__name__}",
            code="wrong-type",
        )
    is_grid = isinstance(comm, mpi.Cartcomm)
    _check(arrays)
    shape = tuple(int(n) for n in arrays[0].shape)
    pattern = _pattern(comm, shape, width, send, recv, is_grid)
    names = list(FORMS) if forms is None else list(forms)
    unknown = [name for name in names if name not in FORMS]
    if unknown:
        raise DataError(f"unknown form {unknown[0]!r}; there are: {', '.join(FORMS)}", code="unknown-name")
    sent = sum(part.region.count for part in pattern.sends) * arrays[0].itemsize
    n_bytes = most_of(comm, [float(sent)])[0]
    at = Situation("neighborhood", int(comm.Get_size()), n_bytes)
    create = mpi.Win.Create
    exchanges = [Exchange(comm, array, pattern, create(array, 1, comm=comm)) for array in arrays]

    def exchange_of(array: object = None) -> Exchange:
        if array is None and len(exchanges) == 1:
            return exchanges[0]
        for exchange in exchanges:
            if exchange.array is array:
                return exchange
        known = "the array" if len(exchanges) == 1 else f"one of the {len(exchanges)} arrays"
        raise DataError(
            f"this exchange takes {known} that it was made with: lk.tune.neighborhood(comm, array)",
            code="wrong-arguments",
        )

    def free() -> None:
        for exchange in exchanges:
            exchange.free()

    rings = zip(comm.dims, comm.periods, strict=True) if is_grid else ()
    has_short_rings = any(is_ring and n < 3 for n, is_ring in rings)
    codelets = [codelet_of(name, exchange_of, has_short_rings) for name in names]
    return FunctionSet("neighborhood", codelets, lambda *_: at, free)


def _check(arrays: Sequence[Any]) -> None:
    if not arrays:
        raise DataError(
            "an exchange takes at least one array, with its halos: neighborhood(comm, array)",
            code="not-enough-data",
        )
    for array in arrays:
        if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or not array.flags.writeable:
            raise DataError(
                "an exchange takes NumPy arrays that are contiguous (in C order) and can be written; got "
                f"{type(array).__name__}",
                code="not-contiguous",
            )
        if array.shape != arrays[0].shape or array.dtype != arrays[0].dtype:
            raise DataError(
                f"the arrays of an exchange must have the same shape and dtype; "
                f"got {arrays[0].shape} of {arrays[0].dtype} and {array.shape} of {array.dtype}",
                code="count-mismatch",
            )
