"""Exercises on models of communication: queues, congestion, and which term decides."""

from __future__ import annotations

from collections.abc import Callable

from labkit.jupyter.exercise import Exercise, Trap, is_near

__all__ = ["EXERCISES"]


def _reads(wanted: float, share: float = 1e-3) -> Callable[[float], bool]:
    return lambda answer: is_near(answer, wanted, share)


EXERCISES = {
    "queue_time": Exercise(
        "a time in µs",
        float,
        _reads(1.95),
        "on average half of the 39 others are looked at first, for 100 ns each.",
        "how many of the other receives stand before the right one on average, and what does each cost?",
        (
            Trap(
                _reads(3.9),
                "that is the last one in the queue. How many stand before the right one on average?",
            ),
            Trap(_reads(4.0), "is the right one looked at in vain, and are all the others?"),
            Trap(_reads(2.0), "nearly: how many *others* are there?"),
            Trap(_reads(1.3), "that is the stencil with 26 neighbors."),
        ),
    ),
    "worst_congestion": Exercise(
        "a factor",
        float,
        _reads(24),
        "3/2 times the cube root of 4096.",
        "how many nodes are there, and how long is the side of the cube?",
        (
            Trap(
                _reads(16),
                "that is the side of the cube. How many links does a message to the farthest node take?",
            ),
            Trap(_reads(8), "that is the distance in one dimension."),
            Trap(_reads(6144), "that is 3/2 times the number of nodes."),
            Trap(_reads(96), "a cube root, not a square root."),
        ),
    ),
    "bytes_rule": Exercise(
        "a number of bytes",
        float,
        _reads(37_573, 0.01),
        "13 µs + 12 times 0.31 µs are 16.72 µs, and a byte takes 0.445 ns.",
        "how long does the broadcast of an empty message take on 4096 ranks?",
        (
            Trap(_reads(29_213, 0.01), "how many stages has a tree of 4096 ranks?"),
            Trap(_reads(37.57, 0.01), "µs divided by ns: watch the units."),
            Trap(_reads(6262, 0.01), "that is the bandwidth of one link. The broadcast uses six."),
        ),
    ),
}
