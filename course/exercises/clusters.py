"""Exercises on predictions for a cluster: a bracket, the nodes of a job, how far a prediction is off."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "near_and_far": Exercise(
        "a number of ms",
        float,
        near(8, 1e-3),
        "2000 times the difference of 4 µs.",
        "what does the whole program take by each of the two calibrations?",
        (
            Trap(near(16, 1e-3), "that is all that the messages take if they are near."),
            Trap(near(24, 1e-3), "that is all that the messages take if they are far."),
            Trap(near(0.004, 1e-3), "that is one message."),
            Trap(near(8000, 1e-3), "in ms, please."),
            Trap(near(20, 1e-3), "that is the middle between them. How far apart are they?"),
        ),
    ),
    "nodes_to_ask_for": Exercise(
        "a number of nodes",
        float,
        near(7, 1e-6),
        "six nodes have 96 cores, and four ranks are left.",
        "divide, and think of the ranks that are left over.",
        (
            Trap(near(6, 1e-6), "where are the last four ranks?"),
            Trap(near(6.25, 1e-6), "nodes come as whole ones."),
            Trap(near(100, 1e-6), "a node has more than one core."),
            Trap(near(16, 1e-6), "these are the cores of one node."),
        ),
    ),
    "prediction_off": Exercise(
        "a share in %",
        float,
        near(-20, 1e-3),
        "3 ms less than 15 ms.",
        "which of the two is the whole, and which one is smaller?",
        (
            Trap(near(20, 1e-3), "was it too fast or too slow? The sign shows it."),
            Trap(near(25, 1e-3), "a share of the measured time, not of the predicted one."),
            Trap(near(-25, 1e-3), "the sign is right; the share is one of the measured time."),
            Trap(near(-3, 1e-3), "these are ms."),
            Trap(near(-0.2, 1e-3), "in %, please."),
            Trap(near(80, 1e-3), "that is what was predicted, as a share of what was measured."),
        ),
    ),
}
