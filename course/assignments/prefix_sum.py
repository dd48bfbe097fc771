"""Assignment: a prefix sum as a schedule, which can be proved."""

from __future__ import annotations

from labkit.grading.assignment import Assignment
from labkit.grading.schedules import Proved, ScheduleCosts, Task, ceil_log2

__all__ = ["ASSIGNMENT"]

_STATEMENT = """\
Write rounds(group), a generator of the steps of an inclusive prefix reduction (MPI_Scan): every rank
has a message in `send`; in the end `recv` of rank r holds send(0) op send(1) op ... op send(r). Work
buffers are called `partial` and `incoming`. The operator is associative, but need not commute: operands
stay in rank order. Any number of ranks, in ceil(log2 p) rounds. labkit proves it for all data, or shows
a counterexample. Numbers of ranks are drawn anew for every grading, from 1 to 64."""

_TASK = Task("scan", commutative=True, temporaries=("partial", "incoming"))
_ORDERED = Task("scan", commutative=False, temporaries=("partial", "incoming"))
_LOG_HINT = "In round k a rank hands what it has to rank + 2**k: then sums of 2**(k+1) operands are there."

ASSIGNMENT = Assignment(
    name="prefix_sum",
    title="Prefix sum as a schedule",
    function="rounds",
    statement=_STATEMENT,
    checks=(
        Proved("powers", "Proved for 2, 4, 8 and 16 ranks", 3, _TASK, (2, 4, 8, 16),
               "Print build('scan', rounds, 4, temporaries=('partial', 'incoming')).describe()."),
        Proved("any_number", "Proved for any number of ranks", 2, _TASK, (1, 3, 5, 6, 7),
               "Which ranks take part in a round when p is no power of two? Mask them with where=...",
               drawn=(9, 64, 12)),
        Proved("order", "Keeps the operands in rank order", 2, _ORDERED, (2, 3, 4, 5, 6, 7, 8),
               "What comes from a lower rank goes to the left: group.combine(source, target) does that.",
               drawn=(9, 64, 12)),
        ScheduleCosts("rounds", "At most ceil(log2 p) rounds", 3, _TASK, (2, 3, 4, 5, 6, 7, 8),
                      ceil_log2, "ceil(log2 p)", hint=_LOG_HINT, drawn=(9, 64, 12)),
        ScheduleCosts("volume", "A rank sends the message at most ceil(log2 p) times", 1, _TASK,
                      (2, 3, 4, 5, 6, 7, 8), ceil_log2, "ceil(log2 p)", volume=ceil_log2, hint=_LOG_HINT,
                      drawn=(9, 64, 12)),
    ),
)  # fmt: skip
