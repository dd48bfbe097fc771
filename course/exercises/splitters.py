"""Exercises on splitters: rounds of a selection, whether one more round pays, probes."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "halvings": Exercise(
        "a number of rounds",
        float,
        near(30, 1e-6),
        "two to that power is the number of all keys.",
        "how often can all keys be halved until one is left? Does it matter on which ranks they are?",
        (
            Trap(near(20, 0.01), "that would be the keys of one rank. All ranks search together."),
            Trap(near(10, 0.01), "that is the logarithm of the ranks. It is the keys that are halved."),
            Trap(near(1000, 1e-3), "do the ranks take part one after another?"),
            Trap(near(9, 0.01), "that is a decimal logarithm."),
        ),
    ),
    "one_more_round": Exercise(
        "a number of milliseconds",
        float,
        near(0.1, 0.01),
        "five percent of 10 ms, less the round.",
        "how many percent does the round remove, how many ms are these, and what does the round take?",
        (
            Trap(near(0.5, 0.01), "the round takes time, too."),
            Trap(near(0.2, 0.01), "the round does not remove all of the imbalance."),
            Trap(near(0.6, 0.01), "the round takes time, and leaves some of the imbalance."),
            Trap(near(4.6, 0.01), "5 % of 10 ms are less than that."),
        ),
    ),
    "narrowing_rounds": Exercise(
        "a number of rounds",
        float,
        near(4, 1e-6),
        "a factor of 10,000 by factors of 10.",
        "by which factor must the interval shrink in all, and by which one does it in a round?",
        (
            Trap(near(6, 0.01), "until one key is left. How many may be left here?"),
            Trap(near(3, 0.01), "how many keys are left after that?"),
            Trap(near(13.29, 0.06), "that would be by halves."),
            Trap(near(10_000, 1e-3), "that is the factor in all."),
            Trap(near(1000, 1e-3), "an interval shrinks by a factor, not by a number of keys."),
        ),
    ),
}
