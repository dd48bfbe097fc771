"""Requests: calls inside a program that find out themselves how they are carried out fastest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import product
from math import ceil
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from labkit.errors import DataError
from labkit.program import context
from labkit.selector import Situation
from labkit.text.units import format_bytes, format_seconds, format_share, number_of_ranks
from labkit.tuning.runtime.codelets import (
    Codelet,
    FunctionSet,
    clock_of,
    combined,
    machine_name,
    most_of,
    simulated_machine,
)
from labkit.tuning.runtime.explanation import Decision, Row, TuningExplanation
from labkit.tuning.runtime.history import History, RememberedChoice
from labkit.tuning.runtime.plan import BruteForce, Search, TuningPlan, search_of

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["BegunCall", "Timer", "TunedCall"]


class TunedCall:
    """A call that is tuned while the program uses it; made by `labkit.tune`'s methods, by all ranks together.

    `comm`: It is duplicated: the codelets' messages do not match those of other communicators.
    `functions`: What is chosen from; ``functions(comm, node)`` is given the duplicate and the ranks of a
        host.

    Notes
    -----
    The first calls are the search: `measurements` of each codelet in turn. Then all ranks take the same
    decision, at the same call, and from the next one on the winner is used: production. Calls of different
    situations (bytes; whether the operator commutes) are tuned apart.
    """

    def __init__(
        self, comm: Intracomm, functions: FunctionSet | Callable[[Any, int], FunctionSet], plan: TuningPlan
    ) -> None:
        self._comm = comm.Dup()
        self._machine, self._node = machine_name(self._comm)
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

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Carry it out, with the arguments of the codelets.

        Raises DataError: After the end of its ``with``; for arguments that the codelets do not take.
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

    def start(self, *args: object, **kwargs: object) -> BegunCall:
        """Begin it; what it returns has a `wait`. Computation in between overlaps with it, where it can.

        Raises DataError: While it searches without a timer: only a region shows what such a call is worth.
        """
        self._require_open()
        if self._is_timed_outside:
            return BegunCall(self._given(args, kwargs).started(self._comm, *args, **kwargs))
        tuning = self._tuning(args, kwargs)
        if tuning.phase != "production":
            raise DataError(
                f"{self.name}: a call that is begun and waited for later is measured with what it overlaps "
                f"with: put the region into `with timer:`, of lk.tune.timer(comm, {self.name})",
                code="wrong-order",
            )
        tuning.passed()
        return BegunCall(tuning.current.started(self._comm, *args, **kwargs))

    def explain(self) -> TuningExplanation:
        """Return what was decided and why, for printing; `labkit.plot.tuning` draws it."""
        return TuningExplanation(tuple(tuning.decision() for tuning in self._tunings.values()))

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
        return f"<TunedCall {self.name}, {len(self.functions)} codelets, {self.phase}>"

    def _require_open(self) -> None:
        if not self._is_open:
            raise DataError(f"{self.name}: its `with` is over; call it inside", code="wrong-order")

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
                    "calls of the timer's region can use",
                    code="unsupported",
                )
        return codelet


class BegunCall:
    """A call that was begun."""

    def __init__(self, finish: Callable[[], object]) -> None:
        self._finish: Callable[[], object] | None = finish

    def wait(self) -> Any:
        """Wait for its end; what the call returns.

        Raises DataError: It was waited for already.
        """
        if self._finish is None:
            raise DataError(
                "this call has already been waited for: call wait once for each start", code="wrong-order"
            )
        finish, self._finish = self._finish, None
        return finish()


# Timers: a region with communication and computation, whose requests are tuned together.


class Timer:
    """Times a region of the program, pass by pass, and decides for all requests in it.

    Each pass is ``with timer: ...``. What is chosen from are all combinations of the requests' codelets. The
    ranks wait for each other before the first pass of a measurement and at the end of its last one only, so
    that what is measured is near to what the program does (`every` = 1: the method *timer*; more:
    *timer_multistep*, with as many passes of each combination, and fewer measurements).

    `comm`: Of all ranks of the region.
    `every`: Passes between two synchronizations.
    Raises DataError: There is no request, or `every` is no whole number from 1 on.
    """

    def __init__(self, comm: Intracomm, requests: Sequence[TunedCall], every: int, plan: TuningPlan) -> None:
        wrong = [one for one in requests if not isinstance(one, TunedCall)]
        if not requests or wrong:
            raise DataError(
                f"a timer takes requests, as lk.tune.allreduce(comm) makes them; got "
                f"{repr(wrong[0]) if wrong else 'none'}",
                code="wrong-type",
            )
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise DataError(
                f"every must be an integer of at least 1 (passes), got {every!r}", code="out-of-range"
            )
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
        machine, _ = machine_name(self._comm)
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
            raise DataError(
                f"this timer {state}: a pass is `with timer:`, one after the other", code="wrong-order"
            )
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

    def explain(self) -> TuningExplanation:
        """Return what was decided and why, for printing; `labkit.plot.tuning` draws it."""
        return TuningExplanation((self._tuning.decision(),))

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


# One search and its decision: search, decision and production of calls that are alike.
#
# All ranks go through the same states at the same calls. A rank decides nothing by itself: estimates are
# maxima over the ranks, and rank 0 looks up the history and broadcasts the result.


#: a remembered time may be missed by so much
_REMEMBERED = 0.25


class Tuning:
    """The tuning of calls that are alike, one of them after the other.

    `comm`: For nothing else.
    `what`: What is tuned, as a sentence begins.
    `codelets`: That can be used here.
    `left_out`: Those that cannot, and why.
    `key`, `n_bytes`: What the history stores it under.
    `points`: Measurements of each codelet.
    `situation`: Of a collective's calls: the run lists what they take (`labkit.Run.collectives`).
    `phase` ({"search", "verification", "production"})
    `calls`, `trials`: All so far, and those spent on the last search.
    """

    def __init__(
        self,
        comm: Intracomm,
        what: str,
        codelets: Sequence[Codelet],
        left_out: Sequence[str],
        plan: TuningPlan,
        key: str,
        n_bytes: float,
        points: int,
        situation: Situation | None = None,
    ) -> None:
        self._comm, self.what, self._plan = comm, what, plan
        self.codelets = {codelet.name: codelet for codelet in codelets}
        self._left_out, self._points, self._situation = list(left_out), points, situation
        self.phase, self.calls, self.trials = "search", 0, 0
        self.winner: str | None = None
        self.events: list[str] = []
        self._rows: dict[str, Row] = {}
        self._times: list[float] = []
        self._warm = plan.warmup
        self._decided_at = 0
        self._search: Search | None = None
        self._known: RememberedChoice | None = None
        self._is_remembered = False
        self._earlier: dict[str, tuple[float, float]] = {}  # of a search that ended before its decision
        self._history = None if plan.history is None else History(plan.history, comm, key, n_bytes)
        self._baseline_s: float | None = None
        self._suspect = False
        self._since = 0
        if not self.codelets:
            raise DataError(
                f"{what}: no codelet can be used ({'; '.join(self._left_out)})", code="unsupported"
            )
        if plan.use is not None:
            self._preselect(plan.use)
        elif self._history is None or not (self._remember() or self._resume()):
            self._begin()

    @property
    def current(self) -> Codelet:
        """What the next call takes."""
        if self.phase == "production":
            return self.codelets[str(self.winner)]
        assert self._search is not None
        assert self._search.current is not None
        return self._search.current

    @property
    def is_timed(self) -> bool:
        """Whether the next call is to be timed."""
        if self.phase != "production":
            return True
        monitor = self._plan.monitor
        if monitor is None:
            return False
        return self._suspect or bool(self._times) or self._since % monitor.every < monitor.calls

    @property
    def is_warming(self) -> bool:
        """Whether the next call does not count: the first ones of a codelet."""
        return self.phase != "production" and self._warm > 0

    def passed(self) -> None:
        """Note a call that was not timed."""
        self.calls += 1
        self._since += 1

    def add(self, time_s: float, calls: int = 1) -> None:
        """Note that a call took so long on this rank, or each of several passes of a timer."""
        self.calls += calls
        self._since += 1
        if self.phase == "production":
            self._watch(time_s)
            return
        self.trials += calls
        if self._warm:
            self._warm -= 1
            return
        self._times.append(time_s)
        assert self._search is not None
        if len(self._times) < self._search.needed:
            return
        name = self.current.name
        search = self._search
        told = self._estimate(name, search.is_joined)
        search.tell(*told)
        if self.phase == "search" and self._history is not None:
            self._earlier[name] = told
            if search.current is not None:
                self._history.keep_unfinished(self._earlier)
        self._warm = self._plan.warmup
        if search.current is not None:
            return
        if self.phase == "verification":
            self._verified(search)
        else:
            self.events += search.words
            self._decide(search.winner)
            if self._history is not None:
                self._history.keep({n: r.estimate_s for n, r in self._rows.items()}, search.winner)

    def _begin(self, is_resumed: bool = False) -> None:
        """Start the search; what an unfinished one has measured is not measured again."""
        self.phase, self._is_remembered = "search", False
        every = list(self.codelets.values())
        self._search = search = search_of(self._plan.search)(every, self._points, self._plan.warmup)
        self._times, self._warm = [], self._plan.warmup
        earlier, self._earlier = self._earlier if is_resumed else {}, {}
        while (
            search.current is not None
            and (name := search.current.name) in earlier
            and name not in self._earlier
        ):
            time_s, error_s = self._earlier[name] = earlier[name]
            self._rows[name] = Row(name, time_s, 0, dict(self.codelets[name].attributes), ())
            search.tell(time_s, error_s)

    def _preselect(self, name: str) -> None:
        if name not in self.codelets:
            why = next((text for text in self._left_out if text.startswith(f"{name} ")), "")
            known = ", ".join(self.codelets)
            raise DataError(
                f"{self.what}: {why or f'there is no codelet {name!r}'}; there are: {known}",
                code="unknown-name",
            )
        self.events.append(f"{name} was preselected (use={name!r}): nothing was searched")
        self._decide(name)

    def _decide(self, name: str) -> None:
        self.winner, self.phase = name, "production"
        self._decided_at, self._since = self.calls, 0
        self._times, self._baseline_s, self._suspect = [], None, False
        how = "preselected" if self._plan.use is not None else f"by {self._plan.search}"
        if self.phase == "production" and self._is_remembered:
            how = "remembered and verified"
        context.decided(self.what, self._situation, name, f"from call {self.calls + 1} on, {how}")

    def _estimate(self, name: str, is_joined: bool = False) -> tuple[float, float]:
        """Return what all ranks' times say of a codelet, and its standard error; called by all together."""
        before = self._rows[name].times_s if is_joined and name in self._rows else ()
        times = np.array([*before, *self._times])
        estimator = self._plan.estimator
        error_s = float(np.std(times, ddof=1)) / len(times) ** 0.5 if len(times) > 1 else 0.0
        *most, outliers, error_s = most_of(
            self._comm, [*estimator.local(times), float(estimator.outliers(times)), error_s]
        )
        self._times = []
        found = estimator.joined(most)
        attributes = dict(self.codelets[name].attributes)
        self._rows[name] = Row(name, found, int(outliers), attributes, tuple(times.tolist()))
        return found, error_s

    # What is remembered of earlier runs

    def _remember(self) -> bool:
        """Ask the history; whether there is something to verify."""
        assert self._history is not None
        self._known = known = self._history.find(list(self.codelets), self._plan.similar)
        if known is None:
            return False
        names = [known.winner]
        if known.distance and known.second in self.codelets and known.second is not None:
            names.append(known.second)
        self.phase, self._search = (
            "verification",
            BruteForce([self.codelets[name] for name in names], self._points),
        )
        self._times, self._warm = [], self._plan.warmup
        return True

    def _resume(self) -> bool:
        """Ask the history for a search that ended before its decision; whether there is one to verify."""
        assert self._history is not None
        found = self._history.find_unfinished()
        self._earlier = {name: times for name, times in found.items() if name in self.codelets}
        if not self._earlier:
            self.events.append(f"{self._plan.history} knows of no calls that are near enough")
            return False
        best = min(self._earlier, key=lambda name: self._earlier[name][0])
        self.phase = "verification"
        self._search = BruteForce([self.codelets[best]], self._points)
        return True

    def _resumed(self, search: Search) -> None:
        """Continue an unfinished search; begin again if its fastest codelet now takes another time."""
        ((name, took),) = search.times.items()
        then, count = self._earlier[name][0], len(self._earlier)
        holds = then / (1 + _REMEMBERED) <= took <= then * (1 + _REMEMBERED)
        self.events.append(
            f"{count} of {len(self.codelets)} codelets were measured by a run that ended before it decided, "
            f"and are {'not measured again' if holds else 'discarded'}: {name} takes {format_seconds(took)}, "
            f"and took {format_seconds(then)} then"
        )
        self._begin(is_resumed=holds)

    def _verified(self, search: Search) -> None:
        """Compare what was measured with what is remembered."""
        if self._known is None:
            self._resumed(search)
            return
        known = self._known
        took = search.times[known.winner]
        if known.distance:
            lost = took / search.times[search.winner] - 1
            holds = lost <= self._plan.similar
            said = f"the second then, {known.second}, is not faster"
            if len(search.times) == 1:
                said = "there was no other codelet then"
            elif search.winner != known.winner:
                said = (
                    f"it takes {format_share(lost)} more than the second then, {known.second}; "
                    f"{'up to' if holds else 'only'} {format_share(self._plan.similar)} may be lost"
                )
        else:
            holds = known.time_s / (1 + _REMEMBERED) <= took <= known.time_s * (1 + _REMEMBERED)
            said = f"it takes {format_seconds(took)}, and took {format_seconds(known.time_s)} then"
        if holds:
            self.events.append(f"{known.winner} is remembered from {known.source}, and verified: {said}")
            self._is_remembered = True
            self._decide(known.winner)
        else:
            self.events.append(f"{known.winner} is remembered from {known.source}, and discarded: {said}")
            self._begin()

    # Production

    def _watch(self, time_s: float) -> None:
        """Take up a time of production; tune again when two series in a row say that it has changed."""
        monitor = self._plan.monitor
        assert monitor is not None
        self._times.append(time_s)
        if len(self._times) < monitor.calls:
            return
        name = str(self.winner)
        kept = self._rows.get(name)
        took, _ = self._estimate(name)
        if kept is not None:
            self._rows[name] = kept
        if self._baseline_s is None:
            self._baseline_s = took
            return
        ratio = took / self._baseline_s if self._baseline_s > 0 else 1.0
        is_off = monitor.is_off(ratio)
        if is_off and self._suspect:
            self.events.append(
                f"call {self.calls}: {name} took {format_seconds(took)} instead of "
                f"{format_seconds(self._baseline_s)} ({format_share(abs(ratio - 1))} "
                f"{'more' if ratio > 1 else 'less'}), twice in a row: tuned again"
            )
            self._rows, self._suspect, self.trials = {}, False, 0
            self._begin()
            return
        self._suspect = is_off

    # Words

    def decision(self) -> Decision:
        """Return what was found out so far."""
        rows = sorted(self._rows.values(), key=lambda row: row.estimate_s)
        now = "" if self.phase == "production" else self.current.name
        return Decision(
            self.what, self.phase, self.winner if self.phase == "production" else None, now, self.calls,
            self.trials, self._decided_at, tuple(rows), len(self.codelets),
            "verification" if self._is_remembered or self.phase == "verification" else self._plan.search,
            self._plan.timing, self._plan.estimator.name, self._points, self._plan.warmup,
            tuple(self._left_out), tuple(self.events), "" if self._search is None else self._search.counted,
        )  # fmt: skip
