"""Waits of real ranks: each notes its blocking calls on its own page, which its supervisor reads.

A small library (``kernels/waits``) stands between mpi4py and MPI, as MPI's profiling interface would: before
a blocking call it writes down the call, its peers and what the rank has posted: some ninety instructions a
call, and of a message that is posted and waited for some two hundred more. Exchanges of the smallest messages
feel it by some per cent, programs that compute hardly (``benchmarks/noted_calls.py``).
The page is the file ``rank-R.wait`` in the run's folder, mapped into the rank's memory; on Linux only, and
where all ranks are on this host.
"""

from __future__ import annotations

import codecs
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit.process.tree import is_stopped
from labkit.process.watchdog import whereabouts
from labkit.real.mpi.waits_page import (
    BUFFERED,
    CALLS,
    FINISHED,
    HISTORY,
    MAGIC,
    OVERFLOW,
    THREADS,
    WAITED,
    CommRow,
    Entry,
    Page,
    PageHead,
)
from labkit.text.progress import Lines

__all__ = [
    "COLLECTIVE",
    "OTHER",
    "PROBE",
    "RECV",
    "SEND",
    "CommRow",
    "Entry",
    "Head",
    "Item",
    "Joint",
    "Page",
    "PageContent",
    "Progress",
    "read_head",
    "read_waits",
]

OTHER, SEND, RECV, PROBE, COLLECTIVE = range(5)


@dataclass(frozen=True)
class Head:
    """Whether a rank waits.

    `epoch`: Grows when a blocking call begins and when it ends: as long as it is the same odd number, the
        rank is in the same call.
    `is_whole`: Whether the page has all that the rank may wait for or offer.
    """

    epoch: int
    is_whole: bool
    has_finished: bool

    @property
    def is_waiting(self) -> bool:
        """Whether the rank is in a blocking call."""
        return self.epoch % 2 == 1


@dataclass(frozen=True)
class Item:
    """Something that a rank waits for, or offers: half a message, or its part of a collective.

    `kind`: ``OTHER`` (nobody knows who ends it), ``SEND``, ``RECV``, ``PROBE`` or ``COLLECTIVE``.
    `peer`, `tag`: The other rank, in the world, and the tag; -1: any.
    `comm`: The communicator's number, the same on all ranks.
    `ordinal`: Of a collective: its number in the communicator, from 1.
    `bytes`: What it moves, where a transfer may take long.
    """

    kind: int
    peer: int
    tag: int
    comm: int
    ordinal: int
    bytes: int


@dataclass(frozen=True)
class Joint:
    """A communicator as a rank knows it: how many collectives it has reached, and the last of them."""

    entered: int
    members: tuple[int, ...]
    history: tuple[tuple[str, int], ...]

    def call(self, ordinal: int) -> tuple[str, int] | None:
        """Return name and root (-1: none) of a collective by its number; None where it is forgotten."""
        back = self.entered - ordinal
        return self.history[-1 - back] if 0 <= back < len(self.history) else None


@dataclass(frozen=True)
class PageContent:
    """All that the page of a rank says.

    `call`: The blocking call, as C names it without ``MPI_``.
    `posted`: Messages begun and not over, whether the rank waits for them or not.
    `comms`: By their numbers; those that cannot be distinguished are None.
    """

    head: Head
    call: str
    waiting: tuple[Item, ...]
    posted: tuple[Item, ...]
    comms: dict[int, Joint | None]


def read_head(path: Path) -> Head | None:
    """Read whether a rank waits; None as long as there is no page."""
    try:
        with open(path, "rb") as file:
            data = file.read(ctypes.sizeof(PageHead))
    except OSError:
        return None
    return _head(PageHead.from_buffer_copy(data)) if len(data) == ctypes.sizeof(PageHead) else None


def _head(head: PageHead) -> Head | None:
    if head.magic != MAGIC:
        return None
    return Head(head.epoch, not head.flags & (THREADS | OVERFLOW | BUFFERED), bool(head.flags & FINISHED))


def read_waits(path: Path) -> PageContent | None:
    """Read a rank's page, or None."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) < ctypes.sizeof(Page):
        return None
    page = Page.from_buffer_copy(data)
    head = _head(page.head)
    if head is None:
        return None
    names = [bytes(one).split(b"\0")[0].decode("ascii", "replace") for one in page.names]
    waiting = tuple(map(_item, page.waiting[: max(0, min(page.head.waited, WAITED))]))
    posted = tuple(_item(one) for one in page.request if one.handle and one.is_active)
    return PageContent(head, names[page.head.call % CALLS], waiting, posted, _comms(page, names))


def _item(entry: Entry) -> Item:
    if entry.kind == COLLECTIVE:
        return Item(COLLECTIVE, -1, -1, entry.comm, entry.ordinal, entry.bytes)
    return Item(entry.kind, entry.peer, entry.tag, entry.comm, 0, entry.bytes)


def _comms(page: Page, names: Sequence[str]) -> dict[int, Joint | None]:
    found: dict[int, Joint | None] = {}
    for row in page.rows[: page.head.comms]:
        if not row.handle:
            continue
        members = tuple(page.member[row.first_member : row.first_member + row.members])
        numbers = range(max(0, row.entered - HISTORY), row.entered)
        history = tuple((names[row.calls[k % HISTORY] % CALLS], row.roots[k % HISTORY]) for k in numbers)
        found[row.id] = None if row.id in found else Joint(row.entered, members, history)
    return found


# Progress of real ranks while they run: what they have printed, who has finished, their calls.

#: of a rank's output that is read at a time
_MOST_BYTES = 1 << 16


class Progress:
    """Looks into the files of a launch.

    `has_calls`: Whether each blocking call is noted, not only waits that last.
    """

    def __init__(self, directory: str, ranks: int, has_calls: bool = True) -> None:
        self._has_calls = has_calls
        self._folder, self._ranks = Path(directory), ranks
        self._lines = Lines()
        self._read = [0] * ranks
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(ranks)]

    def lines(self) -> list[str]:
        """Return the last lines that the ranks have printed."""
        for rank in range(self._ranks):
            try:
                with open(self._folder / f"rank-{rank}.out", "rb") as file:
                    file.seek(max(self._read[rank], file.seek(0, 2) - _MOST_BYTES))
                    new = file.read()
                    self._read[rank] = file.tell()
            except OSError:
                continue
            if new:
                self._lines.add(rank, self._decoders[rank].decode(new))
        return self._lines.texts()

    def status(self) -> str:
        """Return as text who has finished, and how many blocking calls of MPI there were."""
        done = sum((self._folder / f"rank-{rank}.done").exists() for rank in range(self._ranks))
        heads = [read_head(self._folder / f"rank-{rank}.wait") for rank in range(self._ranks)]
        calls = sum(head.epoch // 2 for head in heads if head is not None)
        waiting = sum(head.is_waiting for head in heads if head is not None) if done < self._ranks else 0
        wait = "rank waits" if waiting == 1 else "ranks wait"
        said = f"{waiting} {wait}" if any(heads) or not self._has_calls else "starting"
        if any(heads) and self._has_calls:
            said = f"{calls:,} blocking calls of MPI, {said}"
        if stopped := sum(self._is_stopped(rank) for rank in range(self._ranks)):
            said += f", {stopped} stopped by a signal"
        return f"{said}, {done} of {self._ranks} ranks have finished"

    def _is_stopped(self, rank: int) -> bool:
        try:
            pid, _, table = (self._folder / f"rank-{rank}.pid").read_text().partition(" ")
            return table in ("", whereabouts()["table"]) and is_stopped(int(pid))
        except (OSError, ValueError):
            return False
