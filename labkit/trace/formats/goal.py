"""GOAL, the text of LogGOPSim and similar tools: read, and written from the messages of a trace.

For each rank its calc, send and recv, and which of them requires which; a calc in nanoseconds.
``labkit replay`` reads it::

    num_ranks 2
    rank 0 {
    l1: calc 1000
    l2: send 1024b to 1 tag 7
    l2 requires l1
    }
    rank 1 {
    l1: recv 1024b from 0 tag 7
    }
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from labkit.errors import DataError
from labkit.trace.formats.text import open_out, pieces
from labkit.trace.formats.ti_writer import DEFAULT_LIMIT_BYTES

__all__ = ["is_goal", "read_goal", "write_messages"]


def is_goal(path: Path) -> bool:
    """Whether a file begins as GOAL does, comments apart."""
    text = next(pieces(path), b"").decode("utf-8", "replace")
    return re.match(r"(?>\s|//[^\n]*\n|#[^\n]*\n|/\*.*?\*/)*+num_ranks\b", text, re.DOTALL) is not None


def read_goal(
    path: str | os.PathLike[str],
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    still: Callable[[], None] | None = None,
) -> Any:
    """Read GOAL text, packed with gzip or not.

    Parameters
    ----------
    path : path
    limit_bytes : int
        What the operations may take in memory.
    still : callable, optional
        Called before each piece of text; what it raises ends the reading.

    Returns
    -------
    labkit._kernels.GoalProgram
        `labkit.replay` takes it, and the path as well.

    Raises
    ------
    DataError
        File, line, reason and what is allowed.

    References
    ----------
    .. [1] T. Hoefler, T. Schneider, A. Lumsdaine: LogGOPSim: simulating large-scale applications in the
       LogGOPS model. HPDC 2010. doi:10.1145/1851476.1851564
    """
    from labkit import _kernels

    reader = _kernels.GoalReader(str(path), int(limit_bytes))
    for piece in pieces(Path(path), still):
        reader.feed(piece)
    return reader.take()


def write_messages(path: str | os.PathLike[str], actions: Any, flops_per_s: float) -> None:
    """Write a trace of messages alone as GOAL."""
    tags: dict[tuple[int, int], int] = {}
    with open_out(path) as file:
        file.write(f"num_ranks {actions.ranks}\n".encode())
        for rank in range(actions.ranks):
            file.write(f"\nrank {rank} {{\n".encode())
            for line in _Graph(rank, tags, flops_per_s).lines(actions.records(rank)):
                file.write(line.encode() + b"\n")
            file.write(b"}\n")


class _Graph:
    """One rank's actions as operations and what they require."""

    def __init__(self, rank: int, tags: dict[tuple[int, int], int], flops_per_s: float) -> None:
        self.rank = rank
        self.tags = tags
        self.flops_per_s = flops_per_s
        self.count = 0
        #: what the next operation requires
        self.before: list[int] = []
        #: posted and not waited for: by source, destination, tag, communicator
        self.open: dict[tuple[int, int, int, int], list[int]] = {}

    def lines(self, records: list[Any]) -> Iterator[str]:
        for action, args, amount, comm, _line in records:
            if action in ("compute", "sleep"):
                nanoseconds = amount / self.flops_per_s * 1e9 if action == "compute" else amount * 1e9
                yield from self.add(f"calc {round(nanoseconds)}", True)
            elif action in ("wait", "waitall"):
                self.wait(args if action == "wait" else args[1:], comm)
            elif action not in ("test", "probe", "phase begin", "phase end"):
                yield from self.message(action, args, comm)

    def message(self, action: str, args: list[int], comm: int) -> Iterator[str]:
        peer, label, size = args
        is_send = action.endswith("send")
        tag = self.tags.setdefault((comm, label), len(self.tags)) if label >= 0 else -1
        verb, side = ("send", "to") if is_send else ("recv", "from")
        is_blocking = not action.startswith("i")
        if peer < 0 or tag < 0 or size < 0:
            raise DataError(
                f"rank {self.rank} receives from any source, with any tag or of any size, which GOAL cannot "
                "say; record the run with labkit, which writes what it got"
            )
        yield from self.add(f"{verb} {size}b {side} {peer} tag {tag}", is_blocking)
        if not is_blocking:
            key = (self.rank, peer, label, comm) if is_send else (peer, self.rank, label, comm)
            self.open.setdefault(key, []).append(self.count)

    def add(self, text: str, is_blocking: bool) -> Iterator[str]:
        """Write an operation; one that blocks is what the next one requires."""
        self.count += 1
        yield f"l{self.count}: {text}"
        for before in self.before:
            yield f"l{self.count} requires l{before}"
        if is_blocking:
            self.before = [self.count]

    def wait(self, keys: list[int], comm: int) -> None:
        """Let the next operation require those of these keys too; no keys: everything that is open."""
        if not keys:
            self.before = [*self.before, *(op for ops in self.open.values() for op in ops)]
            self.open = {}
            return
        for at in range(0, len(keys), 3):
            ops = self.open.get((*keys[at : at + 3], comm))  # type: ignore[arg-type]
            if ops:
                self.before = [*self.before, ops.pop(0)]
