"""Exercises on wait states, wavefronts and loads that drift."""

from __future__ import annotations

from typing import Any, NamedTuple

from labkit.jupyter.exercise import Exercise, Trap, choice, near

__all__ = ["EXERCISES"]

_WORK_S, _LATE_S = 3e-3, 10e-3


class _Collected(NamedTuple):
    """What a collection did.

    Attributes
    ----------
    fault : str
        "deadlock", "error", "results" or "".
    seconds : float
        How long it took, where the best is `_LATE_S` + `_WORK_S`.
    is_in_order : bool
        Whether it waited for a rank while a message of another one was there.
    """

    fault: str
    seconds: float
    is_in_order: bool


def _collected(collect: Any) -> _Collected:
    from labkit.errors import DeadlockError, LabkitError
    from labkit.launch.run import run

    if not callable(collect):
        raise TypeError(f"a function is asked for, got {type(collect).__name__}")
    fault, seconds, is_in_order = "", 0.0, False
    for ranks, late in ((2, 1), (5, 4), (5, 1), (1, 0)):
        try:
            tried = run(_numbers, ranks, "star", args=(collect, late), timeout_s=20, trace=True)
        except LabkitError as error:
            fault = "deadlock" if isinstance(error, DeadlockError) else "error"
            break
        if tried.results[0] != [rank * rank for rank in range(1, ranks)]:
            fault = "results"
            break
        states = set(tried.waits().waits["state"].astype(str))
        is_in_order |= any("wrong order" in state for state in states)
        if (ranks, late) == (5, 1):
            seconds = tried.makespan_s
    return _Collected(fault, seconds, is_in_order)


def _numbers(comm: Any, collect: Any, late: int) -> Any:
    """Let every rank but the first send its number; one is late."""
    from labkit.program import context

    def work(number: int) -> int:
        context.compute(seconds=_WORK_S)
        return number * number

    if comm.rank == 0:
        return collect(comm, work)
    if comm.rank == late:
        context.compute(seconds=_LATE_S)
    comm.send(comm.rank, dest=0)
    return None


