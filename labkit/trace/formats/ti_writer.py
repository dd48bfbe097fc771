"""Time-independent traces into files: one of all ranks, or a folder with one a rank and their list.

What ranks do, but not when: a line is a rank, an action and its arguments, in SimGrid's syntax. Amounts of a
compute are flops, of messages bytes (or elements of the type whose number follows); behind a partner stands
the tag. ``labkit run --trace-ti FILE`` writes one, ``labkit replay FILE`` runs it on another machine; it may
be packed with gzip::

    0 compute 1e6
    0 send 1 7 1024
    0 bcast 4096 0
    1 recv 0 7 1024
    1 bcast 4096 0

Loops stand there once, between ``0 repeat 250`` and ``0 end``, and may hold loops. SimGrid does not know
them: `write_plain` writes them out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from labkit.errors import DataError
from labkit.text.files import remove_partial, writing
from labkit.trace.formats.text import first_line, list_of_files, open_out, pieces

if TYPE_CHECKING:
    from labkit import _kernels

__all__ = [
    "DEFAULT_LIMIT_BYTES",
    "Numbering",
    "check_target",
    "is_goal",
    "read_actions",
    "read_goal",
    "write_actions",
    "write_messages",
    "write_plain",
]


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
                f"the folder {str(path)!r} for a trace cannot be made: {error.strerror}",
                code="unwritable-file",
            ) from None
    folder = path if path.is_dir() else path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        what = "cannot be written to" if folder.is_dir() else "does not exist"
        raise DataError(
            f"a trace cannot be written to {str(path)!r}: the folder {str(folder)!r} {what}",
            code="unwritable-file",
        )
    return path


def write_actions(target: Path, ranks: int, lines: Callable[[int], bytes]) -> Path:
    """Write every rank's lines."""
    begun = target
    try:
        if not target.is_dir():
            with open_out(target) as file:
                for rank in range(ranks):
                    file.write(lines(rank))
            return target
        width = len(str(ranks - 1))
        names = [f"rank-{rank:0{width}}.txt" for rank in range(ranks)]
        for rank, name in enumerate(names):
            begun = target / name
            begun.write_bytes(lines(rank))
        begun = listed = target / LIST_NAME
        listed.write_text("".join(f"{name}\n" for name in names))
        return listed
    except OSError as error:
        remove_partial(begun, error)
        raise DataError(
            f"the trace cannot be written to {str(target)!r}: {error.strerror}", code="unwritable-file"
        ) from None


def write_plain(target: str | os.PathLike[str], trace: str | os.PathLike[str]) -> Path:
    """Write a time-independent trace with its loops written out, as SimGrid's replay reads it.

    `target`: The file for the lines of all ranks; packed where it ends in ``.gz``.
    `trace`: As `read_actions` takes it.
    Returns: The file.
    Raises DataError: As of `read_actions`, before anything is written; or the file cannot be written.
    """
    path = Path(trace)
    target = check_target(target)
    if target.is_dir():
        raise DataError(
            f"a plain trace is one file, and {str(target)!r} is a folder", code="wrong-kind-of-file"
        )
    read_actions(path)
    with writing(target), open_out(target) as file:
        _write_out(file, (line for one in _files(path, None)[0] for line in _lines(one)))
    return target


#: a line, or how often other such pieces are repeated
_Piece: TypeAlias = "bytes | tuple[int, list[_Piece]]"


def _write_out(file: Any, lines: Iterable[bytes]) -> None:
    """Write lines with the loops in them written out, however often these are repeated."""
    bodies: dict[bytes, list[tuple[int, list[_Piece]]]] = {}  # of each rank: its open loops
    for line in lines:
        words = line.lstrip(b"#+").split(maxsplit=2)
        loops = bodies.setdefault(words[0] if words else b"", [])
        piece: _Piece = line
        if len(words) > 1 and words[1] == b"repeat" and not line.startswith(b"#"):
            loops.append((int(float(words[2])), []))
            continue
        if len(words) > 1 and words[1] == b"end" and not line.startswith(b"#"):
            piece = loops.pop()
        if loops:
            loops[-1][1].append(piece)
        else:
            file.writelines(_repeated(piece))


