"""Exercises on inputs made against sorters: equal keys, room for the worst case, a single outlier."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "equal_keys": Exercise(
        "a number of keys",
        int,
        near(2_000_000, 1e-9),
        "a fifth of ten million.",
        "how many keys are there in all, and how many of them are equal?",
        (
            Trap(near(2000, 1e-9), "that is a fifth of the keys of one rank. All ranks send theirs."),
            Trap(near(10_000, 1e-9), "that is the share of a rank if keys are random."),
            Trap(near(10_000_000, 1e-9), "only a fifth of the keys is equal."),
            Trap(near(20_000, 1e-9), "twice the share is a bound without equal keys."),
        ),
    ),
    "regular_room": Exercise(
        "a number of million keys",
        float,
        near(666.67, 2e-3),
        "three times 8 bytes for each key: one that was there, two that come.",
        "how many bytes does a rank need for its own keys, and how many for those that it gets at worst?",
        (
            Trap(near(1000, 1e-3), "the keys that the rank holds before need room, too."),
            Trap(near(2000, 1e-3), "that fills the memory with the rank's own keys."),
            Trap(near(5333, 1e-3), "a key has 8 bytes."),
        ),
    ),
    "one_outlier": Exercise(
        "a number of ranks",
        int,
        near(1, 1e-9),
        "all keys but one are below the first splitter, 15.6.",
        "where is the first splitter?",
        (
            Trap(near(64, 1e-9), "the splitters cut the range from 0 to 1000. How many keys are above 15.6?"),
            Trap(near(2, 1e-9), "the last rank has a single key."),
            Trap(near(63, 1e-9), "which keys are between the first and the last splitter?"),
        ),
    ),
}
