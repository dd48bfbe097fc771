"""The display of a cell's failure: the rank, the cell's own lines with an arrow, and no line of labkit."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable

from labkit.errors import LabkitError, RankError
from labkit.jupyter.result import unmarked

__all__ = ["failure_lines", "first_sentence"]

_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+), in (?P<name>.+)$')
#: lines shown above and below the one that failed
_CONTEXT = 2
_RED, _GREEN, _BOLD, _FAINT, _OFF = "\x1b[0;31m", "\x1b[0;32m", "\x1b[1m", "\x1b[2m", "\x1b[0m"


def first_sentence(error: BaseException) -> str:
    """Return what an error says in one line: what follows points into a specification, or is a report."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]


def failure_lines(
    error: LabkitError, cell: str, readable: Callable[[str], str] = str, has_colors: bool = True
) -> list[str]:
    """Write an error of a cell's ranks as a notebook shows it.

    Parameters
    ----------
    error : LabkitError
    cell : str
        The cell's name in tracebacks.
    readable : callable, optional
        Turns the file name of another cell into what people call it.
    has_colors : bool
        Whether the lines may hold ANSI colours.
    """
    paint = _paint if has_colors else _plain
    kind = type(error).__name__
    if isinstance(error, RankError) and error.traceback.strip():
        head = _head(error)
        said = unmarked(error.traceback)
        body = [] if said.strip() in head else _traceback(said, cell, readable, paint)
    else:
        head, *rest = unmarked(str(error)).strip().splitlines() or [kind]
        body = [_named(line, readable) for line in rest]
        body += _mentioned("\n".join([head, *rest]), cell, paint)
        head = _named(head, readable)
    lines = [f"{paint(kind, _RED)}: {head}", *([""] if body else []), *body]
    for note in getattr(error, "__notes__", ()):
        if " had printed" not in note.partition("\n")[0]:  # that is shown beside, in full
            lines += ["", unmarked(note)]
    return ["\n".join(lines)]


def _head(error: RankError) -> str:
    """Say which rank failed, and why: a message of several lines by its first."""
    said = unmarked(str(error)).strip().splitlines()[0]
    start = f"rank {error.rank} failed: "
    if not said.startswith(start):
        return said
    lines = unmarked(error.traceback).strip().splitlines()
    frames = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    rest = [line for line in lines[frames[-1] + 1 :] if not line.startswith(" ")] if frames else []
    return start + (rest[0] if rest else said.removeprefix(start))


def _paint(text: str, color: str) -> str:
    return f"{color}{text}{_OFF}"


def _plain(text: str, color: str) -> str:
    return text


def _traceback(
    text: str, cell: str, readable: Callable[[str], str], paint: Callable[[str, str], str]
) -> list[str]:
    """Show a traceback with the cells' lines around each place, and everything else as it is."""
    lines: list[str] = []
    source = text.rstrip().splitlines()
    at = 0
    while at < len(source):
        found = _FRAME.match(source[at])
        at += 1
        if found is None:
            lines.append(source[at - 1])
            continue
        shown = readable(found["file"])
        where = "" if found["name"] == "cell" and found["file"] == cell else f", in {found['name']}"
        if shown.startswith("Cell "):
            lines.append(f"{paint(shown, _GREEN)}, line {found['line']}{where}")
            lines += _excerpt(found["file"], [int(found["line"])], paint)
            while at < len(source) and source[at].startswith("    "):  # the line itself, and its marks
                at += 1
        else:
            lines.append(source[at - 1])
    return [line for line in lines if line != "Traceback (most recent call last):"]


def _excerpt(file: str, marked: list[int], paint: Callable[[str, str], str]) -> list[str]:
    """Show lines of a cell with arrows at some of them."""
    whole = linecache.getlines(file)
    near = {n for m in marked for n in range(m - _CONTEXT, m + _CONTEXT + 1) if 0 < n <= len(whole)}
    lines, before = [], 0
    for number in sorted(near):
        if before and number > before + 1:
            lines.append("      …")
        before = number
        text = whole[number - 1].rstrip("\n")
        if number in marked:
            lines.append(paint(f"----> {number:>3} {text}", _BOLD))
        else:
            lines.append(f"      {number:>3} {text}")
    return lines


def _mentioned(text: str, cell: str, paint: Callable[[str, str], str]) -> list[str]:
    """Show the lines of the cell that a report names."""
    name = re.escape(cell)
    found = re.findall(rf'{name}:(\d+)|"{name}", line (\d+)', text)
    numbers = sorted({int(a or b) for a, b in found})[:8]
    if not numbers:
        return []
    return ["", paint(cell, _GREEN), *_excerpt(cell, numbers, paint)]


def _named(line: str, readable: Callable[[str], str]) -> str:
    """Call the notebook's other cells by their names."""
    return re.sub(r'[^\s"]*ipykernel_\d+[^\s":]*\.py', lambda found: readable(found[0]), line)
