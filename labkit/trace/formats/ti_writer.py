"""Time-independent traces into files: one of all ranks, or a folder with one a rank and their list."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from labkit.errors import DataError
from labkit.trace.formats.text import open_out

__all__ = ["check_target", "write_actions"]

LIST_NAME = "list.txt"


def check_target(target: str | os.PathLike[str]) -> Path:
    """Refuse, before a run, a place for its trace that cannot be written.

    Parameters
    ----------
    target : path
        A file for all ranks (packed when its name ends in .gz); or a folder, which exists or whose name ends
        in a slash, for a file a rank.

    Returns
    -------
    Path
        The absolute path; a folder has been made.

    Raises
    ------
    DataError
        Neither can be written.
    """
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
    """Write every rank's lines.

    Parameters
    ----------
    target : Path
        As `check_target` returned it.
    ranks : int
    lines : callable
        ``lines(rank)`` returns a rank's lines.

    Returns
    -------
    Path
        What to give to `labkit.replay` (and, where it is a list, to ``smpirun -replay``).
    """
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
