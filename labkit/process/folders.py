"""Private folders of runs, named after their owner, and the removal of those whose owner has ended."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from labkit.errors import MachineError
from labkit.process.watchdog import whereabouts

__all__ = [
    "RUN_LINK",
    "SHARED_MEMORY",
    "Leftover",
    "leftovers",
    "make_folder",
    "no_room",
    "private_folder",
    "remove_leftovers",
    "shared_folder",
]

#: the file system in memory that the processes of a host share
SHARED_MEMORY = "/dev/shm"
#: in a folder in shared memory, a link to the folder of the run that it belongs to
RUN_LINK = "run"
#: a folder of another boot or another container counts as abandoned when nothing in it changed for this long
SILENT_S = 24 * 3600.0
#: a file of Open MPI that no process has mapped for this long is not one that is being made
_UNMAPPED_S = 60.0

# labkit-PID-TABLE-START-RANDOM: the table of processes in which the id is valid, and the owner's start time,
# without which another process that was given the same id later would be taken for the owner.
_NAME = re.compile(r"labkit-(\d+)-([0-9a-f]{8})-(\d+)-[a-z0-9_]+")
# Without the two only the id identifies the owner; so only in shared memory, where labkit alone uses it.
_SHORT_NAME = re.compile(r"labkit-(\d+)-[A-Za-z0-9_]+")


@dataclasses.dataclass(frozen=True)
class Leftover:
    """A folder that its owner has not removed.

    `path`: Where it is.
    `n_bytes`: The memory or disk space that its files take.
    `is_certain`: Whether the owner is known to have ended; of an owner in another container, or before the
        last boot, that cannot be known from here.
    `age_s`: Seconds since the last change of it and of the files in it.
    """

    path: str
    n_bytes: int
    is_certain: bool
    age_s: float


def make_folder(parent: str | None = None) -> str:
    """Make a folder that nobody else can read, named after this process (default: among temporary files).

    What runs that ended without cleaning up have left behind is removed first.
    """
    remove_leftovers()
    return tempfile.mkdtemp(prefix=_prefix(), dir=parent)


def shared_folder(run_folder: str) -> str | None:
    """Make a folder in shared memory for the run in `run_folder`; None where there is no shared memory."""
    try:
        folder = tempfile.mkdtemp(prefix=_prefix(), dir=SHARED_MEMORY)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.symlink(run_folder, os.path.join(folder, RUN_LINK))
    return folder


@contextlib.contextmanager
def private_folder(parent: str | None = None) -> Iterator[Path]:
    """Make a folder that nobody else can read, and remove it in the end."""
    try:
        made = make_folder(parent)
    except OSError as error:
        raise no_room(parent or _temporary_folder(), error) from error
    try:
        yield Path(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def no_room(folder: object, reason: object) -> MachineError:
    """Report that a run's private folder cannot be written (empty: the temporary one), and what to do."""
    return MachineError(
        f"the private folder of this run cannot be written in {folder or _temporary_folder()}: {reason}; "
        "free some space, or set TMPDIR to a folder that can be written",
        code="unwritable-file",
    )


def leftovers() -> list[Leftover]:
    """List the folders of this user's runs whose owner has ended, or cannot be seen from here."""
    table = _table()
    if not table:  # no /proc: nothing is known of other processes
        return []
    found = []
    for path, name in _candidates():
        match = _NAME.fullmatch(name)
        if match is None:
            is_certain = not os.path.exists(f"/proc/{_SHORT_NAME.fullmatch(name)[1]}")  # type: ignore[index]
            if not is_certain:
                continue
        else:
            is_certain = match[2] == table
            if is_certain and _start_time(int(match[1])) == match[3]:
                continue
        n_bytes, changed = _size_and_change(path)
        found.append(Leftover(path, n_bytes, is_certain, max(0.0, time.time() - changed)))
    return found


