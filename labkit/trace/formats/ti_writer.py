"""Time-independent traces into files: one of all ranks, or a folder with one a rank and their list."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable
from pathlib import Path

from labkit.errors import DataError
from labkit.trace.formats.text import open_out

__all__ = ["Numbering", "check_target", "write_actions"]

LIST_NAME = "list.txt"


def check_target(target: str | os.PathLike[str]) -> Path:
    """Refuse, before a run, a place for its trace that cannot be written."""
    text = os.fspath(target)
    path = Path(text).absolute()
    if text.endswith(("/", os.sep)) or path.is_dir():
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise DataError(
                f"the folder {str(path)!r} for a trace cannot be made: {error.strerror}"
            ) from None
    folder = path if path.is_dir() else path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        what = "cannot be written to" if folder.is_dir() else "does not exist"
        raise DataError(f"a trace cannot be written to {str(path)!r}: the folder {str(folder)!r} {what}")
    return path


def write_actions(target: Path, ranks: int, lines: Callable[[int], bytes]) -> Path:
    """Write every rank's lines."""
    try:
        if not target.is_dir():
            with open_out(target) as file:
                for rank in range(ranks):
                    file.write(lines(rank))
            return target
        width = len(str(ranks - 1))
        names = [f"rank-{rank:0{width}}.txt" for rank in range(ranks)]
        for rank, name in enumerate(names):
            (target / name).write_bytes(lines(rank))
        listed = target / LIST_NAME
        listed.write_text("".join(f"{name}\n" for name in names))
        return listed
    except OSError as error:
        raise DataError(f"the trace cannot be written to {str(target)!r}: {error.strerror}") from None


# Numbers of communicators in traces: in the order in which the trace's lines name them.
#
# A simulation numbers communicators as they are made, which depends on simulated time; the ranks of a real
# run
# each number their own. In a trace both have the same numbers: that of the world is 0, that of a rank
# alone 2,
# the others 4, 6, ... An odd number is the communicator before it, for messages that stand for its
# collectives.

_FIRST = 4

_NAMED = re.compile(rb"(?m)(?<=^#\+ comm )\d+|(?<= comm=)\d+")

_PHASE = re.compile(rb"#\+ \d+ phase ")


class Numbering:
    """Gives communicators their numbers as lines come by, the ranks in order.

    Parameters
    ----------
    identity : callable, optional
        ``identity(rank, number)``: what is the same for all ranks of the communicator that a rank calls by an
        even number; by default the number itself.
    """

    def __init__(self, identity: Callable[[int, int], Hashable] | None = None) -> None:
        self._identity = identity
        self._numbers: dict[Hashable, int] = {}

    def renumbered(self, rank: int, lines: bytes) -> bytes:
        """Return a rank's lines with the trace's numbers."""
        if b"comm" not in lines:
            return lines

        def numbered(found: re.Match[bytes]) -> bytes:
            return b"%d" % self._number(rank, int(found[0]))

        if b" phase " not in lines:
            return _NAMED.sub(numbered, lines)
        parts = (
            line if _PHASE.match(line) else _NAMED.sub(numbered, line)  # a name may look like anything
            for line in lines.splitlines(keepends=True)
        )
        return b"".join(parts)

    def _number(self, rank: int, number: int) -> int:
        if number < _FIRST:
            return number
        even = number & ~1
        key = even if self._identity is None else self._identity(rank, even)
        return self._numbers.setdefault(key, _FIRST + 2 * len(self._numbers)) | (number & 1)
