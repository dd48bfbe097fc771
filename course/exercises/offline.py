"""Exercises on off-line simulation: faster hosts, programs that may be replayed, the size of a trace."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, choice, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "replayed_faster": Exercise(
        "a number of seconds",
        float,
        near(1.5, 1e-3),
        "half of the computation, and all of the messages.",
        "which part of the time depends on the speed of the hosts?",
        (
            Trap(near(1.25, 1e-3), "the messages do not become faster."),
            Trap(near(2.5, 1e-3), "the trace has operations, not seconds."),
            Trap(near(1, 1e-3), "and the messages?"),
            Trap(near(4.5, 1e-3), "faster hosts take less time."),
        ),
    ),
    "may_be_replayed": choice(
        "B",
        "what it does does not depend on when things happen.",
        "in which of them do the ranks do the same on every machine?",
        A="who has work left, and when, is different elsewhere.",
        C="how far does it get in that time on another machine?",
        D="who is first depends on the machine.",
    ),
    "trace_size": Exercise(
        "a number of kB",
        float,
        near(320, 1e-3),
        "ten lines a step, of 20 bytes, 100 times on 16 ranks.",
        "how many lines has a step of one rank?",
        (
            Trap(near(20, 1e-3), "that is one rank."),
            Trap(near(3.2, 1e-3), "that is one step."),
            Trap(near(320_000, 1e-3), "in kB, please."),
            Trap(near(288, 1e-3), "computation is an action, too, and so is the sum."),
            Trap(near(192, 1e-3), "sends and receives are lines of their own."),
        ),
    ),
}
