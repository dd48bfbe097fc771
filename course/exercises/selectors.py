"""Exercises on selectors and tuning: a crossover, what a search costs, and which times count."""

from __future__ import annotations

from typing import Any

from labkit.jupyter.exercise import Exercise, Trap, choice, is_near

__all__ = ["EXERCISES"]


def _is_near(wanted: float, share: float = 0.01) -> Any:
    return lambda answer: is_near(answer, wanted, share)


#: 26 start-ups more against 4 - 30/16 times the message less
_CROSSOVER_KB = 26 * 10 / (4 - 30 / 16)

EXERCISES = {
    "crossover": Exercise(
        "a number of kB",
        float,
        _is_near(_CROSSOVER_KB, 0.02),
        "the ring pays 26 start-ups more, 260 µs, and saves 4 - 1.875 = 2.125 times n·β: equal at 122 kB.",
        "set both times equal, and solve for n. How many start-ups more has the ring, and what does it save?",
        (
            Trap(_is_near(260, 0.02), "that is what 26 start-ups cost, in µs. What does a byte save?"),
            Trap(_is_near(65, 0.02), "does the ring send no bytes at all?"),
            Trap(_is_near(141.2, 0.02), "that is all of the ring's start-ups. Has recursive doubling none?"),
            Trap(_is_near(122_353, 0.02), "kB are asked for."),
        ),
    ),
    "paid": Exercise(
        "a number of calls",
        float,
        _is_near(240),
        "80 calls took 30 µs more than the library's own, 2400 µs; each call of production saves 10 µs.",
        "what has the search cost beyond what would have been spent anyway, and what does a call save?",
        (
            Trap(
                _is_near(320),
                "without the request those 80 calls would have taken 60 µs, not 50.",
            ),
            Trap(
                _is_near(720),
                "the 80 calls were part of the program's work: the library would have needed time for them, "
                "too.",
            ),
            Trap(_is_near(60), "compare a call of production with the library's own, not with the trials."),
            Trap(_is_near(80), "that is how many calls were tried. What did each of them lose?"),
        ),
    ),
    "second_mode": choice(
        "C",
        "three calls of ten at 200 ms are a mode of the algorithm's own, such as dropped packets, and will "
        "come again: 60.7 ms a call against 2 ms.",
        "how long do a million calls take with each of the two?",
        A="noise of the machine would hit both. Here one of them is slow three times in ten, and the "
                "other never.",
        B="a single slow call may be an accident. How often would three of ten have to happen?",
        D="they differ because of something. To whom does it happen?",
    ),
}  # fmt: skip
