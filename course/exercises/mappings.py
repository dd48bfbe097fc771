"""Exercises on mappings: a Gray code, random hosts of a torus, cables of a fat tree."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "gray_host": Exercise(
        "the number of a host",
        float,
        near(7, 1e-6),
        "101 xor 010 is 111.",
        "write the number of the rank in binary, once as it is and once shifted to the right.",
        (
            Trap(near(5, 1e-6), "that is the rank itself."),
            Trap(near(2, 1e-6), "that is what the rank is combined with."),
            Trap(near(6, 1e-6), "that is the rank that is on host 5: the other way round."),
            Trap(near(4, 1e-6), "combine with the shifted rank once, not twice."),
            Trap(near(3, 1e-6), "a bit that both have would become 0: is there one?"),
        ),
    ),
    "random_links": Exercise(
        "a number of links",
        float,
        near(8, 1e-2),
        "four in each dimension.",
        "how far apart are two random places of a ring of 16, on average?",
        (
            Trap(near(4, 1e-2), "that is one dimension."),
            Trap(near(16, 1e-2), "that far is the farthest host."),
            Trap(near(10.67, 1e-2), "that would be without cables that join the ends."),
            Trap(
                near(64, 1e-2), "that is a quarter of all hosts. A message crosses links in each dimension."
            ),
            Trap(near(12, 1e-2), "that would be with a third dimension."),
        ),
    ),
    "busy_uplinks": Exercise(
        "a number of ms",
        float,
        near(12, 1e-3),
        "48 MB over four cables.",
        "how many bytes want to go up in all, and how many cables share them?",
        (
            Trap(near(3, 1e-3), "that is the cable of one host."),
            Trap(near(48, 1e-3), "there are several cables."),
            Trap(near(0.75, 1e-3), "how many hosts share the cables?"),
            Trap(near(0.012, 1e-3), "in ms, please."),
            Trap(near(192, 1e-3), "cables that share the bytes make it faster."),
        ),
    ),
}
