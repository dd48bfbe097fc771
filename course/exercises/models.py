"""Exercises on models of communication: queues, congestion, and which term decides."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "queue_time": Exercise(
        "a time in µs",
        float,
        near(1.95, 1e-3),
        "on average half of the 39 others are looked at first, for 100 ns each.",
        "how many of the other receives stand before the right one on average, and what does each cost?",
        (
            Trap(
                near(3.9, 1e-3),
                "that is the last one in the queue. How many stand before the right one on average?",
            ),
            Trap(near(4.0, 1e-3), "is the right one looked at in vain, and are all the others?"),
            Trap(near(2.0, 1e-3), "nearly: how many *others* are there?"),
            Trap(near(1.3, 1e-3), "that is the stencil with 26 neighbors."),
        ),
    ),
    "worst_congestion": Exercise(
        "a factor",
        float,
        near(24, 1e-3),
        "3/2 times the cube root of 4096.",
        "how many nodes are there, and how long is the side of the cube?",
        (
            Trap(
                near(16, 1e-3),
                "that is the side of the cube. How many links does a message to the farthest node take?",
            ),
            Trap(near(8, 1e-3), "that is the distance in one dimension."),
            Trap(near(6144, 1e-3), "that is 3/2 times the number of nodes."),
            Trap(near(96, 1e-3), "a cube root, not a square root."),
        ),
    ),
    "bytes_rule": Exercise(
        "a number of bytes",
        float,
        near(37_573, 0.01),
        "13 µs + 12 times 0.31 µs are 16.72 µs, and a byte takes 0.445 ns.",
        "how long does the broadcast of an empty message take on 4096 ranks?",
        (
            Trap(near(29_213, 0.01), "how many stages has a tree of 4096 ranks?"),
            Trap(near(37.57, 0.01), "µs divided by ns: watch the units."),
            Trap(near(6262, 0.01), "that is the bandwidth of one link. The broadcast uses six."),
        ),
    ),
}
