"""Python's hash seed, by which the order of sets of texts differs from process to process.

A program that goes through such a set and sends messages on the way is another program under another seed.
Workers of this host are all given the seed of this process where it is known (PYTHONHASHSEED), and the study
is that of a serial sweep whatever the program does. A seed that Python has drawn cannot be handed on: then
one point is run under two seeds, and a program that tells them apart is not spread.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from labkit.errors import MachineError, TimeLimitError
from labkit.study.measure import Found, Job
from labkit.study.points import Point

__all__ = ["REMARK", "SecondLook", "fingerprint", "known_seed", "workers_seed"]

#: of a sweep that was to be spread
REMARK = (
    "not spread over processes: what the program does depends on the order of a set (or on hash()), "
    "which differs from process to process; all points were run here, one after another. Start Python with "
    "PYTHONHASHSEED=0, or sort what you go through"
)
_DEFAULT, _OTHER = "0", "1"


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
    return known_seed() or _DEFAULT


class SecondLook:
    """Runs one point in a process with another hash seed than the workers have.

    Parameters
    ----------
    job : Job
    packed, setting
        As for `labkit.study.pool.LocalPool`.
    """

    def __init__(self, job: Job, packed: bytes, setting: Any) -> None:
        from labkit.study.pool import LocalPool

        seed = _OTHER if workers_seed() == _DEFAULT else _DEFAULT
        self._pool = LocalPool(packed, setting, 1, job.timeout_s, job.repeats, hash_seed=seed)
        self._asked: tuple[Point, bytes, bool] | None = None

    def begin(self, point: Point, packed: bytes, is_once: bool) -> None:
        """Begin to run the point."""
        self._asked = point, packed, is_once
        self._pool.submit(*self._asked)

    def is_of(self, point: Point) -> bool:
        """Whether this is the point that is looked at."""
        return self._asked is not None and self._asked[0].number == point.number

    def contradicts(self, found: Found) -> bool:
        """Whether what a worker has found at the point is due to its hash seed.

        A difference that comes back under the same seed, such as a measured time, is not.
        """
        if found.order == fingerprint() or self._asked is None:  # the worker's seed is that of this process
            return False
        try:
            _, here = self._pool.next()
            if not (_is_telling(found) and _is_telling(here)) or _said(here) == _said(found):
                return False
            self._pool.submit(*self._asked)
            _, again = self._pool.next()
        except MachineError:  # no process to compare with
            return False
        return _said(again) == _said(here)

    def close(self) -> None:
        """End its process."""
        self._pool.close()


def _is_telling(found: Found) -> bool:
    """Whether a point came to an end by itself: a limit, or the end of a process, is the host's."""
    return not isinstance(found.failure, TimeLimitError | MachineError)


def _said(found: Found) -> str:
    """Return all that a study gets of a point, to the last bit."""
    return repr((found.rows, type(found.failure), str(found.failure), found.is_same, found.notes))
