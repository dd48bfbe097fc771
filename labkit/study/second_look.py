"""The second look at one point of a sweep, under another hash seed than the workers have."""

from __future__ import annotations

from typing import Any

from labkit.errors import MachineError, TimeLimitError
from labkit.study.measure import Found, Job
from labkit.study.points import Point
from labkit.study.pool import LocalPool
from labkit.study.worker_setup import fingerprint, workers_seed

__all__ = ["REMARK", "SecondLook"]

#: of a sweep that was to be spread
REMARK = (
    "not spread over processes: what the program does depends on the order of a set (or on hash()), "
    "which differs from process to process; all points were run here, one after another. Start Python with "
    "PYTHONHASHSEED=0, or sort what you go through"
)


class SecondLook:
    """Runs one point in a process with another hash seed than the workers have.

    Parameters
    ----------
    job : Job
    packed, setting
        As for `labkit.study.pool.LocalPool`.
    """

    def __init__(self, job: Job, packed: bytes, setting: Any) -> None:
        seed = "1" if workers_seed() == "0" else "0"
        self._pool = LocalPool(packed, setting, 1, job.timeout_s, job.repeats, hash_seed=seed)
        self._asked: tuple[Point, bytes] | None = None

    def begin(self, point: Point, packed: bytes) -> None:
        """Begin to run the point."""
        self._asked = point, packed
        self._pool.submit(*self._asked)

    @property
    def has_begun(self) -> bool:
        """Whether the point has been given to its process."""
        return self._asked is not None

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
    return repr((found.rows, type(found.failure), str(found.failure), found.seeds, found.notes))