def remove_leftovers(*, is_thorough: bool = False) -> list[Leftover]:
    """Remove what this user's runs that ended without cleaning up have left behind, and return it."""
    removed = _remove_unmapped() if is_thorough else []
    for one in leftovers():
        if one.is_certain or (is_thorough and one.age_s > SILENT_S):
            _remove_noted_files(one.path)
            shutil.rmtree(one.path, ignore_errors=True)
            if not os.path.exists(one.path):
                removed.append(one)
    return removed


def _prefix() -> str:
    table = _table()
    start = _start_time(os.getpid()) if table else ""
    return f"labkit-{os.getpid()}-{table}-{start}-" if start else f"labkit-{os.getpid()}-"


def _table() -> str:
    """Return a short name of the table of processes that this one is in; empty where it is not known."""
    table = whereabouts()["table"].strip()
    return hashlib.sha256(table.encode()).hexdigest()[:8] if table else ""


def _start_time(pid: int) -> str:
    """Return when a process started, in ticks since the boot; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, *fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else fields[18]


def _candidates() -> Iterator[tuple[str, str]]:
    """List this user's folders that are named as labkit names them: paths and names."""
    user = os.geteuid()
    temporary = os.path.realpath(_temporary_folder())
    for parent in dict.fromkeys((SHARED_MEMORY, temporary)):
        with contextlib.suppress(OSError), os.scandir(parent) as entries:
            for entry in entries:
                if not entry.name.startswith("labkit-"):
                    continue
                is_ours = _NAME.fullmatch(entry.name) or (
                    parent == SHARED_MEMORY and _SHORT_NAME.fullmatch(entry.name)
                )
                with contextlib.suppress(OSError):
                    if is_ours and entry.is_dir(follow_symlinks=False) and entry.stat().st_uid == user:
                        yield entry.path, entry.name


def _size_and_change(path: str) -> tuple[int, float]:
    n_bytes, changed = 0, 0.0
    inner = (os.path.join(folder, file) for folder, _, files in os.walk(path) for file in (".", *files))
    for name in list(inner) or [path]:
        with contextlib.suppress(OSError):
            about = os.lstat(name)
            n_bytes += about.st_blocks * 512
            changed = max(changed, about.st_mtime)
    return n_bytes, changed


def _remove_unmapped() -> list[Leftover]:
    """Remove this user's files of Open MPI that no process of this host has mapped for a minute."""
    host, user = os.uname().nodename, os.geteuid()
    name = re.compile(rf"(sm_segment|vader_segment|osc_sm|osc_rdma)\.{re.escape(host)}\..*")
    old: dict[str, Leftover] = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(SHARED_MEMORY):
            if name.fullmatch(entry.name) and entry.stat().st_uid == user:
                n_bytes, changed = _size_and_change(entry.path)
                if time.time() - changed > _UNMAPPED_S:
                    old[entry.path] = Leftover(entry.path, n_bytes, True, time.time() - changed)
    for path in old.keys() & _mapped(old) if old else ():
        del old[path]
    for path in old:
        with contextlib.suppress(OSError):
            os.remove(path)
    return [one for one in old.values() if not os.path.exists(one.path)]


def _mapped(paths: Iterable[str]) -> set[str]:
    """Return the files that a process has in its memory; all of them where that cannot be seen."""
    found: set[str] = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except PermissionError:
            with contextlib.suppress(OSError):
                if pid != "1" and os.stat(f"/proc/{pid}").st_uid == os.geteuid():  # init may be closed
                    return set(paths)
        except OSError:  # it has ended
            continue
        else:
            found |= {path for path in paths if path in text}
    return found


def _remove_noted_files(folder: str) -> None:
    """Remove the files that the ranks of a run have noted: those of MPICH lie outside of the folders."""
    for note in Path(folder).glob("rank-*.shm"):
        with contextlib.suppress(OSError):
            for path in note.read_text("utf-8", "surrogateescape").split("\n"):
                if path.startswith(f"{SHARED_MEMORY}/"):
                    with contextlib.suppress(OSError):
                        os.remove(path)


def _temporary_folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "any temporary folder"
