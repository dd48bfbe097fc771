"""Requests: calls inside a program that find out themselves how they are carried out fastest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import product
from math import ceil
from types import TracebackType
from typing import Any, Self

from labkit.errors import DataError
from labkit.selector import Situation
from labkit.tune.runtime.codelets import Codelet, FunctionSet, combined
from labkit.tune.runtime.explanation import Explanation
from labkit.tune.runtime.one_search import Tuning
from labkit.tune.runtime.plan import Plan
from labkit.tune.runtime.world import clock_of, machine_of, simulated_machine
from labkit.units import format_bytes, number_of_ranks

__all__ = ["Handle", "Request", "Timer"]


class Request:
    """A call that is tuned while the program uses it; made by `labkit.tune`'s methods, by all ranks together.

    Parameters
    ----------
    comm : communicator
        It is duplicated: the codelets' messages do not match those of other communicators.
    functions : FunctionSet or callable
        What is chosen from; ``functions(comm, node)`` is given the duplicate and the ranks of a host.
    plan : Plan

    Attributes
    ----------
    functions : FunctionSet

    Notes
    -----
    The first calls are the search: `measurements` of each codelet in turn. Then all ranks take the same
    decision, at the same call, and from the next one on the winner is used: production. Calls of different
    situations (bytes; whether the operator commutes) are tuned apart.
    """

    def __init__(
        self, comm: Any, functions: FunctionSet | Callable[[Any, int], FunctionSet], plan: Plan
    ) -> None:
        self._comm = comm.Dup()
        self._machine, self._node = machine_of(self._comm)
        self.functions = (
            functions if isinstance(functions, FunctionSet) else functions(self._comm, self._node)
        )
        if plan.use is not None:
            self.functions[plan.use]  # refused before the first call
        self._plan, self._clock = plan, clock_of(self._comm)
        self._tunings: dict[Hashable, Tuning] = {}
        self._assigned: str | None = None
        self._is_timed_outside = False
        self._is_open = True

    @property
    def name(self) -> str:
        """What it does."""
        return self.functions.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Carry it out, with the arguments of the codelets.

        Raises
        ------
        DataError
            After the end of its ``with``; for arguments that the codelets do not take.
        """
        self._require_open()
        if self._is_timed_outside:
            return self._given(args, kwargs).call(self._comm, *args, **kwargs)
        tuning = self._tuning(args, kwargs)
        codelet = tuning.current
        if not tuning.is_timed:
            tuning.passed()
            return codelet.call(self._comm, *args, **kwargs)
        has_barriers = self._plan.timing == "barrier"
        if has_barriers:
            self._comm.Barrier()
        begin = self._clock()
        result = codelet.call(self._comm, *args, **kwargs)
        if has_barriers:
            self._comm.Barrier()
        tuning.add(self._clock() - begin)
        return result

    def start(self, *args: Any, **kwargs: Any) -> Handle:
        """Begin it; what it returns has a `wait`. Computation in between overlaps with it, where it can.

        Raises
        ------
        DataError
            While it searches without a timer: only a region tells what such a call is worth.
        """
        self._require_open()
        if self._is_timed_outside:
            return Handle(self._given(args, kwargs).started(self._comm, *args, **kwargs))
        tuning = self._tuning(args, kwargs)
        if tuning.phase != "production":
            raise DataError(
                f"{self.name}: a call that is begun and waited for later is measured with what it overlaps "
                f"with: put the region into `with timer:`, of lk.tune.timer(comm, {self.name})"
            )
        tuning.passed()
        return Handle(tuning.current.started(self._comm, *args, **kwargs))

    def explain(self) -> Explanation:
        """Return what was decided and why, for printing; `labkit.plot.tuning` draws it."""
        return Explanation(tuple(tuning.decision() for tuning in self._tunings.values()))

    @property
    def phase(self) -> str:
        """Either "search" or "verification" as long as some situation is in it, then "production"."""
        phases = {tuning.phase for tuning in self._tunings.values()} or {"search"}
        return next(name for name in ("search", "verification", "production") if name in phases)

    @property
    def winner(self) -> str | None:
        """The decision of the situation met last; None while it searches."""
        tuning = next(reversed(self._tunings.values()), None)
        return None if tuning is None else tuning.decision().winner

    def close(self) -> None:
        """Give the communicator back; called by all ranks."""
        if self._is_open:
            self._is_open = False
            if self.functions.free is not None:
                self.functions.free()
            self._comm.Free()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:  # else the other ranks may never come here
            self.close()

    def __str__(self) -> str:
        return "\n".join(one.head for one in self.explain().decisions) or f"{self.name}: no call yet."

    def __repr__(self) -> str:
        return f"<Request {self.name}, {len(self.functions)} codelets, {self.phase}>"

    def _require_open(self) -> None:
        if not self._is_open:
            raise DataError(f"{self.name}: its `with` is over; call it inside")

    def _tuning(self, args: Any, kwargs: Any) -> Tuning:
        at = None if self.functions.situation is None else self.functions.situation(*args, **kwargs)
        tuning = self._tunings.get(at)
        if tuning is None:
            tuning = self._tunings[at] = self._begun(at)
        return tuning

    def _begun(self, at: Hashable) -> Tuning:
        usable, left_out = [], []
        for codelet in self.functions:
            why = None if codelet.unmet is None else codelet.unmet(at)
            if why is None:
                usable.append(codelet)
            else:
                left_out.append(f"{codelet.name} {why}")
        ranks = int(self._comm.Get_size())
        n_bytes = at.n_bytes if isinstance(at, Situation) else 0.0
        what = f"{self.name} on {number_of_ranks(ranks)}"
        if n_bytes:
            what += f", {format_bytes(n_bytes)}"
        order = ""
        if isinstance(at, Situation) and not at.is_commutative:
            order = ", in order"
        key = f"{self._machine}; {what.partition(',')[0]}{order}; timing {self._plan.timing}"
        if self._plan.history is not None:
            key += f"; codelets {self.functions.digest}"
        return Tuning(
            *(self._comm, what + order, usable, left_out, self._plan, key, n_bytes, self._plan.measurements),
            situation=at._replace(machine=simulated_machine(self._comm), ranks_per_node=self._node or 1)
            if isinstance(at, Situation)
            else None,
        )

    # What a timer does with it

    def _assign(self, name: str) -> None:
        """Let a timer say what is used from now on."""
        self._assigned, self._is_timed_outside = name, True

    def _release(self) -> None:
        """Go back to the request's own decisions."""
        self._is_timed_outside = False

    def _given(self, args: Any, kwargs: Any) -> Codelet:
        codelet = self.functions[str(self._assigned)]
        if codelet.unmet is not None and self.functions.situation is not None:
            why = codelet.unmet(self.functions.situation(*args, **kwargs))
            if why is not None:
                raise DataError(
                    f"{self.name}: {codelet.name} {why}; make the request with algorithms=[...] that all "
                    "calls of the timer's region can use"
                )
        return codelet


class Handle:
    """A call that was begun."""

    def __init__(self, finish: Callable[[], Any]) -> None:
        self._finish: Callable[[], Any] | None = finish

    def wait(self) -> Any:
        """Wait for its end; what the call returns.

        Raises
        ------
        DataError
            It was waited for already.
        """
        if self._finish is None:
            raise DataError("this call has already been waited for: call wait once for each start")
        finish, self._finish = self._finish, None
        return finish()


# Timers: a region with communication and computation, whose requests are tuned together.


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
