"""Exercises on broadcasts and all-to-alls: rounds, segments, blocks, and the cut that all must pass."""

from __future__ import annotations

from typing import Any

from labkit.jupyter.exercise import Exercise, Trap, choice, is_near

__all__ = ["EXERCISES"]


def _is_near(wanted: float, share: float = 0.01) -> Any:
    return lambda answer: is_near(answer, wanted, share)


EXERCISES = {
    "tree_rounds": Exercise(
        "a number of rounds",
        float,
        _is_near(10, 0.001),
        "each round doubles who has the message: 512 after nine, and 1000 are more than that.",
        "how many have the message after each round?",
        (
            Trap(_is_near(9), "so many rounds reach 512 ranks."),
            Trap(_is_near(9.97, 0.001), "rounds are whole."),
            Trap(_is_near(999), "so many messages are sent. How many of them at the same time?"),
            Trap(_is_near(500), "after the first round two have it, and both tell others."),
        ),
    ),
    "best_segments": Exercise(
        "a number of segments",
        float,
        _is_near(100),
        "the square root of 50 · 2,000,000 · 1 ns / 10 µs = 10,000.",
        "put p, n, α and β into the formula, in seconds and bytes.",
        (
            Trap(_is_near(10_000), "the formula has a square root."),
            Trap(_is_near(102, 0.005), "are all ranks in the formula?"),
            Trap(_is_near(14.14), "that is for one rank that passes on. How many do?"),
            Trap(_is_near(0.01), "is that the inverse?"),
        ),
    ),
    "short_message": choice(
        "B",
        "start-ups are all that 8 bytes cost, and the tree has half as many of them, or fewer.",
        "which of the two costs of a broadcast do 8 bytes have?",
        A="pieces may be empty. Would anything be wrong?",
        C="so do the tree's. And how long is a meeting of messages of a byte?",
        D="how many bytes does the tree's root send, in all its rounds?",
    ),
    "bruck_blocks": Exercise(
        "a number of blocks",
        float,
        _is_near(12),
        "half of the blocks have each of the three bits: 4 in every round.",
        "which of the distances 0 to 7 have the bit of a round?",
        (
            Trap(_is_near(7), "so many are a rank's own. Who carries those that pass through?"),
            Trap(_is_near(24), "does every block go in every round?"),
            Trap(_is_near(3), "so many messages. What is in each of them?"),
            Trap(_is_near(4), "that is one round."),
        ),
    ),
    "ring_bisection": Exercise(
        "a number of ms",
        float,
        _is_near(512),
        "32 · 32 blocks must go from one half to the other, over two cables: 512 MB over each.",
        "how many blocks go from one half into the other, and over how many cables?",
        (
            Trap(_is_near(1024), "a ring that is cut into halves is cut twice."),
            Trap(_is_near(2048), "has each host of a half blocks for all 64?"),
            Trap(
                _is_near(256),
                "each cable carries 1 GB/s each way; what goes in the other direction is no help.",
            ),
            Trap(_is_near(63), "that is what leaves one host, as if it were on a star."),
        ),
    ),
    "crowd": choice(
        "C",
        "fifteen messages share one cable, and whoever has sent there early waits at the next one.",
        "draw who sends to whom in the first step.",
        A="the same messages are sent. Count them.",
        B="how many messages are under way at once, in either order?",
        D="everybody receives from all others in the end. Who waits forever?",
    ),
}  # fmt: skip
