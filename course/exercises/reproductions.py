"""Exercises on published tables: a phase far beyond the data, when it takes over, interrupted ranks."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "splitter_seconds": Exercise(
        "a time in s",
        float,
        near(3.4e-9 * 2**28 * 14, 0.01),
        "2^28 times 14 times 3.4 ns.",
        "16,384 is 2^14: what is its square, and what is its binary logarithm?",
        (
            Trap(near(3.4e-9 * 2**28, 0.01), "the logarithm is missing."),
            Trap(near(3.4e-9 * 2**14 * 14, 0.01), "p squared, not p."),
            Trap(near(3.4e-9 * 2**28 * 9.704, 0.01), "a binary logarithm, not a natural one."),
            Trap(near(3.4e-6 * 2**28 * 14, 0.01), "ns, not µs."),
        ),
    ),
    "half_of_the_time": Exercise(
        "a number of ranks",
        float,
        near(7222, 0.02),
        "it must grow by a factor of 199: 512 times the square root of that.",
        "how many times as long as the rest must the phase take, and how many times does it take now?",
        (
            Trap(near(51_200, 0.01), "it grows with the square of p: which root do you need?"),
            Trap(near(101_888, 0.02), "the factor of 199 is one of the time. By what must p grow?"),
            Trap(near(5120, 0.01), "from 0.5 to 50 % is a factor of 100 only if the whole stays the same."),
        ),
    ),
    "interrupted_ranks": Exercise(
        "a number of ranks",
        float,
        near(2.56, 5e-3),
        "each is interrupted for half a percent of the time.",
        "for which share of the time is one rank interrupted?",
        (
            Trap(near(0.005, 1e-6), "that is the share of the time for one rank."),
            Trap(near(256, 1e-3), "50 µs of 10 ms is half a percent, not half."),
            Trap(near(25.6, 1e-3), "50 µs of 10 ms, not of 1 ms."),
        ),
    ),
}
