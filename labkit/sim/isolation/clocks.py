"""The clocks of the language in simulated ranks: all of them read simulated time, and `time.sleep` passes it.

A script's ranks have a process for themselves, and everything in it reads simulated time. In the process of a
notebook only the program's own code does: libraries, such as those that log, keep the host's clocks.
"""

from __future__ import annotations

import ast
import ctypes
import datetime
import functools
import gc
import os
import queue
import resource
import sched
import select
import subprocess
import sys
import threading
import time
import timeit
import uuid
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from labkit.program.context import simulated
from labkit.sim.isolation import host_clock
from labkit.sim.isolation.alarms import alarm_patches
from labkit.sim.isolation.code import is_installed, names_used
from labkit.sim.isolation.patches import Patch, Patches
from labkit.sim.isolation.waits import owner_of_thread

__all__ = [
    "HOST_DATES",
    "NOW",
    "RankClocks",
    "clock_stand_ins",
    "now_as_text",
    "program_reads_dates",
    "reads_dates",
    "simulate_all_clocks",
    "simulated_dates",
]

#: what a run says of a program whose source cannot be changed
HOST_DATES = (
    "NumPy reads this host's clock where 'now' or 'today' becomes a datetime64; datetime.datetime.now() and "
    "MPI.Wtime() are simulated time"
)
#: the name by which a program whose source `simulated_dates` has changed asks for the time
NOW = "__labkit_now__"
_DATES = ("now", "today")
_NANO = 1_000_000_000

_is_whole = False


def simulate_all_clocks() -> None:
    """Let all code of this process read simulated time on ranks, for the rest of its life."""
    global _is_whole
    _is_whole = True
    RankClocks.__enter__()


def _seconds(depth: int = 2) -> float | None:
    """Return the simulated time that a caller is to see; None: that of the host."""
    machine = simulated()
    is_own = _is_own(sys._getframe(depth))
    if machine is not None:
        return float(machine.wtime()) if is_own or _is_whole else None
    owner = owner_of_thread()
    # libraries wait for other processes in threads, with a deadline of the host's clock
    return owner.now() if owner is not None and is_own else None


def _is_own(frame: FrameType) -> bool:
    """Whether code is the program's own."""
    return not is_installed(frame.f_globals.get("__name__"), frame.f_code.co_filename)


def _clock(whole: Callable[..., object], unit: Callable[[float], object]) -> Callable[..., object]:
    @functools.wraps(whole)
    def read(*args: object) -> object:
        host = whole(*args)  # it also looks at the arguments
        now = _seconds()
        return host if now is None else unit(now)

    return read


def _date(whole: Callable[..., object], place: int) -> Callable[..., object]:
    """Return a function of `time` that means the present time where its argument at a place is left out."""

    @functools.wraps(whole)
    def read(*args: object) -> object:
        given = args[place] if len(args) > place else None
        now = _seconds() if given is None else None
        if now is None:
            return whole(*args)
        return whole(*args[:place], now if place == 0 and whole is not _host_asctime else _local_time(now))

    return read


_local_time, _host_asctime = time.localtime, time.asctime


def _sleep(whole: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(whole)
    def sleep(seconds: Any) -> None:
        machine = simulated()
        owner = None if machine is not None else owner_of_thread()
        if (machine is None and owner is None) or not (_is_whole or _is_own(sys._getframe(1))):
            whole(seconds)
        elif seconds < 0:
            raise ValueError("sleep length must be non-negative")
        elif owner is not None:
            owner.sleep_in_thread(seconds)
        else:
            machine.sleep(seconds)

    return sleep


def _used(whole: Callable[[int], Any]) -> Callable[[int], object]:
    @functools.wraps(whole)
    def getrusage(who: int) -> object:
        found = whole(who)
        now = _seconds() if who != resource.RUSAGE_CHILDREN else None
        return found if now is None else resource.struct_rusage((now, 0.0, *found[2:]))

    return getrusage


#: from the beginning of the Gregorian calendar, which UUIDs count from, to 1970; 100 ns each
_TICKS_TO_1970, _TICKS_PER_S = 0x01B21DD213814000, 10**7
_host_uuid1 = uuid.uuid1
#: what the last UUID of each rank counted
_last_ticks: WeakKeyDictionary[object, dict[int, int]] = WeakKeyDictionary()


@functools.wraps(_host_uuid1)
def _uuid1(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    now = _seconds()
    if now is None:
        return _host_uuid1(node, clock_seq)
    context = simulated()
    if context is None:
        context = owner_of_thread()
    last, rank = _last_ticks.setdefault(context, {}), context.rank
    ticks = last[rank] = max(int(now * _TICKS_PER_S) + _TICKS_TO_1970, last.get(rank, 0) + 1)
    sequence = rank if clock_seq is None else clock_seq  # ranks may ask at the same time
    fields = ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, ticks >> 48 & 0xFFF, sequence >> 8 & 0x3F
    return uuid.UUID(fields=(*fields, sequence & 0xFF, uuid.getnode() if node is None else node), version=1)


class _DatetimeType:
    """The attributes of the compiled type `datetime.datetime`, which refuses to have them set."""

    def __getattr__(self, name: str) -> object:
        return vars(datetime.datetime)[name]

    def __setattr__(self, name: str, value: object) -> None:
        gc.get_referents(vars(datetime.datetime))[0][name] = value
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))


