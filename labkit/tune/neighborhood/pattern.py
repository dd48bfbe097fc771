"""The pattern of a neighbourhood exchange: who exchanges which region of an array with whom, in which steps.

On a grid a step is a shift along one dimension: all ranks send to one side and receive from the other. On a
graph a step is a colour: ranks a and b of p meet in step (a + b) mod p, where nobody has two partners. All
ranks go through the same steps in the same order, so that pairs one after another cannot block each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError

__all__ = ["Part", "Pattern", "Region", "Step", "graph_pattern", "grid_pattern"]


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
class Part:
    """One message of a rank: partner, tag, number of the edge, its own region, and the partner's."""

    rank: int
    tag: int
    edge: int
    region: Region
    remote: Region | None = None


@dataclass
class Step:
    """What a rank sends and receives in one step; whether it sends before it receives."""

    sends: list[Part] = field(default_factory=list)
    receives: list[Part] = field(default_factory=list)
    sends_first: bool = True


@dataclass
class Pattern:
    """The steps of a rank: as many on every rank, some of them empty."""

    steps: list[Step]

    @property
    def sends(self) -> list[Part]:
        """All messages that are sent, in the order of the steps."""
        return [part for step in self.steps for part in step.sends]

    @property
    def receives(self) -> list[Part]:
        """All messages that are received, in the order of the steps."""
        return [part for step in self.steps for part in step.receives]


def grid_pattern(comm: Any, shape: tuple[int, ...], width: int) -> Pattern:
    """Return the exchange of halos of `width` cells at all faces of a grid.

    Parameters
    ----------
    comm : Cartesian communicator
        With as many dimensions as the array, or fewer: then of the array's first ones.
    shape : tuple of int
        Of the local array, halos included.
    width : int

    Raises
    ------
    DataError
        An array with too few dimensions, or too small for its halos.
    """
    dims = list(comm.dims)
    if len(shape) < len(dims):
        raise DataError(f"the grid has {len(dims)} dimensions, the array only {len(shape)}: {shape}")
    small = [shape[d] for d in range(len(dims)) if shape[d] < 3 * width]
    if small:
        raise DataError(
            f"an array of shape {shape} has no room for halos of {width} on both sides: each of the grid's "
            f"dimensions takes at least {3 * width} cells"
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
            step = Step(sends_first=comm.coords[along] % 2 == 0)
            if dest >= 0:
                step.sends.append(Part(dest, tag, 2 * along + (direction == 1), face(along, inner)))
            if source >= 0:
                step.receives.append(Part(source, tag, 2 * along + (direction == -1), face(along, outer)))
            steps.append(step)
    return _agreed(comm, Pattern(steps))


def graph_pattern(comm: Any, shape: tuple[int, ...], send: Sequence[Any], receive: Sequence[Any]) -> Pattern:
    """Return the exchange of regions along the edges of a graph communicator.

    Parameters
    ----------
    comm : communicator with a topology
    shape : tuple of int
        Of the local array.
    send, receive : sequence
        For each outgoing and each incoming edge, in their order, a tuple of slices (or one slice).

    Raises
    ------
    DataError
        Not as many regions as edges, a region that is no box in the array, or ends that differ in size.
    """
    me, ranks = int(comm.Get_rank()), int(comm.Get_size())
    in_edges, out_edges = (list(edges) for edges in comm.inoutedges)
    ends = {"send": (send, out_edges), "recv": (receive, in_edges)}
    for name, (regions, edges) in ends.items():
        if len(regions) != len(edges):
            raise DataError(
                f"{name}= has {len(regions)} regions, and the rank has {len(edges)} such neighbours"
            )
    steps = [Step() for _ in range(ranks)]
    for name, (regions, edges) in ends.items():
        met: dict[int, int] = {}
        for edge, (region, other) in enumerate(zip(regions, edges, strict=True)):
            if other < 0:
                continue
            tag = met[other] = met.get(other, -1) + 1  # several edges to one neighbour, in their order
            step = steps[(me + other) % ranks]
            step.sends_first = me <= other
            part = Part(other, tag, edge, _box(shape, region, name))
            (step.sends if name == "send" else step.receives).append(part)
    used = np.zeros(ranks, np.int64)
    used[:] = [bool(step.sends or step.receives) for step in steps]
    every = [any(column) for column in zip(*comm.allgather(used.tolist()), strict=True)]
    return _agreed(comm, Pattern([step for step, is_used in zip(steps, every, strict=True) if is_used]))


def _box(shape: tuple[int, ...], region: Any, name: str) -> Region:
    slices = region if isinstance(region, tuple) else (region,)
    if len(slices) > len(shape) or not all(isinstance(one, slice) for one in slices):
        raise DataError(f"{name}= takes slices, or tuples of them, one for a dimension; got {region!r}")
    bounds = [one.indices(n) for one, n in zip(slices, shape, strict=False)]
    bounds += [(0, n, 1) for n in shape[len(slices) :]]
    if any(stride != 1 for _, _, stride in bounds):
        raise DataError(f"{name}= takes slices without a stride, got {region!r}")
    return Region(shape, tuple(a for a, _, _ in bounds), tuple(max(b - a, 0) for a, b, _ in bounds))


def _agreed(comm: Any, pattern: Pattern) -> Pattern:
    """Tell each neighbour this rank's own region, and refuse ends that do not fit, on all ranks."""
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
        raise DataError(f"the regions do not fit: {found[0]}")
    return pattern
