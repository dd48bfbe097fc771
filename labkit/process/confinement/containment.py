"""Confinement of a process: the rights that it gives up before foreign code runs in it.

The order matters: namespaces first (they need privileges or a single thread), then what Python must read to
start, then the view of files, the user and the rights to files, and last the list of system calls. Ranks of
submissions and programs of bundles are confined by the same means; a rank keeps less.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import resource
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from labkit.process.confinement import mounts, seccomp

__all__ = [
    "LIMITS",
    "NOBODY",
    "Containment",
    "address_space",
    "can_be_nobody",
    "close_clock",
    "give_up_rights",
    "leave_user",
    "limit",
    "limit_rank",
    "own_core",
    "probe",
]


_PR_SET_DUMPABLE, _PR_SET_TSC, _PR_TSC_SIGSEGV = 4, 26, 2
NOBODY = 65534
#: what reveals other processes, and what they could communicate through
_COVERED = ("/proc", "/sys", "/dev/shm", "/dev/mqueue", "/dev/pts")


@dataclass
class Containment:
    """Which walls stand around a submission.

    `system_calls`: Only a list of harmless system calls is allowed (seccomp).
    `files`: "landlock": only Python's and packages' files can be read, and reading leaves no trace; "none":
        no file can be opened; "open": files are not protected.
    `namespaces`: What else is separate from the host.
    `user`: "nobody", "root without capabilities", or "caller".
    `limits`: The limits in force.
    `has_clock`: Whether a rank can read a clock of the machine.
    """

    system_calls: bool = False
    files: str = "open"
    namespaces: list[str] = field(default_factory=list)
    user: str = "caller"
    limits: list[str] = field(default_factory=list)
    has_clock: bool = True

    @property
    def is_sound(self) -> bool:
        """Whether network, processes, files and other ranks are out of reach."""
        return self.system_calls and self.files in ("landlock", "none")

    @property
    def missing(self) -> list[str]:
        """What this machine does not give, and what that loses, a sentence each."""
        found = []
        if not self.system_calls:
            found.append("no system-call filter (seccomp): only limits restrict a submission")
        if self.files == "none":
            why = "no mount namespace" if "mount" not in self.namespaces else "no Landlock in this kernel"
            found.append(
                f"{why}: no file can be opened, so of packages only those are there that a submission names "
                "in an import (of the standard library, SciPy, pandas)"
            )
        if self.user == "root without capabilities":
            found.append("only root can read Python's files: submissions run as root without powers")
        if self.system_calls and self.has_clock:
            found.append(
                "the machine's clock cannot be taken away: ranks can signal by how long they are busy"
            )
        return found

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
            "none": "files: none can be opened",
        }[self.files]
        parts = ["one process per rank", "a list of allowed system calls (seccomp)", files]
        if not self.has_clock:
            parts.append("no clock")
        if self.namespaces:
            parts.append(
                f"own {', '.join(self.namespaces)} namespace{'s' if len(self.namespaces) > 1 else ''}"
            )
        parts += [f"user: {self.user}", f"limits on {', '.join(self.limits)}"]
        return "contained: " + "; ".join(parts)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def give_up_rights(is_strict: bool, namespaces: list[str], without: Collection[str] = ()) -> Containment:
    """Give up the view of files, the user, capabilities and files; what was granted."""
    found = Containment()
    paths = readable_paths() if sys.platform == "linux" else []
    if "mount" in namespaces:
        try:
            if os.geteuid() == 0:
                mounts.open_ways(paths)
            mounts.close_view(covered=_COVERED)
        except OSError:
            namespaces.remove("mount")
    if sys.platform == "linux":
        found.user = leave_user()
        _libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    try:
        if "landlock" in without:
            raise OSError("left out")
        restrict(paths)
        # Where a file's time of access is written, ranks could signal by reading.
        found.files = "landlock" if "mount" in namespaces or not is_strict else "none"
    except OSError:
        found.files = "none" if is_strict else "open"
    return found


def close_clock() -> None:
    """Close the processor's counter of cycles to this process."""
    _libc().prctl(_PR_SET_TSC, _PR_TSC_SIGSEGV, 0, 0, 0)


def leave_user() -> str:
    """Become nobody where Python's files can be read then; else give up root's powers; who it is then."""
    if os.geteuid() != 0:
        _drop_capabilities()
        return "caller"
    user = "root without capabilities"
    if can_be_nobody():
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            user = "nobody"
    _drop_capabilities()
    return user


def can_be_nobody() -> bool:
    """Whether nobody, the user, can read Python's files and labkit's."""
    return _is_open_to_all(os.path.realpath(os.__file__)) and _is_open_to_all(os.path.realpath(__file__))


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
    """Whether the list of system calls really holds here: tried in its own process."""
    if not seccomp.is_known():
        return False
    child = os.fork()
    if child == 0:
        try:
            seccomp.install_filter("reading rank")
        except BaseException:  # refused as well: that is no list that holds
            os._exit(1)
        try:
            os.kill(os.getpid(), 0)
        except PermissionError:
            os._exit(42)
        except BaseException:
            os._exit(1)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 42


