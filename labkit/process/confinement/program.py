"""Confinement of a program that somebody has handed over, with all the processes that it starts.

It runs beneath a supervisor that runs nothing of it: in a namespace of process ids where the system gives
one, whose first process takes all others along when it ends; else beneath a process that inherits the orphans
of all its descendants, and ends them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path

from labkit.process.confinement import containment as landlock
from labkit.process.confinement import mounts, seccomp
from labkit.process.confinement.containment import (
    NOBODY,
    address_space,
    can_be_nobody,
    leave_user,
    limit,
)
from labkit.process.watchdog import die_with_parent

__all__ = ["MOST_FILE_BYTES", "WALLS", "confine_program"]

_PR_SET_CHILD_SUBREAPER = 36
#: of one file that it writes
MOST_FILE_BYTES = 1 << 30
_NAMESPACES = ("mount", "network", "ipc", "host name", "process")
_SHARED_MEMORY = "/dev/shm"
#: the walls by name, in the order in which they are listed
WALLS = {
    "memory": "at most {memory:g} GiB of memory",
    "user": "another user than root",
    "files": "no files written outside its own folder",
    "marks": "no owners, permissions, times or attributes of files changed",
    "processes": "no other processes seen or reached",
    "priorities": "no priorities, limits or cores of others changed",
    "end": "nothing outlives it",
    "network": "no network",
    "sockets": "no sockets of others",
    "shared memory": "no shared memory of others",
    "machine": "no clock set, nothing mounted",
}


def confine_program(
    folder: str, memory_bytes: int, parent: int, without: Collection[str] = ()
) -> dict[str, str]:
    """Continue in a separate confined process; this one waits for it, and never returns."""
    die_with_parent(parent)
    limit("RLIMIT_CORE", 0)
    was_root = hasattr(os, "geteuid") and os.geteuid() == 0
    held = []
    if sys.platform == "linux" and not was_root and _has_threads():
        _beneath_a_supervisor(False)  # a user namespace takes a single thread, which one that is forked has
    granted = mounts.leave_namespaces(() if "namespaces" in without else _NAMESPACES)
    if sys.platform == "linux":
        held.append("end")
        _beneath_a_supervisor("process" in granted)
    if limit("RLIMIT_AS", address_space() + memory_bytes):
        held.append("memory")
    limit("RLIMIT_FSIZE", MOST_FILE_BYTES)
    is_closed = False
    with contextlib.suppress(OSError):
        if "mount" in granted and was_root:
            mounts.open_ways([*landlock.readable_paths(), *_packages(), folder])
        if was_root and can_be_nobody():
            _give_away(folder)
        if "mount" in granted:
            _close_view(folder, "process" in granted)
            is_closed = True
    if sys.platform == "linux" and leave_user() != "root without capabilities":
        held.append("user")
    die_with_parent(os.getppid())  # a change of user takes it back
    is_scoped = is_quiet = False
    writable = [folder, *([_SHARED_MEMORY] if is_closed else [])]
    with contextlib.suppress(OSError):
        if "landlock" in without:
            raise OSError("left out")
        is_quiet = landlock.forbid_writing(writable)
        is_scoped = landlock.abi() >= landlock.SCOPED
        held.append("files")
    if is_closed and "files" not in held:
        held.append("files")
    is_filtered = False
    with contextlib.suppress(OSError):
        if "seccomp" in without:
            raise OSError("left out")
        seccomp.install_filter("program")
        is_filtered = True
        held += ["marks", "priorities", "sockets", "machine"]
    if "process" in granted or (is_scoped and is_filtered and "user" in held and was_root):
        held.append("processes")
    if "network" in granted or is_quiet or is_filtered:
        held.append("network")
    if is_closed:
        held.append("shared memory")
    words = {name: text.format(memory=memory_bytes / (1 << 30)) for name, text in WALLS.items()}
    return {name: words[name] for name in WALLS if name in held}


def _has_threads() -> bool:
    """Whether this process has more than one thread: libraries that it has loaded begin some."""
    try:
        return len(os.listdir("/proc/self/task")) > 1
    except OSError:
        return True


def _beneath_a_supervisor(has_namespace: bool) -> None:
    """Return in a new process; this one, and the first of a namespace, wait for what they have forked."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for _ in range(2 if has_namespace else 1):
        parent = os.getpid()
        child = os.fork()
        if child:
            _supervise(child)
        if os.getppid() not in (parent, 0):  # in its own namespace a parent outside has the number 0
            os._exit(1)
        die_with_parent(os.getppid())


def _supervise(child: int) -> None:
    """Wait for a child, end what it has left behind, and end as it did."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    code = 1
    while True:
        try:
            found, status = os.wait()
        except ChildProcessError:
            break
        if found == child:
            code = os.waitstatus_to_exitcode(status)
            _end_children()
            break
    if code > 128:  # of the first process in a namespace, which its own signals do not end
        code = 128 - code
    if code < 0 and os.getpid() != 1:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def _end_children() -> None:
    """Kill this process's children until no child is left: orphans of those that end come here, too."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            for pid in _children():
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _children() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                    found.append(int(entry.name))
    return found


def _give_away(folder: str) -> None:
    """Let nobody, who the program will be, own its folder."""
    for place, _, files in os.walk(folder):
        for name in ("", *files):
            os.chown(os.path.join(place, name), NOBODY, NOBODY, follow_symlinks=False)


def _close_view(folder: str, has_processes: bool) -> None:
    """Make all but the folder read only, and show nothing of other processes."""
    mounts.own_memory(_SHARED_MEMORY)
    covered = ["/run", "/dev/mqueue", "/dev/pts"]
    if not (has_processes and mounts.own_processes()):
        covered.append("/proc")
    mounts.close_view(writable=[folder, _SHARED_MEMORY], covered=covered)


def _packages() -> list[str]:
    """Return where Python itself and the program's imports come from, the whole of labkit included."""
    import labkit

    places = [os.path.dirname(os.path.realpath(str(labkit.__file__))), *sys.path, sys.prefix, sys.base_prefix]
    return [os.path.realpath(place) for place in places if place and os.path.exists(place)]
