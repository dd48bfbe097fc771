"""Exercises on MAFIA: units on the way, growth of k^3 2^k, a mistake that takes 3^k steps."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "dense_units": Exercise(
        "a number of units",
        int,
        near(126, 1e-9),
        "9 over 4: any four of the nine intervals.",
        "how many ways are there to choose 4 of the cluster's 9 intervals?",
        (
            Trap(near(512, 1e-9), "that is the number of all parts, of any number of dimensions."),
            Trap(near(16, 1e-9), "that is the number of parts of one unit of four dimensions."),
            Trap(near(3024, 1e-9), "their order does not matter."),
            Trap(
                near(4845, 1e-9),
                "only the nine columns of the cluster have dense intervals that belong together.",
            ),
        ),
    ),
    "twice_the_dimensions": Exercise(
        "a time in s",
        float,
        near(327.68, 5e-3),
        "2^10 times 2^3 times 40 ms.",
        "which factor comes from k^3, which one from 2^k?",
        (
            Trap(near(40.96, 5e-3), "k^3 grows, too."),
            Trap(near(0.32, 5e-3), "that is k^3 alone. By what does 2^k grow?"),
            Trap(near(327_680, 5e-3), "that is in ms."),
            Trap(near(0.64, 5e-3), "2^k does not double when k does."),
        ),
    ),
    "careless_steps": Exercise(
        "a whole number",
        int,
        near(15, 1e-9),
        "3^15 is 14.3 million, 15^3 2^15 / 8 is 13.8 million.",
        "try it: 1.5^k against k^3 / 8.",
        (
            Trap(near(3, 1e-9), "at k = 3 both take 27."),
            Trap(near(14, 1e-9), "nearly: at k = 14 the careless one still takes a little less."),
            Trap(near(4, 1e-9), "81 against 128."),
        ),
    ),
}