def address_space(descriptor: int | None = None) -> int:
    """Return the address space that this process uses, in bytes."""
    with contextlib.suppress(OSError):
        if descriptor is not None:
            return int(os.pread(descriptor, 200, 0).split()[0]) * resource.getpagesize()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    return 1 << 29


def own_core() -> int | None:
    """Return the core that this process runs on; None where that is not known."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = int(_libc().sched_getcpu())
    return core if core in os.sched_getaffinity(0) else None


def limit(name: str, soft: int, hard: int | None = None) -> bool:
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
    """Put limits on this rank's process: CPU time, memory, file sizes, open files."""
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
        limit(name, soft, hard)


#: what `limit_rank` and the grader limit
LIMITS = ["CPU time", "wall-clock time", "memory", "file sizes", "open files", "messages", "output"]


# File rights of a confined process, by Landlock: it reads Python's own files and installed packages.
#
# Landlock is the kernel's way for a process without privileges to give up rights to files; what was given up
# stays so, for its children as well. It needs Linux 5.13; without it no file can be opened at all
# (`labkit.process.confinement.seccomp`).


_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
#: rights to files that each version of the interface knows
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_TCP_RIGHTS, _SCOPES = 0b11, 0b11
#: the version from which signals and abstract sockets stay within
SCOPED = 6
#: to execute and read, and to control devices: what `forbid_writing` leaves
_NOT_WRITING = 1 << 0 | _READ_FILE | _READ_DIR | 1 << 15
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
#: of labkit itself: what a submission is asked to write
_KEPT_BACK = {"algorithms", "grading"}


class _Attributes(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def _call(*arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(*arguments))


def abi() -> int:
    """Return the version of the kernel's Landlock, or 0."""
    if sys.platform != "linux":
        return 0
    return max(_call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1)), 0)


def readable_paths() -> list[str]:
    """List what may be read: the standard library, shared libraries and installed packages.

    Of labkit itself the algorithms and the graders are left out; the current folder, and what a checkout
    holds next to the package, are never in the list.
    """
    # Not labkit.__path__: in an editable install it names the whole checkout, solutions included.
    modules = [importlib.import_module(f"labkit.{name}") for name in ("errors", "_kernels", "datasets")]
    own = list({os.path.realpath(os.path.dirname(str(module.__file__))) for module in modules})
    kept_back = {os.path.join(folder, part) for folder in own for part in _KEPT_BACK}
    roots = ["/dev/null", "/dev/urandom", "/etc/ld.so.cache", "/usr/share/zoneinfo"]
    roots += ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"]
    roots += [os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)]
    roots += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    roots += [path for path in sys.path if path.endswith("-packages") and os.path.isdir(path)]
    roots += own
    found: dict[str, None] = {}
    for root in roots:
        found.update(dict.fromkeys(_without(os.path.realpath(root), kept_back)))
    return [path for path in found if os.path.exists(path)]


def _without(path: str, kept_back: set[str]) -> Iterator[str]:
    """Yield a folder, or, where something beneath it is kept back, its entries instead."""
    if path in kept_back:
        return
    if not any(kept.startswith(path + os.sep) for kept in kept_back):
        yield path
        return
    for entry in os.scandir(path):
        yield from _without(entry.path, kept_back)


def restrict(paths: Iterable[str]) -> None:
    """Give up every right to files but reading these, and TCP, and talking to processes outside."""
    handled = _known_rights()
    rules = [(path, _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)) for path in paths]
    _enforce(handled, rules)


def forbid_writing(folders: Iterable[str]) -> bool:
    """Give up every right to change files outside these folders, and TCP; whether TCP is closed, too."""
    handled = _known_rights() & ~_NOT_WRITING
    _enforce(handled, [*((folder, handled) for folder in folders), ("/dev/null", _WRITE_FILE | _TRUNCATE)])
    return abi() >= 4


def _known_rights() -> int:
    version = abi()
    if version < 1:
        raise OSError("this kernel has no Landlock")
    return (1 << _FILE_RIGHTS.get(version, 16)) - 1


def _enforce(handled: int, rules: Iterable[tuple[str, int]]) -> None:
    """Give up the rights handled, but for those that a rule leaves beneath a path."""
    version = abi()
    attributes = _Attributes(handled, _TCP_RIGHTS if version >= 4 else 0, _SCOPES if version >= SCOPED else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _call(_CREATE, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "Landlock refuses a set of rules")
    try:
        for path, rights in rules:
            with contextlib.suppress(OSError):
                _allow(ruleset, path, rights & handled)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(38, 1, 0, 0, 0)
        if _call(_RESTRICT, ruleset, ctypes.c_uint32(0)) != 0:
            raise OSError(ctypes.get_errno(), "Landlock cannot be put in force")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _Beneath(rights, handle)
        _call(_ADD, ruleset, _PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(handle)
