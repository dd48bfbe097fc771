"""Waits of simulated ranks for their own process: threads, pools of workers, locks, event loops.

All ranks live in one thread. A rank that blocked this thread in a lock would stop the others, and would never
see a result that only a message brings. So the locks of `threading` wait here while runs are on: the rank
makes the MPI calls of its threads, takes the results of its pools of workers, and lets simulated time pass
once nothing else of its process can go on. A wait that nothing can end is an error immediately.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import thread as _executor
from types import FrameType
from typing import Any, NoReturn, Protocol

from labkit import _kernels
from labkit.comm.handles import exceptions
from labkit.comm.handles.exceptions import RunEnded
from labkit.comm.intracomm import COMM_WORLD
from labkit.errors import DeadlockError
from labkit.program import context
from labkit.sim.isolation import host_clock
from labkit.sim.isolation.patches import Patch, Patches
from labkit.sim.where import place_of

__all__ = [
    "Interruptions",
    "RankLock",
    "RankThreads",
    "RankWaits",
    "WorkerPool",
    "owner_of_thread",
    "waits_of_rank",
]

_OWNER = "_labkit_owner"
#: seconds of this host between two looks at threads that compute
_LOOK_S = 0.005
#: looks and seconds between them after which threads that wait for locks are taken to go on waiting
_LOOKS, _SHORT_LOOK_S = 3, 0.001
#: looks after which other threads' calls do not wait for one that computes
_MANY_LOOKS = 50
#: seconds of this host after which a wait that nothing seems to end is given up
_GIVEN_UP_S = 0.5
#: seconds of this host after which a rank that is blocked outside these waits gets its thread's call
_BLOCKED_S = 0.5
#: most simulated time between two looks at messages, in seconds; and what a look at a thread takes
_MOST_STEP_S, _LOOK_AGAIN_S = 1e-4, 1e-6
_is_alive = threading.Thread.is_alive
#: what an idle thread of a `ThreadPoolExecutor` runs
_IDLE = _executor._worker.__code__


class WorkerPool(Protocol):
    """A pool of workers whose master is the rank."""

    @property
    def is_running(self) -> bool:
        """Whether a result is to come."""

    def has_result(self) -> bool:
        """Whether one has arrived."""

    def take(self) -> None:
        """Take the next result, waiting for it."""


class WaitingSimulation(Protocol):
    """What is asked of the simulation."""

    hub: _kernels.Hub
    context: Any
    shared_memory: Interruptions

    def begin_threads(self) -> None:
        """Let ranks make the calls of their threads."""

    def abort(self, rank: int, code: int) -> NoReturn:
        """End the run as MPI_Abort does."""

    def where_it_runs(self) -> Any:
        """Return what changes while the thread of the ranks is at work."""

    def refuse_thread_call(self, rank: int, text: str) -> None:
        """End the run: a thread's call cannot be carried out."""


