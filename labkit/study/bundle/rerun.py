"""Starts the process that runs a bundle's program again, waits for it within a limit, and ends it."""

from __future__ import annotations

import contextlib
import json
import os
import site
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.printed import clean
from labkit.process.child import ChildProcess, ending_text, module_words, telling_words
from labkit.process.confinement.program import WALLS
from labkit.process.folders import private_folder
from labkit.study.bundle.plain import ANSWER, REQUEST
from labkit.study.bundle.reader import Opened

__all__ = ["MOST_ANSWER_BYTES", "Answers", "run_again"]

_POLL_S = 0.1
#: of a program's answer; what is beyond is not read
MOST_ANSWER_BYTES = 64 << 20
#: what a child needs of the environment; the rest may hold secrets
_KEPT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT")


@dataclass
class Answers:
    """What came back: rows or an error for each repetition of a point; what held and ended the process."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    fatal: str = ""
    is_timed_out: bool = False
    walls: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def run_again(
    bundle: Opened,
    request: list[dict[str, Any]],
    timeout_s: float,
    memory_bytes: int,
    progress: Callable[[int, int], None] | None = None,
) -> Answers:
    """Run points of a bundle again in a confined process of its own, which executes the bundle's code.

    The request names points and their repetitions: ``{"point": 3, "repetitions": [0, 1]}``. The time is that
    of all of them; the memory is of each process, beyond what Python and NumPy take.
    """
    wanted = sum(len(one["repetitions"]) for one in request)
    with private_folder() as folder:
        for path in bundle.files:
            if path.startswith("program/") or path in ("recipe.json", "machines.json"):
                target = folder / path  # the names were checked when the bundle was opened
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(bundle.files[path])
        (folder / REQUEST).write_text(json.dumps(request), encoding="utf-8")
        (folder / "home").mkdir()

        def look() -> None:
            if progress is not None and (folder / ANSWER).exists():
                progress(max(_content(folder / ANSWER).count(b"\n") - 1, 0), wanted)

        is_timed_out, code, told = _execute(folder, timeout_s, memory_bytes, look)
        answers = Answers(is_timed_out=is_timed_out)
        for line in _lines(folder / ANSWER):
            if "walls" in line and not answers.walls:  # the first one: the bundle's code comes later
                walls = line["walls"] if isinstance(line["walls"], dict) else {}
                answers.walls = [clean(str(wall)) for wall in walls.values()]
                answers.missing = [WALLS[name] for name in WALLS if name not in walls]
            elif "fatal" in line:
                answers.fatal = clean(str(line["fatal"]))
            elif isinstance(line.get("point"), int) and isinstance(line.get("repetition"), int):
                answers.runs.append(line)
        if not is_timed_out and not answers.fatal and len(answers.runs) < wanted:
            answers.fatal = f"its process {ending_text(code)}{f': {told}' if told else ''}"
        return answers


def _execute(
    folder: Path, timeout_s: float, memory_bytes: int, look: Callable[[], None]
) -> tuple[bool, int | None, str]:
    """Run the child to its end or to the limit: whether it was the limit, its code, its last words."""
    home = str(folder / "home")
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # Packages of the user's own stay where they are, though the home is another.
    environment |= {"HOME": home, "TMPDIR": home, "PYTHONUSERBASE": site.getuserbase()}
    words = module_words("labkit.study.bundle.child", folder, memory_bytes, os.getpid())
    deadline = time.monotonic() + timeout_s
    with (folder / "output").open("w+b") as output:
        with ChildProcess(words, environment=environment, cwd=home, stdout=output, stderr=output) as child:
            while not child.wait(_POLL_S) and time.monotonic() < deadline:
                look()
            is_timed_out = child.code is None
            look()
        return is_timed_out, child.code, telling_words(output)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in _content(path).decode("utf-8", "replace").splitlines():
        with contextlib.suppress(ValueError, RecursionError):  # the last one may be cut off
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


def _content(path: Path) -> bytes:
    """Return what the program has written, believing nothing: neither that it is a file, nor its size."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with open(os.open(path, flags), "rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(MOST_ANSWER_BYTES) if is_file else b""
    except OSError:
        return b""
