"""File rights of a confined process, by Landlock: it reads Python's own files and installed packages.

Landlock is the kernel's way for a process without privileges to give up rights to files; what was given up
stays so, for its children as well. It needs Linux 5.13; without it no file can be opened at all
(`labkit.process.confinement.seccomp`).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator

__all__ = ["SCOPED", "abi", "forbid_writing", "readable_paths", "restrict"]

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
    """Return the version of the kernel's Landlock, 0 where there is none."""
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
