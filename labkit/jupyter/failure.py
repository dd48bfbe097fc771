"""The display of a failure in a notebook: the rank, the user's own lines with an arrow, none of labkit.

The magic shows its cells' failures by `failure_lines`; every other error of labkit that reaches IPython, of
``lk.run``, ``lk.sweep`` or a figure, is shown by `raised_lines`.
"""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from labkit.errors import DeadlockError, LabkitError, RankError
from labkit.jupyter.result import unmarked
from labkit.plot.wait_for_figure import wait_for
from labkit.process.stacks import own_folders

__all__ = [
    "cell_name",
    "failure_lines",
    "first_sentence",
    "has_colors",
    "raised_lines",
    "show_waits",
]

#: packages whose frames do not help a user, in addition to labkit's own
_MACHINERY = re.compile(r"[\\/](IPython|ipykernel|importlib|concurrent|contextlib\.py)\b|^<frozen |^<string>")
#: the file names in frames of mpi4py, whose code is not there to be read
_COMPILED = "src/mpi4py/"
_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+), in (?P<name>.+)$')
#: what IPython calls the code of a cell
_CELL_FILE = re.compile(r'[^\s"]*ipykernel_\d+[^\s":]*\.py|<ipython-input-[^>\s]*>')
#: lines shown above and below the one that failed
_CONTEXT = 2
_RED, _GREEN, _BOLD, _OFF = "\x1b[0;31m", "\x1b[0;32m", "\x1b[1m", "\x1b[0m"


def first_sentence(error: BaseException) -> str:
    """Return what an error says in one line: what follows points into a specification, or is a report."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]


def cell_name(shell: Any, file: str) -> str:
    """Return what people call a cell whose code has this file name: ``Cell In[3]``."""
    format_name = getattr(shell.compile, "format_code_name", None)
    found = format_name(file) if format_name is not None else None
    return f"{found[0]} {found[1]}" if found else file


def has_colors(shell: object) -> bool:
    """Whether a shell shows colors."""
    return str(getattr(shell, "colors", "")).lower() != "nocolor"


def raised_lines(error: LabkitError) -> list[str]:
    """Write an error that a cell has raised: one sentence, what the ranks report, and the cell's line."""
    from IPython import get_ipython

    shell = get_ipython()

    def readable(file: str) -> str:
        return cell_name(shell, file)

    paint = _paint if has_colors(shell) else _plain
    show_waits(error)
    lines = failure_lines(error, "", readable, has_colors(shell))
    calls = _calls(error.__traceback__, readable, str(error))
    if calls:
        lines += ["", *_traceback("\n".join(calls), "", readable, paint)]
    return [re.sub(r"\n{3,}", "\n\n", "\n".join(lines))]


def show_waits(error: LabkitError) -> None:
    """Draw who waits for whom above the report of a deadlock: a still picture, saved with the notebook."""
    from IPython import get_ipython

    if isinstance(error, DeadlockError) and error.waits and hasattr(get_ipython(), "kernel"):
        from IPython.display import display

        if not hasattr(error, "_is_drawn"):  # a kernel asks for the report twice: to show it, and to send it
            error._is_drawn = True  # type: ignore[attr-defined]
            display(wait_for(error))


def _calls(trace: TracebackType | None, readable: Callable[[str], str], said: str) -> list[str]:
    """Write the user's own frames, as Python writes them, without the places that the error names itself."""
    lines = []
    for frame in traceback.extract_tb(trace):
        is_cell = readable(frame.filename).startswith("Cell ")
        if not is_cell and (frame.filename.startswith(own_folders()) or _MACHINERY.search(frame.filename)):
            continue
        if f"{frame.filename}:{frame.lineno}" in said.split():
            continue
        lines += [f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}', f"    {frame.line}"]
    return lines


def failure_lines(
    error: LabkitError, cell: str, readable: Callable[[str], str] = str, has_colors: bool = True
) -> list[str]:
    """Write an error of a cell's ranks as a notebook shows it."""
    paint = _paint if has_colors else _plain
    kind = type(error).__name__
    if isinstance(error, RankError) and error.traceback.strip():
        head = _head(error)
        said = unmarked(error.traceback)
        body = [] if said.strip() in head else _traceback(said, cell, readable, paint)
    else:
        head, *rest = unmarked(str(error)).strip().splitlines() or [kind]
        body = [_named(line, readable) for line in rest]
        body += _mentioned("\n".join([head, *rest]), cell, readable, paint)
        head = _named(head, readable)
    lines = [f"{paint(kind, _RED)}: {head}", *([""] if body else []), *body]
    for note in getattr(error, "__notes__", ()):
        if " had printed" not in note.partition("\n")[0]:  # that is shown next to it, in full
            lines += ["", unmarked(note)]
    return ["\n".join(lines)]


def _head(error: RankError) -> str:
    """Return as text which rank failed, and why: a message of several lines by its first."""
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
    """Show a traceback with the cells' lines around each place, and everything else unchanged."""
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
        is_top = found["name"] == "<module>" or (found["name"] == "cell" and found["file"] == cell)
        where = "" if is_top else f", in {found['name']}"
        if shown.startswith("Cell "):
            lines.append(f"{paint(shown, _GREEN)}, line {found['line']}{where}")
            lines += _excerpt(found["file"], [int(found["line"])], paint)
            while at < len(source) and source[at].startswith("    "):  # the line itself, and its marks
                at += 1
        elif not found["file"].startswith(_COMPILED):
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


def _mentioned(
    text: str, cell: str, readable: Callable[[str], str], paint: Callable[[str, str], str]
) -> list[str]:
    """Show the lines of the cells that a report names."""
    lines: list[str] = []
    for file in dict.fromkeys([*([cell] if cell else []), *_CELL_FILE.findall(text)]):
        name = re.escape(file)
        found = re.findall(rf'{name}:(\d+)|"{name}", line (\d+)', text)
        numbers = sorted({int(a or b) for a, b in found})[:8]
        if numbers:
            lines += ["", paint(readable(file), _GREEN), *_excerpt(file, numbers, paint)]
    return lines


def _named(line: str, readable: Callable[[str], str]) -> str:
    """Call the notebook's other cells by their names."""
    return _CELL_FILE.sub(lambda found: readable(found[0]), line)
