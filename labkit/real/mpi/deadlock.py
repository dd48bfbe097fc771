"""A deadlock of real ranks, found as soon as all ranks wait: who waits where, for whom, and the circle.

A deadlock is reported when every rank that has not finished has been in one and the same blocking call
of MPI for `STUCK_S`, has had the processor meanwhile (so that MPI could do its part), and waits for nothing
that another one gives: the other half of its message is neither waited in nor posted, and the collective that
it is in lacks a rank that waits, too, or has finished. A rank that computes, sleeps, polls (``Test``,
``Iprobe``), reads a file or waits for anything that is not MPI keeps everybody from being blamed; so does one
that runs other threads, that waits for a window, a file or a process that it has spawned, or that has
buffered or given up messages. Of several messages that one call waits for, those that are complete do not
count: the library takes them off the page. Where a transfer may be under way, the time grows with its bytes.
"""

from __future__ import annotations

import linecache
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from labkit.errors import DeadlockError, MismatchError
from labkit.process.stacks import Frame, read_stack, runs_threads
from labkit.real.mpi.waits import (
    COLLECTIVE,
    OTHER,
    PROBE,
    RECV,
    SEND,
    Head,
    Item,
    PageContent,
    read_head,
    read_waits,
)
from labkit.text.units import ranks_text

if TYPE_CHECKING:  # what reports one is loaded when there is one
    from labkit.sim.deadlock import BlockedRank

__all__ = ["Blame", "WaitWatch"]

#: how long nothing must have happened, and the processor time that each rank must have had meanwhile
STUCK_S, PROCESSOR_S = 1.5, 0.005
#: how fast a message is at the least, for those that may be under way
BYTES_PER_S = 20e6

Waits = dict[int, PageContent]


