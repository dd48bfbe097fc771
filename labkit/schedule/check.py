"""The checker: a proof that a schedule keeps its collective's promise, or a counterexample.

The schedule is executed symbolically: a block holds not numbers but the list of contributions it is made
of. Messages are matched as MPI matches them (in order for each pair of ranks) and a send completes only
with its receive (rendezvous), so a schedule that relies on buffering is found out.

Why one execution proves all: no operation of a schedule can receive from *any* rank, so what a rank does
never depends on timing, and the outcome is the same in every order of events, provided that no two
operations under way touch the same block. That proviso is checked too. The proof holds for the number of
ranks, root and order of operands that were checked, for all block sizes and all associative operators.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from labkit.errors import ScheduleError
from labkit.schedule.schedule import Schedule
from labkit.schedule.step import Op
from labkit.schedule.symbolic import Refuted, SymbolicMachine

__all__ = ["Counterexample", "Proof", "check", "prove", "uncollected"]


@dataclass(frozen=True)
class Proof:
    """The schedule is complete: what was checked, and what it moves.

    Attributes
    ----------
    schedule : Schedule
    messages : int
        Messages of all ranks.
    blocks_sent : int
        Blocks in these messages.
    """

    schedule: Schedule
    messages: int
    blocks_sent: int

    is_complete = True

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        name = f"{self.schedule.problem.name}/{self.schedule.name} on {self.schedule.size} ranks"
        return f"proved: {name} is complete ({self.messages} messages, {self.blocks_sent} blocks)"


@dataclass(frozen=True)
class Counterexample:
    """Where a schedule breaks its promise.

    Attributes
    ----------
    kind : str
        "wrong value", "missing value", "undefined", "order", "twice", "race", "shape", "size",
        "not waited", "unmatched", "deadlock", "read only", "no buffer", "no rank".
    rank : int
        The rank where it shows.
    step : int or None
        Position in that rank's program (0 is its first operation); None: after the end.
    block : str or None
        The block, as ``buffer[number]``.
    operation : str or None
        The operation, as text.
    message : str
        The whole finding as a sentence.
    """

    schedule: Schedule
    kind: str
    rank: int
    step: int | None
    block: str | None
    operation: str | None
    message: str

    is_complete = False

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        name = f"{self.schedule.problem.name}/{self.schedule.name} on {self.schedule.size} ranks"
        where = f"rank {self.rank}, "
        where += "at the end" if self.step is None else f"operation {self.step} ({self.operation})"
        return f"refuted: {name}: {where}: {self.message}"


# No search for circular garbage while millions of small objects are made.


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep Python's cyclic collector still inside the block: what is made there has no circles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def check(schedule: Schedule) -> Proof | Counterexample:
    """Prove that a schedule is complete, or say where it is not.

    Checked: every block is where it must be; every contribution is combined exactly once, and in rank
    order unless the operator commutes; no undefined block is read; no two operations under way touch a
    block that one of them writes; inputs are not written; every request is waited for; every message is
    received, with as many blocks of the same sizes; nothing deadlocks, even if no send is buffered.

    Examples
    --------
    >>> from labkit.schedule import block, build
    >>> def forgets_the_last(group):
    ...     me, last = group.ranks, group.size - 1
    ...     for other in range(1, last):
    ...         yield group.send(block("data"), to=other, where=me == 0)
    ...     yield group.recv(block("data"), source=0, where=(me > 0) & (me < last))
    >>> print(check(build("bcast", forgets_the_last, ranks=3)))
    refuted: bcast/mine on 3 ranks: rank 2, at the end: data[0] must hold rank 0's block 0, it holds nothing
    """
    try:
        with uncollected():
            machine = SymbolicMachine(schedule)
            machine.run()
    except Refuted as refuted:
        return _counterexample(schedule, refuted)
    return Proof(schedule, machine.messages, machine.blocks_sent)


def prove(schedule: Schedule) -> Proof:
    """Return the proof.

    Raises
    ------
    ScheduleError
        With the counterexample, if there is none.
    """
    result = check(schedule)
    if isinstance(result, Counterexample):
        raise ScheduleError(str(result))
    return result


def _counterexample(schedule: Schedule, refuted: Refuted) -> Counterexample:
    op: Op | None = refuted.op
    text = None
    if op is not None:
        text = " ".join(schedule.op_texts(refuted.rank, [op])[0].split())
    return Counterexample(
        schedule, refuted.kind, refuted.rank, refuted.position, refuted.block, text, refuted.message
    )
