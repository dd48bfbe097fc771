"""Exercises on sample sort: samples at the root, which bottleneck comes first, the best number of ranks."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "root_samples": Exercise(
        "a number of million samples",
        float,
        near(4, 1e-6),
        "4 p samples from each of the p ranks.",
        "how many samples does one rank give, and how many ranks are there?",
        (
            Trap(near(0.004, 1e-6), "that is what one rank gives. All of them send to the root."),
            Trap(near(1, 1e-6), "that would be without oversampling."),
            Trap(near(4000, 1e-6), "in millions, please: and is that not what one rank gives?"),
            Trap(near(4_000_000, 1e-6), "that many, yes; the question asks for millions."),
        ),
    ),
    "splitters_take_over": Exercise(
        "a number of ranks",
        float,
        near(187.5, 5e-3),
        "8 p squared samples of 20 ns take as long as p messages of 30 µs.",
        "set the time of all samples at the root equal to that of all messages of a rank.",
        (
            Trap(near(1500, 1e-3), "the root gets more than p samples from each rank."),
            Trap(near(12_000, 1e-3), "more samples: do the splitters take over earlier or later then?"),
            Trap(near(13.7, 5e-3), "both sides have a factor p. Which power of p is left?"),
            Trap(near(0.1875, 5e-3), "mind the units: 30 µs are 30,000 ns."),
        ),
    ),
    "best_number": Exercise(
        "a number of ranks",
        float,
        near(126.49, 1e-2),
        "the root of 400 ms over 25 µs: there both terms are equal.",
        "where is the derivative zero, or: where are both terms equal?",
        (
            Trap(near(16_000, 1e-3), "that is the ratio of the two. Both terms depend on p."),
            Trap(near(4, 1e-2), "400 ms are 400,000 µs."),
            Trap(near(8000, 1e-3), "what does T(p) give there? Try half of it."),
            Trap(near(63.2, 1e-2), "there the first term is four times the second one."),
        ),
    ),
}