def _repeated(piece: _Piece) -> Iterator[bytes]:
    if isinstance(piece, bytes):
        yield piece
        return
    times, body = piece
    for _ in range(times):
        for inner in body:
            yield from _repeated(inner)


def _lines(path: Path) -> Iterator[bytes]:
    rest = b""
    for piece in pieces(path):
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest + b"\n"


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

    `identity`: ``identity(rank, number)``: what is the same for all ranks of the communicator that a rank
        calls by an even number; by default the number itself.
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


# Time-independent traces from files: one of all ranks, or a list with one file a rank.


#: what the actions of a trace may take in memory (5 to 12 bytes each), unless the caller says otherwise
DEFAULT_LIMIT_BYTES = 8 << 30


def is_action_line(line: str) -> bool:
    """Whether a line begins as actions do: with a rank, then a name."""
    words = line.split(maxsplit=2)
    return len(words) >= 2 and words[0].isascii() and words[0].isdigit()


def read_actions(
    trace: str | os.PathLike[str],
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    still: Callable[[], None] | None = None,
) -> _kernels.ActionTrace:
    """Read a time-independent trace in SimGrid's format.

    `trace`: A file with the lines of all ranks, or a list of files, one for each rank in order (a list of one
        file: that holds all ranks). Each may be packed with gzip.
    `limit_bytes`: What the actions may take in memory. The text is read in pieces and never kept.
    `still`: Called before each piece of text; what it raises ends the reading.
    Raises DataError: With file, line, the reason and what is allowed.

    References
    ----------
    .. [1] F. Desprez, G. S. Markomanolis, M. Quinson, F. Suter: Assessing the performance of MPI applications
       through time-independent trace replay. PSTI 2011. doi:10.1109/ICPPW.2011.31
    """
    from labkit import _kernels

    path = Path(trace)
    files, is_merged = _files(path, still)
    ranks = _rank_count(files[0], still) if is_merged else len(files)
    reader = _kernels.TraceReader(ranks, int(limit_bytes))
    for rank, file in enumerate(files):
        reader.begin(str(file), -1 if is_merged else rank)
        for piece in pieces(file, still):
            reader.feed(piece)
        reader.end()
    return reader.take()


def _files(path: Path, still: Callable[[], None] | None) -> tuple[list[Path], bool]:
    """Return the files that hold the actions, and whether a single one holds those of all ranks."""
    line, number = first_line(path, still)
    if not line:
        raise DataError(
            f"{path}: the file is empty; a trace has lines such as `0 send 1 0 1024`", code="damaged-file"
        )
    if is_action_line(line):
        return [path], True
    if line.split()[0].lstrip("-").isdigit():
        raise DataError(
            f"{path}, line {number}: a line is `rank action arguments`, got {line[:60]!r}",
            code="malformed-line",
        )
    files = list_of_files(path, still)
    return files, len(files) == 1


def _rank_count(path: Path, still: Callable[[], None] | None) -> int:
    from labkit import _kernels

    scan = _kernels.RankScan()
    for piece in pieces(path, still):
        scan.feed(piece)
    return int(scan.ranks)


# GOAL, the text of LogGOPSim and similar tools: read, and written from the messages of a trace.


def is_goal(path: Path) -> bool:
    """Whether a file begins as GOAL does, comments apart."""
    text = next(pieces(path), b"").decode("utf-8", "replace")
    return re.match(r"(?>\s|//[^\n]*\n|#[^\n]*\n|/\*.*?\*/)*+num_ranks\b", text, re.DOTALL) is not None


def read_goal(
    path: str | os.PathLike[str],
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    still: Callable[[], None] | None = None,
) -> _kernels.GoalProgram:
    """Read GOAL text, packed with gzip or not.

    `limit_bytes`: What the operations may take in memory.
    `still`: Called before each piece of text; what it raises ends the reading.
    Returns: `labkit.replay` takes it, and the path as well.
    Raises DataError: File, line, reason and what is allowed.

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
                "say; record the run with labkit, which writes what it got",
                code="no-counterpart",
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
