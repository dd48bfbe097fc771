"""Time-independent traces from files: one of all ranks, or a list with one file a rank.

What ranks do, but not when: a line is a rank, an action and its arguments, in SimGrid's words. Amounts of a
compute are flops, of messages bytes (or elements of the type whose number follows); behind a partner stands
the tag. ``labkit run --trace-ti FILE`` writes one, ``labkit replay FILE`` runs it on another machine; it may
be packed with gzip::

    0 compute 1e6
    0 send 1 7 1024
    0 bcast 4096 0
    1 recv 0 7 1024
    1 bcast 4096 0
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labkit.errors import DataError
from labkit.trace.formats.text import first_line, list_of_files, pieces

__all__ = ["DEFAULT_LIMIT_BYTES", "is_action_line", "read_actions"]

#: what the actions of a trace may take in memory (5 to 12 bytes each), unless the caller says otherwise
DEFAULT_LIMIT_BYTES = 8 << 30


def is_action_line(line: str) -> bool:
    """Whether a line begins as actions do: with a rank, then a word."""
    words = line.split(maxsplit=2)
    return len(words) >= 2 and words[0].isascii() and words[0].isdigit()


def read_actions(
    trace: str | os.PathLike[str],
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    still: Callable[[], None] | None = None,
) -> Any:
    """Read a time-independent trace in SimGrid's format.

    Parameters
    ----------
    trace : path
        A file with the lines of all ranks, or a list of files, one for each rank in order (a list of one
        file: that holds all ranks). Each may be packed with gzip.
    limit_bytes : int
        What the actions may take in memory. The text is read in pieces and never kept.
    still : callable, optional
        Called before each piece of text; what it raises ends the reading.

    Returns
    -------
    labkit._kernels.ActionTrace

    Raises
    ------
    DataError
        With file, line, the reason and what is allowed.

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
        raise DataError(f"{path}: the file is empty; a trace has lines such as `0 send 1 0 1024`")
    if is_action_line(line):
        return [path], True
    if line.split()[0].lstrip("-").isdigit():
        raise DataError(f"{path}, line {number}: a line is `rank action arguments`, got {line[:60]!r}")
    files = list_of_files(path, still)
    return files, len(files) == 1


def _rank_count(path: Path, still: Callable[[], None] | None) -> int:
    from labkit import _kernels

    scan = _kernels.RankScan()
    for piece in pieces(path, still):
        scan.feed(piece)
    return int(scan.ranks)
