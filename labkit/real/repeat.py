"""The repetitions of a launch on real MPI: so many, each behind a barrier, or measured (`labkit.timing`)."""

from __future__ import annotations

from labkit.real.cores import available_cores

TYPE_CHECKING = False  # as in typing, which every rank would import for this alone
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from labkit.timing import Bench, Repeats

__all__ = ["Turns", "measuring"]


def measuring(repeats: Repeats, warmup: int) -> dict[str, Any]:
    """Return the option that asks a real machine to measure a run: plain data."""
    return {"repeats": repeats.to_dict(), "warmup": warmup}


class Turns:
    """The numbers of the repetitions, one after the other, and what happens around each.

    Parameters
    ----------
    header : mapping
        Of the job: ``repeats``, and ``measuring`` where times are measured.
    comm : callable
        Returns a communicator of all ranks for what is agreed between the runs, and for nothing else.
    barrier : callable
        What comes before a run that is not measured.
    """

    def __init__(
        self,
        header: Mapping[str, Any],
        comm: Callable[[], Any],
        barrier: Callable[[], Any],
    ) -> None:
        self._repeats, self._barrier = int(header["repeats"]), barrier
        #: as many as there can be
        self.most = self._repeats
        self._bench: Bench | None = None
        asked = header.get("measuring")
        if asked is not None:  # only now: NumPy, which timing needs, is most of what starting a rank costs
            from labkit.timing import Bench, Repeats

            repeats = Repeats(**asked["repeats"])
            self._bench = Bench(comm(), repeats, int(asked["warmup"]), available_cores())

    def __iter__(self) -> Iterator[int]:
        """Yield the number of the next run, as long as another one is needed."""
        if self._bench is None:
            yield from range(self._repeats)
            return
        while not self._bench.is_done:
            yield self._bench.number

    def start(self) -> None:
        """Wait until all ranks start."""
        if self._bench is None:
            self._barrier()
        else:
            self._bench.start()

    def keep(self, times: dict[str, Any]) -> dict[str, Any] | None:
        """Return a run's times as they are kept; None where it does not count, on any rank."""
        if self._bench is None:
            return times
        if not self._bench.take(times["begin"], times["end"]):
            return None
        if "tally" not in times:  # the calls of one that is counted were noted by the ranks' own clocks
            times = self._bench.led(times)
        if self._bench.is_done:
            times |= {"is_last": True, "conduct": self._bench.conduct()}
        return times