def _now(cls: type[datetime.datetime], tz: datetime.tzinfo | None = None) -> datetime.datetime:
    """Return the present time in a time zone, by default the local one."""
    now = _seconds()
    return _host_now.__get__(None, cls)(tz) if now is None else cls.fromtimestamp(now, tz)


def _utcnow(cls: type[datetime.datetime]) -> datetime.datetime:
    """Return the present time in UTC, without a time zone."""
    now = _seconds()
    if now is None:
        return _host_utcnow.__get__(None, cls)()  # type: ignore[no-any-return]
    return cls.fromtimestamp(now, datetime.UTC).replace(tzinfo=None)


_host_now, _host_utcnow = (vars(datetime.datetime)[name] for name in ("now", "utcnow"))
for _function, _name in ((_now, "now"), (_utcnow, "utcnow")):
    _function.__name__, _function.__qualname__ = _name, f"datetime.{_name}"
    _function.__module__ = "datetime"


def _table() -> Iterator[Patch]:
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time", "clock_gettime"):
        if hasattr(time, name):
            yield time, name, _clock(getattr(time, name), float)
            name = f"{name}_ns"
            yield time, name, _clock(getattr(time, name), lambda now: int(now * _NANO))
    for name, place in (("localtime", 0), ("gmtime", 0), ("ctime", 0), ("asctime", 0), ("strftime", 1)):
        yield time, name, _date(getattr(time, name), place)
    yield time, "sleep", _sleep(time.sleep)
    yield os, "times", _clock(os.times, lambda now: os.times_result((now, 0.0, 0.0, 0.0, now)))
    yield resource, "getrusage", _used(resource.getrusage)
    yield uuid, "uuid1", _uuid1


#: made when no rank runs yet: what is put in place, and by id of what was there before
_PATCHES = list(_table())
_BY_ID = {id(getattr(owner, name)): value for owner, name, value in _PATCHES}


def clock_stand_ins() -> dict[int, Callable[[int], Any]]:
    """Return what a rank has instead of a clock that its program has imported before, by id."""
    return {number: lambda _, value=value: value for number, value in _BY_ID.items()}  # type: ignore[misc]


_host_clock, _host_sleep = time.perf_counter, time.sleep


def _program_clock() -> float:
    """Read the clock on behalf of the program, whoever calls."""
    machine = simulated()
    return _host_clock() if machine is None else float(machine.wtime())


_host_monotonic = time.monotonic


def _deadline_clock() -> float:
    """Read the clock of timed waits: theirs pass simulated time, so that their deadlines are in it, too."""
    machine, owner = simulated(), owner_of_thread()
    if machine is not None:
        return float(machine.wtime())
    return _host_monotonic() if owner is None else float(owner.now())


