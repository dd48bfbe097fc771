"""Exercises on measuring."""

from __future__ import annotations

from collections.abc import Callable

from labkit.jupyter.exercise import Exercise, Trap, choice, is_near

__all__ = ["EXERCISES"]

_OFFSET_S = 7.300010
_MICROSECOND = 1e-6


def _reads(offset_s: float) -> Callable[[float], bool]:
    return lambda answer: abs(answer - offset_s) < 0.6 * _MICROSECOND


def _of_two(wanted: float) -> Callable[[float], bool]:
    return lambda answer: is_near(answer, wanted, 0.02)


EXERCISES = {
    "offset": Exercise(
        "a number of seconds",
        float,
        _reads(_OFFSET_S),
        "rank 0's clock shows 10.000030 half-way between there and back, when rank 1 answers; and the "
        "offset is known to 30 µs, half of the round trip.",
        "what does rank 0's clock show at the moment when rank 1 answers?",
        (
            Trap(_reads(7.300040), "at 10.000000 rank 0 sent. Did the message need no time at all?"),
            Trap(_reads(7.299980), "at 10.000060 the answer was back. When was it sent?"),
            Trap(_reads(-_OFFSET_S), "which of the two clocks shows more?"),
        ),
    ),
    "rate": Exercise(
        "a number of GB/s",
        float,
        _of_two(1.5),
        "2 GB in 1 s + 1/3 s: of rates the harmonic mean is right; the work is the same, the times add.",
        "how much was sent in all, and how long did it take in all?",
        (
            Trap(_of_two(2.0), "the arithmetic mean. Would 2 GB then have taken 1 s?"),
            Trap(_of_two(3**0.5), "the geometric mean. How long did the two messages take together?"),
            Trap(_of_two(2 / 3), "seconds for each GB, not GB for each second."),
        ),
    ),
    "least": Exercise(
        "a whole number",
        int,
        lambda answer: answer == 6,
        "all n values lie on the same side of the median with probability 2 · ½ⁿ; that is 6.25 % for five of "
        "them, 3.1 % with one more.",
        "with which probability do all n values lie above the median, or all below it?",
        (
            Trap(lambda answer: answer == 5, "they may all lie above, or all below. Is that within 5 %?"),
            Trap(
                lambda answer: answer == 2,
                "that is enough for an interval of a mean, which takes a bell curve for granted.",
            ),
            Trap(
                lambda answer: answer == 30,
                "that is a rule of thumb for sums that look like a bell curve. Here nothing is summed.",
            ),
        ),
    ),
    "judged": choice(
        "B",
        "simulated ranks have a host each and their time is the same everywhere; how well the model of the "
        "network fits a real one is a question of its own, that of notebook 8.",
        "which of them let every rank have a core to itself, over a range in which log p can be told from p?",
        A="the least of 100 is the luckiest of 100. Does it give 256 processes 256 cores?",
        C="how much do 1 + log p and p differ between 1 and 4?",
        D="do processes that wait for each other take turns so evenly?",
    ),
}  # fmt: skip