class _Call:
    """A call of MPI that a thread has made, or the rank itself while its threads run."""

    def __init__(self, name: str, function: Callable[..., object], args: Any, named: Any, begin: Any) -> None:
        self.name, self.function, self.args, self.named = name, function, args, named
        #: begins its nonblocking form: returns a request and the status to fill, or None
        self.begin = begin
        self.thread = threading.current_thread()
        self.order = _context(args), self.thread.name
        self.frame: Any = None
        self.request: Any = None
        self.status: Any = None
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_over = False
        self.over = allocate_lock()
        self.over.acquire()

    def end(self, value: object = None, error: BaseException | None = None) -> None:
        self.value, self.error, self.is_over = value, error, True
        self.over.release()

    def answer(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


def _context(args: Any) -> int:
    """Return the number of the communicator that a call belongs to."""
    first = args[0] if args else None
    return int(getattr(getattr(first, "_comm", first), "_context", 0) or 0)


#: those whose rank waits at present: a lock that is released rings
_waiting: list[RankWaits] = []


def waits_of_rank() -> RankWaits | None:
    """Return the waits of the rank that runs on this thread; None outside ranks and in their threads."""
    machine = context.find_simulated()
    return machine.own_waits() if machine is not None and machine.hub.rank >= 0 else None


def owner_of_thread() -> RankWaits | None:
    """Return the waits of the rank that has started this thread; None if none has."""
    thread = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
    return getattr(thread, _OWNER, None)


class RankWaits:
    """The waits of one rank, and what may end them.

    `threads`: Those that the rank and its threads have started.
    `has_calls`: Whether one of them has called MPI.
    """

    def __init__(self, simulation: WaitingSimulation, rank: int) -> None:
        self.hub, self.rank, self._simulation = simulation.hub, rank, simulation
        self.pools: list[WorkerPool] = []
        self.threads: list[threading.Thread] = []
        self.has_calls = False
        self._is_over = self._is_inside = self._is_starting = False
        self._posted: deque[_Call] = deque()
        self._open: list[_Call] = []
        self._made: list[_Call] = []
        #: threads that wait here, by number: until when (simulated seconds), None for ever
        self._at_locks: dict[int, float | None] = {}
        self._at_calls: set[int] = set()
        self._bell = allocate_lock()
        self._bell.acquire()

    def now(self) -> float:
        """Return the rank's clock in seconds."""
        return float(self.hub.clock(self.rank))

    def begin(self, thread: threading.Thread, start: Callable[[threading.Thread], None]) -> None:
        """Start a thread of the rank's; nothing else happens until it runs: all ranks' locks may be held."""
        self._simulation.begin_threads()
        thread.__dict__[_OWNER] = self
        self.threads.append(thread)
        self._is_starting = True
        try:
            start(thread)
        finally:
            self._is_starting = False

    def abort(self, code: int) -> NoReturn:
        """End the run, from one of the rank's threads."""
        self._simulation.abort(self.rank, code)

    def ring(self) -> None:
        """Let the rank look again."""
        with contextlib.suppress(RuntimeError):  # it rings already
            self._bell.release()

    # --- in threads -----------------------------------------------------------------------------------------

    def call(
        self, name: str, function: Callable[..., object], args: object, named: object, begin: object
    ) -> Any:
        """Have the rank make a call for one of its threads, and return the answer."""
        if self._is_over:
            raise SystemExit
        one = _Call(name, function, args, named, begin)
        one.frame = sys._getframe(2)
        number = threading.get_ident()
        self.has_calls = True
        self._at_calls.add(number)
        self._posted.append(one)
        self.ring()
        seen: object = None
        while not one.over.acquire(True, _BLOCKED_S):
            if one not in self._posted:
                seen = None
                continue
            at = self._blocked_at()
            if at is not None and at == seen:
                self._tell(one)
            seen = at
        return one.answer()

    def _blocked_at(self) -> object:
        """Return where the rank's own thread is, if the rank is the running one and does not wait here."""
        if self.hub.rank != self.rank or self in _waiting:
            return None
        return self._simulation.where_it_runs()

    def _tell(self, one: _Call) -> None:
        text = f"{self._described(one)} while the rank's main thread is blocked in neither MPI nor a lock"
        self._simulation.refuse_thread_call(self.rank, text)

    def _described(self, one: _Call) -> str:
        place = place_of(one.frame) if one.frame is not None else None
        where = f" at {place}" if place is not None else ""
        return f"rank {self.rank}: the thread {one.thread.name!r} called {one.name}{where}"

    def wait_in_thread(self, acquire: Callable[[float], bool], timeout: float | None = None) -> bool:
        """Wait in one of the rank's threads, with a limit in simulated seconds."""
        number = threading.get_ident()
        until = None if timeout is None else self.now() + timeout
        self._at_locks[number] = until
        self.ring()
        try:
            while not acquire(0.02):
                if self._is_over:
                    raise SystemExit
                if until is not None and self.now() >= until:
                    return acquire(0.0)
            return True
        finally:
            self._at_locks.pop(number, None)

    def sleep_in_thread(self, seconds: float) -> None:
        """Let one of the rank's threads sleep in simulated time."""
        never, self.has_calls = allocate_lock(), True
        never.acquire()
        until = self.now() + seconds
        self.wait_in_thread(
            lambda pause: never.acquire(True, min(pause, 0.001)) or self.now() >= until, seconds
        )

    # --- in the rank ----------------------------------------------------------------------------------------

    def make(self, name: str, function: Callable[..., object], args: Any, named: Any, begin: object) -> Any:
        """Make a call of the rank's own: those of its threads go on meanwhile."""
        if self._is_inside:  # a part of another call
            return function(*args, **named)
        self.serve()
        if begin is None or not self.has_calls or not any(map(_is_alive, self.threads)):
            return self._inside(function, *args, **named)
        one = _Call(name, function, args, named, begin)
        self._start(one)
        self.wait(lambda: one.is_over)
        return one.answer()

    def serve(self, is_quiet: bool = True) -> None:
        """Make the calls that the threads wait for, or begin them.

        `is_quiet`: Whether no thread computes: what has no nonblocking form is made then, one at a time and
            in the order of the communicators, which is the same on all ranks.
        """
        for one in sorted(self._posted, key=lambda one: one.order):
            if one.begin is not None:
                self._posted.remove(one)
                self._start(one)
        if is_quiet and self._posted:
            first = min(self._posted, key=lambda one: one.order)
            self._posted.remove(first)
            self._start(first)

    def _inside(self, function: Callable[..., object], *args: object, **named: object) -> Any:
        self._is_inside = True
        try:
            return function(*args, **named)
        finally:
            self._is_inside = False

    def _start(self, one: _Call) -> None:
        self._made = [one]
        try:
            begun = self._inside(one.begin or one.function, *one.args, **one.named)
            self._made = []
            if one.begin is None:
                self._end(one, begun)
                return
        except Exception as error:
            self._end(one, error=error)
            return
        one.request, one.status = begun
        self._open.append(one)

    def _end(self, one: _Call, value: object = None, error: BaseException | None = None) -> None:
        self._at_calls.discard(one.thread.ident or 0)  # from here on it computes
        one.end(value, error)

    def wait(self, is_ready: Callable[[], bool], timeout: float | None = None, is_open: bool = False) -> bool:
        """Wait in the rank itself, with a limit in simulated seconds.

        `is_ready`: Whether it is over.
        `is_open`: Whether something outside the process may end the wait, or another rank without a message.
        Raises DeadlockError: Nothing can end it.
        """
        while self._is_starting:
            if is_ready():
                return True
            self._listen(_SHORT_LOOK_S)
        until = None if timeout is None else self.now() + timeout
        began_s = given_s = host_clock.monotonic()
        looks = 0
        while True:
            busy, surely = self._threads_at_work()
            self.serve(is_quiet=not busy or looks > _MANY_LOOKS)
            if is_ready():
                return True
            if until is not None and self.now() >= until:
                return False
            if self.hub.is_ending:
                raise RunEnded("the run is ending")
            if busy or not (surely or looks >= _LOOKS):
                looks = looks + 1 if self._posted or not busy else 0
                self._listen(_LOOK_S if busy else _SHORT_LOOK_S)
                is_late = timeout is not None and host_clock.monotonic() - began_s >= timeout
                if busy and is_late and until is not None:  # they may compute for as long as they want
                    self._sleep_until(until)
                elif busy and host_clock.monotonic() - given_s >= LOOK_S:  # or wait in shared memory
                    self._simulation.shared_memory.give_way()
                    given_s = host_clock.monotonic()
                continue
            looks = 0
            if self._posted:
                continue
            if self._pass_time(until):
                began_s = host_clock.monotonic()
            elif is_open:
                self._listen(_SHORT_LOOK_S)
                self.hub.sleep(1e-6)
                self.hub.catch_up("select")  # the other ranks come this far
            elif host_clock.monotonic() - began_s > _GIVEN_UP_S:
                place = place_of(sys._getframe(1))
                where = f" at {place}" if place is not None else ""
                raise DeadlockError(
                    f"rank {self.rank} waits for a lock, an event or a future{where}, and no thread of this "
                    "rank and no message can end the wait; on real MPI it would wait forever"
                )
            else:
                self._listen(_LOOK_S)

    @property
    def is_live(self) -> bool:
        """Whether something may happen in this process while the rank sleeps."""
        return bool(self.threads or self.pools)

    def look(self, thread: threading.Thread) -> None:
        """Let a thread's call of MPI go on, whose end a program looks for again and again."""
        if thread.ident in self._at_calls:
            self.wait(lambda: thread.ident not in self._at_calls, _LOOK_AGAIN_S)

    def join(self) -> None:
        """Wait for the threads that a process waits for at its end; the others end with it."""

        def is_left(one: threading.Thread) -> bool:
            # one of a pool that nobody has shut down ends when the work is done
            return (
                not one.daemon and _is_alive(one) and not _is_idle(sys._current_frames().get(one.ident or 0))
            )

        while left := [one for one in self.threads if is_left(one)]:
            self.wait(lambda one=left[0]: not is_left(one))  # type: ignore[misc]

    def close(self) -> None:
        """Release the threads that still wait here."""
        self._is_over = True
        for one in (*self._posted, *self._open):
            one.end(error=SystemExit())
        self._posted.clear()
        self._open.clear()

    def left(self) -> list[str]:
        """Return as sentences which calls of threads could not be carried out."""
        why = "its main thread was in a call that labkit does not make at the same time"
        begun = [
            f"{self._described(one)} and waits"
            for one in (*self._made, *self._open)
            if one.thread in self.threads
        ]
        return begun + [f"{self._described(one)} while {why}" for one in self._posted]

    def _threads_at_work(self) -> tuple[bool, bool]:
        """Return whether threads compute, and whether those that do not surely go on waiting."""
        if not self.threads:
            return False, True
        self.threads = [one for one in self.threads if _is_alive(one) or not one.ident]
        # no frame stays in a variable: this one is among them, and would keep the locals of all alive
        idle = {number for number, frame in sys._current_frames().items() if _is_idle(frame)}
        surely = True
        for one in self.threads:
            number = one.ident or 0
            if number in self._at_calls:
                continue
            if number in self._at_locks or number in idle:
                surely = False
            else:
                return True, False
        return False, surely

    def _listen(self, seconds: float) -> None:
        """Wait on this host until somebody rings."""
        _waiting.append(self)
        try:
            self._bell.acquire(True, seconds)
        finally:
            _waiting.remove(self)

    def _pass_time(self, until: float | None) -> bool:
        """Let simulated time pass until something may have happened; False where nothing can."""
        ends = [one for one in (*self._at_locks.values(), until) if one is not None]
        end = min(ends, default=None)
        pools = [one for one in self.pools if one.is_running]
        if self._open and not pools:
            self._finish_first(end)
        elif end is None and len(pools) == 1 and not self._open:
            pools[0].take()
        elif pools:
            self._look_until(end, pools)
        elif end is not None:
            self._sleep_until(end)
        else:
            return False
        return True

    def _finish_first(self, end: float | None) -> None:
        """Wait for the first of the threads' calls, at most until then."""
        requests = [one.request for one in self._open]
        if end is not None:
            timer = self.hub.gate()
            self.hub.open_gate(timer, end)
            requests.append(self.hub.handle_request(COMM_WORLD, timer))
        place = self._first_of(requests)
        if place < len(self._open):
            self._finish(place)

    def _first_of(self, requests: list[Any]) -> int:
        """Wait for the first of several requests, which stays unchanged; return its place."""
        over = next((place for place, one in enumerate(requests) if one._is_over() is not False), None)
        return int(type(requests[0])._wait_list(requests, True, "Waitany")) if over is None else over

    def _look_until(self, end: float | None, pools: list[WorkerPool]) -> None:
        """Look at pools and messages again and again, at most until then."""
        step = 1e-7
        while end is None or self.now() < end:
            self.hub.catch_up("a wait for threads")  # the other ranks come this far
            for one in pools:
                if one.has_result():
                    one.take()
                    return
            for place, call in enumerate(self._open):
                if call.request._is_over() is not False:
                    self._finish(place)
                    return
            step = min(2 * step, _MOST_STEP_S)
            self.hub.sleep(step if end is None else min(step, max(end - self.now(), 1e-9)))

    def _finish(self, place: int) -> None:
        one = self._open.pop(place)
        try:
            value = self._inside(one.request.wait, one.status)
        except Exception as error:
            self._end(one, error=error)
        else:
            self._end(one, value)

    def _sleep_until(self, end: float) -> None:
        if end > self.now():
            self.hub.sleep(end - self.now())


def _is_idle(frame: FrameType | None) -> bool:
    """Whether a thread of a `ThreadPoolExecutor` waits for work."""
    return frame is not None and frame.f_code is _IDLE


class RankLock:
    """A lock as `threading.Lock` makes it: a rank that waits for it lets its threads and messages go on."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = allocate_lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock; False where it was not free in time."""
        if timeout == -1 and self._lock.acquire(False):
            return True
        if not blocking or timeout == 0 or (timeout < 0 and timeout != -1) or timeout > threading.TIMEOUT_MAX:
            return self._lock.acquire(blocking, timeout)
        limit = None if timeout == -1 else timeout
        waits = waits_of_rank()
        if waits is not None:
            return waits.wait(lambda: self._lock.acquire(False), limit)
        owner = owner_of_thread()
        if owner is not None:
            return owner.wait_in_thread(lambda pause: self._lock.acquire(True, pause), limit)
        return self._lock.acquire(blocking, timeout)

    __enter__ = acquire

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Release it."""
        self._lock.release()
        for one in tuple(_waiting):
            one.ring()

    def locked(self) -> bool:
        """Whether it is held."""
        return self._lock.locked()

    acquire_lock, release_lock, locked_lock = acquire, release, locked

    def _at_fork_reinit(self) -> None:
        self._lock = allocate_lock()


# Ranks that wait for each other in shared memory: ``while flag[0] == 0: pass``.


#: seconds of CPU between two looks
LOOK_S = 0.05
#: simulated seconds that the first interruption takes; the next ones of a rank take twice as long each
_STEP_S = 1e-6
NOTE = (
    "a rank ran for long without a call of MPI while ranks share memory; if it waited for another one's "
    "store there, how long that took in simulated time depends on this host. Wait in Win.Fence, a barrier or "
    "a receive instead"
)


class Interruptions:
    """Lets the other ranks go on where one waits in shared memory."""

    def __init__(self, simulation: Any) -> None:
        self._simulation = simulation
        self._seen: object = None
        self._waits, self._step_s = -1, _STEP_S
        self._before: Any = None

    def begin(self) -> None:
        """Look from now on, where this is the main thread and there are others to wait for."""
        if self._simulation.ranks < 2:
            return
        self._simulation.context.shares_memory = True
        if self._before is None and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGVTALRM, self._look)
            host_clock.setitimer(signal.ITIMER_VIRTUAL, LOOK_S, LOOK_S)

    def end(self) -> None:
        """Stop looking."""
        if self._before is not None:
            host_clock.setitimer(signal.ITIMER_VIRTUAL, 0.0)
            signal.signal(signal.SIGVTALRM, self._before)
            self._before = None

    def _look(self, number: int, frame: FrameType | None) -> None:
        hub = self._simulation.hub
        place = place_of(frame)
        is_own = place is not None and place.method == ""  # not inside a call
        now = (hub.rank, hub.switches) if hub.rank >= 0 and is_own and not hub.is_ending else None
        if now is None or now != self._seen:
            self._seen = now
            return
        self._seen = None
        self.give_way()

    def give_way(self) -> None:
        """Let the other ranks go on until their next store may have been made, where memory is shared."""
        hub, context = self._simulation.hub, self._simulation.context
        if not context.shares_memory:
            return
        context.note(NOTE)
        now_s = hub.clock(hub.rank)
        self._step_s = 2 * self._step_s if hub.rank == self._waits else _STEP_S
        self._waits = hub.rank
        # a rank that sleeps, or computes, is ahead: its store is made then
        ahead = (hub.clock(rank) for rank in range(self._simulation.ranks))
        hub.sleep(min((other - now_s for other in ahead if other > now_s), default=self._step_s))
        hub.catch_up("load from shared memory")


def _threading() -> Iterator[Patch]:
    whole, whole_join, rlock = threading.Thread.start, threading.Thread.join, threading.RLock
    is_alive = threading.Thread.is_alive

    def start(self: Any) -> None:
        owner = waits_of_rank() or owner_of_thread()
        if owner is None:
            whole(self)
        else:
            owner.begin(self, whole)

    def join(self: Any, timeout: float | None = None) -> None:
        waits = waits_of_rank()
        if waits is not None and self.ident is not None and self is not threading.current_thread():
            if not waits.wait(lambda: not is_alive(self), None if timeout is None else max(timeout, 0.0)):
                return
            timeout = None
        whole_join(self, timeout)

    def alive(self: Any) -> bool:
        waits = waits_of_rank()
        if waits is not None:
            waits.look(self)
        return bool(is_alive(self))

    def lock() -> object:
        return RankLock() if _is_rank() else allocate_lock()

    def recursive() -> object:
        return threading._PyRLock() if _is_rank() else rlock()  # type: ignore[attr-defined]

    yield threading.Thread, "start", start
    yield threading.Thread, "join", join
    yield threading.Thread, "is_alive", alive
    for name in ("Lock", "_allocate_lock"):
        yield threading, name, lock
    yield threading, "RLock", recursive
    yield exceptions, "owner_of_thread", _hub_and_rank


def _is_rank() -> bool:
    return waits_of_rank() is not None or owner_of_thread() is not None


def _hub_and_rank() -> tuple[object, int] | None:
    owner = owner_of_thread()
    return None if owner is None else (owner.hub, owner.rank)


#: context in which ranks' threads are known, and their locks wait for messages, too
RankThreads = Patches(_threading)
