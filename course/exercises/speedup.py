"""Exercises on speed-up and balance."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, is_near
from labkit.scaling import read_expectation
from labkit.scaling.term import Term

__all__ = ["EXERCISES"]


def _term(text: str) -> Term:
    return read_expectation(str(text)).term


EXERCISES = {
    "amdahl": Exercise(
        "a number",
        float,
        lambda s: is_near(s, 10.0, 0.02),
        "f = 0.04; 1 / (0.04 + 0.96/16) = 10: four of the ten seconds that are left are serial.",
        "how many seconds does it take on 16 ranks: those that one rank needs, and those that are divided?",
        (
            Trap(lambda s: is_near(s, 16, 0.02), "that would take 100/16 s. Are four of them not serial?"),
            Trap(lambda s: is_near(s, 25, 0.02), "that is the limit for infinitely many ranks."),
            Trap(
                lambda s: is_near(s, 15.4, 0.02),
                "that is Gustafson's law: more work on more ranks. Here the work is the same.",
            ),
        ),
    ),
    "karp_flatt": Exercise(
        "a share between 0 and 1",
        float,
        lambda e: is_near(e, 3 / 35, 0.02),
        "(1/5 - 1/8) / (1 - 1/8) = 0.086: a serial share of nine per cent, if it is one.",
        "which f makes 1 / (f + (1 - f)/8) equal to 5?",
        (
            Trap(lambda e: is_near(e, 0.375, 0.02), "that is what the efficiency lacks: 1 - 5/8."),
            Trap(lambda e: is_near(e, 0.075, 0.02), "the numerator is right. What is it divided by?"),
            Trap(
                lambda e: is_near(e, 0.2, 0.02),
                "1/5 is the time that is left. Part of that is work, divided by 8.",
            ),
        ),
    ),
    "triangle": Exercise(
        "a number",
        float,
        lambda s: is_near(s, 16 / 7, 0.02),
        "the last block holds 1 - (3/4)² = 7/16 of all elements, so 16/7 = 2.29. Dealt out like cards it "
        "would be 4.",
        "which share of all elements is in the last quarter of the rows? Draw the triangle.",
        (
            Trap(lambda s: is_near(s, 4, 0.02), "the blocks have as many rows. Have they as many elements?"),
            Trap(
                lambda s: is_near(s, 7 / 4, 0.02),
                "that is the largest block over the mean one, the imbalance. The speed-up is 4 over that.",
            ),
            Trap(
                lambda s: is_near(s, 2, 0.02),
                "half of the elements in the last quarter of the rows? A little less.",
            ),
        ),
    ),
    "isoefficiency": Exercise(
        'a growth such as "p"',
        _term,
        lambda term: term == _term("p^2"),
        "the messages take p one after another, and all p ranks wait meanwhile: an overhead of p times p.",
        "T_o is what ALL ranks lose: p times what one of them loses.",
        (
            Trap(
                lambda term: term == _term("p"),
                "that is how long rank 0 is busy with messages. How many ranks wait for the end?",
            ),
            Trap(
                lambda term: term == _term("p log p"),
                "that is so for a tree. Here one rank takes all messages.",
            ),
            Trap(
                lambda term: term in (_term("1"), _term("log p")),
                "then twice as many ranks would lose no more. Count the messages that rank 0 takes.",
            ),
        ),
    ),
}
