"""Cautions: what works in simulation and fails, hangs or differs on real MPI, with the remedy.

A simulated machine buffers messages, keeps their order, and reads a buffer when a call is made. A program may
rely on that unknowingly. The compiled calls report to `Cautions` when something is wrong, and it writes the
notes of the run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from labkit import _kernels
from labkit.process.stacks import is_framework
from labkit.sim.where import place_of
from labkit.units import format_bytes, ranks_text

__all__ = ["Cautions"]

#: cautions of a kind that are shown; the rest is counted
_SHOWN = 8
#: sends of a cycle that are named
_SENDS = 4
#: labkit's modules that send messages themselves: those of windows, files and pools
_SENDERS = tuple(
    str(Path(__file__).parents[1] / "comm" / name) + os.sep for name in ("rma", "files", "futures")
)
_ELEMENTS = {
    "h": "16-bit integers",
    "i": "32-bit integers",
    "q": "64-bit integers",
    "f": "float32",
    "d": "float64",
    "g": "long double",
}


class _Lines:
    """Lines of the program, by the numbers that `labkit._kernels.CallPlaces` keeps."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, frame: FrameType) -> int:
        """Return the number of a line; -1 of labkit's own."""
        if is_framework(frame.f_code.co_filename):
            return -1
        text = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


class Cautions:
    """What a run does that fails on real MPI.

    Parameters
    ----------
    hub : labkit._kernels.Hub
        Of the run; from now on it is watched.
    """

    def __init__(self, hub: Any) -> None:
        self._hub, self._lines = hub, _Lines()
        #: by kind, its object and line: the first sentence, and the ranks that it is true of
        self._heard: dict[tuple[str, str, str], tuple[str, list[int]]] = {}
        places = _kernels.CallPlaces(_kind_of, self._lines.number, 1)
        hub.watch(places, self._hear)

    def _hear(self, kind: str, peer: int, text: str, number: int) -> None:
        """Note what the running rank does at its present line."""
        place = place_of(sys._getframe())
        where = "" if place is None else f"{place.file}:{place.line}"
        key = (kind, text, where)
        if key not in self._heard:
            self._heard[key] = _SENTENCES[kind](peer, text, number), []
        ranks = self._heard[key][1]
        if not ranks or ranks[-1] != self._hub.rank:
            ranks.append(self._hub.rank)

    def notes(self, checks: Any = None) -> list[str]:
        """Return all of it as sentences.

        Parameters
        ----------
        checks : labkit.sim.checking.checks.Checks, optional
            What a run with ``check=True`` knows: with the lines of messages that are left over.
        """
        found = [
            f"{ranks_text(ranks)} at {where}: {text}" for (_, _, where), (text, ranks) in self._heard.items()
        ]
        found = _shortened(found, "cautions") + _shortened(
            self._cycles(), "groups of sends that need buffers"
        )
        return found + self._left_over(checks)

    def _cycles(self) -> list[str]:
        """Return the sends that would wait for each other without buffers, each group of lines once."""
        by_lines: dict[frozenset[int], list[Any]] = {}
        for cycle in self._hub.buffered_sends():
            by_lines.setdefault(frozenset(send[5] for send in cycle), []).append(cycle)
        return [self._cycle(cycles[0]) for cycles in by_lines.values()]

    def _cycle(self, cycle: list[Any]) -> str:
        sends = [
            f"rank {rank} sends {format_bytes(n_bytes)} to rank {dest} (tag {tag}) at "
            f"{self._lines.texts[place]}"
            for rank, dest, tag, _, n_bytes, place in cycle[:_SENDS]
        ]
        more = f"; and {len(cycle) - _SENDS} more" if len(cycle) > _SENDS else ""
        return (
            f"would deadlock with rendezvous: {'; '.join(sends)}{more}. These sends return before their "
            "receives are posted only because short messages are buffered, which MPI does not guarantee. "
            "Use Sendrecv, post the receives first (Irecv), or let one side receive before it sends"
        )

    def _left_over(self, checks: Any) -> list[str]:
        """Return the messages that nobody has received, and the receives that nothing came to."""
        count, rows = self._hub.left_over()
        lines = [_left_text(row, checks) for row in rows[:_SHOWN]]
        if count > len(lines):
            lines.append(f"... and {count - len(lines)} more messages or receives")
        if lines and checks is None:
            lines.append("check=True says at which lines these calls were made")
        return lines if checks is None else [*lines, *checks.left()]


def _shortened(lines: list[str], what: str) -> list[str]:
    hidden = len(lines) - _SHOWN
    return lines if hidden <= 0 else [*lines[:_SHOWN], f"... and {hidden} more {what}"]


def _count(peer: int, text: str, number: int) -> str:
    return (
        f"a message of {int(text or number):,} elements: many MPI libraries count up to 2,147,483,647 and "
        "refuse more (MPI_ERR_ARG); send it in pieces, or as fewer elements of a larger datatype "
        "(Create_contiguous)"
    )


def _elements(peer: int, text: str, number: int) -> str:
    sent, taken = (_ELEMENTS[letter] for letter in text)
    return (
        f"receives {taken}, but the message of rank {peer} has {sent}: MPI requires the same type at both "
        "ends, and the bytes are not converted; give both sides the same dtype"
    )


_SENTENCES: dict[str, Callable[[int, str, int], str]] = {
    "overlap": lambda peer, text, number: (
        f"the send and receive buffers of {text} overlap, which MPI forbids: the result differs between MPI "
        "libraries; receive into another array"
        + (", or use Sendrecv_replace" if text == "Sendrecv" else ", or pass MPI.IN_PLACE as sendbuf")
    ),
    "count": _count,
    "elements": _elements,
    "changed": lambda peer, text, number: (
        "the buffer of a nonblocking send was changed before its Wait: on real MPI the old or the new data "
        "arrives; change it after the Wait, or send a copy"
    ),
    "race": lambda peer, text, number: (
        f"a receive from ANY_SOURCE took the message of rank {number}, but that of rank {peer} was there "
        "too, and the call does not ask for the source: the order depends on timing; give the source, or "
        "pass a Status and use its source (explore=20 tries other orders)"
    ),
}


def _left_text(row: Any, checks: Any) -> str:
    kind, owner, peer, tag, n_bytes, context = row
    shown = "any tag" if tag < 0 else f"tag {tag}"
    if kind == "send":
        made = checks.unreceived(context, owner, tag) if checks is not None else ""
        what = f"{made} sent" if made else f"rank {owner} sent"
        return f"{what} {format_bytes(n_bytes)} to rank {peer}, {shown}, and nobody received it"
    made = checks.waiting(owner, context) if checks is not None else ""
    source = "any rank" if peer < 0 else f"rank {peer}"
    return f"{made or f'rank {owner}'} waited for a message from {source}, {shown}, and nothing came"


def _kind_of(file: str) -> int:
    """Return what a file's code is to the calls that it makes, as `labkit._kernels.CallPlaces` asks."""
    return 3 if file.startswith(_SENDERS) else int(is_framework(file))
