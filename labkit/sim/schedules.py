"""Schedules on the simulated machine, without Python ranks: whole collectives at engine speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit import _kernels, registry
from labkit.errors import ScheduleError
from labkit.machines.platform import Platform, platform
from labkit.schedule.execute import Counts, as_reduction, sizes_of
from labkit.schedule.schedule import Schedule, program_of
from labkit.schedule.step import Column, Step
from labkit.selector import Choices, Selector, Situation, selector_of
from labkit.selector.situation import settled

if TYPE_CHECKING:
    from labkit.machines.noise import Noise

__all__ = ["Simulated", "choices_on", "node_of", "perform", "simulate", "time_alone"]


@dataclass(frozen=True)
class Simulated:
    """One simulated collective.

    `makespan_s`: When the last rank was through.
    `end_s` (array of float64, shape (ranks,)): When each rank was through.
    `messages`, `bytes`: All messages and their payloads.
    `events`: What the engine processed.
    `representatives`: Ranks that the engine simulated: fewer than all where they stand for others that do the
        same.
    """

    makespan_s: float
    end_s: NDArray[np.float64]
    messages: int
    bytes: int
    events: int
    representatives: int

    def __repr__(self) -> str:
        return f"<Simulated: {self.makespan_s:.9g} s, {self.messages} messages, {self.bytes} bytes>"


def simulate(
    schedule: Schedule,
    on: object = "star",
    model: object = None,
    *,
    n_bytes: int = 8,
    element_bytes: int = 1,
    counts: Counts | None = None,
    start_s: Sequence[float] | NDArray[np.float64] | None = None,
    combine_s_per_byte: float = 0.0,
    symmetry: bool = True,
    noise: object = None,
    seed: int = 0,
) -> Simulated:
    """Simulate one collective on an otherwise idle machine; sizes only, no data.

    `on`: As in `labkit.run`.
    `model`: Network model; default: the platform's.
    `n_bytes`: The message of a bcast, reduction or scan; one block of the other collectives.
    `element_bytes`: What a block can hold a multiple of, where a message is cut into parts.
    `counts`: For vector collectives, bytes: buffer name to an array with one row for each rank.
    `start_s` (array of float, shape (ranks,), optional): When each rank enters; default: all at 0.
    `combine_s_per_byte`: What a combined byte costs its rank.
    `symmetry`: Where all ranks do the same at the same time, simulate two of them: the same times to
        rounding, in a thousandth of the host time. Not with noise.
    `noise`: What disturbs the machine, as in `labkit.run`.
    `seed`: Draws the noise that names no seed.
    Raises ScheduleError: A schedule that deadlocks or cannot be carried out.
    Raises PlatformError: A machine that is unknown or too small.

    Examples
    --------
    >>> from labkit import registry
    >>> schedule = registry.get("allreduce", "recursive_doubling").build(64)
    >>> simulate(schedule, "star:64", "smpi", n_bytes=8).messages
    384
    """
    if n_bytes < 0 or element_bytes < 1 or n_bytes % element_bytes:
        raise ScheduleError(
            f"n_bytes must be 0 or a multiple of element_bytes={element_bytes}, got {n_bytes}",
            code="count-mismatch",
        )
    troubled = _noise(noise, seed)
    if schedule.problem.layout == "table":
        rows = [_table_row(schedule, rank, n_bytes, counts) for rank in range(schedule.size)]
        buffers = tuple(rows)
    else:
        size = (None, element_bytes, int(n_bytes) // element_bytes, None, None)
        buffers = ((size,) * len(schedule.problem.shapes),)
        if symmetry and troubled.is_quiet:
            folded = _run_folded(schedule, on, model, buffers, start_s, combine_s_per_byte)
            if folded is not None:
                return folded
    return _run(schedule, on, model, buffers, start_s, False, None, combine_s_per_byte, troubled)


def perform(
    schedule: Schedule,
    buffers: Sequence[Mapping[str, NDArray[Any]]],
    on: object = "star",
    model: object = None,
    *,
    op: object = None,
    counts: Sequence[Counts] | None = None,
    start_s: Sequence[float] | NDArray[np.float64] | None = None,
    noise: object = None,
    seed: int = 0,
) -> Simulated:
    """Carry out a collective on real data, in simulation."""
    if len(buffers) != schedule.size:
        raise ScheduleError(
            f"{schedule!r} needs the buffers of {schedule.size} ranks, got {len(buffers)}",
            code="count-mismatch",
        )
    rows = []
    for rank, arrays in enumerate(buffers):
        rows.append(_data_row(schedule, rank, arrays, counts[rank] if counts is not None else None))
    reduction = None
    if schedule.problem.is_reduction:
        if op is None:
            raise ScheduleError(f"{schedule!r} combines: give op=", code="missing-key")
        reduction = as_reduction(op, buffers[0]["send"].dtype)
    return _run(schedule, on, model, tuple(rows), start_s, True, reduction, 0.0, _noise(noise, seed))


def _noise(noise: Any, seed: int) -> Noise:
    """Read the option `noise`."""
    from labkit.machines.noise import noise_of

    return noise_of(noise).seeded(seed)


def _run(
    schedule: Schedule,
    on: object,
    model: object,
    buffers: tuple[object, ...],
    start_s: Sequence[float] | NDArray[np.float64] | None,
    has_data: bool,
    reduction: Any,
    combine_s_per_byte: float,
    noise: Noise,
) -> Simulated:
    machine = platform(on)
    network = machine.network(model)
    starts = [] if start_s is None else [float(s) for s in start_s]
    if starts and (len(starts) != schedule.size or min(starts) < 0):
        raise ScheduleError(f"start_s needs {schedule.size} times of 0 or more", code="out-of-range")
    built, _ = noise.degrade(machine.build(schedule.size))
    end_s, messages, n_bytes, events = _kernels.simulate_schedule(
        built,
        network.build(),
        program_of(schedule, max_kept_entries=0),
        buffers,
        starts,
        has_data,
        reduction,
        combine_s_per_byte,
        None if noise.is_quiet else noise.settings(built)[1],
    )
    ends = np.asarray(end_s)
    return Simulated(float(ends.max()), ends, messages, n_bytes, events, schedule.size)


def _run_folded(
    schedule: Schedule,
    on: object,
    model: object,
    buffers: tuple[Any, ...],
    start_s: Sequence[float] | NDArray[np.float64] | None,
    combine_s_per_byte: float,
) -> Simulated | None:
    """Simulate two ranks for all; None where they cannot stand for them."""
    machine = platform(on)
    starts: list[float] = []
    if start_s is not None:
        starts = [float(s) for s in np.unique(np.asarray(start_s))] * 2
        if len(starts) != 2 or starts[0] < 0 or len(start_s) != schedule.size:
            return None
    network = machine.network(model)
    folded = fold(schedule, machine, network, buffers[0][0][2] if buffers[0] else 0)
    if folded is None:
        return None
    pair = machine_of_two(machine)
    try:
        end_s, messages, n_bytes, events = _kernels.simulate_schedule(
            pair,
            network.build(),
            program_of(schedule, 0, folded),
            buffers,
            starts,
            False,
            None,
            combine_s_per_byte,
        )
    except ScheduleError:  # the whole run shows which rank it was
        return None
    if folded.is_broken or end_s[0] != end_s[1]:
        return None
    p = schedule.size
    ends = np.full(p, end_s[0])
    return Simulated(float(end_s[0]), ends, messages * p // 2, n_bytes * p // 2, events, 2)


_Row = tuple[tuple[Any, int, int, Any, Any], ...]


def _table_row(schedule: Schedule, rank: int, n_bytes: int, counts: Counts | None) -> _Row:
    row = []
    for buffer, n_blocks in zip(schedule.problem.shapes, schedule.n_blocks(rank), strict=False):
        given = None if counts is None else counts.get(buffer)
        table = np.full(n_blocks, n_bytes) if given is None else np.atleast_1d(np.asarray(given)[rank])
        row.append((None, 1, 0, table[:n_blocks].tolist(), [0] * n_blocks))
    return tuple(row)


def _data_row(
    schedule: Schedule, rank: int, arrays: Mapping[str, NDArray[Any]], counts: Counts | None
) -> _Row:
    row: list[tuple[object, int, int, object, object]] = []
    for name, n_blocks in zip(schedule.problem.shapes, schedule.n_blocks(rank), strict=False):
        if n_blocks == 0:
            row.append((None, 1, 0, None, None))
            continue
        if name not in arrays:
            raise ScheduleError(f"{schedule!r}: rank {rank} needs a buffer {name!r}", code="missing-key")
        array = arrays[name]
        if not array.flags.c_contiguous:
            raise ScheduleError(f"buffer {name!r} of rank {rank} must be contiguous", code="not-contiguous")
        sizes = sizes_of(schedule, name, n_blocks, array.size, counts)
        table = None if sizes.counts is None else sizes.counts.tolist()
        begins = None if sizes.displacements is None else sizes.displacements.tolist()
        row.append((array.reshape(-1).view(np.uint8), array.dtype.itemsize, sizes.count, table, begins))
    return tuple(row)


# The symmetry quotient: two ranks stand for all where all do the same at the same time.


#: with fewer ranks there is little to win, and rounding stays that of the whole engine
LEAST_RANKS = 64

_BOTH = np.arange(2)
_SWAPPED = _BOTH[::-1].copy()


class _Broken(Exception):
    """A step that is not the same for all ranks."""


class Folded:
    """A schedule of two ranks, as the kernels read one."""

    def __init__(self, schedule: Schedule) -> None:
        self.size = 2
        self._schedule = schedule
        self._folder = _Folder(schedule.size)
        self.is_broken = False

    def steps(self) -> Iterator[Step]:
        """Yield the steps of two ranks; stop where the symmetry breaks."""
        self._folder = _Folder(self._schedule.size)
        try:
            for step in self._schedule.steps():
                yield Step(tuple(self._folder.column(c) for c in step.columns if len(c.ranks)))
            self._folder.finish()
        except _Broken:
            self.is_broken = True


class _Folder:
    """Checks columns over all ranks, and makes them columns of two."""

    def __init__(self, size: int) -> None:
        self._ranks = np.arange(size)
        #: kinds of messages in the order of their posts
        self._sent: list[tuple[str, int]] = []
        self._received: list[tuple[str, int]] = []

    def column(self, column: Column) -> Column:
        """Return the column of two ranks."""
        if not np.array_equal(column.ranks, self._ranks):
            raise _Broken
        peer: Any = -1
        if column.kind.is_send or column.kind.is_receive:
            kind, k = self._message(column.peer)
            if kind == "shift" and column.kind.is_receive:
                k = len(self._ranks) - k  # what comes from r - k was sent to r + k
            (self._sent if column.kind.is_send else self._received).append((kind, k))
            peer = _BOTH if k == 0 else _SWAPPED
        return Column(
            column.kind, _BOTH, peer, _common(column.section), _common(column.source), column.label, 0
        )

    def _message(self, peer: object) -> tuple[str, int]:
        """Return how a message's two ranks are related: r and r xor k, or r and r + k mod p."""
        if not isinstance(peer, np.ndarray):
            raise _Broken
        size, k = len(self._ranks), int(peer[0])
        if not 0 <= k < size:
            raise _Broken
        if k == 0 and np.array_equal(peer, self._ranks):
            return "self", 0
        if size & (size - 1) == 0 and np.array_equal(peer, self._ranks ^ k):
            return ("half" if 2 * k == size else "xor"), k  # r xor p/2 is r + p/2 mod p, too
        if np.array_equal(peer[: size - k], self._ranks[k:]) and np.array_equal(
            peer[size - k :], self._ranks[:k]
        ):
            return "shift", k
        raise _Broken

    def finish(self) -> None:
        """Check that every receive gets what it asks for, and that all messages are of one group."""
        kinds = {kind for kind, _ in self._sent} - {"self", "half"}
        if len(kinds) > 1 or self._sent != self._received:
            raise _Broken


