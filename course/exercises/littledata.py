"""Exercises on sorts of little data: rounds of a network, where two sorts cross, messages of radix sort."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "bitonic_rounds": Exercise(
        "a number of rounds",
        float,
        near(55, 1e-6),
        "1 + 2 + ... + 10: stage s has s rounds.",
        "how many stages are there, and how many rounds does the last one have?",
        (
            Trap(near(10, 1e-6), "these are the stages. Has each of them a single round?"),
            Trap(near(100, 1e-6), "only the last stage has that many rounds; the first has one."),
            Trap(near(45, 1e-6), "the last stage is missing."),
            Trap(near(50, 1e-6), "half of a square, nearly: add up the stages."),
            Trap(near(1023, 2e-3), "do the ranks exchange with one after another?"),
        ),
    ),
    "sorts_cross": Exercise(
        "a number of keys",
        float,
        near(8750, 5e-3),
        "1.4 ms of start-ups are saved again at 0.16 µs a key.",
        "what does A lose before the first key, and what does it gain with each key?",
        (
            Trap(near(7000, 5e-3), "A takes some time for a key, too."),
            Trap(near(35_000, 5e-3), "B takes more for a key than A: what counts is the difference."),
            Trap(near(12_500, 5e-3), "B has start-ups, too."),
            Trap(near(8.75, 5e-3), "mind the units: 1 ms are 1000 µs."),
            Trap(near(16_250, 5e-3), "the start-ups are on both sides: subtract them."),
        ),
    ),
    "radix_messages": Exercise(
        "a number of messages",
        float,
        near(189, 1e-6),
        "three passes, the last with 10 bits, and 63 other ranks.",
        "how many passes do 32 bits need, and how many messages has a pass?",
        (
            Trap(near(63, 1e-6), "that is one pass."),
            Trap(near(192, 1e-6), "no rank sends a message to itself."),
            Trap(near(183.27, 3e-3), "a pass is a whole one, also with fewer bits."),
            Trap(near(693, 1e-6), "11 is the width of a digit, not their number."),
            Trap(near(126, 1e-6), "two digits have 22 bits: what of the others?"),
            Trap(near(2016, 1e-6), "that would be with digits of one bit."),
        ),
    ),
}