EXERCISES = {
    "scan": Exercise(
        "a number of ms",
        float,
        near(100, 0.005),
        "a rank of a scan needs those before it: ranks 6 to 15 wait, ten times 10 ms.",
        "who needs what rank 5 has? Count them.",
        (
            Trap(near(150, 0.005), "ranks 0 to 4 need nothing of rank 5."),
            Trap(near(160, 0.005), "rank 5 waits for no other rank. And who needs what it has?"),
            Trap(near(110, 0.005), "rank 5 itself is among those that you count."),
            Trap(near(10, 0.005), "that is one rank's waiting. How many wait?"),
        ),
    ),
    "first_step": choice(
        "C",
        "8 bytes take microseconds whatever the algorithm. What takes 70 % is waiting for the last rank, and "
        "what made it late lies before the call.",
        "how long would the Allreduce take if all came at once?",
        A="algorithms differ by a few start-ups. Is that 70 % of a run?",
        B="its rounds cost a few latencies. What else do ranks do inside the call?",
        D="what is computed between the two calls, to hide something behind?",
    ),
    "collected": Exercise(
        "a function collect(comm, work)",
        _collected,
        lambda done: not done.fault and done.seconds < _LATE_S + 1.5 * _WORK_S,
        "whatever comes is worked on at once, and what is late costs its own work only.",
        "the numbers may come from any rank (MPI.ANY_SOURCE), and a Status has the source.",
        (
            Trap(lambda done: done.fault == "deadlock", "rank 0 waits for a message that no rank sends."),
            Trap(lambda done: done.fault == "results", "in which order are the results, and whose are they?"),
            Trap(
                lambda done: not done.fault and done.is_in_order,
                "the results are right; but rank 0 waits for a rank that is late while numbers of others are "
                "there.",
            ),
            Trap(
                lambda done: not done.fault,
                "the results are right; but rank 0 works on nothing before everything has come.",
            ),
        ),
    ),
    "wavefront": Exercise(
        "a number of ms",
        float,
        near(62, 0.005),
        "the far corner begins after 7 + 4 blocks and has 20 of its own: 31 blocks of 2 ms.",
        "when does the last rank begin, and how much has it then to do?",
        (
            Trap(near(40, 0.005), "so long does the first rank take. Has the last one begun with it?"),
            Trap(near(54, 0.005), "the wave has to cross the grid in the other direction, too."),
            Trap(
                lambda ms: near(64, 0.005)(ms) or near(66, 0.005)(ms),
                "nearly: how many steps is it from one corner to the other, if a corner itself is none?",
            ),
            Trap(near(1600, 0.005), "do ranks that lie side by side never compute at once?"),
        ),
    ),
    "blocks": Exercise(
        "a number of blocks",
        float,
        near(140, 0.03),
        "(k + 14)(42/k + 0.03) ms is least where k² = 14 · 42 / 0.03.",
        "write the time as a function of the number of blocks: how many in all, times the time of one.",
        (
            Trap(near(1400, 0.03), "then a block's price is as long as its work: too much of it."),
            Trap(near(14, 0.03), "that many blocks the fill is long. With so few, how long is a block?"),
            Trap(lambda k: k <= 1, "one block: then the ranks work almost one after the other."),
            Trap(near(150, 0.01), "nearly: how many steps is it from one corner to the other?"),
            Trap(near(99, 0.02), "the wave has to cross the grid in both directions."),
        ),
    ),
    "order": choice(
        "B",
        "whichever comes first, the block begins when the second is there. Not every wait state has a cure "
        "where it shows.",
        "what can a rank do with the one edge that it has?",
        A="then the rank would have to do something useful with the first message.",
        C="is a message received sooner if its receive is called sooner?",
        D="are messages of other ranks confused, if the rank asks whose they are?",
    ),
    "drifting": Exercise(
        "a share in %",
        float,
        near(56.25, 0.01),
        "a step takes 4 ms, four steps 16 ms, of which a rank works for 7: 9/16.",
        "how long does a step take, and how long does one rank work in all of them?",
        (
            Trap(lambda q: q == 0, "the sums are equal. Are they equal in any one step?"),
            Trap(near(43.75, 0.01), "that is the share in which they work."),
            Trap(near(75, 0.01), "so many wait, but not for the whole step."),
            Trap(lambda q: 0.5 < q < 0.6, "in %, please."),
            Trap(near(128.6, 0.01), "waiting by work; asked is waiting by all time."),
        ),
    ),
    "partners": Exercise(
        "a number of messages",
        float,
        lambda n: n == 384,
        "each of the 64 sends to 6.",
        "how many does one rank send?",
        (
            Trap(lambda n: n == 3648, "those are the ones that can go."),
            Trap(lambda n: n == 192, "so many pairs there are. How many messages does a pair exchange?"),
            Trap(lambda n: n == 378, "that counts 63 ranks."),
            Trap(lambda n: n == 4032, "that is all of them."),
        ),
    ),
    "move_often": Exercise(
        "a number of steps",
        float,
        lambda k: k == 5,
        "a step costs 25/k for moving and (k - 1) for waiting: 9 ms at k = 5, more on either side.",
        "what do k steps cost together, moving once? Divide by k.",
        (
            Trap(lambda k: k == 1, "then no rank waits, and each step pays 25 ms."),
            Trap(
                lambda k: k in (12, 12.5, 13),
                "then a single step has lost as much as moving costs; what had the steps before it lost?",
            ),
            Trap(lambda k: 3 <= k < 4, "the steps between lose half as much in the mean as the last one."),
            Trap(lambda k: k == 25, "what does the 25th step lose?"),
        ),
    ),
}  # fmt: skip