def _common(section: tuple[Any, ...]) -> tuple[int, int, int, int, int]:
    """Return a section's numbers where they are the same for all ranks; where it begins may differ."""
    buffer, first, *others = section
    numbers = []
    for field in others:
        if isinstance(field, np.ndarray):
            if not (field == field[0]).all():
                raise _Broken
            field = field[0]
        numbers.append(int(field))
    begin = int(first[0]) if isinstance(first, np.ndarray) else int(first)
    return (int(buffer), begin, *numbers)  # type: ignore[return-value]


def fold(schedule: Schedule, machine: Any, network: Any, elements: int) -> Folded | None:
    """Return the quotient of a schedule on a machine, None where it is known to have none."""
    if schedule.size < LEAST_RANKS or machine.description.alike_pair() is None:
        return None
    if network.penalties:  # they count how many different hosts a host talks to: here it would be one
        return None
    if schedule.problem.layout == "table" or schedule.problem.at_root:
        return None
    if np.bincount(machine.rank_hosts(schedule.size)).max() > 1:
        return None
    if schedule.problem.layout == "split" and not _is_even(schedule, elements):
        return None
    if schedule.problem.layout == "uniform" and elements % schedule.parts:
        return None
    return Folded(schedule)


def machine_of_two(machine: Any) -> Any:
    """Return the machine with two hosts, a rank on each, for the engine."""
    return machine.description.alike_pair().build([0, 1])


