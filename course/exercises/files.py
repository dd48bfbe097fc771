"""Exercises on parallel I/O: bytes that outweigh a latency, requests in a row, writes that are hidden."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "half_latency": Exercise(
        "a number of kB",
        float,
        near(2000, 1e-3),
        "what 4 GB/s move in 0.5 ms takes as long as the latency.",
        "how many bytes can pass during one latency?",
        (
            Trap(near(1000, 1e-3), "these take half of a latency: that is a third of the time."),
            Trap(near(4000, 1e-3), "that is what passes in a whole millisecond."),
            Trap(near(2, 1e-3), "in kB, please."),
            Trap(near(2_000_000, 1e-3), "these are bytes; the question asks for kB."),
            Trap(near(8000, 1e-3), "multiply bandwidth and latency; do not divide."),
        ),
    ),
    "row_requests": Exercise(
        "a number of ms",
        float,
        near(500, 1e-3),
        "a block has that many rows, and the ranks wait for their latencies at the same time.",
        "how many requests does one rank make, and do the ranks wait for each other?",
        (
            Trap(near(5000, 1e-3), "that many rows has the matrix. And a block?"),
            Trap(near(50_000, 1e-3), "latencies of different ranks overlap."),
            Trap(near(0.5, 1e-3), "in ms, please."),
            Trap(near(1, 1e-3), "a rank makes its requests one after another."),
            Trap(near(50, 1e-3), "there are 10 ranks along each side, not 100."),
        ),
    ),
    "hidden_writes": Exercise(
        "a number of ms",
        float,
        near(350, 1e-3),
        "the first step, and then the storage is never idle.",
        "which of the two is never idle after the first step: the ranks or the storage?",
        (
            Trap(near(560, 1e-3), "nothing is hidden then."),
            Trap(near(280, 1e-3), "that would be right if a step took longer than a write."),
            Trap(near(320, 1e-3), "what is written during the first step?"),
            Trap(near(240, 1e-3), "those are the steps alone."),
            Trap(near(340, 1e-3), "add the first step, not half of it; then eight writes."),
        ),
    ),
}
