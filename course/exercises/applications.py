"""Exercises on applications: filled pipelines, transposed orbitals, a narrow cable."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]


EXERCISES = {
    "pipeline_speedup": Exercise(
        "a number (times as fast)",
        float,
        near(256 * 150 / 180, 5e-3),
        "256 ranks work for 150 of 150 + 2 * 15 steps.",
        "which share of the time does a rank work, and how many ranks are there?",
        (
            Trap(near(256, 1e-3), "the pipeline has to fill first: the last rank waits for 30 others."),
            Trap(near(150 / 180, 1e-3), "that is the share of the time in which each rank works."),
            Trap(near(256 * 150 / 165, 5e-3), "the wave crosses the grid in two directions."),
            Trap(near(256 * 150 / 182, 5e-3), "nearly: to the far corner it is 15 steps in each direction."),
        ),
    ),
    "orbital_volume": Exercise(
        "a number of megabytes",
        float,
        near(64**3 * 8 * 127 / 128 / 1e6, 5e-3),
        "an orbital on each rank, 2.1 MB, of which a 128th stays.",
        "how many orbitals has a rank, how large is one, and what of it stays where it is?",
        (
            Trap(near(64**3 * 8 / 1e6, 2e-3), "nearly: one part of 128 stays."),
            Trap(near(64**3 * 8 * 127 / 1e6, 5e-3), "that is what all ranks send, or one sends to each?"),
            Trap(near(64**3 * 127 / 128 / 1e6, 5e-3), "a number has 8 bytes."),
        ),
    ),
    "narrow_cable": Exercise(
        "a number (times as long)",
        float,
        near(3.0, 1e-3),
        "40 Gb/s want to leave three times in four, 30 Gb/s through 10.",
        "how much of what the 40 nodes could send must go through the cable?",
        (
            Trap(near(4.0, 1e-3), "not everything leaves the switch."),
            Trap(near(0.75, 1e-3), "that is the share that leaves the switch."),
            Trap(near(30.0, 1e-3), "that is the traffic in Gb/s; what can the cable carry?"),
        ),
    ),
}
