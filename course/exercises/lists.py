"""Exercises on list ranking: rounds, messages, and what is left of a list."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "jumping_rounds": Exercise(
        "a number of rounds",
        float,
        near(20),
        "the distance doubles in each round, and 2 to the power of 20 is the first that reaches the end.",
        "how far does an element point after one round, after two, after three?",
        (
            Trap(near(999_999), "that is the loop. How far does an element point after two rounds?"),
            Trap(near(19), "2 to the power of 19 is 524,288. Is that far enough?"),
            Trap(near(1000), "does the distance grow by a step in each round, or does it double?"),
        ),
    ),
    "left_over": Exercise(
        "a share in %",
        float,
        near(23.73, 0.01),
        "three quarters are left each time: 0.75 to the power of 5.",
        "which share is left after one round, and which share of that after two?",
        (
            Trap(near(0.0977, 0.01), "that is what is left if a quarter stays. How much is removed?"),
            Trap(near(-25, 0.01), "a quarter of what is removed in the second round?"),
            Trap(near(3.125, 0.01), "that is a half in each round."),
            Trap(near(76.27, 0.01), "that is what has been removed."),
        ),
    ),
    "jumping_messages": Exercise(
        "a number of messages",
        float,
        near(8000),
        "four all-to-alls of 100 messages in each of 20 rounds.",
        "how many all-to-alls has a round, and to how many ranks does a rank send in each?",
        (
            Trap(near(4000), "do the ranks know the lengths of what they receive?"),
            Trap(near(2000), "who answers, and how does a rank know how many answers come?"),
            Trap(near(8080), "does a rank send a message to itself?"),
            Trap(near(400), "that is one round."),
        ),
    ),
}