class Blame:
    """What was found when nothing went on: who waits for whom.

    `waits`: The pages of the ranks that have not finished.
    `finished`: Those of the others.
    """

    def __init__(self, waits: Waits, finished: Waits) -> None:
        self._waits, self._all = waits, {**finished, **waits}

    @property
    def ranks(self) -> Sequence[int]:
        """The ranks that wait."""
        return list(self._waits)

    @property
    def is_deadlock(self) -> bool:
        """Whether nobody waits for what another one gives."""
        return bool(self._waits) and not any(self._may_go_on(rank) for rank in self._waits)

    @property
    def patience_s(self) -> float:
        """How long a transfer between these ranks may take."""
        return sum(item.bytes for one in self._waits.values() for item in one.waiting) / BYTES_PER_S

    def _may_go_on(self, rank: int) -> bool:
        """Whether another rank offers, or has offered, anything that this one waits for."""
        own = self._waits[rank]
        return not own.waiting or any(self._is_given(rank, item) for item in own.waiting)

    def _is_given(self, rank: int, item: Item) -> bool:
        if item.kind == OTHER:
            return True
        if item.kind == COLLECTIVE:
            missing = self._missing(rank, item)
            return missing is None or not missing
        return any(
            _fit(rank, item, other, half)
            for other in (self._waits if item.peer < 0 else {item.peer} & self._waits.keys())
            for half in (*self._waits[other].waiting, *self._waits[other].posted)
        )

    def _missing(self, rank: int, item: Item) -> tuple[int, ...] | None:
        """Return the ranks that have not reached a collective; None where that is not known."""
        joint = self._waits[rank].comms.get(item.comm)
        if joint is None:
            return None
        missing = []
        for member in joint.members:
            page = self._all.get(member)
            theirs = None if page is None else page.comms.get(item.comm)
            if page is None or (theirs is None and item.comm in page.comms):
                return None
            if theirs is None or theirs.entered < item.ordinal:
                missing.append(member)
        return tuple(missing)

    def mismatch(self, stacks: Mapping[int, Sequence[Frame]] = MappingProxyType({})) -> str:
        """Return as text which ranks have reached different collectives of one communicator; else "".

        With their stacks the calls are named as the program spells them.
        """
        for rank, own in self._waits.items():
            for item in own.waiting:
                joint = own.comms.get(item.comm) if item.kind == COLLECTIVE else None
                mine = None if joint is None else joint.call(item.ordinal)
                for other in joint.members if joint is not None else ():
                    known = self._all[other].comms.get(item.comm) if other in self._all else None
                    theirs = None if known is None else known.call(item.ordinal)
                    if mine is not None and theirs is not None and mine != theirs:
                        first, second = (
                            (one, self._collective(one, item, call, stacks.get(one, ())))
                            for one, call in sorted([(rank, mine), (other, theirs)])
                        )
                        return (
                            f"rank {second[0]} calls {second[1]} where rank {first[0]} called "
                            f"{first[1]} (collective number {item.ordinal} on this communicator)"
                            ": all ranks must call the same collectives in the same order"
                        )
        return ""

    def _collective(self, rank: int, item: Item, call: tuple[str, int], stack: Sequence[Frame]) -> str:
        """Name the call with which a rank has reached a collective, as its program does if possible."""
        name, root = call
        own = self._waits.get(rank)
        is_here = own is not None and any(
            (one.kind, one.comm, one.ordinal) == (COLLECTIVE, item.comm, item.ordinal) for one in own.waiting
        )
        if is_here and stack:
            name = _method(name, stack[-1])
        elif stack:
            name = _only_form(name, stack)
        return name if root < 0 else f"{name} with root {root}"

    def waiting(self, stacks: Mapping[int, Sequence[Frame]]) -> dict[int, BlockedRank]:
        """Describe what each rank waits for, with its line of the program."""
        return {rank: self._describe(rank, own, stacks.get(rank, ())) for rank, own in self._waits.items()}

    def error(self, stacks: Mapping[int, Sequence[Frame]], ranks: int) -> DeadlockError | MismatchError:
        """Return the error: a deadlock, or collectives that do not match."""
        from labkit.sim.deadlock import deadlock_error
        from labkit.sim.where import lines_of

        waiting = self.waiting(stacks)
        if mismatch := self.mismatch(stacks):
            lines = lines_of((rank, one.text) for rank, one in waiting.items())
            return MismatchError("\n".join([mismatch, *lines]))
        return deadlock_error(waiting, ranks)

    def _describe(self, rank: int, own: PageContent, stack: Sequence[Frame]) -> BlockedRank:
        from labkit.sim.deadlock import BlockedRank

        place = stack[-1] if stack else None
        where = "" if place is None else f" at {place.file}:{place.line} in {place.name}"
        method = _method(own.call, place)
        parts: list[str] = []
        peers: list[int] = []
        for item in own.waiting:
            if item.kind == COLLECTIVE:
                missing = self._missing(rank, item) or ()
                parts.append(f"waiting for {ranks_text(list(missing))}" if missing else "its messages")
                peers += missing
                continue
            whom = "any rank" if item.peer < 0 else f"rank {item.peer}"
            sign = "to" if item.kind == SEND else "from"
            size = f", {item.bytes} B" if item.kind == SEND else ""
            parts.append(f"{sign} {whom}, tag {'any' if item.tag < 0 else item.tag}{size}")
            peers += [] if item.peer < 0 else [item.peer]
        shown = "; ".join(parts[:4]) + (f"; ... ({len(parts)} requests)" if len(parts) > 4 else "")
        is_joint = bool(own.waiting) and own.waiting[0].kind == COLLECTIVE
        is_open = any(item.kind != COLLECTIVE and item.peer < 0 for item in own.waiting)
        text = f"{method}{',' if is_joint else ''} {shown}{where}"
        return BlockedRank(text, () if is_open else tuple(dict.fromkeys(peers)))


def _fit(rank: int, item: Item, other: int, half: Item) -> bool:
    """Whether an item of another rank is the other half of this one's message, or may be."""
    if half.kind == OTHER:
        return True
    if (item.kind == SEND) == (half.kind == SEND) or half.kind == COLLECTIVE:
        return False
    if item.kind in (RECV, PROBE) and half.kind in (RECV, PROBE):
        return False
    is_tag = -1 in (item.tag, half.tag) or item.tag == half.tag
    return item.comm == half.comm and is_tag and half.peer in (-1, rank) and item.peer in (-1, other)


#: the methods of mpi4py that end in a call of C
_METHOD = re.compile(r"\.([A-Za-z_]+)\s*\(")
_OTHER_NAMES = {
    "mprobe": ("recv", "sendrecv"),
    "wait": ("recv", "sendrecv", "ssend", "send"),
    # on engines, where what blocks is begun and waited for
    "recv": ("sendrecv", "sendrecv_replace"),
    "send": ("ssend", "rsend", "sendrecv", "sendrecv_replace"),
    # of objects: their sizes come first, or messages on a communicator that is made for them
    "gatherv": ("gather",),
    "scatterv": ("scatter",),
    "allgatherv": ("allgather",),
    "alltoallv": ("alltoall",),
    "dup": ("allreduce", "reduce", "scan", "exscan", "dup_with_info", "clone"),
}


