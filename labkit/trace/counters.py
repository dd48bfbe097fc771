"""Counters of the host for real ranks: which there are, what they are called, what is said of those refused.

They are Linux's perf events, of the thread that runs the program. What a machine does not give, as the
hardware's events inside most virtual machines, is said in a sentence and has no column.

References
----------
.. [1] perf_event_open(2), Linux man-pages.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from labkit.errors import MachineError
from labkit.nearest import nearest

__all__ = ["EVENTS", "Event", "checked_counters", "column_of", "in_units", "is_counted", "refused"]

_HARDWARE, _SOFTWARE, _CACHE = 0, 1, 3
_MISSED = 1 << 16
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
#: what happens in the system's own code only
_KERNEL_ONLY = ("context-switches", "cpu-migrations")


class Event(NamedTuple):
    """An event that can be counted.

    Attributes
    ----------
    kind, config : int
        As perf_event_open takes them.
    meaning : str
    unit : str
        ``"s"`` of times, which the system counts in nanoseconds; else "".
    """

    kind: int
    config: int
    meaning: str
    unit: str = ""


#: by the names that ``perf list`` has for them
EVENTS: Mapping[str, Event] = {
    "task-clock": Event(_SOFTWARE, 1, "time that the rank's thread ran on a core", "s"),
    "page-faults": Event(_SOFTWARE, 2, "pages that were not there when they were used"),
    "context-switches": Event(_SOFTWARE, 3, "how often the thread gave up its core, or lost it"),
    "cpu-migrations": Event(_SOFTWARE, 4, "how often the thread went on on another core"),
    "minor-faults": Event(_SOFTWARE, 5, "page faults that needed no disk"),
    "major-faults": Event(_SOFTWARE, 6, "page faults that were read from a disk"),
    "cycles": Event(_HARDWARE, 0, "cycles of the core"),
    "instructions": Event(_HARDWARE, 1, "instructions that were carried out"),
    "cache-references": Event(_HARDWARE, 2, "accesses to the last cache"),
    "cache-misses": Event(_HARDWARE, 3, "accesses that the last cache did not have"),
    "branches": Event(_HARDWARE, 4, "branches that were carried out"),
    "branch-misses": Event(_HARDWARE, 5, "branches that were guessed wrong"),
    "stalled-cycles-frontend": Event(_HARDWARE, 7, "cycles without an instruction to begin"),
    "stalled-cycles-backend": Event(_HARDWARE, 8, "cycles in which none could be ended"),
    "ref-cycles": Event(_HARDWARE, 9, "cycles at the core's nominal frequency"),
    "L1-dcache-load-misses": Event(_CACHE, _MISSED | 0, "loads that the first cache did not have"),
    "LLC-load-misses": Event(_CACHE, _MISSED | 2, "loads that the last cache did not have"),
    "dTLB-load-misses": Event(_CACHE, _MISSED | 3, "loads whose page had to be looked up"),
}


def checked_counters(given: Any) -> tuple[str, ...]:
    """Return the names of the counters that a run is asked for.

    Parameters
    ----------
    given : str or sequence of str or None
        Of `EVENTS`; a text has commas between them.

    Raises
    ------
    MachineError
        One is not known.

    Examples
    --------
    >>> checked_counters("page-faults, instructions")
    ('page-faults', 'instructions')
    """
    words: Iterable[Any] = given.split(",") if isinstance(given, str) else given or ()
    names = tuple(dict.fromkeys(str(word).strip() for word in words))
    for name in names:
        if name not in EVENTS:
            raise MachineError(
                f"no counter is called {name!r}{nearest(name, EVENTS)}; there are {', '.join(EVENTS)}"
            )
    return names


def column_of(name: str) -> str:
    """Return what the column of a counter is called, which expressions can name.

    Examples
    --------
    >>> column_of("page-faults"), column_of("task-clock")
    ('page_faults', 'task_clock_s')
    """
    return name.replace("-", "_") + ("_s" if EVENTS[name].unit == "s" else "")


def in_units(name: str, value: Any) -> Any:
    """Return a counter's values in the unit of its column."""
    return value * 1e-9 if EVENTS[name].unit == "s" else value


def is_counted(name: str, state: int) -> bool:
    """Whether a counter has values, by what `labkit._kernels.RankLog.count` says of it.

    Examples
    --------
    >>> is_counted("page-faults", 1), is_counted("context-switches", 1), is_counted("cycles", -2)
    (True, False, False)
    """
    return state == 0 or (state > 0 and name not in _KERNEL_ONLY)


def refused(names: Sequence[str], states: Sequence[int], share: float = 1.0) -> list[str]:
    """Say which counters the machine does not give, or not wholly, and why.

    Parameters
    ----------
    names : sequence of str
    states : sequence of int
        Of `labkit._kernels.RankLog.count`: 0 counted, 1 in the program's own code only, below 0 an error.
    share : float
        Of the time in which the processor counted.

    Examples
    --------
    >>> refused(["page-faults", "cycles"], [0, -errno.ENOENT])
    ['cycles: not counted, this processor (or the virtual machine it is part of) does not have it']
    """
    reasons: dict[str, list[str]] = {}
    for name, state in zip(names, states, strict=True):
        if state < 0:
            reasons.setdefault(f"not counted, {_why(-state)}", []).append(name)
        elif not is_counted(name, state):
            text = f"not counted, {_forbidden()} shows a program's own code only, in which it never happens"
            reasons.setdefault(text, []).append(name)
        elif state:
            text = f"in the program's own code only, {_forbidden()} hides the system's"
            reasons.setdefault(text, []).append(name)
    if share < 1.0 and any(state >= 0 for state in states):
        text = f"counted in {share:.0%} of the time, in turn with others, and not scaled up"
        counted = zip(names, states, strict=True)
        reasons[text] = [name for name, state in counted if is_counted(name, state)]
    return [f"{', '.join(own)}: {text}" for text, own in reasons.items()]


def _why(number: int) -> str:
    if number in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "this processor (or the virtual machine it is part of) does not have it"
    if number == errno.ENOSYS:
        return "this system has no perf events"
    if number in (errno.EACCES, errno.EPERM):
        return f"{_forbidden()} forbids it; an administrator can set kernel.perf_event_paranoid to 1"
    if number == errno.EINVAL:
        return "the processor cannot count it beside the others; ask for fewer at once"
    return f"the system says {errno.errorcode.get(number, number)}"


def _forbidden() -> str:
    try:
        return f"perf_event_paranoid = {_PARANOID.read_text().strip()} (or a container's filter of calls)"
    except OSError:
        return "the system (or a container's filter of calls)"
