"""Turns of graders that work side by side: a run beside others; alone, where it is repeated."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["alone", "beside_others", "use"]

#: bytes of the file: who holds the first runs; who holds the second keeps others from beginning
_RUN, _GATE = 0, 1
#: after so long a grader goes ahead: another one that hangs must not hold up the class
_PATIENCE_S = 120.0
_LOOK_S = 0.02
_path: list[Path] = []


def use(path: Path | None) -> None:
    """Take turns with all processes that use the same file; None: with nobody."""
    _path[:] = [] if path is None else [path]


@contextlib.contextmanager
def beside_others() -> Iterator[None]:
    """Run while nobody has asked to be alone."""
    with _file() as descriptor:
        if descriptor is not None and _hold(descriptor, _GATE, fcntl.LOCK_SH):
            _hold(descriptor, _RUN, fcntl.LOCK_SH)
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, _GATE)
        yield


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Run while no other grader's submission does."""
    with _file() as descriptor:
        if descriptor is not None and _hold(descriptor, _GATE, fcntl.LOCK_EX):
            _hold(descriptor, _RUN, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _file() -> Iterator[int | None]:
    """Open the file; whoever closes it, or dies, lets go of what it holds."""
    try:
        descriptor = os.open(_path[0], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) if _path else None
    except OSError:
        descriptor = None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _hold(descriptor: int, byte: int, kind: int) -> bool:
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.lockf(descriptor, kind | fcntl.LOCK_NB, 1, byte)
        except OSError:
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_LOOK_S)
        else:
            return True
