"""Exercises on libraries that somebody else wrote: the litmus test, connections, noise along a path."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, choice, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "litmus_suspect": choice(
        "B",
        "a tree of plain messages cannot be wrong in the same way as the library by chance.",
        "which of the two is known to be right, and what do both have in common?",
        A="the litmus test does not use the library's broadcast, and grows as well.",
        C="a binomial tree has log p levels. Why should a message take longer?",
        D="a fit of five or more points that two programs share is no accident.",
    ),
    "connections": Exercise(
        "a number of MB",
        float,
        near(20.9, 5e-3),
        "26 neighbors, and 12 partners of recursive doubling.",
        "4096 is 2^12: with how many others does a rank exchange messages in an allreduce?",
        (
            Trap(near(14.3, 5e-3), "and the allreduces?"),
            Trap(near(6.6, 5e-3), "and the neighbors?"),
            Trap(near(2266, 5e-3), "only an all-to-all needs a connection to everybody."),
            Trap(near(38, 5e-3), "that is the number of connections."),
        ),
    ),
    "slow_path": Exercise(
        "a probability in %",
        float,
        near(11.36, 5e-3),
        "1 - 0.99^12.",
        "how probable is it that none of the 12 is interrupted?",
        (
            Trap(near(12, 2e-3), "nearly: two interruptions on the same path are one slow broadcast."),
            Trap(near(88.64, 2e-3), "that is the probability that nobody is interrupted."),
            Trap(near(0.1136, 5e-3), "in percent."),
        ),
    ),
}
