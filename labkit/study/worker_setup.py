"""The set-up of a worker process, so that its runs are the same as in the process that it works for."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from labkit.errors import ProgramError
from labkit.local.costs import find_calibration, use_calibration
from labkit.real.travel import pack, unwritten_sources
from labkit.study.measure import SweepJob
from labkit.study.points import Point

__all__ = ["fingerprint", "known_seed", "pack_job", "pack_points", "setting_of", "settle", "workers_seed"]


def pack_job(job: SweepJob) -> bytes:
    """Pack what all points have in common."""
    try:
        return pack(job)[0]
    except Exception as error:  # pickling runs foreign code: anything may be raised
        parts: list[tuple[str, object]] = [
            ("the program", job.program),
            ("an argument", job.args),
            ("an option", job.options),
        ]
        parts += [("measure", job.measure), ("runner", job.runner)]
        raise _cannot_travel(parts, error) from error


def pack_points(plan: Sequence[Point]) -> list[bytes]:
    """Pack each point; as for `pack_job`."""
    try:
        return pack(*plan)
    except Exception as error:  # as above
        parts = [("a machine", point.on) for point in plan]
        parts += [(f"the parameter {k!r}", v) for point in plan for k, v in point.parameters.items()]
        raise _cannot_travel(parts, error) from error


def _cannot_travel(parts: list[tuple[str, object]], error: Exception) -> ProgramError:
    culprit = "something of it"
    for name, part in parts:
        try:
            pack(part)
        except Exception:  # as above
            culprit = name
            break
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return ProgramError(
        f"this sweep cannot be spread over processes: {culprit} cannot be pickled ({reason}); create it "
        "inside the program, or leave out jobs and executor"
    )


def setting_of() -> dict[str, object]:
    """Describe this process: plain data, picklable."""
    return {
        "path": [os.path.abspath(path) for path in sys.path],
        "folder": os.getcwd(),
        "sources": unwritten_sources(),
        "calibration": find_calibration(None),
        "recursion": sys.getrecursionlimit(),
        "errors": np.geterr(),
        "warnings": [one for one in warnings.filters if _is_portable(one)],
    }


def _is_portable(one: Any) -> bool:
    return getattr(one[2], "__module__", "") == "builtins"


@contextlib.contextmanager
def settle(setting: Mapping[str, Any]) -> Iterator[None]:
    """Make this process like the one described, and put everything back in the end."""
    before = list(sys.path), os.getcwd(), sys.getrecursionlimit(), np.geterr(), list(warnings.filters)
    known = [path for path in setting["path"] if path not in sys.path]
    sys.path.extend(known)
    with contextlib.suppress(OSError):  # another host may not have this folder
        os.chdir(setting["folder"])
    for name, text in setting["sources"].items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    calibration = use_calibration(setting["calibration"])
    sys.setrecursionlimit(setting["recursion"])
    np.seterr(**setting["errors"])
    _filter(setting["warnings"])
    try:
        yield
    finally:
        sys.path[:] = before[0]
        with contextlib.suppress(OSError):
            os.chdir(before[1])
        use_calibration(calibration)
        sys.setrecursionlimit(before[2])
        np.seterr(**before[3])
        _filter(before[4])


def _filter(filters: Sequence[object]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    mutated: Callable[[], None] | None = getattr(warnings, "_filters_mutated", None)
    if mutated is not None:
        mutated()


# Python's hash seed, by which the order of sets of texts differs from process to process.
#
# A program that goes through such a set and sends messages on the way is another program under another seed.
# Workers of this host are all given the seed of this process where it is known (PYTHONHASHSEED), and the
# study
# is that of a serial sweep whatever the program does. A seed that Python has drawn cannot be handed on: then
# one point is run under two seeds, and a program that distinguishes them is not spread.


def fingerprint() -> int:
    """Return a number that two processes with the same hash seed agree on."""
    return hash("labkit")


def known_seed() -> str | None:
    """Return the hash seed of this process; None if Python has drawn it."""
    if not sys.flags.hash_randomization:
        return "0"
    given = "" if sys.flags.ignore_environment else os.environ.get("PYTHONHASHSEED", "")
    return given if given.isdecimal() else None


def workers_seed() -> str:
    """Return the hash seed that all workers of this host get."""
    return known_seed() or "0"
