"""Exercises on memory and threads: a roofline, surfaces of blocks, messages of an all-to-all."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "below_the_roof": Exercise(
        "a share in %",
        float,
        near(5, 1e-3),
        "a quarter of 100 GB/s are 25 Gflop/s.",
        "how many operations can it do with the bytes of a second?",
        (
            Trap(near(25, 1e-3), "these are Gflop/s. Which share of the peak?"),
            Trap(near(20, 1e-3), "that would be one operation for each byte."),
            Trap(near(0.05, 1e-3), "in %, please."),
            Trap(near(80, 1e-3), "a quarter of an operation for a byte, not four."),
            Trap(near(100, 1e-3), "does the memory bring that many bytes?"),
        ),
    ),
    "less_surface": Exercise(
        "a factor",
        float,
        near(2, 1e-3),
        "a face has a quarter of the numbers, and there are eight times as many ranks.",
        "how large is a face, and how many of them are there?",
        (
            Trap(near(8, 1e-3), "there are that many times as many ranks; but their faces are smaller."),
            Trap(near(0.25, 1e-3), "that is a single face."),
            Trap(near(4, 1e-3), "that is how much larger a face of the larger blocks is."),
            Trap(near(1, 1e-3), "count: six faces for each rank."),
            Trap(near(0.5, 1e-3), "the other way round."),
        ),
    ),
    "hybrid_messages": Exercise(
        "a factor",
        float,
        near(272, 2e-3),
        "256 times 255 by 16 times 15.",
        "how many ranks send, and to how many others?",
        (
            Trap(near(16, 2e-3), "each of them also sends to more others."),
            Trap(near(17, 2e-3), "that is one rank."),
            Trap(near(256, 2e-3), "no rank sends a message to itself."),
            Trap(near(4096, 2e-3), "the ranks and their partners: two factors, not three."),
        ),
    ),
}
