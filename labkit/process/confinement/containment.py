"""Confinement of a process: the rights that it gives up before foreign code runs in it.

The order matters: namespaces first (they need privileges or a single thread), then what Python must read to
start, then the rights themselves, and last, in each rank's own process, the list of system calls.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from labkit.process.confinement import landlock, seccomp
from labkit.process.watchdog import die_with_parent

__all__ = [
    "LIMITS",
    "Containment",
    "address_space",
    "confine_rerun",
    "give_up_rights",
    "leave_namespaces",
    "limit_rank",
    "probe",
]

_PR_SET_DUMPABLE = 4
_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWNET = 0x20000, 0x04000000, 0x08000000, 0x10000000, 0x40000000
_NOBODY = 65534


@dataclass
class Containment:
    """Which walls stand around a submission.

    Attributes
    ----------
    system_calls : bool
        Only a list of harmless system calls is allowed (seccomp).
    files : str
        "landlock": only Python's and packages' files can be read; "none": no file can be opened;
        "open": files are not protected.
    namespaces : list of str
        What is separate from the host besides.
    user : str
        "nobody", "root without capabilities", or "caller".
    limits : list of str
        The limits in force.
    """

    system_calls: bool = False
    files: str = "open"
    namespaces: list[str] = field(default_factory=list)
    user: str = "caller"
    limits: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether network, processes, files and other ranks are out of reach."""
        return self.system_calls and self.files in ("landlock", "none")

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "is_sound": self.is_sound}

    def __str__(self) -> str:
        if not self.is_sound:
            return (
                f"NOT contained: no list of system calls on this machine ({sys.platform}); limits on "
                f"{', '.join(self.limits) or 'nothing'} only"
            )
        files = {
            "landlock": "files: Python and packages, read only (Landlock)",
            "none": "files: none can be opened (no Landlock in this kernel)",
        }[self.files]
        parts = ["one process per rank", "a list of allowed system calls (seccomp)", files]
        if self.namespaces:
            parts.append(
                f"own {', '.join(self.namespaces)} namespace{'s' if len(self.namespaces) > 1 else ''}"
            )
        parts += [f"user: {self.user}", f"limits on {', '.join(self.limits)}"]
        return "contained: " + "; ".join(parts)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def leave_namespaces() -> list[str]:
    """Get namespaces of its own for network, messages between processes and mounts, where that is allowed."""
    if sys.platform != "linux":
        return []
    libc = _libc()
    wanted = {"network": _NEWNET, "ipc": _NEWIPC, "host name": _NEWUTS}
    user, group = os.geteuid(), os.getegid()
    if user != 0:
        if libc.unshare(_NEWUSER) != 0:
            return []
        with contextlib.suppress(OSError):
            for name, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
    return [name for name, flag in wanted.items() if libc.unshare(flag) == 0]


def give_up_rights(is_strict: bool) -> Containment:
    """Give up the user, capabilities and files; what was granted.

    Parameters
    ----------
    is_strict : bool
        Files can be closed by the list of system calls where Landlock is missing.
    """
    found = Containment()
    paths = landlock.readable_paths() if sys.platform == "linux" else []
    if sys.platform == "linux":
        found.user = _leave_user()
        _libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    try:
        landlock.restrict(paths)
        found.files = "landlock"
    except OSError:
        found.files = "none" if is_strict else "open"
    return found


def _leave_user() -> str:
    """Become nobody where Python's files can still be read then; else give up root's powers."""
    if os.geteuid() != 0:
        _drop_capabilities()
        return "caller"
    user = "root without capabilities"
    if _is_open_to_all(os.path.realpath(os.__file__)) and _is_open_to_all(os.path.realpath(__file__)):
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
            user = "nobody"
    _drop_capabilities()
    return user


def _is_open_to_all(path: str) -> bool:
    """Whether a file and every folder on its way can be read by anybody."""
    if not os.stat(path).st_mode & 0o004:
        return False
    while path != os.sep:
        path = os.path.dirname(path)
        if not os.stat(path).st_mode & 0o001:
            return False
    return True


def _drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _libc().capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


def probe() -> bool:
    """Whether the list of system calls really holds here: tried in a process of its own."""
    if not seccomp.is_known():
        return False
    child = os.fork()
    if child == 0:
        try:
            seccomp.install(may_open=True)
            os.kill(os.getpid(), 0)
        except PermissionError:
            os._exit(42)
        except BaseException:
            os._exit(1)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 42


def confine_rerun(folder: str, memory_bytes: int, parent: int) -> list[str]:
    """Confine this process, which runs a program again that somebody has handed over.

    Parameters
    ----------
    folder : str
        The only one that it may write in.
    memory_bytes : int
        Of it, and of each process that it starts, beyond what Python and NumPy take.
    parent : int
        With which it ends.

    Returns
    -------
    list of str
        What is in force: a system may lack some of it.
    """
    die_with_parent(parent)
    walls = []
    if _limit("RLIMIT_AS", address_space() + memory_bytes):
        walls.append(f"at most {memory_bytes / (1 << 30):g} GiB of memory")
    _limit("RLIMIT_CORE", 0)
    is_alone = "network" in leave_namespaces()
    with contextlib.suppress(OSError):
        is_closed = landlock.forbid_writing([folder, "/dev/shm"])
        walls.append("no files written outside its own folder")
        is_alone = is_alone or is_closed
    return walls + (["no network"] if is_alone else [])


def address_space() -> int:
    """Return the address space that this process uses, in bytes."""
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
    return 1 << 29


def _limit(name: str, soft: int, hard: int | None = None) -> bool:
    """Set a limit of this process; whether the system has it."""
    kind = getattr(resource, name, None)
    if kind is None:
        return False
    try:
        resource.setrlimit(kind, (soft, soft if hard is None else hard))
    except (ValueError, OSError):
        return False
    return True


def limit_rank(limits: dict[str, Any], base_bytes: int) -> None:
    """Put limits on this rank's process: CPU time, memory, file sizes, open files.

    Parameters
    ----------
    limits : dict
        ``cpu_s``, ``memory_bytes`` (beyond what Python and NumPy take themselves).
    base_bytes : int
        Address space in use already.
    """
    most = base_bytes + int(limits["memory_bytes"])
    seconds = max(int(limits["cpu_s"]), 1)
    for name, soft, hard in (
        ("RLIMIT_CPU", seconds, seconds + 1),
        ("RLIMIT_AS", most, most),
        ("RLIMIT_FSIZE", 0, 0),
        ("RLIMIT_CORE", 0, 0),
        ("RLIMIT_NOFILE", 64, 64),
        ("RLIMIT_NPROC", 0, 0),
    ):
        _limit(name, soft, hard)


#: what `limit_rank` and the grader limit
LIMITS = ["CPU time", "wall-clock time", "memory", "file sizes", "open files", "messages", "output"]
