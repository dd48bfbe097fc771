"""A schedule: one collective algorithm bound to a number of ranks and a root, as data."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from labkit import _kernels
from labkit.errors import ScheduleError
from labkit.schedule.group import Group
from labkit.schedule.problem import Problem, Value, problem
from labkit.schedule.step import NO_BUFFER, Blocks, Kind, Op, Step, block_indices

__all__ = ["COUNT_BYTES", "Buffer", "Generator", "Schedule", "Temporary", "build", "program_of"]

_WANTED = "an algorithm is a generator of steps: yield group.send(...), group.recv(...) and so on"


def steps_of(generator: Callable[[Group], Iterable[Step]], group: Group, label: str) -> Iterator[Step]:
    """Yield the steps of a generator."""
    called = f"{label}: {getattr(generator, '__name__', 'the algorithm')}(group)"
    try:
        made = generator(group)
        if not isinstance(made, Iterable):
            raise ScheduleError(f"{called} returned {_named(made)}; {_WANTED}")
        for step in made:
            if not isinstance(step, Step):
                raise ScheduleError(f"{called} yielded {_named(step)}; {_WANTED}")
            yield step
    except ValueError as error:  # NumPy has no special class for this one
        if "truth value of an array" not in str(error):
            raise
        raise ScheduleError(
            f"{called} asks an array for one answer, as in `if group.ranks == 0`: group.ranks holds all "
            "ranks in one call; choose among them with where=, as in group.send(..., where=group.ranks == 0)"
        ) from error


def _named(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def op_text(buffers: Sequence[str], counts: Sequence[int], op: Op) -> str:
    """Return one operation as text."""
    target = section_text(buffers, counts, op.section)
    verb = f"{op.kind.name.lower():6} "
    if op.kind is Kind.WAIT:
        return verb + ("all" if op.label < 0 else f"label {op.label}")
    label = f" (label {op.label})" if op.label else ""
    if op.kind.is_send:
        return f"{verb}{target} -> rank {op.peer}{label}"
    if op.kind.is_receive:
        return f"{verb}{target} <- rank {op.peer}{label}"
    source = section_text(buffers, counts, op.source)
    if op.kind is Kind.COPY:
        return f"{verb}{target} := {source}"
    operands = (source, target) if op.is_source_first else (target, source)
    return f"{'reduce':6} {target} := {operands[0]} op {operands[1]}"


def section_text(buffers: Sequence[str], counts: Sequence[int], section: Blocks) -> str:
    """Return a section as ``name[blocks]``, consecutive blocks as ``a..b``."""
    if section.buffer == NO_BUFFER:
        return "nothing"
    indices = block_indices(*section[1:], counts[section.buffer]).tolist()
    ranges: list[list[int]] = []
    for index in indices:
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    inside = ", ".join(f"{a}" if a == b else f"{a}..{b}" for a, b in ranges)
    return f"{buffers[section.buffer]}[{inside}]"


#: bytes of a count that ranks send each other
COUNT_BYTES = 8

#: what a buffer's blocks are: as large as those of another buffer; numbers of bytes; as large as these
Holds = Literal["blocks", "counts", "told"]

#: an algorithm: yields its steps for the ranks of a group
Generator = Callable[[Group], Iterator[Step]]


@dataclass(frozen=True)
class Temporary:
    """A work buffer that the reader allocates on every rank.

    Parameters
    ----------
    name : str
    like : str
        The caller's buffer whose block sizes it shares.
    blocks : callable, optional
        ``blocks(group)``: number of blocks for each rank of the group; default: as many as `like` has.
    holds : "blocks", "counts" or "told"
        For vector collectives in which MPI does not give all sizes to every rank. In "counts", block i is a
        number of 8 bytes: the bytes of the block of the i-th rank from this one on. A rank has there what
        its caller knows, and what the others send it. In "told", block i is as large as that number says; it
        may be used once all counts of the rank have arrived.
    """

    name: str
    like: str = "recv"
    blocks: Callable[[Group], NDArray[np.int64]] | None = None
    holds: Holds = "blocks"


@dataclass(frozen=True)
class Buffer:
    """A buffer of a bound schedule: its name, whose block sizes it has, and whether the reader makes it."""

    name: str
    like: str
    is_temporary: bool = False
    holds: Holds = "blocks"


@dataclass(frozen=True)
class Schedule:
    """What every rank does, generated on demand.

    Attributes
    ----------
    problem : Problem
        The collective's contract.
    name : str
        The algorithm's name.
    size, root : int
    commutative : bool
        Whether the operator may be assumed to commute.
    parts : int
        Number of blocks into which a message, or each uniform block, is cut.
    buffers : tuple of Buffer
        The caller's buffers, then the temporaries.
    """

    problem: Problem
    name: str
    size: int
    root: int
    commutative: bool
    parts: int
    buffers: tuple[Buffer, ...]
    generator: Generator
    temporaries: tuple[Temporary, ...]

    def steps(self, ranks: NDArray[np.int64] | Iterable[int] | None = None) -> Iterator[Step]:
        """Yield the steps of all ranks, or of some; each rank's entries are the same either way."""
        return steps_of(self.generator, self.group(ranks), f"{self.problem.name}/{self.name}")

    def group(self, ranks: NDArray[np.int64] | Iterable[int] | None = None) -> Group:
        """Return the group that a generator sees."""
        chosen = np.arange(self.size) if ranks is None else np.fromiter(ranks, np.int64)
        names = tuple(buffer.name for buffer in self.buffers)
        return Group(chosen, self.size, self.root, self.commutative, names)

    def program(self, rank: int) -> list[Op]:
        """Return the operations of one rank, in order."""
        return [op for step in self.steps([rank]) for _, op in step.entries()]

    def n_blocks(self, rank: int) -> list[int]:
        """Return the number of blocks of each buffer at a rank; 0 where the rank does not have it."""
        return [int(counts[0]) for counts in self.n_blocks_of([rank])]

    def n_blocks_of(self, ranks: Iterable[int]) -> list[NDArray[np.int64]]:
        """Return for each buffer an array of its numbers of blocks, one for each of `ranks`."""
        group = self.group(ranks)
        special = {t.name: t.blocks for t in self.temporaries if t.blocks is not None}
        return [
            np.asarray(special[buffer.name](group), np.int64)
            if buffer.name in special
            else self._caller_blocks(buffer.like, group.ranks)
            for buffer in self.buffers
        ]

    def wanted(self, buffer: str, rank: int, block: int) -> Value | None:
        """Return what a block of a buffer must hold at the end; None: anything."""
        return self.problem.wanted(buffer, rank, block, self.size, self.root, self.parts)

    def size_class(self, number: int, rank: int, block: int) -> Hashable:
        """Return a name for a block's size, by its buffer's number: of equal names, equal sizes."""
        buffer = self.buffers[number]
        if buffer.holds == "counts":
            return "a count"
        if buffer.holds == "told":
            return (rank + block) % self.size
        return self.problem.size_class(buffer.like, rank, block, self.root, self.parts)

    def number_of(self, holds: Holds) -> int | None:
        """Return the number of the buffer with counts, or with blocks of these sizes, or None."""
        return next((i for i, buffer in enumerate(self.buffers) if buffer.holds == holds), None)

    def _caller_blocks(self, buffer: str, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        here = self.problem.blocks(buffer, self.root, self.size, self.root, self.parts)
        if buffer not in self.problem.at_root:
            return np.full(len(ranks), here)
        return np.where(ranks == self.root, here, 0)

    def __repr__(self) -> str:
        root = f", root={self.root}" if self.problem.is_rooted else ""
        return f"<Schedule {self.problem.name}/{self.name}, {self.size} ranks{root}; describe() prints it>"

    def describe(self, ranks: Iterable[int] | None = None) -> str:
        """Return the programs of all ranks, or of some, one operation a line (for small schedules).

        Examples
        --------
        >>> from labkit import registry
        >>> print(registry.get("bcast", "binomial").build(4).describe(ranks=[1, 2]))
        bcast/binomial on 4 ranks, root 0
        rank 1
          recv   data[0] <- rank 0
        rank 2
          recv   data[0] <- rank 0
          send   data[0] -> rank 3
        """
        root = f", root {self.root}" if self.problem.is_rooted else ""
        lines = [f"{self.problem.name}/{self.name} on {self.size} ranks{root}"]
        for rank in range(self.size) if ranks is None else ranks:
            lines += [f"rank {rank}", *(f"  {text}" for text in self.op_texts(rank, self.program(rank)))]
        return "\n".join(lines)

    def op_texts(self, rank: int, ops: Iterable[Op]) -> list[str]:
        """Return operations of a rank as text."""
        names, counts = [buffer.name for buffer in self.buffers], self.n_blocks(rank)
        return [op_text(names, counts, op) for op in ops]


def build(
    problem_name: str,
    generator: Generator,
    ranks: int,
    *,
    name: str = "mine",
    root: int = 0,
    commutative: bool = True,
    parts: int = 1,
    temporaries: Iterable[Temporary | str] = (),
) -> Schedule:
    """Bind a generator to a collective, a number of ranks and a root.

    Parameters
    ----------
    problem_name : str
        The collective, as in `labkit.schedule.PROBLEMS`.
    generator : callable
        ``generator(group)`` yields steps.
    ranks : int
        Number of ranks, at least 1.
    name : str
        Shown in messages.
    root : int
    commutative : bool
    parts : int
        Number of blocks into which the message of a bcast or reduction is cut, or each block of a collective
        whose blocks are of one size.
    temporaries : iterable of Temporary or str
        Work buffers; a name alone means one like the result buffer.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        Unknown collective, no ranks, or a root that does not exist.

    Examples
    --------
    >>> from labkit.schedule import block, build
    >>> def to_the_right(group):
    ...     yield group.send(block("data"), to=1, where=group.ranks == 0)
    ...     yield group.recv(block("data"), source=0, where=group.ranks == 1)
    >>> build("bcast", to_the_right, ranks=2)
    <Schedule bcast/mine, 2 ranks, root=0; describe() prints it>
    """
    contract = problem(problem_name)
    if ranks < 1:
        raise ScheduleError(
            f"{problem_name}/{name} needs at least 1 rank, got {ranks}", code="not-enough-data"
        )
    if not 0 <= root < ranks:
        raise ScheduleError(
            f"{problem_name}/{name} on {ranks} ranks: root {root} is not one of 0..{ranks - 1}",
            code="out-of-range",
        )
    if parts < 1:
        raise ScheduleError(
            f"{problem_name}/{name}: a message must have at least 1 part, got {parts}", code="out-of-range"
        )
    if parts > 1 and contract.layout == "table":
        raise ScheduleError(f"{problem_name}/{name}: blocks of any sizes are not cut into parts, got {parts}")
    default_like = "data" if "data" in contract.shapes else "recv"
    made = tuple(Temporary(t, default_like) if isinstance(t, str) else t for t in temporaries)
    for temporary in made:
        if temporary.like not in contract.shapes:
            raise ScheduleError(
                f"temporary {temporary.name!r} is like {temporary.like!r}, which {problem_name} lacks"
            )
    for temporary in made:
        if temporary.holds == "blocks" and temporary.blocks is not None and contract.layout != "uniform":
            raise ScheduleError(
                f"temporary {temporary.name!r} has its own number of blocks; in {problem_name} blocks differ "
                "in size, so it must have those of the buffer it is like, or hold counts that ranks received"
            )
    _check_told(f"{problem_name}/{name}", contract, made)
    buffers = tuple(Buffer(user, user) for user in contract.shapes)
    buffers += tuple(Buffer(t.name, t.like, is_temporary=True, holds=t.holds) for t in made)
    return Schedule(contract, name, ranks, root, commutative, parts, buffers, generator, made)


def _check_told(label: str, contract: Problem, temporaries: tuple[Temporary, ...]) -> None:
    """Refuse temporaries of counts where they make no sense."""
    holds = [t.holds for t in temporaries if t.holds != "blocks"]
    if not holds:
        return
    if contract.layout != "table" or not contract.is_rooted:
        raise ScheduleError(
            f"{label}: ranks send each other counts in gatherv and scatterv only; elsewhere every rank knows "
            "the sizes that it needs"
        )
    if sorted(holds) not in (["counts"], ["counts", "told"]):
        raise ScheduleError(
            f'{label}: one temporary holds "counts", one may hold the counts that they send ("told"); got '
            f"{', '.join(holds)}"
        )


# A schedule as the kernels' program: what the simulator runs without waking Python.


def program_of(schedule: Schedule, max_kept_entries: int = 1 << 18, steps: object = None) -> _kernels.Program:
    """Return the schedule as the kernels' program; steps are generated when a rank gets there.

    Up to `max_kept_entries` operations stay in memory for the next call of the same program. `steps` has
    size and steps where they are not the schedule's own.
    """
    counts = []
    for buffer, per_rank in zip(schedule.buffers, schedule.n_blocks_of(range(schedule.size)), strict=True):
        is_same = buffer.name not in schedule.problem.at_root and len(np.unique(per_rank)) == 1
        counts.append([int(per_rank[0])] if is_same else per_rank.tolist())
    names = [buffer.name for buffer in schedule.buffers]
    return _kernels.make_program(
        schedule if steps is None else steps,
        f"{schedule.problem.name}/{schedule.name}",
        schedule.problem.layout,
        names,
        [names.index(buffer.like) for buffer in schedule.buffers],
        [buffer.is_temporary for buffer in schedule.buffers],
        counts,
        max_kept_entries,
        schedule.parts if schedule.problem.layout == "uniform" else 1,
        [buffer.holds for buffer in schedule.buffers],
        schedule.root if "send" in schedule.problem.at_root else -1,
    )
