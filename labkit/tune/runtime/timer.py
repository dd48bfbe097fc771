"""Timers: a region with communication and computation, whose requests are tuned together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import ceil
from types import TracebackType
from typing import Any, Self

from labkit.errors import DataError
from labkit.tune.runtime.codelets import combined
from labkit.tune.runtime.explanation import Explanation
from labkit.tune.runtime.one_search import Tuning
from labkit.tune.runtime.plan import Plan
from labkit.tune.runtime.request import Request
from labkit.tune.runtime.world import clock_of, machine_of
from labkit.units import number_of_ranks

__all__ = ["Timer"]


class Timer:
    """Times a region of the program, pass by pass, and decides for all requests in it.

    Each pass is ``with timer: ...``. What is chosen from are all combinations of the requests' codelets. The
    ranks wait for each other before the first pass of a measurement and at the end of its last one only, so
    that what is measured is near to what the program does (`every` = 1: the method *timer*; more:
    *timer_multistep*, with as many passes of each combination, and fewer measurements).

    Parameters
    ----------
    comm : communicator
        Of all ranks of the region.
    requests : sequence of Request
    every : int
        Passes between two synchronisations.
    plan : Plan

    Raises
    ------
    DataError
        There is no request, or `every` is no whole number from 1 on.
    """

    def __init__(self, comm: Any, requests: Sequence[Request], every: int, plan: Plan) -> None:
        wrong = [one for one in requests if not isinstance(one, Request)]
        if not requests or wrong:
            raise DataError(
                f"a timer takes requests, as lk.tune.allreduce(comm) makes them; got "
                f"{repr(wrong[0]) if wrong else 'none'}"
            )
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise DataError(f"every must be an integer of at least 1 (passes), got {every!r}")
        self._comm, self._requests, self._every = comm.Dup(), list(requests), every
        labels = [one.name for one in requests]
        labels = [f"{name} {i + 1}" if labels.count(name) > 1 else name for i, name in enumerate(labels)]
        functions = combined(list(zip(labels, (one.functions for one in requests), strict=True)))
        parts = product(*(one.functions.names for one in requests))
        self._parts = dict(zip(functions.names, parts, strict=True))
        timing = "in a region between two barriers"
        if every > 1:
            timing = f"in a region, {every} passes at a time between two barriers"
        plan = replace(plan, timing=timing)
        machine, _ = machine_of(self._comm)
        ranks = int(self._comm.Get_size())
        what = f"region with {functions.name} on {number_of_ranks(ranks)}"
        self._tuning = Tuning(
            *(self._comm, what, functions.codelets, [], plan, f"{machine}; {what}; every {every}", 0.0),
            ceil(plan.measurements / every),
        )
        self._clock = clock_of(self._comm)
        self._begin_s = 0.0
        self._passes = self._length = 0
        self._is_timed = self._is_inside = False
        self._is_open = True
        self._assign()

    def __enter__(self) -> Self:
        if not self._is_open or self._is_inside:
            state = "is closed" if not self._is_open else "is in a pass already"
            raise DataError(f"this timer {state}: a pass is `with timer:`, one after the other")
        self._is_inside = True
        if self._passes == 0:
            self._assign()
            self._is_timed = self._tuning.is_timed
            self._length = 1 if self._tuning.is_warming or not self._is_timed else self._every
            if self._is_timed:
                self._comm.Barrier()
                self._begin_s = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_inside = False
        if kind is not None:
            return
        self._passes += 1
        if self._passes < self._length:
            return
        if self._is_timed:
            self._comm.Barrier()
            self._tuning.add((self._clock() - self._begin_s) / self._passes, self._passes)
        else:
            self._tuning.passed()
        self._passes = 0

    def explain(self) -> Explanation:
        """Return what was decided and why, for printing; `labkit.plot.tuning` draws it."""
        return Explanation((self._tuning.decision(),))

    @property
    def phase(self) -> str:
        """One of "search", "verification" and "production"."""
        return self._tuning.phase

    @property
    def winner(self) -> str | None:
        """The combination decided for; None while it searches."""
        return self._tuning.decision().winner

    def close(self) -> None:
        """Give the requests back to themselves; called by all ranks."""
        if self._is_open:
            self._is_open = False
            for request in self._requests:
                request._release()
            self._comm.Free()

    def __repr__(self) -> str:
        return f"<Timer of {', '.join(one.name for one in self._requests)}, {self.phase}>"

    def _assign(self) -> None:
        for request, name in zip(self._requests, self._parts[self._tuning.current.name], strict=True):
            request._assign(name)