def _method(call: str, place: Frame | None) -> str:
    """Return the method of mpi4py that made a call of C, as the program's line spells it."""
    called = call.lower()
    names = dict.fromkeys(_METHOD.findall(place.source)) if place is not None else {}
    exact = [name for name in names if name.lower() in (called, f"{called}s")]
    others = [name for name in names if name.lower() in _OTHER_NAMES.get(called, ())]
    return " or ".join(exact[:1] or others) or {"mprobe": "recv"}.get(called, call)


def _only_form(call: str, stack: Sequence[Frame]) -> str:
    """Return the method behind a past call of C, where the rank's files have only one that it can be."""
    known = {call.lower(), *_OTHER_NAMES.get(call.lower(), ())}
    files = dict.fromkeys(frame.file for frame in stack)
    found = {name for file in files for name in _METHOD.findall("".join(linecache.getlines(file)))}
    fitting = {name for name in found if name.lower() in known}
    return fitting.pop() if len(fitting) == 1 else call


class WaitWatch:
    """Looks at the pages of a launch's ranks, and finds out when all of them wait in vain.

    `directory`: The launch's folder.
    """

    def __init__(self, directory: str, ranks: int) -> None:
        self._directory, self._ranks = Path(directory), ranks
        self._epochs: tuple[int, ...] | None = None
        self._since_s = self._next_s = 0.0
        self._processor_s: dict[int, float] = {}

    def _file(self, rank: int, kind: str) -> Path:
        return self._directory / f"rank-{rank}.{kind}"

    def _heads(self) -> dict[int, Head] | None:
        """Read the heads of the ranks that have not finished; None where one does not wait or says little."""
        found = {}
        for rank in range(self._ranks):
            head = read_head(self._file(rank, "wait"))
            if head is None or not head.is_whole:
                return None
            if head.has_finished or (not head.is_waiting and self._file(rank, "done").exists()):
                continue
            if not head.is_waiting:
                return None
            found[rank] = head
        return found or None

    def look(self) -> Blame | None:
        """Return who is to blame, where all ranks wait in vain; called some times a second."""
        now = time.monotonic()
        if now < self._next_s:
            return None
        heads = self._heads()
        epochs = None if heads is None else tuple(head.epoch for head in heads.values())
        if heads is None or epochs != self._epochs:
            self._epochs, self._since_s = epochs, now
            self._processor_s = {rank: self._processor(rank) for rank in heads or ()}
            return None
        if now - self._since_s < STUCK_S or not self._have_run():
            return None
        self._next_s = now + STUCK_S / 3
        pages = {rank: read_waits(self._file(rank, "wait")) for rank in range(self._ranks)}
        known = {rank: one for rank, one in pages.items() if one is not None}
        if len(known) < len(pages) or any(known[rank].head != head for rank, head in heads.items()):
            return None
        waits = {rank: known.pop(rank) for rank in heads}
        blame = Blame(waits, known)
        is_long_enough = now - self._since_s >= STUCK_S + blame.patience_s
        return blame if is_long_enough and (blame.is_deadlock or blame.mismatch()) else None

    def verdict(self, blame: Blame) -> DeadlockError | MismatchError | None:
        """Return the error: a deadlock, or a mismatch of collectives; the stacks have been written.

        None where a rank has gone on meanwhile, or has further threads, which may still send.
        """
        heads = self._heads()
        if heads is None or tuple(head.epoch for head in heads.values()) != self._epochs:
            return None
        stacks = {}
        for rank in heads:
            if runs_threads(self._file(rank, "stack")):
                return None
            stacks[rank] = read_stack(self._file(rank, "stack"))
        return blame.error(stacks, self._ranks)

    def _have_run(self) -> bool:
        """Whether each rank has had the processor since it waits."""
        return all(self._processor(rank) - had >= PROCESSOR_S for rank, had in self._processor_s.items())

    def _processor(self, rank: int) -> float:
        """Return the processor time of a rank, s."""
        try:
            pid = int(self._file(rank, "pid").read_text("ascii").split()[0])
            fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return 0.0
