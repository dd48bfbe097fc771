"""Exercises on checkpoints: Young's interval, what is lost with it, failures of a job."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "young_interval": Exercise(
        "a number of minutes",
        float,
        near(77.46, 5e-3),
        "the root of 2 times 5 times 600.",
        "multiply both times, in the same unit, by two.",
        (
            Trap(near(54.77, 5e-3), "where is the factor two?"),
            Trap(near(10, 5e-3), "minutes and hours must not be multiplied by each other."),
            Trap(near(1.291, 5e-3), "in minutes, please."),
            Trap(near(6000, 5e-3), "a product of two times is no time."),
            Trap(near(38.73, 5e-3), "a factor two is under the root, and none outside of it."),
        ),
    ),
    "lost_share": Exercise(
        "a share in %",
        float,
        near(12.91, 1e-2),
        "6.5 % for checkpoints, and as much for what is done twice.",
        "add what checkpoints cost, and what a failure costs: half an interval.",
        (
            Trap(near(6.455, 1e-2), "that is one of the two terms."),
            Trap(near(0.1291, 1e-2), "in %, please."),
            Trap(near(0.8333, 1e-2), "a checkpoint in how long a time?"),
            Trap(near(19.36, 1e-2), "a failure costs half of an interval, not all of it."),
        ),
    ),
    "job_mtbf": Exercise(
        "a number of hours",
        float,
        near(43.8, 2e-3),
        "a thousand hosts fail a thousand times as often as one.",
        "how many failures do all the hosts have in five years?",
        (
            Trap(near(43_800, 2e-3), "that is a single host."),
            Trap(near(8.76, 2e-3), "that would be once in a year."),
            Trap(near(1.825, 2e-3), "in hours, not in days."),
            Trap(near(219, 2e-3), "with more years between its failures, a host fails less often."),
            Trap(near(1385, 5e-3), "failures of different hosts add up; there is no root."),
        ),
    ),
}
