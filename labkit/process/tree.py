"""Find and end every process of a job, including those that left its process group."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

__all__ = ["JOB_VARIABLE", "THREADS", "end_processes", "is_stopped", "job_processes", "worked_s"]

#: one thread per rank: the cores belong to the ranks
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
#: environment variable that every process of a job inherits; its value identifies the job
JOB_VARIABLE = "LABKIT_JOB"


def job_processes(token: str, root: int | None = None) -> set[int]:
    """List the living processes of a job.

    A process belongs to the job when it carries the job's token in its environment, or when it descends from
    `root` or lives in root's session. Each way alone has a hole: a program may clear its environment, and a
    process whose parent died is adopted by another one.
    """
    marker = f"{JOB_VARIABLE}={token}".encode()
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in _process_folders():
        pid = int(entry.name)
        try:
            # The name in parentheses may hold anything, so the fields are read from behind it.
            state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if state in "ZX" or pid == os.getpid():
                continue
            parents[pid] = int(parent)
            if int(session) == root or marker in (entry / "environ").read_bytes().split(b"\0"):
                found.add(pid)
        except (OSError, ValueError):  # gone meanwhile, or somebody else's
            continue
    if root in parents:
        found.add(root)
    return _with_descendants(found, parents)


def end_processes(token: str, root: int | None = None, patience_s: float = 5.0) -> set[int]:
    """Kill every process of a job, and return those that would not go within `patience_s` seconds."""
    deadline = time.monotonic() + patience_s
    if not Path("/proc/self/stat").exists() and root is not None:
        with contextlib.suppress(OSError):
            os.killpg(root, signal.SIGKILL)
    left = job_processes(token, root)
    if root in left:
        # It goes last, and starts nothing meanwhile: what its descendants leave behind may come back to it.
        with contextlib.suppress(OSError):
            os.kill(root, signal.SIGSTOP)
    while left and time.monotonic() < deadline:
        for pid in left - {root} or left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
        left = job_processes(token, root)
    return left


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal, such as SIGSTOP, and has not been continued."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except (OSError, IndexError):
        return False


def worked_s(root: int) -> float:
    """Return the seconds of a processor that a process, its descendants and those gone have used.

    0.0 where there is no ``/proc``.
    """
    ticks: dict[int, int] = {}
    parents: dict[int, int] = {}
    for entry in _process_folders():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    return sum(ticks.get(pid, 0) for pid in _with_descendants({root}, parents)) / os.sysconf("SC_CLK_TCK")


def _process_folders() -> list[Path]:
    try:
        return [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _with_descendants(found: set[int], parents: dict[int, int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    pending = list(found)
    while pending:
        for child in children.get(pending.pop(), ()):
            if child not in found:
                found.add(child)
                pending.append(child)
    return found
