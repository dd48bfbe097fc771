"""The summary of a real rank: what its log has noted is summed up every so often, and forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from labkit._kernels import RankLog
from labkit.trace.counters import EVENTS, is_counted, refused
from labkit.trace.summary import Row, Summary

__all__ = ["MOST_CALLS", "RankSummary"]

#: calls, or borders of phases, that are kept until they are summed up
MOST_CALLS = 1024
#: when a phase began or ended, its name, whether it began, the counters then
Mark = tuple[float, str, bool, Sequence[int]]


class RankSummary:
    """Sums up what a rank's log notes.

    Parameters
    ----------
    log : labkit._kernels.RankLog
        Of the rank; it notes times.
    names : mapping of str to int
        The numbers of the calls' names, in their order.
    most : int or None
        Calls that are kept until they are summed up; None: the log keeps all, and they are summed up at the
        end.
    counters : sequence of str
        Of the host, summed up likewise: see `labkit.trace.counters`.

    Notes
    -----
    A send that is taken back after its call was summed up counts all the same.
    """

    def __init__(
        self,
        log: RankLog,
        names: Mapping[str, int],
        most: int | None = MOST_CALLS,
        counters: Sequence[str] = (),
    ) -> None:
        self._log, self._names, self._most = log, names, most
        self.counters = tuple(counters)
        self._states: list[int] = []
        if counters:
            self._states = log.count([EVENTS[name][:2] for name in counters])
        self._summary = Summary(counters=self.counters)
        self._calls = 0
        self._marks: list[Mark] = []
        self._is_poll = False

    def begin(self) -> None:
        """The program begins."""
        self._summary = Summary(counters=self.counters)
        self._summary.begin(0, time.monotonic(), self._counted())
        self._calls, self._marks, self._is_poll = 0, [], False

    def mark(self, phase: str, is_begin: bool, is_in_call: bool = False) -> None:
        """A phase begins or ends; within a call nothing is summed up."""
        self._marks.append((time.monotonic(), phase, is_begin, self._counted()))
        if self._is_full(len(self._marks)) and not is_in_call:
            self.settle()

    def polled(self) -> None:
        """The present call found nothing: the next one may go on with it."""
        self._is_poll = True

    def left(self) -> None:
        """A call is over."""
        self._calls += 1
        if self._is_full(self._calls) and not self._is_poll:
            self.settle()
        self._is_poll = False

    def finish(self) -> None:
        """The program is over."""
        now, counted = time.monotonic(), self._counted()
        self.settle()
        self._summary.finish(0, now, counted)

    def rows(self, rank: int, places: Sequence[str]) -> list[Row]:
        """Return the sums as those of a rank: see `labkit.trace.summary.Summary.rows`."""
        known = zip(self.counters, self._states, strict=True)
        lacking = {name: None for name, state in known if not is_counted(name, state)}
        return [{**row, **lacking, "rank": rank} for row in self._summary.rows(places)]

    def said(self) -> list[str]:
        """Say which counters this host does not give, and why."""
        return refused(self.counters, self._states, self._log.counted_share()) if self.counters else []

    def _counted(self) -> Sequence[int]:
        return self._log.counted_now() if self.counters else ()

    def _is_full(self, kept: int) -> bool:
        return self._most is not None and kept >= self._most

    def settle(self) -> None:
        """Sum up what the log has, and let it forget that, unless it is to keep all."""
        log, summary = self._log, self._summary
        calls = log.call_columns()
        names = list(self._names)
        marks = iter([*self._marks, (float("inf"), "", False, ())])
        mark = next(marks)
        columns = ("begin_s", "end_s", "name", "place", "bytes", "sequence")
        rows = zip(
            *(calls[name].tolist() for name in columns), _sent(log.post_columns(), len(calls["name"])),
            strict=True,
        )  # fmt: skip
        counted = iter(log.count_rows()) if self.counters else repeat(())
        for begin, end, name, place, n_bytes, sequence, sent in rows:
            while mark[0] <= begin:
                _pass(summary, mark)
                mark = next(marks)
            joined = n_bytes if sequence >= 0 else None
            both = (next(counted), next(counted))
            summary.called(0, names[name], place, begin, end, joined, sent, both)
        while mark[0] < float("inf"):
            _pass(summary, mark)
            mark = next(marks)
        self._marks.clear()
        self._calls = 0
        if self._most is not None:
            log.restart()


def _pass(summary: Summary, mark: Mark) -> None:
    when, phase, is_begin, counted = mark
    (summary.enter if is_begin else summary.leave)(0, phase, when, counted)


def _sent(posts: dict[str, Any], calls: int) -> Iterable[tuple[int, ...]]:
    """Return by call the messages that were sent there, their bytes, and how many had none."""
    alive = posts["is_send"] & ~posts["is_cancelled"]
    call, sizes = posts["call"][alive], posts["bytes"][alive].astype(np.int64)
    if not len(call):
        return [(0, 0, 0)] * calls
    total = np.zeros(calls, np.int64)
    np.add.at(total, call, sizes)
    messages, empty = (np.bincount(own, minlength=calls) for own in (call, call[sizes == 0]))
    return zip(messages.tolist(), total.tolist(), empty.tolist(), strict=True)