def _is_even(schedule: Schedule, elements: int) -> bool:
    """Whether all blocks of every buffer have the same number of elements."""
    counts: NDArray[np.int64] = np.unique(schedule.n_blocks_of(range(schedule.size)))
    return all(count <= 1 or elements % int(count) == 0 for count in counts)


# The choices of one simulated machine: selectors learn its nodes, and how long algorithms take there.


def choices_on(machine: Platform, ranks: int, model: object = None, coll: object = None) -> Choices:
    """Return the choices of a run."""
    node, network = node_of(machine.rank_hosts(ranks)), machine.network(model)
    selector = coll if isinstance(coll, Selector) else selector_of(coll)
    return Choices(
        selector.on(partial(time_alone, machine, model, node)),
        machine.spec,
        node,
        network.copied_below_bytes,
        [row[0] for row in network.collective_network],
        ranks,
    )


def time_alone(machine: Platform, model: object, node: int, at: Situation, name: str) -> float:
    """Simulate one call, all ranks entering together; seconds until the last one has left."""
    schedule = registry.get(at.operation, settled(at, name, node)).build(at.ranks)
    return simulate(schedule, machine, model, n_bytes=int(at.n_bytes)).makespan_s


def node_of(hosts: NDArray[np.int32]) -> int:
    """Return how many consecutive ranks share a host, 1 where that differs from host to host.

    `hosts` (ndarray of int, shape (ranks,)): The host of each rank.

    Examples
    --------
    >>> node_of(np.array([0, 0, 1, 1, 2])), node_of(np.array([0, 1, 0, 1]))
    (2, 1)
    """
    changes = np.flatnonzero(np.diff(hosts)) + 1
    if not changes.size:
        return len(hosts)
    node = int(changes[0])
    is_regular = np.array_equal(changes, np.arange(node, len(hosts), node))
    return node if is_regular and np.count_nonzero(np.bincount(hosts)) == changes.size + 1 else 1
