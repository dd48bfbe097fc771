"""Exercises on the multiplication of distributed matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]

#: numbers of ranks that a product is tried on, and the order of a block
_RANKS, _ORDER = (1, 4, 9, 64), 16
#: two blocks given, two panels, the sum, a product and copies are 8; a whole row of the grid of 64 is 8 more
_MOST_BLOCKS = 11


class _Tried(NamedTuple):
    """What a multiplication did on grids of several sizes."""

    fault: str  # of the first grid on which it failed: "deadlock", "error", "no block", "wrong"; or ""
    is_diagonal_only: bool  # every rank returned the product of the two blocks that it was given
    most_blocks: float  # that a rank of the largest grid held at a time


def _tried(multiply: Any) -> _Tried:
    from labkit.errors import DeadlockError, LabkitError
    from labkit.launch.run import run

    if not callable(multiply):
        raise TypeError(f"multiply must be a function, got {type(multiply).__name__}")
    faults, alone, most = [], [], 0.0
    for ranks in _RANKS:
        try:
            done = run(_product, ranks, "star", args=(multiply,), timeout_s=20, count=True)
        except LabkitError as error:
            faults.append("deadlock" if isinstance(error, DeadlockError) else "error")
            continue
        kinds, own = zip(*done.results, strict=True)
        faults += [kind for kind in kinds if kind][:1]
        alone.append(all(own))
        assert done.counts is not None
        inside = done.counts[done.counts["phase"] == "multiply"]
        most = float(inside["memory_bytes"].max()) / (8 * _ORDER * _ORDER)
    return _Tried(faults[0] if faults else "", len(alone) == len(_RANKS) and all(alone), most)


def _product(comm: Any, multiply: Any) -> tuple[str, bool]:
    """Return what is wrong with this rank's block, and whether it is the product of the two given blocks."""
    from labkit.datasets import matrices
    from labkit.program.context import phase

    side = round(comm.size**0.5)
    i, j = divmod(comm.rank, side)
    row, column = comm.Split(i, j), comm.Split(j, i)
    shape = (side * _ORDER, side * _ORDER)
    a, b = (matrices.block(shape, (side, side), comm.rank, seed=seed) for seed in (0, 1))
    with phase("multiply"):
        found = multiply(row, column, a.copy(), b.copy())
    rows = matrices.block(shape, (side, 1), i)
    columns = matrices.block(shape, (1, side), j, seed=1)
    if getattr(found, "shape", None) != a.shape:
        return "no block", False
    return "" if np.array_equal(found, rows @ columns) else "wrong", bool(np.array_equal(found, a @ b))


EXERCISES = {
    "slab_and_stick": Exercise(
        "a number of times",
        float,
        near(5, 0.01),
        "n² against 2n²/√p: the quotient is √p / 2. It grows with the ranks.",
        "write down both formulas for p = 100, and divide.",
        (
            Trap(near(10, 0.01), "does a rank of Cannon's grid receive blocks of one matrix only?"),
            Trap(near(50, 0.01), "how many blocks of n²/p numbers does a rank of a grid of 10 x 10 receive?"),
            Trap(near(0.2, 0.01), "that is Cannon relative to the ring."),
        ),
    ),
    "same_efficiency": Exercise(
        "the order of a matrix",
        float,
        near(9000, 0.01),
        "the memory per rank has to stay the same: n² / p is constant, so n grows like √p, by a factor of 3.",
        "communication divided by computation is √p / n, times a constant. What keeps it the same?",
        (
            Trap(near(27_000, 0.01), "that is what the ring needs. What is Cannon's ratio?"),
            Trap(
                near(3000, 0.01),
                "nine times as many ranks share the operations. Do they share the words, too?",
            ),
            Trap(
                near(6240, 0.01),
                "then the operations per rank stay the same. Do the words per rank, too?",
            ),
        ),
    ),
    "layers": Exercise(
        "a number of layers",
        float,
        near(16, 0.01),
        "a rank's part of the operations is then a cube: the cube root of p layers, each a grid of as many "
        "rows and columns.",
        "which body of a given volume has the smallest shadows? How many layers make each part such a body?",
        (
            Trap(
                near(64, 0.01),
                "that is the side of the grid of one layer. Is a part then as high as it is wide?",
            ),
            Trap(near(4096, 0.01), "then each layer is one rank, which needs whole matrices."),
            Trap(near(1, 0.01), "that is the part with the least memory. Are its shadows the smallest?"),
        ),
    ),
    "multiply": Exercise(
        "a function multiply(row, column, a, b)",
        _tried,
        lambda tried: not tried.fault and tried.most_blocks < _MOST_BLOCKS,
        "each panel goes along the row and the column, and no rank holds more than a few blocks.",
        "try it on a grid of 2 x 2 ranks with one number each, and compare with the product by hand.",
        (
            Trap(
                lambda tried: tried.is_diagonal_only,
                "that multiplies the two blocks that the rank has. Which other pairs of blocks go into its "
                "block of the product?",
            ),
            Trap(
                lambda tried: not tried.fault,
                "the product is right, but a rank holds a whole row of blocks of A or a whole column of B. "
                "How many of them does it need at a time?",
            ),
            Trap(
                lambda tried: tried.fault == "deadlock",
                "the run does not end. Do all ranks of a row agree on who sends in step l? All of a column?",
            ),
            Trap(
                lambda tried: tried.fault == "wrong",
                "a block is wrong. In step l, which column of the grid has the block of A, and which row "
                "that of B? Are the products of all steps added?",
            ),
        ),
    ),
}
