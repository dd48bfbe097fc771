"""Parent-death watchdogs: what a process does to end with the one that started it, and to say where it is."""

from __future__ import annotations

import _thread
import contextlib
import functools
import os
import signal
import sys
import time

TYPE_CHECKING = False  # as in typing, which every rank would import for this alone
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "PARENT_VARIABLE",
    "PIPE",
    "STACK_SIGNAL",
    "die_with_parent",
    "kill_oneself",
    "leave_abandoned",
    "tie_rank",
    "wait_for_end",
    "watch_parent",
    "whereabouts",
]


#: environment variable with the descriptor of a pipe whose other end only the parent holds
PARENT_VARIABLE = "LABKIT_PARENT_PIPE"
#: name of the pipe in a job's directory whose other end only the job's owner holds
PIPE = "owner.pipe"

#: the signal on which a rank writes its stacks
STACK_SIGNAL = getattr(signal, "SIGUSR2", None)
#: how long the removal of a job's files by a rank may take whose program never waits, on a busy host
CLEANING_S = 5.0
#: how many times a rank on another host looks whether its stacks are asked for
LISTEN_S = 0.25

_PR_SET_PDEATHSIG = 1


def watch_parent(clean: Callable[[], None]) -> None:
    """End this process when its parent is gone; see `labkit.process.child.ChildProcess`."""
    pipe = int(os.environ.pop(PARENT_VARIABLE))

    def wait() -> None:
        os.read(pipe, 1)
        clean()
        kill_oneself()

    import threading

    threading.Thread(target=wait, daemon=True, name="labkit-watchdog").start()


@functools.cache  # a process forked from this one need not look it up again
def _prctl() -> Callable[..., int]:
    import ctypes  # only now: a rank's start is short

    return ctypes.CDLL(None, use_errno=True).prctl


def die_with_parent(parent: int) -> None:
    """Let the kernel end this process when its parent ends (Linux): it needs no thread and no descriptor.

    A change of user takes it back.
    """
    if sys.platform == "linux":
        _prctl()(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def tie_rank(directory: str, shared_files: str) -> None:
    """Start what ties this process to the owner of its job, in threads that wait."""
    with contextlib.suppress(OSError), open(os.path.join(directory, "owner"), encoding="ascii") as file:
        _thread.start_new_thread(_listen, (directory,))  # without `threading`: a rank's start is short
        if file.read() != whereabouts()["boot"]:
            return  # a pipe does not reach another machine: there, the launcher's daemon ends the rank
    if os.path.exists(os.path.join(directory, PIPE)):
        _thread.start_new_thread(_die_with_owner, (directory, shared_files))


def leave_abandoned(directory: str) -> None:
    """Wait until another rank has removed the job: the first one to leave takes all others along."""
    until = time.monotonic() + CLEANING_S
    while os.path.exists(directory) and time.monotonic() < until:
        time.sleep(0.05)


def _die_with_owner(directory: str, shared_files: str) -> None:
    """End this rank when the process that started it is gone, however it went."""
    folders = None
    with contextlib.suppress(OSError):
        wait_for_end(os.path.join(directory, PIPE))
        with open(os.path.join(directory, "folders"), encoding="utf-8") as file:
            folders = file.read().split("\0")
    if folders is None:
        leave_abandoned(directory)
        folders = [directory]
    with contextlib.suppress(Exception), open(shared_files, encoding="utf-8") as file:
        for path in file.read().split("\n"):  # in another container nobody else can remove them
            with contextlib.suppress(OSError):
                os.remove(path)
    import shutil  # only now: a rank's start is short

    until = time.monotonic() + CLEANING_S
    for folder in reversed(folders):  # the one that lists them goes last
        # More than once: a rank that starts late still writes there.
        while os.path.exists(folder) and time.monotonic() < until:
            shutil.rmtree(folder, ignore_errors=True)
    kill_oneself()


def kill_oneself() -> None:
    """End this process silently, whatever its other threads do."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def wait_for_end(pipe: str) -> None:
    """Wait until nobody holds the other end of a named pipe; that costs nothing meanwhile."""
    # Without O_NONBLOCK, a rank that starts when the other end is gone already would wait here for ever.
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.read(end, 1)
    except BlockingIOError:  # nothing to read, but somebody holds the other end
        os.set_blocking(end, True)
        os.read(end, 1)
    finally:
        os.close(end)


def _listen(directory: str) -> None:
    """Write this rank's stacks when the process that started it asks for them and cannot signal this one."""
    asker = ""
    while not asker:
        time.sleep(LISTEN_S)
        with contextlib.suppress(OSError), open(os.path.join(directory, "stacks"), encoding="utf-8") as file:
            asker = file.read()
    if asker != whereabouts()["table"] and STACK_SIGNAL is not None:
        os.kill(os.getpid(), STACK_SIGNAL)


# The location of a process: one in another container or on another host cannot be signaled from here.


def whereabouts() -> dict[str, str]:
    """Return where this process is."""
    boot, table = "", ""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        table = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux: there is one host only
        pass
    return {"host": _host(), "boot": boot, "table": f"{boot} {table}"}


def _host() -> str:
    """Return the host's name; the module that knows it everywhere is slow to load, in every rank."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import platform

    return platform.node()