def _select(whole: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(whole)
    def waits(rlist: object, wlist: object, xlist: object, timeout: Any = None, /) -> object:
        machine, owner = simulated(), owner_of_thread()
        is_sleep = timeout is not None and not (rlist or wlist or xlist)  # an old way to sleep
        if not is_sleep or timeout < 0 or (machine is None and owner is None):
            return whole(rlist, wlist, xlist, timeout)
        if machine is not None:
            machine.sleep(timeout)
        elif owner is not None:
            owner.sleep_in_thread(timeout)
        return [], [], []

    return waits


class _HasFileno(Protocol):
    def fileno(self) -> int: ...


def _poll(whole: Callable[[], select.poll]) -> Callable[[], _Poll]:
    return functools.wraps(whole)(lambda: _Poll(whole()))


class _Poll:
    """What `select.poll` returns: one that watches nothing, an old way to sleep, passes simulated time."""

    def __init__(self, whole: select.poll) -> None:
        self._whole, self._watched = whole, set[int]()

    def register(self, fd: int | _HasFileno, *events: int) -> None:
        self._whole.register(fd, *events)
        self._watched.add(_number(fd))

    def modify(self, fd: int | _HasFileno, events: int, /) -> None:
        self._whole.modify(fd, events)

    def unregister(self, fd: int | _HasFileno, /) -> None:
        self._whole.unregister(fd)
        self._watched.discard(_number(fd))

    def poll(self, timeout: float | None = None, /) -> object:
        machine, owner = simulated(), owner_of_thread()
        if self._watched or timeout is None or timeout < 0 or (machine is None and owner is None):
            return self._whole.poll(timeout)
        if machine is not None:
            machine.sleep(timeout / 1000)
        elif owner is not None:
            owner.sleep_in_thread(timeout / 1000)
        return []


def _number(fd: int | _HasFileno) -> int:
    return fd if isinstance(fd, int) else fd.fileno()


def _program_sleep(seconds: float) -> None:
    """Let time pass on behalf of the program."""
    machine = simulated()
    if machine is None:
        _host_sleep(seconds)
    else:
        machine.sleep(seconds)


def _patches() -> Iterator[Patch]:
    yield from _PATCHES
    of_type = _DatetimeType()
    yield of_type, "now", classmethod(_now)
    yield of_type, "utcnow", classmethod(_utcnow)
    # those who have taken a clock as a default value
    before = timeit.default_timer
    yield timeit, "default_timer", _program_clock
    functions: list[Any] = [timeit.Timer.__init__, timeit.timeit, timeit.repeat]
    for function in functions:
        defaults = tuple(_program_clock if one is before else one for one in function.__defaults__)
        yield function, "__defaults__", defaults
    begin: object = sched.scheduler.__init__
    yield begin, "__defaults__", (_program_clock, _program_sleep)
    # those whose waits with a limit of time are simulated, and who have imported a clock by name
    yield queue, "time", _deadline_clock
    yield threading, "_time", _deadline_clock
    yield select, "select", _select(select.select)
    if hasattr(select, "poll"):
        yield select, "poll", _poll(select.poll)
    yield from alarm_patches()
    # child processes take the host's time, and so do their limits
    yield subprocess, "time", host_clock


#: context in which ranks read simulated time
RankClocks = Patches(_patches)


# --- NumPy's present time, which is a text ---------------------------------------------------------------


def reads_dates(code: CodeType) -> bool:
    """Whether a code, or one inside it, may have NumPy read the present time: ``np.datetime64("now")``."""
    pending = [code]
    while pending:
        one = pending.pop()
        texts = [text for text in one.co_consts if isinstance(text, str)]
        if any(text in _DATES for text in texts):
            types = [text for text in texts if text.lstrip("<>=|").startswith(("M8", "datetime64"))]
            if types or "datetime64" in one.co_names:
                return True
        pending += [part for part in one.co_consts if isinstance(part, CodeType)]
    return False


class _Dates(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        first = node.args[0] if node.args else None
        if name == "datetime64" and isinstance(first, ast.Constant) and first.value in _DATES:
            is_day = ast.Constant(first.value == "today")
            call = ast.Call(ast.Name(NOW, ast.Load()), [is_day], [])
            node.args[0] = ast.fix_missing_locations(ast.copy_location(call, first))
        return node


def simulated_dates(source: str | bytes, file: str) -> CodeType:
    """Compile a program so that ``np.datetime64("now")`` and ``("today")`` are simulated time."""
    tree = _Dates().visit(compile(source, file, "exec", ast.PyCF_ONLY_AST, dont_inherit=True))
    return compile(tree, file, "exec", dont_inherit=True)


def program_reads_dates(program: object) -> bool:
    """Whether a function, or one of its module that it names, may have NumPy read the present time."""
    pending, seen = [program], set()
    while pending:
        one = pending.pop()
        if not isinstance(one, FunctionType) or one in seen:
            continue
        seen.add(one)
        if reads_dates(one.__code__):
            return True
        found = [one.__globals__.get(name) for name in names_used(one.__code__) or ()]
        pending += [other for other in found if getattr(other, "__module__", None) == one.__module__]
    return False


def now_as_text(is_day: bool) -> str:
    """Return the present time as NumPy reads it: in seconds, or the day."""
    machine = simulated()
    if machine is None:
        return "today" if is_day else "now"
    text = datetime.datetime.fromtimestamp(machine.wtime(), datetime.UTC).isoformat()
    return text[:10] if is_day else text[:19]
