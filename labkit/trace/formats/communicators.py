"""Numbers of communicators in traces: in the order in which the trace's lines name them.

A simulation numbers communicators as they are made, which depends on simulated time; the ranks of a real run
each number their own. In a trace both have the same numbers: that of the world is 0, that of a rank alone 2,
the others 4, 6, ... An odd number is the communicator before it, for messages that stand for its collectives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable

__all__ = ["Numbering"]

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
