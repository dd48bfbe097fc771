"""Exercises on noise and stragglers."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, choice, is_near

__all__ = ["EXERCISES"]

EXERCISES = {
    "hit": Exercise(
        "a share between 0 and 1",
        float,
        lambda q: is_near(q, 1 - 0.99**100, 0.02),
        "all are spared with probability 0.99^100 = 0.37, so 63 % of the steps are hit.",
        "with which probability is nobody hit?",
        (
            Trap(
                lambda q: q in (1.0, 100.0), "that is how many ranks are hit in the mean. Sometimes none is."
            ),
            Trap(lambda q: is_near(q, 0.99**100, 0.02), "with that probability nobody is hit."),
            Trap(lambda q: is_near(q, 0.01, 0.02), "that is one rank's. All wait for whoever is hit."),
        ),
    ),
    "healed": Exercise(
        "a number",
        float,
        lambda t: is_near(t, 16 / 15.5, 0.005),
        "the slow one does half as much: 15.5 ranks' work in a time, 16/15.5 = 1.032.",
        "how much do 15 whole ranks and a slow one do in a second?",
        (
            Trap(
                lambda t: is_near(t, 2, 0.005),
                "that is what happens when all get the same share of the work.",
            ),
            Trap(
                lambda t: is_near(t, 16 / 15, 0.002), "then the slow one does nothing at all. It does half."
            ),
            Trap(
                lambda t: is_near(t, 17 / 16, 0.002),
                "that would be one rank more work. How much do they do in a second?",
            ),
            Trap(lambda t: t == 1, "nothing is lost? One of 16 does half as much."),
        ),
    ),
    "kind": choice(
        "B",
        "in most steps one of the thousand ranks is away, and all wait the 10 ms: ten times a step.",
        "how many of the 1000 ranks are hit in a step, and how long do all others wait then?",
        A="each rank loses 10 µs in each step, and all of them the same. What do they wait for?",
        C="each step waits for a detour, but how long is that beside the step?",
        D="for one rank they are alike. For a thousand who wait for each other?",
    ),
}
